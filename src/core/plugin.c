/* SPDX-License-Identifier: Apache-2.0
 * src/core/plugin.c - see plugin.h: rows, their statuses, and what keeps the registry true to them.
 */
#include "core/plugin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"
#include "core/find.h"
#include "core/manifest.h"
#include "net/worker.h"
#include "os/fs.h"
#include "store/lease.h"
#include "store/plugin.h"
#include "store/store.h"

#define FRESH_MS 1000
#define INSTALL_MS 180000

struct berth_plugins {
    struct berth *b;
    struct berth_manager *manager; /* NULL: somebody else's workers were given to the registry */
    pthread_mutex_t lock;
    int64_t read_at_ms; /* monotonic; 0: never */
};

/* --- directories --- */

/* NAME, or NAME/INNER, beside the logs; in the arena. */
static const char *directory(const struct berth *b, struct berth_arena *arena, const char *name,
                             const char *inner, struct berth_error *err)
{
    auto_free char *logs = NULL;
    if (berth_log_directory(b, &logs, err) < 0)
        return NULL;
    size_t len = strlen(logs) - strlen("logs");
    const char *path = berth_arena_printf(arena, "%.*s%s%s%s", (int)len, logs, name,
                                          inner ? "/" : "", inner ? inner : "");
    return berth_arena_check(arena, err) == BERTH_OK ? path : NULL;
}

/* Passable for the users that workers run as, when we can choose one; what is in it is not theirs.
 */
static int make_passable(const char *path, struct berth_error *err)
{
    return berth_fs_mkdirs(path, geteuid() == 0 ? 0711 : 0700, err);
}

static const char *log_file(const struct berth *b, struct berth_arena *arena, const char *id,
                            struct berth_error *err)
{
    const char *folder = directory(b, arena, "logs", "plugins", err);
    if (!folder || berth_fs_mkdirs(folder, 0700, err) < 0)
        return NULL;
    const char *path = berth_arena_printf(arena, "%s/%s.log", folder, id);
    return berth_arena_check(arena, err) == BERTH_OK ? path : NULL;
}

/* --- reading --- */

struct look {
    struct berth_arena *arena;
    const char *name;
    struct berth_plugin *plugin;
    struct berth_list list;
};

static int tx_get(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct look *look = ctx;
    return berth_plugin_load(db, look->arena, look->name, BERTH_LOCK_NONE, &look->plugin, err);
}

static int tx_list(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct look *look = ctx;
    return berth_plugin_select(db, look->arena, &look->list, err);
}

static int not_found(const char *name, struct berth_error *err)
{
    return berth_fail(err, BERTH_E_NOT_FOUND, "Plugin not found: %.200s", name);
}

/* The one whose id begins so. */
static int find_by_prefix(struct berth *b, struct look *look, struct berth_error *err)
{
    int rc = berth_store_read(b->store, tx_list, look, err);
    for (int i = 0; rc == BERTH_OK && i < look->list.count; i++) {
        struct berth_plugin *p = look->list.items[i];
        if (strncasecmp(p->id, look->name, strlen(look->name)) != 0)
            continue;
        if (look->plugin)
            return berth_fail(err, BERTH_E_CONFLICT,
                              "Several plugins begin with %s: write more of it.", look->name);
        look->plugin = p;
    }
    return rc;
}

int berth_plugin_get(struct berth *b, struct berth_arena *arena, const char *name,
                     struct berth_plugin **out, struct berth_error *err)
{
    struct look look = {.arena = arena, .name = name};
    int rc = berth_store_read(b->store, tx_get, &look, err);
    if (rc == BERTH_OK && !look.plugin && berth_is_prefix(name))
        rc = find_by_prefix(b, &look, err);
    if (rc == BERTH_OK && !look.plugin)
        rc = not_found(name, err);
    if (rc == BERTH_OK)
        *out = look.plugin;
    return rc;
}

int berth_plugin_list(struct berth *b, struct berth_arena *arena, struct berth_list *out,
                      struct berth_error *err)
{
    struct look look = {.arena = arena};
    int rc = berth_store_read(b->store, tx_list, &look, err);
    if (rc == BERTH_OK)
        *out = look.list;
    return rc;
}

/* Workers that run here hear of what other processes did to their rows. */
static int tell_manager(struct berth_plugins *plugins, struct berth_arena *arena,
                        const struct berth_list *list, struct berth_error *err)
{
    struct berth_worker_row *rows =
        berth_arena_alloc(arena, (size_t)(list->count + 1) * sizeof *rows);
    if (!rows)
        return berth_arena_check(arena, err);
    for (int i = 0; i < list->count; i++) {
        const struct berth_plugin *p = list->items[i];
        rows[i] = (struct berth_worker_row){.plugin_id = p->id,
                                            .ready = p->status == BERTH_PLUGIN_READY,
                                            .package = p->package_path,
                                            .manifest_json = p->manifest_json,
                                            .config_json = p->config_json,
                                            .row_version = p->row_version};
    }
    berth_builtins.manager->follow(plugins->manager, rows, list->count);
    return BERTH_OK;
}

