/* SPDX-License-Identifier: Apache-2.0
 * src/core/plugin/package.c - the packages of plugins: installed, upgraded, uninstalled. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/time.h"
#include "core/plugin/manifest.h"
#include "core/plugin/plugin.h"
#include "core/plugin/plugin_change.h"
#include "core/secret/secret_refs.h"
#include "os/fs.h"
#include "plugin/ops.h"
#include "store/lease.h"
#include "store/plugin.h"
#include "store/store.h"

#define INSTALL_MS 180000
#define ABANDONED_MS (5 * INSTALL_MS) /* an install older than this is abandoned */

/* One package on its way in. */
struct arrival {
    struct berth *b;
    struct berth_arena *arena;
    struct berth_package_call call;
    const char *fetched; /* a directory of ours, or NULL */
    struct berth_package package;
    struct berth_manifest *manifest;
    struct berth_plugin plugin;
    const struct berth_actor *actor;
};

/* Else it is the name of a package, which may have a slash only behind a scope: "@scope/name". */
bool berth_plugin_is_path(const char *source)
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

/* --- directories of ours --- */

/* Several stores may keep their packages in one directory: ours are told by their names, which no
 * plugin's id looks like. */
static const char *own_name(const struct berth *b, struct berth_arena *arena, const char *rest)
{
    return berth_arena_printf(arena, "%s.%s", b->store_id, rest);
}

static bool has_package(const struct berth_list *plugins, const char *path)
{
    size_t len = strlen(path);
    for (int i = 0; i < plugins->count; i++) {
        const struct berth_plugin *p = plugins->items[i];
        if (strncmp(p->package_path, path, len) == 0 && p->package_path[len] == '/')
            return true;
    }
    return false;
}

/* Finds unfinished installs in `folder` that began long ago, so their process has died. */
static int find_abandoned(const struct berth *b, struct berth_arena *arena, const char *folder,
                          struct berth_list *out, struct berth_error *err)
{
    const char *ours = own_name(b, arena, "");
    DIR *dir = ours ? opendir(folder) : NULL;
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat st;
        if (strncmp(entry->d_name, ours, strlen(ours)) != 0)
            continue;
        char *path = berth_arena_printf(arena, "%s/%s", folder, entry->d_name);
        if (path && lstat(path, &st) == 0 &&
            (int64_t)st.st_mtime * 1000 + ABANDONED_MS < berth_time_wall_ms())
            (void)berth_list_add(out, arena, path);
    }
    if (dir)
        (void)closedir(dir);
    return berth_arena_check(arena, err);
}

static void tidy(struct berth *b)
{
    auto_arena arena = BERTH_ARENA_INIT;
    static const char *const folders[] = {"plugins", "plugin-state"};
    struct berth_list found = {0}, plugins;
    struct berth_error err;
    int rc = BERTH_OK;
    for (int i = 0; rc == BERTH_OK && i < 2; i++) {
        const char *folder = berth_plugins_directory(b, &arena, folders[i], NULL, &err);
        rc = folder ? find_abandoned(b, &arena, folder, &found, &err) : err.code;
    }
    if (rc == BERTH_OK && found.count) /* afterwards: whatever is in use now is in a row */
        rc = berth_plugin_list(b, &arena, &plugins, &err);
    for (int i = 0; rc == BERTH_OK && i < found.count; i++)
        if (!has_package(&plugins, found.items[i]))
            drop_directory(b, found.items[i]);
    if (rc < 0)
        berth_log_line(&b->log, BERTH_LOG_WARN, "old packages not looked for", "error", err.message,
                       NULL);
}

/* What a program of the package sees of this machine while it arrives. */
static int arrival_cage(const struct arrival *a, const char *state, struct berth_worker_spec *out,
                        struct berth_error *err)
{
    *out =
        (struct berth_worker_spec){.state = state,
                                   .data = berth_plugins_directory(a->b, a->arena, NULL, NULL, err),
                                   .unconfined = a->b->settings.allow_unconfined_plugins};
    return out->data ? BERTH_OK : err->code;
}

static int fetch(struct arrival *a, const char *name, const char *version, struct berth_error *err)
{
    const char *folder = berth_plugins_directory(a->b, a->arena, "plugins", NULL, err);
    if (!folder)
        return err->code;
    int rc = berth_plugins_make_directory(folder, err);
    char *path = berth_arena_printf(a->arena, "%s/%s", folder, own_name(a->b, a->arena, "XXXXXX"));
    if (rc == BERTH_OK)
        rc = berth_arena_check(a->arena, err);
    if (rc < 0)
        return rc;
    if (!mkdtemp(path))
        return berth_fail_errno(err, "Cannot make a directory in %s", folder);
    a->fetched = path;
    struct berth_worker_spec cage;
    rc = arrival_cage(a, path, &cage, err);
    return rc < 0 ? rc
                  : berth_builtins.packages->fetch(&a->call, name, version, &cage, &a->package.path,
                                                   err);
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
    const char *scratch = berth_plugins_directory(a->b, a->arena, "plugin-state",
                                                  own_name(a->b, a->arena, unique.text), err);
    if (!scratch)
        return err->code;
    struct berth_worker_spec cage;
    int rc = arrival_cage(a, scratch, &cage, err);
    if (rc < 0)
        return rc;
    rc = berth_builtins.packages->read(&a->call, a->package.path, &cage, &a->package, err);
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
    const struct berth_route *taken = berth_registry_find_provider(a->b->registry, provider);
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
    int rc = berth_plugin_select(db, a->arena, NULL, &others, err);
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
    if (rc == BERTH_OK)
        rc = berth_plugin_insert(db, &a->plugin, err);
    return rc < 0 ? rc
                  : berth_plugin_tell(db, a->arena, &a->plugin, "plugin.installed", a->actor, err);
}

