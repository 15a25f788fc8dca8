/* SPDX-License-Identifier: Apache-2.0
 * src/core/sweep/sweep.c - see sweep.h. Reads all standing rows, judges each, and works the
 * verdicts off, environments beside each other: one that hangs holds up itself only. */
#include "core/sweep/left_directories.h"
#include "core/sweep/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "base/failpoint.h"
#include "base/limits.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/time.h"
#include "core/environment/environment.h"
#include "core/lease/lease_clock.h"
#include "core/lease/lease_execs.h"
#include "core/lease/ledger.h"
#include "core/lease/node.h"
#include "core/lease/self_sweep.h"
#include "core/lock_order.h"
#include "core/plugin/plugin.h"
#include "core/run/exec_rows.h"
#include "core/run/run.h"
#include "core/sweep/orphans.h"
#include "core/sweep/quarantine.h"
#include "core/sweep/sweep_slots.h"
#include "core/sweep/sweep_verdict.h"
#include "core/workspace/workspace_recover.h"
#include "os/orphan_inits.h"
#include "os/owner_group.h"
#include "os/shares.h"
#include "store/store.h"

#define SELF_SWEEP_WAIT_MS 1000

/* One pass; lives until its caller and all of its jobs have let go. */
struct pass {
    struct berth *b;
    struct berth_sweep_options options;
    struct berth_arena arena; /* what was read; not written once the jobs run */
    struct berth_list standing, environments;
    struct berth_list groups, lanes;
    int64_t now_ms;

    struct berth_lock lock;
    pthread_cond_t done;
    int holders;
    int running; /* jobs */
    int left;    /* groups that are not finished yet */
    struct berth_sweep_report report;
};

/* One environment with its standing rows. */
struct group {
    struct pass *pass;
    const char *environment_id;
    const struct berth_environment *environment; /* NULL: gone, or of no interest in this pass */
    struct berth_list rows;                      /* of struct berth_standing */
};

/* The environments of one provider. A bounded number of jobs takes them one after the other, so
 * that a provider that hangs leaves threads to the others. */
struct lane {
    struct pass *pass;
    const char *provider;
    bool ledger_only; /* its jobs call no provider */
    struct berth_list groups;
    struct berth_job jobs[BERTH_PROVIDER_SWEEPS_MAX];
    unsigned first; /* each pass starts elsewhere, so that no group is always last */
    int next;
};

static void count(struct pass *pass, int *field)
{
    berth_lock_take(&pass->lock);
    ++*field;
    berth_lock_drop(&pass->lock);
}

static void let_go(struct pass *pass)
{
    berth_lock_take(&pass->lock);
    bool last = --pass->holders == 0;
    berth_lock_drop(&pass->lock);
    if (!last)
        return;
    berth_arena_clear(&pass->arena);
    berth_lock_destroy(&pass->lock);
    pthread_cond_destroy(&pass->done);
    free(pass);
}

/* --- carrying out --- */

struct taking {
    struct pass *pass;
    struct berth_arena *arena;
    const struct berth_standing *seen;
    struct berth_lease *lease; /* NULL: another process has it now */
};

static int tx_take(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct taking *t = ctx;
    struct berth_lease *l;
    t->lease = NULL;
    int rc = berth_lease_load(db, t->arena, t->seen->id, &l, err);
    if (rc < 0 || !l || l->version != t->seen->version)
        return rc;
    enum berth_lease_duty duty = BERTH_DUTY_DESTROY;
    if (l->status == BERTH_LEASE_ACQUIRING) {
        berth_ledger_enter_releasing(l, BERTH_LEASE_FAILED);
        l->failure_reason = "owner_lost";
    } else if (l->status != BERTH_LEASE_RELEASING && l->duty != BERTH_DUTY_NULL) {
        duty = l->duty; /* owed since an earlier try */
    }
    berth_ledger_take(t->pass->b, l, duty);
    bool won;
    rc = berth_lease_save(db, l, &won, err);
    if (rc == BERTH_OK && won)
        t->lease = l;
    return rc;
}