static void refresh(struct berth_plugins *plugins, int64_t fresh_ms)
{
    struct berth *b = plugins->b;
    pthread_mutex_lock(&plugins->lock);
    int64_t now_ms = berth_time_mono_ms();
    if (!plugins->read_at_ms || now_ms - plugins->read_at_ms >= fresh_ms) {
        auto_arena arena = BERTH_ARENA_INIT;
        struct berth_list list;
        struct berth_error err;
        int rc = berth_plugin_list(b, &arena, &list, &err);
        if (rc == BERTH_OK) {
            plugins->read_at_ms = now_ms;
            rc = berth_registry_set_plugins(b->registry, &list, &err);
        }
        if (rc == BERTH_OK && plugins->manager)
            rc = tell_manager(plugins, &arena, &list, &err);
        if (rc < 0)
            berth_log_line(&b->log, BERTH_LOG_WARN, "plugins not read", "error", err.message, NULL);
    }
    pthread_mutex_unlock(&plugins->lock);
}

void berth_plugins_refresh(struct berth *b)
{
    refresh(b->plugins, FRESH_MS);
}

/* --- what workers are told, and tell --- */

static int describe(void *ctx, const char *plugin_id, struct berth_arena *arena,
                    struct berth_worker_spec *out, struct berth_error *err)
{
    struct berth_plugins *plugins = ctx;
    struct berth_plugin *p;
    struct berth_manifest *manifest;
    auto_json *json = NULL;
    struct berth_issues issues = {.arena = arena}, warnings = {.arena = arena};
    int rc = berth_plugin_get(plugins->b, arena, plugin_id, &p, err);
    if (rc == BERTH_OK && p->status != BERTH_PLUGIN_READY)
        rc = berth_fail(err, BERTH_E_CONFLICT, "Plugin %s is %s: only one that is ready runs.",
                        p->plugin_key, berth_plugin_status_name(p->status));
    if (rc == BERTH_OK)
        rc = berth_json_parse(p->manifest_json, strlen(p->manifest_json), BERTH_JSON_OURS, &json,
                              err);
    if (rc == BERTH_OK)
        rc = berth_manifest_read(arena, json, &issues, &warnings, &manifest, err);
    if (rc < 0)
        return rc;
    *out = (struct berth_worker_spec){
        .plugin_key = p->plugin_key,
        .package = p->package_path,
        .entry = manifest->worker[0] == '/'
                     ? manifest->worker
                     : berth_arena_printf(arena, "%s/%s", p->package_path, manifest->worker),
        .manifest_json = p->manifest_json,
        .config_json = p->config_json,
        .row_version = p->row_version,
        .state = directory(plugins->b, arena, "plugin-state", p->id, err),
        .log = log_file(plugins->b, arena, p->id, err)};
    const char *states = directory(plugins->b, arena, "plugin-state", NULL, err);
    if (!out->state || !out->log || !states)
        return err->code;
    rc = make_passable(states, err);
    return rc < 0 ? rc : berth_arena_check(arena, err);
}

static void report(void *ctx, const char *plugin_id, enum berth_log_level level, const char *event,
                   const char *text)
{
    const struct berth_plugins *plugins = ctx;
    berth_log_line(&plugins->b->log, level, event, "pluginId", plugin_id, "detail", text, NULL);
}

int berth_plugins_open(struct berth *b, struct berth_plugins **out, struct berth_error *err)
{
    struct berth_plugins *plugins = calloc(1, sizeof *plugins);
    if (!plugins)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: plugins.");
    plugins->b = b;
    pthread_mutex_init(&plugins->lock, NULL);
    *out = plugins;
    if (berth_registry_workers(b->registry))
        return BERTH_OK;
    struct berth_worker_host host = {
        .describe = describe, .report = report, .version = berth_version(), .ctx = plugins};
    const struct berth_manager_ops *ops = berth_builtins.manager;
    int rc = ops->open(b->engine, &host, &plugins->manager, err);
    if (rc == BERTH_OK)
        berth_registry_set_workers(b->registry, ops->workers(plugins->manager),
                                   BERTH_WORKER_READY_MS, BERTH_WORKER_POLL_MS);
    return rc;
}

void berth_plugins_close(struct berth_plugins *plugins)
{
    if (!plugins)
        return;
    berth_builtins.manager->close(plugins->manager);
    pthread_mutex_destroy(&plugins->lock);
    free(plugins);
}