static int bring(struct arrival *a, const char *source, const char *version,
                 struct berth_error *err)
{
    int rc = BERTH_OK;
    struct stat st;
    if (berth_plugin_is_path(source) && version)
        rc = berth_fail(err, BERTH_E_INVALID, "A directory has no version to choose.");
    else if (berth_plugin_is_path(source))
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
    a.actor = request->actor;
    if (!request->source || !*request->source)
        return berth_fail(err, BERTH_E_INVALID, "packageName cannot be empty");
    int rc = berth_plugin_check_config(arena, request->config_json, &config, err);
    if (rc == BERTH_OK)
        rc = bring(&a, request->source, request->version, err);
    a.plugin.id = berth_arena_strdup(arena, id.text);
    a.plugin.config_json = config;
    a.plugin.settings_json = "{}";
    if (rc == BERTH_OK)
        rc = berth_arena_check(arena, err);
    if (rc == BERTH_OK)
        rc = berth_store_tx(b->store, tx_install, &a, err);
    if (rc < 0) {
        drop_directory(b, a.fetched);
        return rc;
    }
    berth_plugins_reread(b);
    tidy(b);
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

/* Returns the driver of that key and kind in the list, or NULL. */
static const struct berth_json *find_driver(const struct berth_json *drivers,
                                            const struct berth_json *wanted)
{
    const char *kind = berth_json_str(berth_json_get(wanted, "kind"));
    const char *key = berth_json_str(berth_json_get(wanted, "driverKey"));
    for (size_t i = 0; key && i < berth_json_count(drivers); i++) {
        const struct berth_json *d = berth_json_at(drivers, i);
        const char *other = berth_json_str(berth_json_get(d, "kind"));
        const char *name = berth_json_str(berth_json_get(d, "driverKey"));
        if (name && strcmp(name, key) == 0 && strcmp(other ? other : "", kind ? kind : "") == 0)
            return d;
    }
    return NULL;
}

/* Returns whether the config of a driver has the values of secrets where it had none before. */
static bool has_new_secrets(const struct berth_json *before, const struct berth_json *after)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_error ignored;
    struct berth_list old, new;
    if (berth_secret_ref_paths(&arena, berth_json_get(before, "configSchema"), &old, &ignored) <
            0 ||
        berth_secret_ref_paths(&arena, berth_json_get(after, "configSchema"), &new, &ignored) < 0)
        return true;
    for (int i = 0; i < new.count; i++) {
        bool known = false;
        for (int k = 0; k < old.count; k++)
            known |= strcmp(old.items[k], new.items[i]) == 0;
        if (!known)
            return true;
    }
    return false;
}

/* Does it want more than was agreed to? A new driver is more, too: environments that were made for
 * another plugin may name it, and their secrets would be sent to this one. */
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
    wanted = berth_json_get(after, "environmentDrivers");
    for (size_t i = 0; i < berth_json_count(wanted); i++) {
        const struct berth_json *driver = berth_json_at(wanted, i);
        const struct berth_json *old =
            find_driver(berth_json_get(before, "environmentDrivers"), driver);
        if (!old || has_new_secrets(old, driver))
            return true;
    }
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

static int decide_upgrade(struct berth_plugin_change *c, struct berth_plugin *p,
                          struct berth_error *err)
{
    const struct berth_plugin *brought = c->package;
    if (p->status != BERTH_PLUGIN_READY && p->status != BERTH_PLUGIN_UPGRADE_PENDING)
        return berth_fail(err, BERTH_E_INVALID,
                          "Cannot upgrade plugin in status '%s'. Plugin must be in 'ready' or "
                          "'upgrade_pending' status to be upgraded.",
                          berth_plugin_status_name(p->status));
    if (wants_more(p->manifest_json, brought->manifest_json)) {
        p->status = BERTH_PLUGIN_UPGRADE_PENDING;
        p->last_error =
            "The new version asks for more capabilities, drivers or secrets: look at it, then "
            "enable it.";
    }
    p->package_path = brought->package_path;
    p->version = brought->version;
    p->manifest_json = brought->manifest_json;
    return BERTH_OK;
}

struct upgrade {
    struct berth_plugin_change change;
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
        rc = berth_lease_count_of_provider(db, berth_driver_word(BERTH_ROUTE_PROVIDER), key,
                                           &sandboxes, err);
    if (rc == BERTH_OK && as_plugin)
        rc = berth_lease_count_of_provider(db, berth_driver_word(BERTH_ROUTE_PLUGIN), name, &others,
                                           err);
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
    return rc < 0 ? rc : berth_plugin_tx_change(db, &u->change, err);
}