/* Adopts the row and settles it. *done: the provider confirmed. */
static int take_and_settle(struct pass *pass, struct berth_arena *arena,
                           const struct berth_standing *s, bool *taken, bool *done,
                           struct berth_error *err)
{
    struct taking t = {.pass = pass, .arena = arena, .seen = s};
    *taken = *done = false;
    BERTH_FAILPOINT(sweep_before_claim);
    int rc = berth_store_tx(pass->b->store, tx_take, &t, err);
    if (rc < 0 || !t.lease)
        return rc;
    BERTH_FAILPOINT(sweep_after_claim);
    *taken = true;
    (void)berth_lease_execs_end(pass->b, s->id);
    rc = berth_ledger_settle(pass->b, arena, &t.lease, BERTH_OP_SWEEP, NULL, err);
    *done = rc == BERTH_OK && t.lease->cleanup == BERTH_CLEANUP_SUCCESS;
    return rc;
}

static int sweep_release(struct pass *pass, struct berth_arena *arena,
                         const struct berth_standing *s, const struct berth_sweep_verdict *j,
                         bool *taken, bool *done, struct berth_error *err)
{
    struct berth_release_request request = {
        .lease_id = s->id, .if_version = s->version, .status = j->status, .reason = j->reason};
    struct berth_lease *l;
    int rc = berth_lease_release(pass->b, arena, &request, &l, err);
    *done = rc == BERTH_OK && l->cleanup != BERTH_CLEANUP_FAILED;
    /* It may have been decided otherwise meanwhile, and is left alone then. */
    *taken = rc < 0 || (l->status != BERTH_LEASE_ACTIVE &&
                        (l->status != BERTH_LEASE_RETAINED || j->status == BERTH_LEASE_FAILED));
    return rc;
}

static bool is_ledger_only(struct pass *pass, const char *driver)
{
    const struct berth_route *route = berth_registry_find_builtin(pass->b->registry, driver);
    return route && berth_route_traits(route)->ledger_only;
}

static void work_off(struct pass *pass, const struct berth_standing *s)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_sweep_verdict j;
    struct berth_error err;
    if (berth_is_closing(pass->b))
        return; /* a call that is cancelled at once would only count as failed */
    int rc = berth_sweep_judge(pass->b, pass->now_ms, s, &pass->report, &j, &err);
    if (rc == BERTH_OK && j.verdict == BERTH_VERDICT_LEAVE) {
        if (pass->options.own_only)
            count(pass, &pass->report.unfinished); /* a thread of ours has it: look again */
        else if (j.counter)
            count(pass, j.counter);
        return;
    }
    if (rc == BERTH_OK && !pass->options.call_providers && !is_ledger_only(pass, s->driver)) {
        count(pass, &pass->report.waiting);
        return;
    }
    bool taken = true, done = false;
    if (rc == BERTH_OK)
        rc = berth_node_claim(pass->b->node, s->id, &err);
    if (rc == BERTH_OK) {
        rc = j.verdict == BERTH_VERDICT_RELEASE
                 ? sweep_release(pass, &arena, s, &j, &taken, &done, &err)
                 : take_and_settle(pass, &arena, s, &taken, &done, &err);
        berth_node_unclaim(pass->b->node, s->id);
    }
    if (rc < 0) {
        berth_self_sweep_soon(pass->b); /* the row may be ours, and not at its end */
        berth_log_line(&pass->b->log, BERTH_LOG_ERROR, "sweep of a lease failed", "leaseId", s->id,
                       "environmentId", s->environment_id, "error", err.message, NULL);
    }
    if (rc < 0 || (taken && !done))
        count(pass, &pass->report.failed);
    else if (taken)
        count(pass, j.counter);
}

/* --- one environment --- */

static void finish_delete(struct pass *pass, const struct berth_environment *e)
{
    struct berth_error err;
    bool deleted;
    if (berth_environment_finish_delete(pass->b, e->id, NULL, &deleted, &err) < 0)
        berth_log_line(&pass->b->log, BERTH_LOG_WARN, "environment could not be deleted",
                       "environmentId", e->id, "error", err.message, NULL);
    else if (deleted)
        count(pass, &pass->report.deleted);
}

/* Returns whether the pass audits. Only an audit looks at environments without standing leases. */
static bool audits(const struct pass *pass)
{
    return pass->options.audit && pass->options.call_providers;
}