/* --- changing --- */

/* A change of one row, by compare-and-set. */
struct change {
    struct berth *b;
    struct berth_arena *arena;
    const char *name;
    int (*decide)(struct change *change, struct berth_plugin *plugin, struct berth_error *err);
    const char *reason, *config_json;
    const struct berth_plugin *package; /* what an upgrade brings */
    struct berth_plugin *plugin;
};

static int tx_change(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct change *c = ctx;
    bool won;
    int rc = berth_plugin_load(db, c->arena, c->name, BERTH_LOCK_UPDATE, &c->plugin, err);
    if (rc == BERTH_OK && !c->plugin)
        rc = not_found(c->name, err);
    if (rc == BERTH_OK)
        rc = c->decide(c, c->plugin, err);
    if (rc < 0)
        return rc;
    c->plugin->updated_at_ms = berth_time_wall_ms();
    rc = berth_plugin_save(db, c->plugin, &won, err);
    if (rc == BERTH_OK && !won)
        rc = berth_fail(err, BERTH_E_CONFLICT, "Plugin %s was changed meanwhile.", c->name);
    return rc;
}

static int change(struct change *c, struct berth_plugin **out, struct berth_error *err)
{
    struct berth_plugin *named;
    int rc = berth_plugin_get(c->b, c->arena, c->name, &named, err);
    if (rc < 0)
        return rc;
    c->name = named->id;
    rc = berth_store_tx(c->b->store, tx_change, c, err);
    if (rc < 0)
        return rc;
    refresh(c->b->plugins, 0);
    *out = c->plugin;
    return BERTH_OK;
}

static void stop_worker(struct berth *b, const char *id)
{
    if (b->plugins->manager)
        berth_builtins.manager->stop(b->plugins->manager, id);
}

static int decide_enable(struct change *c, struct berth_plugin *p, struct berth_error *err)
{
    (void)c;
    if (p->status != BERTH_PLUGIN_DISABLED && p->status != BERTH_PLUGIN_ERROR &&
        p->status != BERTH_PLUGIN_UPGRADE_PENDING)
        return berth_fail(err, BERTH_E_INVALID,
                          "Cannot enable plugin in status '%s'. Plugin must be in 'disabled', "
                          "'error', or 'upgrade_pending' status to be enabled.",
                          berth_plugin_status_name(p->status));
    p->status = BERTH_PLUGIN_READY;
    p->last_error = NULL;
    return BERTH_OK;
}

int berth_plugin_enable(struct berth *b, struct berth_arena *arena, const char *name,
                        struct berth_plugin **out, struct berth_error *err)
{
    struct change c = {.b = b, .arena = arena, .name = name, .decide = decide_enable};
    return change(&c, out, err);
}

static int decide_disable(struct change *c, struct berth_plugin *p, struct berth_error *err)
{
    if (p->status != BERTH_PLUGIN_READY)
        return berth_fail(err, BERTH_E_INVALID,
                          "Cannot disable plugin in status '%s'. Plugin must be in 'ready' status "
                          "to be disabled.",
                          berth_plugin_status_name(p->status));
    p->status = BERTH_PLUGIN_DISABLED;
    p->last_error = c->reason;
    return BERTH_OK;
}

int berth_plugin_disable(struct berth *b, struct berth_arena *arena, const char *name,
                         const char *reason, struct berth_plugin **out, struct berth_error *err)
{
    struct change c = {
        .b = b, .arena = arena, .name = name, .decide = decide_disable, .reason = reason};
    int rc =
        reason ? berth_utf8_check(reason, BERTH_REASON_BYTES_MAX, "The reason", err) : BERTH_OK;
    if (rc == BERTH_OK)
        rc = change(&c, out, err);
    if (rc == BERTH_OK)
        stop_worker(b, (*out)->id);
    return rc;
}

static int decide_config(struct change *c, struct berth_plugin *p, struct berth_error *err)
{
    (void)err;
    p->config_json = c->config_json;
    return BERTH_OK;
}

/* An object; canonical, in the arena. */
static int check_config(struct berth_arena *arena, const char *json, const char **out,
                        struct berth_error *err)
{
    auto_json *config = NULL;
    size_t len = json ? strlen(json) : 0;
    *out = "{}";
    if (!json)
        return BERTH_OK;
    if (len > BERTH_CONFIG_BYTES_MAX)
        return berth_fail(err, BERTH_E_TOO_LARGE, "The config is longer than %d bytes.",
                          BERTH_CONFIG_BYTES_MAX);
    int rc = berth_json_parse(json, len, BERTH_JSON_OURS, &config, err);
    if (rc == BERTH_OK && !berth_json_is(config, BERTH_JSON_OBJECT))
        rc = berth_fail(err, BERTH_E_INVALID, "The config of a plugin is a JSON object.");
    if (rc < 0)
        return rc;
    *out = berth_json_canonical_in(arena, config);
    return berth_arena_check(arena, err);
}

