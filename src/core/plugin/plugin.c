/* SPDX-License-Identifier: Apache-2.0
 * src/core/plugin/plugin.c - see plugin.h: rows, their statuses, and what keeps the registry true
 * to them. */
#include "core/plugin/plugin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/lock.h"
#include "base/time.h"
#include "base/utf8.h"
#include "core/activity.h"
#include "core/id_prefix.h"
#include "core/lock_order.h"
#include "core/paths.h"
#include "core/plugin/manifest.h"
#include "core/plugin/plugin_change.h"
#include "core/plugin/plugin_settings.h"
#include "core/socket_cookie.h"
#include "os/cage.h"
#include "os/fs.h"
#include "os/runtime.h"
#include "plugin/ops.h"
#include "store/company.h"
#include "store/lease.h"
#include "store/plugin.h"
#include "store/store.h"

#define FRESH_MS 1000

struct berth_plugins {
    struct berth *b;
    struct berth_manager *manager; /* NULL: the registry was given other workers */
    struct berth_lock lock;
    int64_t read_at_ms; /* monotonic; 0: never */
};

/* --- directories --- */

const char *berth_plugins_directory(const struct berth *b, struct berth_arena *arena,
                                    const char *name, const char *inner, struct berth_error *err)
{
    auto_free char *logs = NULL;
    if (berth_directory(b, "logs", &logs, err) < 0)
        return NULL;
    logs[strlen(logs) - strlen("/logs")] = '\0';
    auto_free char *real = realpath(logs, NULL); /* as the rows say where a package is */
    const char *path = berth_arena_printf(arena, "%s%s%s%s%s", real ? real : logs, name ? "/" : "",
                                          name ? name : "", inner ? "/" : "", inner ? inner : "");
    return berth_arena_check(arena, err) == BERTH_OK ? path : NULL;
}

int berth_plugins_make_directory(const char *path, struct berth_error *err)
{
    bool own_proc;
    struct berth_error ignored;
    bool passed = geteuid() == 0 && berth_cage_check(&own_proc, &ignored) < 0;
    mode_t mode = passed ? 0711 : 0700;
    struct stat st;
    int rc = berth_fs_mkdirs(path, mode, err);
    if (rc == BERTH_OK && stat(path, &st) == 0 && st.st_uid == geteuid() &&
        (st.st_mode & ~mode & ALLPERMS) && chmod(path, mode) < 0)
        rc = berth_fail_errno(err, "Cannot change the mode of %s", path);
    return rc;
}

const char *berth_plugin_log_file(const struct berth *b, struct berth_arena *arena, const char *id,
                                  struct berth_error *err)
{
    const char *folder = berth_plugins_directory(b, arena, "logs", "plugins", err);
    if (!folder || berth_fs_mkdirs(folder, 0700, err) < 0)
        return NULL;
    const char *path = berth_arena_printf(arena, "%s/%s.log", folder, id);
    return berth_arena_check(arena, err) == BERTH_OK ? path : NULL;
}

/* --- reading --- */

struct look {
    struct berth_arena *arena;
    const char *name;
    const struct berth_page *page;
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
    return berth_plugin_select(db, look->arena, look->page, &look->list, err);
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
    if (rc == BERTH_OK && !look.plugin && berth_id_prefix_valid(name))
        rc = find_by_prefix(b, &look, err);
    if (rc == BERTH_OK && !look.plugin)
        rc = berth_plugin_not_found(name, err);
    if (rc == BERTH_OK)
        *out = look.plugin;
    return rc;
}

int berth_plugin_list(struct berth *b, struct berth_arena *arena, struct berth_list *out,
                      struct berth_error *err)
{
    return berth_plugin_list_page(b, arena, NULL, out, err);
}

int berth_plugin_list_page(struct berth *b, struct berth_arena *arena,
                           const struct berth_page *page, struct berth_list *out,
                           struct berth_error *err)
{
    struct look look = {.arena = arena, .page = page};
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
                                            .settings_json = p->settings_json,
                                            .row_version = p->row_version};
    }
    berth_builtins.manager->follow(plugins->manager, rows, list->count);
    return BERTH_OK;
}