static void audit(struct pass *pass, const struct berth_environment *e)
{
    struct berth_orphans_report report = {0};
    berth_orphans_end(pass->b, e, &report);
    berth_lock_take(&pass->lock);
    pass->report.found += report.found;
    pass->report.foreign += report.foreign;
    berth_lock_drop(&pass->lock);
}

static void tell_commands(struct pass *pass, const struct berth_standing *s)
{
    struct berth_sweep_verdict j;
    struct berth_error ignored;
    if (s->status == BERTH_LEASE_ACTIVE &&
        berth_sweep_judge(pass->b, pass->now_ms, s, &pass->report, &j, &ignored) == BERTH_OK &&
        j.verdict == BERTH_VERDICT_RELEASE)
        berth_lease_execs_tell(pass->b, s->id);
}

static void sweep_group(const struct group *group)
{
    struct pass *pass = group->pass;
    if (!berth_sweep_slots_enter(pass->b->sweep_slots, group->environment_id)) {
        count(pass, &pass->report.unfinished);
        return;
    }
    for (int i = 0; i < group->rows.count; i++) /* commands end beside each other */
        tell_commands(pass, group->rows.items[i]);
    for (int i = 0; i < group->rows.count; i++)
        work_off(pass, group->rows.items[i]);
    if (group->environment && audits(pass))
        audit(pass, group->environment);
    if (group->environment && group->environment->deleting)
        finish_delete(pass, group->environment);
    berth_sweep_slots_leave(pass->b->sweep_slots, group->environment_id);
}

static const struct group *next_group(struct lane *lane)
{
    unsigned groups = (unsigned)lane->groups.count;
    berth_lock_take(&lane->pass->lock);
    int at =
        lane->next < lane->groups.count && !berth_is_closing(lane->pass->b) ? lane->next++ : -1;
    berth_lock_drop(&lane->pass->lock);
    return at < 0 ? NULL : lane->groups.items[(lane->first + (unsigned)at) % groups];
}

static void run_job(void *ctx)
{
    struct lane *lane = ctx;
    struct pass *pass = lane->pass;
    for (const struct group *group; (group = next_group(lane));) {
        sweep_group(group);
        berth_lock_take(&pass->lock);
        pass->left--;
        berth_lock_drop(&pass->lock);
    }
    berth_sweep_slots_leave_provider(pass->b->sweep_slots, lane->provider);
    berth_lock_take(&pass->lock);
    pass->running--;
    pthread_cond_signal(&pass->done);
    berth_lock_drop(&pass->lock);
    let_go(pass);
}

/* --- the pass --- */

static int tx_read(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct pass *pass = ctx;
    struct berth_environment_filter all = BERTH_ENVIRONMENT_FILTER_INIT;
    int rc = pass->options.own_only ? BERTH_OK
             : audits(pass)
                 ? berth_environment_select(db, &pass->arena, &all, &pass->environments, err)
                 : berth_environment_select_drained(db, &pass->arena, &pass->environments, err);
    if (rc == BERTH_OK)
        rc = berth_lease_select_standing(db, &pass->arena, &pass->standing, err);
    return rc;
}

static struct group *add_group(struct pass *pass, struct berth_map *by_id, const char *id,
                               const struct berth_environment *environment)
{
    struct group *group = berth_arena_alloc(&pass->arena, sizeof *group);
    if (!group || !berth_list_add(&pass->groups, &pass->arena, group) ||
        !berth_map_put(by_id, id, group)) {
        pass->arena.failed = true;
        return NULL;
    }
    *group = (struct group){.pass = pass, .environment_id = id, .environment = environment};
    return group;
}