int berth_plugin_configure(struct berth *b, struct berth_arena *arena, const char *name,
                           const char *config_json, struct berth_plugin **out,
                           struct berth_error *err)
{
    struct change c = {.b = b, .arena = arena, .name = name, .decide = decide_config};
    int rc = check_config(arena, config_json, &c.config_json, err);
    return rc < 0 ? rc : change(&c, out, err);
}

/* --- packages --- */

/* One package on its way in. */
struct arrival {
    struct berth *b;
    struct berth_arena *arena;
    struct berth_call call;
    const char *fetched; /* a directory of ours, or NULL */
    struct berth_package package;
    struct berth_manifest *manifest;
    struct berth_plugin plugin;
    bool stored;
};

/* Else it is the name of a package, which may have a slash only behind a scope: "@scope/name". */
static bool is_path(const char *source)
{
    return source[0] != '@' &&
           (strchr(source, '/') || strcmp(source, ".") == 0 || strcmp(source, "..") == 0);
}

static void drop_directory(struct berth *b, const char *path)
{
    struct berth_error err;
    if (path && berth_fs_remove_tree(path, &err) < 0)
        berth_log_line(&b->log, BERTH_LOG_WARN, "package not removed", "error", err.message, NULL);
}

static int fetch(struct arrival *a, const char *name, const char *version, struct berth_error *err)
{
    const char *folder = directory(a->b, a->arena, "plugins", NULL, err);
    if (!folder)
        return err->code;
    int rc = make_passable(folder, err);
    char *path = berth_arena_printf(a->arena, "%s/XXXXXX", folder);
    if (rc == BERTH_OK)
        rc = berth_arena_check(a->arena, err);
    if (rc < 0)
        return rc;
    if (!mkdtemp(path))
        return berth_fail_errno(err, "Cannot make a directory in %s", folder);
    a->fetched = path;
    if (geteuid() == 0)
        (void)chmod(path, 0755);
    return berth_builtins.packages->fetch(&a->call, name, version, path, &a->package.path, err);
}

static int check_versions(const struct berth_manifest *m, struct berth_error *err)
{
    if (m->minimum_host_version &&
        berth_semver_compare(berth_version(), m->minimum_host_version) < 0 &&
        strncmp(m->minimum_host_version, "20", 2) != 0) /* those are Paperclip's own: by year */
        return berth_fail(err, BERTH_E_INVALID,
                          "Plugin %s requires host version %s or newer, but this server is running "
                          "%s",
                          m->id, m->minimum_host_version, berth_version());
    return BERTH_OK;
}

static int read_package(struct arrival *a, struct berth_error *err)
{
    struct berth_id unique = berth_id_new();
    const char *scratch = directory(a->b, a->arena, "plugin-state", unique.text, err);
    if (!scratch)
        return err->code;
    int rc = berth_builtins.packages->read(&a->call, a->package.path, scratch, &a->package, err);
    drop_directory(a->b, scratch);
    auto_json *json = a->package.manifest;
    struct berth_issues issues = {.arena = a->arena}, warnings = {.arena = a->arena};
    if (rc == BERTH_OK)
        rc = berth_manifest_read(a->arena, json, &issues, &warnings, &a->manifest, err);
    for (int i = 0; rc == BERTH_OK && i < warnings.list.count; i++) {
        const struct berth_issue *w = warnings.list.items[i];
        berth_log_line(&a->b->log, BERTH_LOG_WARN, "plugin manifest", "path", w->path, "detail",
                       w->message, NULL);
    }
    if (rc == BERTH_OK)
        rc = check_versions(a->manifest, err);
    return rc < 0 ? rc
                  : berth_builtins.packages->check(&a->call, a->package.path, a->manifest->id,
                                                   a->manifest->worker, err);
}

/* Does another plugin declare the provider? */
static bool declares(const struct berth_plugin *other, const char *provider)
{
    auto_json *json = NULL;
    struct berth_error ignored;
    if (berth_json_parse(other->manifest_json, strlen(other->manifest_json), BERTH_JSON_OURS, &json,
                         &ignored) < 0)
        return false;
    const struct berth_json *drivers = berth_json_get(json, "environmentDrivers");
    for (size_t i = 0; i < berth_json_count(drivers); i++) {
        const struct berth_json *d = berth_json_at(drivers, i);
        const char *key = berth_json_str(berth_json_get(d, "driverKey"));
        const char *kind = berth_json_str(berth_json_get(d, "kind"));
        if (key && kind && strcmp(kind, "sandbox_provider") == 0 && strcmp(key, provider) == 0)
            return true;
    }
    return false;
}