/* What was fetched into a directory of ours; NULL: nothing was. */
static const char *fetched_directory(const struct berth *b, struct berth_arena *arena,
                                     const struct berth_plugin *p, struct berth_error *err)
{
    const char *folder =
        p->in_place ? NULL : berth_plugins_directory(b, arena, "plugins", NULL, err);
    size_t len = folder ? strlen(folder) : 0;
    if (!folder || strncmp(p->package_path, folder, len) != 0 || p->package_path[len] != '/')
        return NULL;
    return berth_arena_copy(arena, p->package_path,
                            len + 1 + strcspn(p->package_path + len + 1, "/"));
}

int berth_plugin_upgrade(struct berth *b, struct berth_arena *arena, const char *name,
                         const char *version, const struct berth_actor *actor,
                         struct berth_plugin **out, struct berth_error *err)
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
                                   .action = "plugin.upgraded",
                                   .actor = actor,
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
    berth_plugins_stop(b, old->id); /* the next call starts the new one */
    drop_directory(b, before);
    tidy(b);
    berth_plugins_reread(b);
    *out = u.change.plugin;
    return BERTH_OK;
}

/* --- the end --- */

struct removal {
    struct berth_arena *arena;
    const char *name;
    const struct berth_actor *actor;
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

/* Loads the row; refuses while a lease needs the plugin. */
static int load_unneeded(struct berth_db *db, struct removal *r, struct berth_error *err)
{
    int64_t places = 0;
    int rc = berth_plugin_load(db, r->arena, r->name, BERTH_LOCK_UPDATE, &r->plugin, err);
    if (rc == BERTH_OK && !r->plugin)
        rc = berth_plugin_not_found(r->name, err);
    if (rc == BERTH_OK)
        rc = count_places(db, r->plugin, r->arena, &places, err);
    if (rc == BERTH_OK && places)
        rc = berth_fail(err, BERTH_E_CONFLICT,
                        "Plugin %s still answers for %lld leases (open, parked or owing clean-up): "
                        "release them and sweep first.",
                        r->plugin->plugin_key, (long long)places);
    return rc;
}

/* Disables the plugin, so that no worker starts while its state is removed. The row stays until
 * that is done: it shows what is still to be removed. */
static int tx_retire(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct removal *r = ctx;
    bool won;
    int rc = load_unneeded(db, r, err);
    if (rc < 0)
        return rc;
    r->plugin->status = BERTH_PLUGIN_DISABLED;
    r->plugin->last_error = "Its uninstall has not finished: uninstall it again.";
    r->plugin->updated_at_ms = berth_time_wall_ms();
    rc = berth_plugin_save(db, r->plugin, &won, err);
    if (rc == BERTH_OK && !won)
        rc = berth_fail(err, BERTH_E_CONFLICT, "Plugin %s was changed meanwhile.", r->name);
    return rc;
}

static int tx_remove(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct removal *r = ctx;
    int rc = load_unneeded(db, r, err);
    if (rc == BERTH_OK)
        rc = berth_plugin_remove(db, r->plugin->id, err);
    return rc < 0 ? rc
                  : berth_plugin_tell(db, r->arena, r->plugin, "plugin.uninstalled", r->actor, err);
}

static void drop_log(const struct berth *b, struct berth_arena *arena, const char *id)
{
    struct berth_error ignored;
    const char *log = berth_plugin_log_file(b, arena, id, &ignored);
    const char *older = log ? berth_arena_printf(arena, "%s.1", log) : NULL;
    if (log)
        (void)unlink(log);
    if (older)
        (void)unlink(older);
}

int berth_plugin_uninstall(struct berth *b, struct berth_arena *arena, const char *name,
                           const struct berth_actor *actor, struct berth_error *err)
{
    struct berth_plugin *named;
    int rc = berth_plugin_get(b, arena, name, &named, err);
    if (rc < 0)
        return rc;
    struct removal r = {.arena = arena, .name = named->id, .actor = actor};
    const char *state = berth_plugins_directory(b, arena, "plugin-state", named->id, err);
    if (!state)
        return err->code;
    rc = berth_store_tx(b->store, tx_retire, &r, err);
    if (rc < 0)
        return rc;
    struct berth_error why;
    berth_plugins_reread(b);
    berth_plugins_stop(b, named->id);
    if (berth_fs_remove_tree(state, &why) < 0)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "Plugin %s is disabled, but not uninstalled, because the files of its "
                          "worker could not be removed: %.600s. Remove them, then uninstall it "
                          "again.",
                          named->plugin_key, why.message);
    rc = berth_store_tx(b->store, tx_remove, &r, err);
    if (rc < 0)
        return rc;
    berth_plugins_reread(b);
    drop_directory(b, fetched_directory(b, arena, r.plugin, &why));
    drop_directory(b, state); /* if a worker of another process has made it again */
    drop_log(b, arena, r.plugin->id);
    return BERTH_OK;
}