/* Groups the rows by environment. Unreadable rows are reported and not changed. */
static int make_groups(struct pass *pass, struct berth_error *err)
{
    struct berth_map by_id = BERTH_MAP_INIT;
    for (int i = 0; i < pass->environments.count; i++) {
        const struct berth_environment *e = pass->environments.items[i];
        if (e->trouble) {
            pass->report.quarantined++;
            berth_quarantine_environment(pass->b, &pass->arena, e->id, e->trouble);
        } else
            (void)add_group(pass, &by_id, e->id, e);
    }
    for (int i = 0; i < pass->standing.count; i++) {
        struct berth_standing *s = pass->standing.items[i];
        if (pass->options.own_only &&
            (!s->owner || strcmp(s->owner, berth_node_id(pass->b->node)) != 0))
            continue;
        if (s->trouble) {
            pass->report.quarantined++;
            berth_quarantine_lease(pass->b, &pass->arena, s->id, s->trouble);
            continue;
        }
        struct group *group = berth_map_get(&by_id, s->environment_id);
        if (!group)
            group = add_group(pass, &by_id, s->environment_id, NULL);
        if (group)
            (void)berth_list_add(&group->rows, &pass->arena, s);
    }
    berth_map_clear(&by_id);
    return berth_arena_check(&pass->arena, err);
}

/* Whose threads the job will use. */
static const char *provider_of(struct berth *b, const struct group *group)
{
    const struct berth_environment *e = group->environment;
    const struct berth_route *route;
    struct berth_error ignored;
    if (group->rows.count) {
        const struct berth_standing *first = group->rows.items[0];
        return first->provider ? first->provider : first->driver;
    }
    if (e && berth_registry_route(b->registry, berth_environment_drivers.names[e->driver],
                                  e->config_json, &route, &ignored) == BERTH_OK)
        return berth_route_provider(route);
    return "none";
}

static int make_lanes(struct pass *pass, struct berth_error *err)
{
    struct berth_map by_provider = BERTH_MAP_INIT;
    unsigned first = berth_sweep_slots_count_pass(pass->b->sweep_slots);
    for (int i = 0; i < pass->groups.count; i++) {
        struct group *group = pass->groups.items[i];
        const char *provider = provider_of(pass->b, group);
        struct lane *lane = berth_map_get(&by_provider, provider);
        if (!lane) {
            lane = berth_arena_alloc(&pass->arena, sizeof *lane);
            if (!lane || !berth_list_add(&pass->lanes, &pass->arena, lane) ||
                !berth_map_put(&by_provider, provider, lane)) {
                pass->arena.failed = true;
                break;
            }
            *lane = (struct lane){.pass = pass, .provider = provider, .first = first};
            lane->ledger_only = is_ledger_only(pass, provider);
        }
        (void)berth_list_add(&lane->groups, &pass->arena, group);
    }
    berth_map_clear(&by_provider);
    pass->left = pass->groups.count;
    return berth_arena_check(&pass->arena, err);
}

static void count_job(struct pass *pass, int more)
{
    berth_lock_take(&pass->lock);
    pass->holders += more;
    pass->running += more;
    berth_lock_drop(&pass->lock);
}

/* Starts as many jobs as the lane has groups and its provider may have; what earlier passes left
 * hanging counts. */
static int start_jobs(struct pass *pass, struct lane *lane, struct berth_error *err)
{
    struct berth_share *share = NULL;
    int jobs = pass->options.call_providers ? lane->groups.count : 1;
    int rc = pass->options.call_providers
                 ? berth_share_open(pass->b->providers, lane->ledger_only ? NULL : lane->provider,
                                    NULL, &share, err)
                 : BERTH_OK;
    for (int i = 0; rc == BERTH_OK && i < jobs && i < BERTH_PROVIDER_SWEEPS_MAX &&
                    berth_sweep_slots_enter_provider(pass->b->sweep_slots, lane->provider);
         i++) {
        count_job(pass, 1);
        lane->jobs[i] = (struct berth_job){.fn = run_job, .ctx = lane};
        if (pass->options.call_providers)
            berth_share_put(share, &lane->jobs[i]);
        else
            run_job(lane); /* short, and no thread is worth it */
    }
    berth_share_close(share);
    return rc;
}

static void wait_for_jobs(struct pass *pass)
{
    struct timespec until = berth_time_until(pass->options.wait_ms);
    int timed_out = 0;
    while (pass->running && !timed_out)
        timed_out = berth_lock_wait_until(&pass->lock, &pass->done, &until);
}

static int tx_count_owed(struct berth_db *db, void *ctx, struct berth_error *err)
{
    int64_t *owed = ctx;
    return berth_lease_count_owed(db, owed, err);
}