/* Each provider stands for one plugin: which one made a place must never be a question. */
static int check_provider(const struct arrival *a, const struct berth_list *others,
                          const char *provider, struct berth_error *err)
{
    const struct berth_route *taken = berth_registry_find(a->b->registry, "sandbox", provider);
    if (taken && !taken->plugin)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "Sandbox provider \"%s\" is built in; plugin %s cannot declare it.",
                          provider, a->manifest->id);
    for (int i = 0; i < others->count; i++) {
        const struct berth_plugin *other = others->items[i];
        if (strcmp(other->plugin_key, a->manifest->id) != 0 && declares(other, provider))
            return berth_fail(err, BERTH_E_CONFLICT,
                              "Sandbox provider \"%s\" is declared by plugin %s already.", provider,
                              other->plugin_key);
    }
    return BERTH_OK;
}

static int check_keys(struct berth_db *db, const struct arrival *a, struct berth_error *err)
{
    struct berth_list others;
    int rc = berth_plugin_select(db, a->arena, &others, err);
    for (int i = 0; rc == BERTH_OK && i < a->manifest->drivers.count; i++) {
        const struct berth_manifest_driver *d = a->manifest->drivers.items[i];
        if (d->kind && strcmp(d->kind, "sandbox_provider") == 0)
            rc = check_provider(a, &others, d->key, err);
    }
    return rc;
}

static int tx_install(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct arrival *a = ctx;
    struct berth_plugin *there;
    int rc = berth_plugin_take_turns(db, err);
    if (rc == BERTH_OK)
        rc = berth_plugin_load(db, a->arena, a->manifest->id, BERTH_LOCK_NONE, &there, err);
    if (rc == BERTH_OK && there)
        rc = berth_fail(err, BERTH_E_CONFLICT, "Plugin already installed: %s", a->manifest->id);
    if (rc == BERTH_OK)
        rc = check_keys(db, a, err);
    if (rc == BERTH_OK)
        rc = berth_plugin_next_order(db, &a->plugin.install_order, err);
    return rc < 0 ? rc : berth_plugin_insert(db, &a->plugin, err);
}

static int bring(struct arrival *a, const char *source, const char *version,
                 struct berth_error *err)
{
    int rc = BERTH_OK;
    struct stat st;
    if (is_path(source) && version)
        rc = berth_fail(err, BERTH_E_INVALID, "A directory has no version to choose.");
    else if (is_path(source))
        a->package.path = source;
    else if (!version && stat(source, &st) == 0 && S_ISDIR(st.st_mode))
        rc = berth_fail(err, BERTH_E_INVALID,
                        "There is a directory \"%s\" here: write ./%s for it, or say which "
                        "--version of the package is meant.",
                        source, source);
    else
        rc = fetch(a, source, version, err);
    if (rc == BERTH_OK)
        rc = read_package(a, err);
    if (rc < 0)
        return rc;
    int64_t now = berth_time_wall_ms();
    a->plugin = (struct berth_plugin){.plugin_key = a->manifest->id,
                                      .package_name = a->fetched ? source : a->package.name,
                                      .package_path = a->package.path,
                                      .in_place = !a->fetched,
                                      .version = a->manifest->version,
                                      .status = BERTH_PLUGIN_READY,
                                      .manifest_json = a->manifest->json,
                                      .installed_at_ms = now,
                                      .updated_at_ms = now,
                                      .row_version = 1};
    return BERTH_OK;
}

static struct arrival arrive(struct berth *b, struct berth_arena *arena, int cancel_fd)
{
    return (struct arrival){.b = b,
                            .arena = arena,
                            .call = {.deadline_ms = berth_time_mono_ms() + INSTALL_MS,
                                     .cancel_fd = cancel_fd >= 0 ? cancel_fd : b->closing_fd,
                                     .arena = arena,
                                     .engine = b->engine}};
}

int berth_plugin_install(struct berth *b, struct berth_arena *arena,
                         const struct berth_plugin_install *request, struct berth_plugin **out,
                         struct berth_error *err)
{
    struct arrival a = arrive(b, arena, request->cancel_fd);
    struct berth_id id = berth_id_new();
    const char *config;
    if (!request->source || !*request->source)
        return berth_fail(err, BERTH_E_INVALID, "packageName cannot be empty");
    int rc = check_config(arena, request->config_json, &config, err);
    if (rc == BERTH_OK)
        rc = bring(&a, request->source, request->version, err);
    a.plugin.id = berth_arena_strdup(arena, id.text);
    a.plugin.config_json = config;
    if (rc == BERTH_OK)
        rc = berth_arena_check(arena, err);
    if (rc == BERTH_OK)
        rc = berth_store_tx(b->store, tx_install, &a, err);
    if (rc < 0) {
        drop_directory(b, a.fetched);
        return rc;
    }
    refresh(b->plugins, 0);
    return berth_plugin_get(b, arena, id.text, out, err);
}