static void refresh(struct berth_plugins *plugins, int64_t fresh_ms)
{
    struct berth *b = plugins->b;
    berth_lock_take(&plugins->lock);
    int64_t now_ms = berth_time_mono_ms();
    if (!plugins->read_at_ms || now_ms - plugins->read_at_ms >= fresh_ms) {
        auto_arena arena = BERTH_ARENA_INIT;
        struct berth_list list;
        struct berth_error err;
        int rc = berth_plugin_list(b, &arena, &list, &err);
        if (rc == BERTH_OK && plugins->manager)
            rc = tell_manager(plugins, &arena, &list, &err);
        if (rc == BERTH_OK) { /* a row that cannot be read hides no other */
            plugins->read_at_ms = now_ms;
            rc = berth_registry_set_plugins(b->registry, &list, &err);
        }
        if (rc < 0)
            berth_log_line(&b->log, BERTH_LOG_WARN, "plugins not read", "error", err.message, NULL);
    }
    berth_lock_drop(&plugins->lock);
}

void berth_plugins_reread(struct berth *b)
{
    refresh(b->plugins, 0);
}

void berth_plugins_refresh(struct berth *b)
{
    refresh(b->plugins, FRESH_MS);
}

/* --- what workers are told, and tell --- */

/* Lists what is berth's own, besides sockets of others; see struct berth_worker_spec. */
static const char *const *own_paths(const struct berth *b, struct berth_arena *arena,
                                    const char *data)
{
    const char **own = berth_arena_alloc(arena, 5 * sizeof *own);
    char runtime[BERTH_RUNTIME_PATH_SIZE];
    struct berth_error ignored; /* without a runtime directory, nothing is in it */
    size_t count = 0;
    if (!own)
        return NULL;
    own[count++] = data;
    if (berth_runtime_directory(runtime, &ignored) == BERTH_OK)
        own[count++] = berth_arena_strdup(arena, runtime);
    if (b->socket) {
        own[count++] = b->socket;
        own[count++] = berth_arena_printf(arena, "%s" BERTH_SOCKET_COOKIE_SUFFIX, b->socket);
    }
    own[count] = NULL;
    return own;
}

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
    const char *const *env, *const *sockets;
    if (rc == BERTH_OK)
        rc = berth_plugin_settings_env(arena, p->settings_json, &env, err);
    if (rc == BERTH_OK)
        rc = berth_plugin_settings_sockets(arena, p->settings_json, &sockets, err);
    if (rc < 0)
        return rc;
    *out = (struct berth_worker_spec){
        .env = env,
        .sockets = sockets,
        .plugin_key = p->plugin_key,
        .package = p->package_path,
        .entry = manifest->worker[0] == '/'
                     ? manifest->worker
                     : berth_arena_printf(arena, "%s/%s", p->package_path, manifest->worker),
        .manifest_json = p->manifest_json,
        .config_json = p->config_json,
        .settings_json = p->settings_json,
        .row_version = p->row_version,
        .state = berth_plugins_directory(plugins->b, arena, "plugin-state", p->id, err),
        .data = berth_plugins_directory(plugins->b, arena, NULL, NULL, err),
        .unconfined = plugins->b->settings.allow_unconfined_plugins,
        .log = berth_plugin_log_file(plugins->b, arena, p->id, err)};
    const char *states = berth_plugins_directory(plugins->b, arena, "plugin-state", NULL, err);
    if (!out->state || !out->data || !out->log || !states)
        return err->code;
    out->own = own_paths(plugins->b, arena, out->data);
    rc = berth_plugins_make_directory(states, err);
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
    berth_lock_init(&plugins->lock, BERTH_RANK_PLUGINS);
    *out = plugins;
    if (berth_registry_workers(b->registry))
        return BERTH_OK;
    struct berth_worker_host host = {
        .describe = describe, .report = report, .version = berth_version(), .ctx = plugins};
    const struct berth_manager_ops *ops = berth_builtins.manager;
    int rc = ops->open(b->engine, &host, &plugins->manager, err);
    if (rc == BERTH_OK)
        berth_registry_set_workers(b->registry, ops->workers(plugins->manager),
                                   BERTH_WORKER_START_MS, BERTH_WORKER_READY_MS,
                                   BERTH_WORKER_POLL_MS);
    return rc;
}