static int run_pass(struct pass *pass, struct berth_sweep_report *report, struct berth_error *err)
{
    struct berth *b = pass->b;
    (void)berth_owner_group_end_dead();
    if (pass->options.call_providers) /* reads all of /proc, which a short sweep has no time for */
        (void)berth_orphan_inits_end();
    int rc = pass->options.own_only ? BERTH_OK
                                    : berth_run_end_lost(b, &pass->arena, &pass->report.lost, err);
    if (rc == BERTH_OK && !pass->options.own_only)
        rc = berth_exec_rows_end_lost(b, &pass->arena, &pass->report.elsewhere, err);
    if (rc == BERTH_OK && !pass->options.own_only)
        rc = berth_exec_rows_end_overdue(b, &pass->arena, err);
    if (rc == BERTH_OK)
        rc = berth_store_read(b->store, tx_read, pass, err);
    if (rc == BERTH_OK)
        rc = make_groups(pass, err);
    if (rc == BERTH_OK)
        rc = make_lanes(pass, err);
    if (rc < 0)
        return rc;
    for (int i = 0; rc == BERTH_OK && i < pass->lanes.count; i++)
        rc = start_jobs(pass, pass->lanes.items[i], err);
    berth_lock_take(&pass->lock);
    wait_for_jobs(pass);
    pass->report.unfinished += pass->left;
    *report = pass->report;
    berth_lock_drop(&pass->lock);
    int64_t owed = 0;
    if (rc == BERTH_OK)
        rc = berth_store_read(b->store, tx_count_owed, &owed, err);
    report->owed = (int)owed;
    if (rc == BERTH_OK && pass->options.call_providers)
        rc = berth_node_forget_dead(b->node, err);
    if (rc == BERTH_OK && pass->options.call_providers)
        rc = berth_workspace_recover(b, err);
    if (rc == BERTH_OK && pass->options.call_providers)
        rc = berth_left_directories_remove(b, err);
    return rc;
}

int berth_sweep(struct berth *b, const struct berth_sweep_options *options,
                struct berth_sweep_report *report, struct berth_error *err)
{
    struct pass *pass = calloc(1, sizeof *pass);
    if (!pass)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: sweep.");
    berth_plugins_refresh(b);
    pass->b = b;
    pass->options = *options;
    berth_lease_clock_watch(b);
    pass->now_ms = berth_time_steady_ms();
    pass->holders = 1;
    berth_lock_init(&pass->lock, BERTH_RANK_SWEEP_PASS);
    berth_time_cond_init(&pass->done);
    int rc = run_pass(pass, report, err);
    let_go(pass);
    return rc;
}

/* --- by itself --- */

bool berth_sweep_own_rows(struct berth *b)
{
    struct berth_sweep_options options = BERTH_SWEEP_OPTIONS_INIT;
    struct berth_sweep_report report;
    struct berth_error err;
    options.audit = false;
    options.own_only = true;
    options.wait_ms = SELF_SWEEP_WAIT_MS;
    return berth_sweep(b, &options, &report, &err) == BERTH_OK && !report.unfinished;
}

int berth_sweep_ledger(struct berth *b, struct berth_error *err)
{
    struct berth_sweep_options pass = BERTH_SWEEP_OPTIONS_INIT;
    struct berth_sweep_report unsaid;
    pass.call_providers = false;
    return berth_sweep(b, &pass, &unsaid, err);
}

/* --- as JSON --- */

void berth_sweep_json(struct berth_json_writer *w, const struct berth_sweep_report *r)
{
    const struct {
        const char *name;
        int count;
    } counts[] = {
        {"lost", r->lost},         {"elsewhere", r->elsewhere}, {"work", r->work},
        {"released", r->released}, {"expired", r->expired},     {"adopted", r->adopted},
        {"unparked", r->unparked}, {"cleaned", r->cleaned},     {"found", r->found},
        {"foreign", r->foreign},   {"deleted", r->deleted},     {"quarantined", r->quarantined},
        {"failed", r->failed},     {"owed", r->owed},           {"unfinished", r->unfinished}};
    berth_json_open(w, '{');
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        berth_json_put_int(w, counts[i].name, counts[i].count);
    berth_json_close(w, '}');
}