/* --- upgrades --- */

static bool has_capability(const struct berth_json *list, const char *name)
{
    for (size_t i = 0; i < berth_json_count(list); i++) {
        const char *known = berth_json_str(berth_json_at(list, i));
        if (known && strcmp(known, name) == 0)
            return true;
    }
    return false;
}

/* Does it want more than was agreed to? */
static bool wants_more(const char *before_json, const char *after_json)
{
    auto_json *before = NULL, *after = NULL;
    struct berth_error ignored;
    if (berth_json_parse(before_json, strlen(before_json), BERTH_JSON_OURS, &before, &ignored) <
            0 ||
        berth_json_parse(after_json, strlen(after_json), BERTH_JSON_OURS, &after, &ignored) < 0)
        return true;
    const struct berth_json *wanted = berth_json_get(after, "capabilities");
    for (size_t i = 0; i < berth_json_count(wanted); i++)
        if (!has_capability(berth_json_get(before, "capabilities"),
                            berth_json_str(berth_json_at(wanted, i))))
            return true;
    return false;
}

static int check_id(const struct berth_plugin *brought, const struct berth_plugin *p,
                    struct berth_error *err)
{
    if (strcmp(brought->plugin_key, p->plugin_key) == 0)
        return BERTH_OK;
    return berth_fail(err, BERTH_E_INVALID,
                      "Upgrade failed: new manifest ID '%s' does not match existing plugin ID '%s'",
                      brought->plugin_key, p->plugin_key);
}

static int decide_upgrade(struct change *c, struct berth_plugin *p, struct berth_error *err)
{
    const struct berth_plugin *brought = c->package;
    if (p->status != BERTH_PLUGIN_READY && p->status != BERTH_PLUGIN_UPGRADE_PENDING)
        return berth_fail(err, BERTH_E_INVALID,
                          "Cannot upgrade plugin in status '%s'. Plugin must be in 'ready' or "
                          "'upgrade_pending' status to be upgraded.",
                          berth_plugin_status_name(p->status));
    if (wants_more(p->manifest_json, brought->manifest_json)) {
        p->status = BERTH_PLUGIN_UPGRADE_PENDING;
        p->last_error = "The new version asks for more capabilities: look at it, then enable it.";
    }
    p->package_path = brought->package_path;
    p->version = brought->version;
    p->manifest_json = brought->manifest_json;
    return BERTH_OK;
}

struct upgrade {
    struct change change;
    struct arrival *arrival;
    const struct berth_plugin *old;
};

/* Leases that stand by a driver of the plugin, as a sandbox provider and by the driver `plugin`. */
static int count_driver(struct berth_db *db, const struct berth_plugin *p, const char *key,
                        bool as_sandbox, bool as_plugin, struct berth_arena *arena, int64_t *out,
                        struct berth_error *err)
{
    const char *name = berth_arena_printf(arena, "plugin:%s:%s", p->plugin_key, key);
    int64_t sandboxes = 0, others = 0;
    int rc = berth_arena_check(arena, err);
    if (rc == BERTH_OK && as_sandbox)
        rc = berth_lease_count_of_provider(db, "sandbox", key, &sandboxes, err);
    if (rc == BERTH_OK && as_plugin)
        rc = berth_lease_count_of_provider(db, "plugin", name, &others, err);
    *out = sandboxes + others;
    return rc;
}

/* A driver that the new version does not have, or has no more as a sandbox provider, must answer
 * for nothing. */
static int check_places(struct berth_db *db, const struct upgrade *u, struct berth_error *err)
{
    const struct arrival *a = u->arrival;
    auto_json *json = NULL;
    int rc = berth_json_parse(u->old->manifest_json, strlen(u->old->manifest_json), BERTH_JSON_OURS,
                              &json, err);
    const struct berth_json *drivers = berth_json_get(json, "environmentDrivers");
    for (size_t i = 0; rc == BERTH_OK && i < berth_json_count(drivers); i++) {
        const char *key = berth_json_str(berth_json_get(berth_json_at(drivers, i), "driverKey"));
        bool sandbox = false, there = false;
        for (int k = 0; k < a->manifest->drivers.count; k++) {
            const struct berth_manifest_driver *d = a->manifest->drivers.items[k];
            bool same = strcmp(d->key, key) == 0;
            there |= same;
            sandbox |= same && d->kind && strcmp(d->kind, "sandbox_provider") == 0;
        }
        int64_t places = 0;
        rc = count_driver(db, u->old, key, !sandbox, !there, a->arena, &places, err);
        if (rc == BERTH_OK && places)
            rc = berth_fail(err, BERTH_E_CONFLICT,
                            "The new version of plugin %s has no driver \"%s\" any more, which "
                            "still answers for %lld leases: release them and sweep first.",
                            u->old->plugin_key, key, (long long)places);
    }
    return rc;
}

