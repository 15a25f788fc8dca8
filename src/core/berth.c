/* SPDX-License-Identifier: Apache-2.0
 * src/core/berth.c - opening and closing the runtime. */
#include "core/berth.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "core/run/exec.h"
#include "core/lease/late_place.h"
#include "core/lease/node.h"
#include "core/plugin/plugin.h"
#include "core/run/exec_rows.h"
#include "core/run/run.h"
#include "core/secret/sealer.h"
#include "os/engine.h"
#include "os/pool.h"
#include "store/company.h"
#include "store/secret.h"
#include "store/store.h"

struct first {
    struct berth_arena *arena;
    struct berth_company *company;
    struct berth_id fresh; /* for a store without a name */
    const char *store_id, *key_id;
};

static int tx_find_default(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct first *first = ctx;
    int rc = berth_company_by_name(db, first->arena, "default", &first->company, err);
    return rc < 0 ? rc : berth_store_identity_load(db, first->arena, &first->store_id, err);
}

static int tx_make_default(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct berth_id id = berth_id_new();
    int64_t now = berth_time_wall_ms();
    struct berth_company company = {
        .id = id.text, .name = "default", .created_at_ms = now, .updated_at_ms = now};
    int rc = berth_company_insert(db, &company, err);
    return rc < 0 ? rc : tx_find_default(db, ctx, err);
}

/* The first open makes the company `default`, and gives the store its name. */
static int tx_identify(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct first *first = ctx;
    return berth_store_identity(db, first->arena, first->fresh.text, &first->store_id, err);
}

static int ensure_company(struct berth *b, struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct first first = {.arena = &arena, .fresh = berth_id_new()};
    int rc = berth_store_read(b->store, tx_find_default, &first, err);
    if (rc == BERTH_OK && !first.company)
        rc = berth_store_tx(b->store, tx_make_default, &first, err);
    if (rc == BERTH_OK && !first.store_id)
        rc = berth_store_tx(b->store, tx_identify, &first, err);
    if (rc < 0)
        return rc;
    b->company_id = strdup(first.company->id);
    b->store_id = strdup(first.store_id);
    return b->company_id && b->store_id ? BERTH_OK
                                        : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.");
}

const char *berth_version(void)
{
    return BERTH_VERSION;
}

int berth_registry_new_builtin(struct berth_registry **out, struct berth_error *err)
{
    struct berth_registry *registry = NULL;
    int rc = berth_registry_new(&registry, err);
    if (rc == BERTH_OK)
        rc = berth_builtins.add_drivers(registry, err);
    if (rc < 0)
        berth_registry_free(registry);
    else
        *out = registry;
    return rc;
}

/* --- where the key is --- */

int berth_data_directory(char **out, struct berth_error *err)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (!home || !*home) {
        const struct passwd *user = getpwuid(getuid());
        home = user ? user->pw_dir : NULL;
    }
    bool named = data && data[0] == '/';
    if (!named && !home)
        return berth_fail(
            err, BERTH_E_INVALID,
            "There is no home directory to keep the store in: name one with --store.");
    if (asprintf(out, "%s%s/berth", named ? data : home, named ? "" : "/.local/share") < 0)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.");
    return BERTH_OK;
}

int berth_default_store(char **out, struct berth_error *err)
{
    auto_free char *directory = NULL;
    int rc = berth_data_directory(&directory, err);
    if (rc == BERTH_OK && asprintf(out, "sqlite:%s/berth.db", directory) < 0)
        rc = berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.");
    return rc;
}

int berth_key_file(const struct berth_store *store, char **out, struct berth_error *err)
{
    auto_free char *directory = NULL;
    const char *where = berth_store_where(store), *name = strrchr(where, '/');
    int len;
    if (berth_store_shared(store)) {
        int rc = berth_data_directory(&directory, err);
        if (rc < 0)
            return rc;
        len = asprintf(out, "%s/secrets.key", directory);
    } else if (name && strcmp(name, "/berth.db") == 0) {
        len = asprintf(out, "%.*s/secrets.key", (int)(name - where), where);
    } else {
        len = asprintf(out, "%s.key", where);
    }
    return len < 0 ? berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.") : BERTH_OK;
}

int berth_directory(const struct berth *b, const char *name, char **out, struct berth_error *err)
{
    auto_free char *directory = NULL;
    const char *where = berth_store_where(b->store), *last = strrchr(where, '/');
    int rc = berth_store_shared(b->store) ? berth_data_directory(&directory, err) : BERTH_OK;
    if (rc < 0)
        return rc;
    int len = directory ? asprintf(out, "%s/%s", directory, name)
                        : asprintf(out, "%.*s/%s", last ? (int)(last - where) : 1,
                                   last ? where : ".", name);
    return len < 0 ? berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.") : BERTH_OK;
}