void berth_plugins_halt(struct berth_plugins *plugins, int64_t wait_ms)
{
    if (plugins && plugins->manager)
        berth_builtins.manager->halt(plugins->manager, wait_ms);
}

void berth_plugins_close(struct berth_plugins *plugins)
{
    if (!plugins)
        return;
    berth_builtins.manager->close(plugins->manager);
    berth_lock_destroy(&plugins->lock);
    free(plugins);
}

/* --- changing --- */

static int plugin_apply_change(struct berth_plugin_change *c, struct berth_plugin **out,
                               struct berth_error *err)
{
    struct berth_plugin *named;
    int rc = berth_plugin_get(c->b, c->arena, c->name, &named, err);
    if (rc < 0)
        return rc;
    c->name = named->id;
    rc = berth_store_tx(c->b->store, berth_plugin_tx_change, c, err);
    if (rc < 0)
        return rc;
    berth_plugins_reread(c->b);
    *out = c->plugin;
    return BERTH_OK;
}

void berth_plugins_stop(struct berth *b, const char *id)
{
    if (b->plugins->manager)
        berth_builtins.manager->stop(b->plugins->manager, id);
}

static int decide_enable(struct berth_plugin_change *c, struct berth_plugin *p,
                         struct berth_error *err)
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
                        const struct berth_actor *actor, struct berth_plugin **out,
                        struct berth_error *err)
{
    struct berth_plugin_change c = {.b = b,
                                    .arena = arena,
                                    .name = name,
                                    .decide = decide_enable,
                                    .action = "plugin.enabled",
                                    .actor = actor};
    return plugin_apply_change(&c, out, err);
}

static int decide_disable(struct berth_plugin_change *c, struct berth_plugin *p,
                          struct berth_error *err)
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
                         const char *reason, const struct berth_actor *actor,
                         struct berth_plugin **out, struct berth_error *err)
{
    struct berth_plugin_change c = {.b = b,
                                    .arena = arena,
                                    .name = name,
                                    .decide = decide_disable,
                                    .action = "plugin.disabled",
                                    .actor = actor,
                                    .reason = reason};
    int rc =
        reason ? berth_utf8_check(reason, BERTH_REASON_BYTES_MAX, "The reason", err) : BERTH_OK;
    if (rc == BERTH_OK)
        rc = plugin_apply_change(&c, out, err);
    if (rc == BERTH_OK)
        berth_plugins_stop(b, (*out)->id);
    return rc;
}

static int decide_config(struct berth_plugin_change *c, struct berth_plugin *p,
                         struct berth_error *err)
{
    (void)err;
    p->config_json = c->config_json;
    return BERTH_OK;
}

int berth_plugin_configure(struct berth *b, struct berth_arena *arena, const char *name,
                           const char *config_json, const struct berth_actor *actor,
                           struct berth_plugin **out, struct berth_error *err)
{
    struct berth_plugin_change c = {.b = b,
                                    .arena = arena,
                                    .name = name,
                                    .decide = decide_config,
                                    .action = "plugin.configured",
                                    .actor = actor};
    int rc = berth_plugin_check_config(arena, config_json, &c.config_json, err);
    return rc < 0 ? rc : plugin_apply_change(&c, out, err);
}

static int decide_settings(struct berth_plugin_change *c, struct berth_plugin *p,
                           struct berth_error *err)
{
    return berth_plugin_settings_change(c->arena, p->settings_json, c->settings_json,
                                        &p->settings_json, err);
}

int berth_plugin_set(struct berth *b, struct berth_arena *arena, const char *name,
                     const char *change_json, const struct berth_actor *actor,
                     struct berth_plugin **out, struct berth_error *err)
{
    struct berth_plugin_change c = {.b = b,
                                    .arena = arena,
                                    .name = name,
                                    .decide = decide_settings,
                                    .action = "plugin.set",
                                    .actor = actor,
                                    .settings_json = change_json};
    return plugin_apply_change(&c, out, err);
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
    *out = berth_plugin_log_file(b, arena, p->id, err);
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
    berth_json_put_raw(w, "settings", p->settings_json);
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