static int tx_upgrade(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct upgrade *u = ctx;
    int rc = berth_plugin_take_turns(db, err);
    if (rc == BERTH_OK)
        rc = check_keys(db, u->arrival, err);
    if (rc == BERTH_OK)
        rc = check_places(db, u, err);
    return rc < 0 ? rc : tx_change(db, &u->change, err);
}

/* What was fetched into a directory of ours; NULL: nothing was. */
static const char *fetched_directory(const struct berth *b, struct berth_arena *arena,
                                     const struct berth_plugin *p, struct berth_error *err)
{
    const char *folder = p->in_place ? NULL : directory(b, arena, "plugins", NULL, err);
    size_t len = folder ? strlen(folder) : 0;
    if (!folder || strncmp(p->package_path, folder, len) != 0 || p->package_path[len] != '/')
        return NULL;
    return berth_arena_copy(arena, p->package_path,
                            len + 1 + strcspn(p->package_path + len + 1, "/"));
}

int berth_plugin_upgrade(struct berth *b, struct berth_arena *arena, const char *name,
                         const char *version, struct berth_plugin **out, struct berth_error *err)
{
    struct berth_plugin *old;
    struct arrival a = arrive(b, arena, -1);
    int rc = berth_plugin_get(b, arena, name, &old, err);
    if (rc < 0)
        return rc;
    const char *before = fetched_directory(b, arena, old, err);
    rc = bring(&a, old->in_place ? old->package_path : old->package_name, version, err);
    struct upgrade u = {.change = {.b = b,
                                   .arena = arena,
                                   .name = old->id,
                                   .decide = decide_upgrade,
                                   .package = &a.plugin},
                        .arrival = &a,
                        .old = old};
    if (rc == BERTH_OK)
        rc = check_id(&a.plugin, old, err);
    if (rc == BERTH_OK)
        rc = berth_store_tx(b->store, tx_upgrade, &u, err);
    if (rc < 0) {
        drop_directory(b, a.fetched);
        return rc;
    }
    stop_worker(b, old->id); /* the next call starts the new one */
    drop_directory(b, before);
    refresh(b->plugins, 0);
    *out = u.change.plugin;
    return BERTH_OK;
}

/* --- the end --- */

struct removal {
    struct berth_arena *arena;
    const char *name;
    struct berth_plugin *plugin;
};

static int count_places(struct berth_db *db, const struct berth_plugin *p,
                        struct berth_arena *arena, int64_t *out, struct berth_error *err)
{
    auto_json *json = NULL;
    *out = 0;
    int rc =
        berth_json_parse(p->manifest_json, strlen(p->manifest_json), BERTH_JSON_OURS, &json, err);
    const struct berth_json *drivers = berth_json_get(json, "environmentDrivers");
    for (size_t i = 0; rc == BERTH_OK && i < berth_json_count(drivers); i++) {
        const char *key = berth_json_str(berth_json_get(berth_json_at(drivers, i), "driverKey"));
        int64_t places = 0;
        rc = count_driver(db, p, key, true, true, arena, &places, err);
        *out += places;
    }
    return rc;
}

static int tx_remove(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct removal *r = ctx;
    int64_t places = 0;
    int rc = berth_plugin_load(db, r->arena, r->name, BERTH_LOCK_UPDATE, &r->plugin, err);
    if (rc == BERTH_OK && !r->plugin)
        rc = not_found(r->name, err);
    if (rc == BERTH_OK)
        rc = count_places(db, r->plugin, r->arena, &places, err);
    if (rc == BERTH_OK && places)
        rc = berth_fail(err, BERTH_E_CONFLICT,
                        "Plugin %s still answers for %lld leases (open, parked or owing clean-up): "
                        "release them and sweep first.",
                        r->plugin->plugin_key, (long long)places);
    return rc < 0 ? rc : berth_plugin_remove(db, r->plugin->id, err);
}

int berth_plugin_uninstall(struct berth *b, struct berth_arena *arena, const char *name,
                           struct berth_error *err)
{
    struct berth_plugin *named;
    int rc = berth_plugin_get(b, arena, name, &named, err);
    if (rc < 0)
        return rc;
    struct removal r = {.arena = arena, .name = named->id};
    rc = berth_store_tx(b->store, tx_remove, &r, err);
    if (rc < 0)
        return rc;
    struct berth_error ignored;
    refresh(b->plugins, 0);
    stop_worker(b, r.plugin->id);
    drop_directory(b, fetched_directory(b, arena, r.plugin, &ignored));
    drop_directory(b, directory(b, arena, "plugin-state", r.plugin->id, &ignored));
    return BERTH_OK;
}