static int open_vault(struct berth *b, const char *key_file, struct berth_error *err)
{
    if (key_file)
        return berth_sealer_new(key_file, &b->vault, err);
    auto_free char *path = NULL;
    int rc = berth_key_file(b->store, &path, err);
    return rc < 0 ? rc : berth_sealer_new(path, &b->vault, err);
}

static int tx_key_id(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct first *first = ctx;
    return berth_secret_key_load(db, first->arena, BERTH_LOCK_NONE, &first->key_id, err);
}

/* A key file that does not fit is told at once, not at the first secret; what needs none works. */
static int check_key(struct berth *b, struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct first first = {.arena = &arena};
    struct berth_error trouble;
    int rc = berth_store_read(b->store, tx_key_id, &first, err);
    if (rc == BERTH_OK && first.key_id && berth_sealer_has(b->vault, first.key_id, &trouble) < 0)
        berth_log_line(&b->log, BERTH_LOG_WARN, "secrets cannot be read", "error", trouble.message,
                       NULL);
    return rc;
}

static int start(struct berth *b, const struct berth_options *options, struct berth_error *err)
{
    int rc = BERTH_OK;
    b->closing_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (b->closing_fd < 0)
        return berth_fail_errno(err, "Cannot make an event descriptor");
    if (!b->registry)
        rc = berth_registry_new_builtin(&b->registry, err);
    if (rc == BERTH_OK)
        rc = berth_engine_new(&b->engine, err);
    if (rc == BERTH_OK)
        rc = berth_pool_new(BERTH_POOL_THREADS_MAX, &b->pool, err);
    if (rc == BERTH_OK)
        rc = berth_pool_new(BERTH_PROVIDER_THREADS_MAX, &b->providers, err);
    if (rc == BERTH_OK)
        rc = berth_store_open(berth_builtins.databases, options->store, &b->store, err);
    if (rc == BERTH_OK)
        rc = open_vault(b, options->key_file, err);
    if (rc == BERTH_OK)
        rc = berth_node_open(b->store, b->pool, b->settings.node_lapse_ms, &b->node, err);
    if (rc == BERTH_OK)
        rc = ensure_company(b, err);
    if (rc == BERTH_OK)
        rc = berth_plugins_open(b, &b->plugins, err);
    if (rc == BERTH_OK)
        berth_exec_rows_recover(b);
    return rc < 0 ? rc : check_key(b, err);
}

int berth_open(const struct berth_options *options, struct berth **out, struct berth_error *err)
{
    struct berth *b = calloc(1, sizeof *b);
    if (!b) {
        berth_registry_free(options->registry);
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.");
    }
    b->registry = options->registry;
    b->settings = options->settings;
    b->log = options->log;
    b->closing_fd = -1;
    b->notes_end = &b->notes;
    pthread_mutex_init(&b->sweeping_lock, NULL);
    pthread_mutex_init(&b->strays_lock, NULL);
    pthread_mutex_init(&b->notes_lock, NULL);
    pthread_mutex_init(&b->roster_lock, NULL);
    berth_time_cond_init(&b->roster_changed);
    pthread_mutex_init(&b->runs_lock, NULL);
    pthread_cond_init(&b->runs_changed, NULL);
    int rc = start(b, options, err);
    if (rc < 0) {
        berth_close(b);
        return rc;
    }
    *out = b;
    return BERTH_OK;
}

void berth_close(struct berth *b)
{
    if (!b)
        return;
    berth_run_end_all(b); /* with their places given back, which the next line would hinder */
    if (b->closing_fd >= 0)
        (void)eventfd_write(b->closing_fd, 1);
    pthread_mutex_lock(&b->sweeping_lock);
    b->closing = true;
    pthread_mutex_unlock(&b->sweeping_lock);
    /* Timers first: they may still use the providers' threads, which set no more of them. The next
     * heartbeat goes with them. */
    berth_pool_free(b->pool);
    berth_pool_free(b->providers);
    berth_exec_end_strays(b); /* the timers for these two have been dropped */
    berth_exec_rows_close(b);
    berth_plugins_close(b->plugins); /* nobody calls their workers any more */
    berth_late_place_flush(b);
    berth_registry_free(b->registry);
    berth_engine_free(b->engine); /* with what drivers had running */
    berth_node_close(b->node);
    berth_store_close(b->store);
    berth_sealer_free(b->vault);
    pthread_mutex_destroy(&b->sweeping_lock);
    pthread_mutex_destroy(&b->strays_lock);
    pthread_mutex_destroy(&b->notes_lock);
    pthread_cond_destroy(&b->roster_changed);
    pthread_mutex_destroy(&b->roster_lock);
    pthread_cond_destroy(&b->runs_changed);
    pthread_mutex_destroy(&b->runs_lock);
    berth_map_clear(&b->sweeping);
    berth_map_clear(&b->lanes);
    free(b->company_id);
    free(b->store_id);
    if (b->closing_fd >= 0)
        (void)close(b->closing_fd);
    free(b);
}
