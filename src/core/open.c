/* SPDX-License-Identifier: Apache-2.0
 * src/core/open.c - opens and closes the runtime. The only file of core/ that knows all rooms. */
#include "core/berth.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "core/lease/late_place.h"
#include "core/lease/lease_clock.h"
#include "core/lease/lease_execs.h"
#include "core/lease/node.h"
#include "core/run/mask_budget.h"
#include "core/lease/self_sweep.h"
#include "core/metrics.h"
#include "core/paths.h"
#include "core/plugin/plugin.h"
#include "core/run/exec_journal.h"
#include "core/run/run_jobs.h"
#include "core/secret/secret_provider.h"
#include "core/sweep/sweep.h"
#include "core/sweep/sweep_slots.h"
#include "os/pool.h"
#include "os/shares.h"
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

static int open_secret_provider(struct berth *b, const char *key_file, struct berth_error *err)
{
    if (key_file)
        return berth_secret_provider_new(key_file, &b->secret_provider, err);
    auto_free char *path = NULL;
    int rc = berth_key_file(b->store, &path, err);
    return rc < 0 ? rc : berth_secret_provider_new(path, &b->secret_provider, err);
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
    if (rc == BERTH_OK && first.key_id &&
        berth_secret_provider_has(b->secret_provider, first.key_id, &trouble) < 0)
        berth_log_line(&b->log, BERTH_LOG_WARN, "secrets cannot be read", "error", trouble.message,
                       NULL);
    return rc;
}

/* Makes what the runtime consists of and needs no store. */
static int open_parts(struct berth *b, struct berth_error *err)
{
    static const struct berth_shares_limits limits = {.threads = BERTH_PROVIDER_THREADS_MAX,
                                                      .reserved = BERTH_LOCAL_THREADS,
                                                      .queued_max = BERTH_QUEUED_CALLS_MAX,
                                                      .key_queued_max = BERTH_QUEUED_SHARE_MAX};
    int rc = BERTH_OK;
    if (!b->registry)
        rc = berth_registry_new_builtin(&b->registry, err);
    if (rc == BERTH_OK) {
        b->engine = berth_registry_engine(b->registry);
        rc = berth_pool_new(BERTH_POOL_THREADS_MAX, &b->pool, err);
    }
    if (rc == BERTH_OK)
        rc = berth_shares_new(&limits, &b->providers, err);
    b->metrics = calloc(1, sizeof *b->metrics);
    if (rc == BERTH_OK && !b->metrics)
        rc = berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.");
    if (rc == BERTH_OK)
        rc = berth_exec_journal_new(b, &b->exec_journal, err);
    if (rc == BERTH_OK)
        rc = berth_run_jobs_new(&b->run_jobs, err);
    if (rc == BERTH_OK)
        rc = berth_late_places_new(b, &b->late_places, err);
    if (rc == BERTH_OK)
        rc = berth_sweep_slots_new(&b->sweep_slots, err);
    return rc < 0 ? rc : berth_self_sweep_new(b, berth_sweep_own_rows, &b->self_sweep, err);
}

static int runtime_start(struct berth *b, const struct berth_options *options,
                         struct berth_error *err)
{
    b->closing_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (b->closing_fd < 0)
        return berth_fail_errno(err, "Cannot make an event descriptor");
    int rc = open_parts(b, err);
    if (rc == BERTH_OK)
        rc = berth_store_open(berth_builtins.databases, options->store, &b->store, err);
    if (rc == BERTH_OK)
        rc = berth_data_directory_check(b->store, err);
    if (rc == BERTH_OK)
        rc = berth_lease_execs_new(b->pool, b->store, &b->lease_execs, err);
    if (rc == BERTH_OK)
        rc = berth_mask_budget_new(&b->mask_budget, err);
    if (rc == BERTH_OK)
        rc = open_secret_provider(b, options->key_file, err);
    if (rc == BERTH_OK)
        rc = berth_lease_clock_open(b, err);
    if (rc == BERTH_OK)
        rc = berth_node_open(b->store, b->pool, b->settings.node_lapse_ms, &b->node, err);
    if (rc == BERTH_OK)
        rc = ensure_company(b, err);
    if (rc == BERTH_OK)
        rc = berth_plugins_open(b, &b->plugins, err);
    if (rc == BERTH_OK)
        berth_exec_journal_recover(b);
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
    int rc = runtime_start(b, options, err);
    if (rc < 0) {
        berth_close(b);
        return rc;
    }
    *out = b;
    return BERTH_OK;
}

void berth_cancel_calls(struct berth *b, int64_t workers_ms)
{
    (void)eventfd_write(b->closing_fd, 1);
    berth_plugins_halt(b->plugins, workers_ms);
}

bool berth_is_closing(const struct berth *b)
{
    struct pollfd closing = {.fd = b->closing_fd, .events = POLLIN};
    return poll(&closing, 1, 0) > 0;
}

void berth_close(struct berth *b)
{
    if (!b)
        return;
    berth_run_jobs_end(
        b->run_jobs); /* gives their places back, while calls are not cancelled yet */
    if (b->closing_fd >= 0)
        (void)eventfd_write(b->closing_fd, 1);
    berth_self_sweep_stop(b->self_sweep);
    berth_late_places_stop(b->late_places);
    /* First the pool with the timers, whose jobs may still use the providers' threads. From here on
     * no timer fires: each queue below is flushed when it is freed. */
    berth_pool_free(b->pool);
    berth_shares_free(b->providers);
    berth_exec_journal_free(b->exec_journal);
    berth_plugins_close(b->plugins); /* no call to a worker is left */
    berth_late_places_free(b->late_places);
    berth_registry_free(b->registry); /* with the engine, and what drivers had running */
    berth_node_close(b->node);
    berth_store_close(b->store);
    berth_secret_provider_free(b->secret_provider);
    berth_run_jobs_free(b->run_jobs);
    berth_lease_execs_free(b->lease_execs);
    berth_mask_budget_free(b->mask_budget);
    berth_self_sweep_free(b->self_sweep);
    berth_sweep_slots_free(b->sweep_slots);
    free(b->metrics);
    free(b->company_id);
    free(b->store_id);
    if (b->closing_fd >= 0)
        (void)close(b->closing_fd);
    free(b);
}