/* --- workers --- */

int berth_plugin_worker(struct berth *b, struct berth_arena *arena, const char *name,
                        struct berth_worker_status *out, struct berth_error *err)
{
    struct berth_plugin *p;
    int rc = berth_plugin_get(b, arena, name, &p, err);
    if (rc < 0)
        return rc;
    *out = (struct berth_worker_status){.status = "stopped"};
    return b->plugins->manager
               ? berth_builtins.manager->status(b->plugins->manager, p->id, arena, out, err)
               : BERTH_OK;
}

int berth_plugin_restart(struct berth *b, struct berth_arena *arena, const char *name,
                         struct berth_worker_status *out, struct berth_error *err)
{
    struct berth_plugin *p;
    int rc = berth_plugin_get(b, arena, name, &p, err);
    if (rc == BERTH_OK && p->status != BERTH_PLUGIN_READY)
        rc = berth_fail(err, BERTH_E_CONFLICT, "Plugin %s is %s: only one that is ready runs.",
                        p->plugin_key, berth_plugin_status_name(p->status));
    if (rc < 0)
        return rc;
    if (b->plugins->manager) {
        const struct berth_manager_ops *ops = berth_builtins.manager;
        ops->stop(b->plugins->manager, p->id);
        ops->start(b->plugins->manager, p->id, BERTH_WORKER_START_MS);
    }
    return berth_plugin_worker(b, arena, p->id, out, err);
}

int berth_plugin_log(struct berth *b, struct berth_arena *arena, const char *name, const char **out,
                     struct berth_error *err)
{
    struct berth_plugin *p;
    int rc = berth_plugin_get(b, arena, name, &p, err);
    if (rc < 0)
        return rc;
    *out = log_file(b, arena, p->id, err);
    return *out ? BERTH_OK : err->code;
}

/* --- as JSON --- */

void berth_plugin_json(struct berth_json_writer *w, const struct berth_plugin *p)
{
    auto_json *manifest = NULL;
    struct berth_error ignored;
    (void)berth_json_parse(p->manifest_json, strlen(p->manifest_json), BERTH_JSON_OURS, &manifest,
                           &ignored);
    auto_free char *categories = NULL;
    const struct berth_json *list = berth_json_get(manifest, "categories");
    if (list)
        categories = berth_json_canonical(list);
    berth_json_open(w, '{');
    berth_json_put_str(w, "id", p->id);
    berth_json_put_str(w, "pluginKey", p->plugin_key);
    berth_json_put_str(w, "packageName", p->package_name);
    berth_json_put_str(w, "version", p->version);
    berth_json_put_int(w, "apiVersion", 1);
    berth_json_put_raw(w, "categories", categories ? categories : "[]");
    berth_json_put_str(w, "status", berth_plugin_status_name(p->status));
    berth_json_put_int(w, "installOrder", p->install_order);
    berth_json_put_str(w, "packagePath", p->package_path);
    berth_json_put_bool(w, "inPlace", p->in_place);
    berth_json_put_str(w, "lastError", p->last_error);
    berth_json_put_raw(w, "manifestJson", p->manifest_json);
    berth_json_put_raw(w, "configJson", p->config_json);
    berth_json_put_time(w, "installedAt", p->installed_at_ms);
    berth_json_put_time(w, "updatedAt", p->updated_at_ms);
    berth_json_close(w, '}');
}

void berth_worker_json(struct berth_json_writer *w, const struct berth_worker_status *s)
{
    berth_json_open(w, '{');
    berth_json_put_str(w, "status", s->status);
    if (s->pid)
        berth_json_put_int(w, "pid", s->pid);
    else
        berth_json_put_str(w, "pid", NULL);
    berth_json_put_int(w, "uptime", s->uptime_ms);
    berth_json_put_int(w, "consecutiveCrashes", s->crashes);
    berth_json_put_int(w, "totalCrashes", s->crashes_in_all);
    berth_json_put_int(w, "pendingRequests", s->pending);
    berth_json_put_time(w, "lastCrashAt", s->last_crash_at_ms);
    berth_json_put_time(w, "nextRestartAt", s->next_restart_at_ms);
    berth_json_put_raw(w, "supportedMethods", s->methods_json ? s->methods_json : "[]");
    berth_json_put_str(w, "confinement", s->confinement);
    berth_json_put_str(w, "lastError", s->last_error);
    berth_json_close(w, '}');
}
