/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/release.c - gives leases back: release, destroy, acknowledge. */
#include <string.h>

#include "base/failpoint.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"
#include "core/lease/lease.h"
#include "core/lease/lease_directory.h"
#include "core/lease/lease_execs.h"
#include "core/lease/ledger.h"
#include "core/lease/node.h"
#include "core/lease/self_sweep.h"
#include "core/metrics.h"
#include "store/store.h"

#define RUN_LEASES_MAX 100000

/* One release or destroy under way. */
struct giving {
    struct berth *b;
    struct berth_arena *arena;
    const struct berth_release_request *request;
    enum berth_ledger_op op;
    bool adopts;     /* what was being acquired has no owner any more */
    int64_t version; /* of the row when that was found out */

    struct berth_lease *lease;
    bool settle; /* the provider is to be told */
    bool again;  /* the row changed meanwhile: look again */
};

static bool is_closed(const struct berth_lease *l)
{
    return l->status == BERTH_LEASE_RELEASED || l->status == BERTH_LEASE_EXPIRED ||
           l->status == BERTH_LEASE_FAILED;
}

static const char *failure_reason(const struct giving *g)
{
    if (g->request->reason)
        return berth_arena_strdup(g->arena, g->request->reason);
    if (g->request->status == BERTH_LEASE_FAILED &&
        berth_driver_kind(g->lease->driver) == BERTH_ROUTE_PROVIDER)
        return "adapter_or_run_failure";
    return g->lease->failure_reason;
}

/* A clean place is kept when its environment would still ask for just this one. */
static int may_park(struct berth_db *db, const struct giving *g, bool *out, struct berth_error *err)
{
    const struct berth_lease *l = g->lease;
    *out = false;
    if (l->policy != BERTH_POLICY_REUSE_BY_ENVIRONMENT || l->status != BERTH_LEASE_ACTIVE ||
        g->request->status != BERTH_LEASE_RELEASED)
        return BERTH_OK;
    struct berth_environment *e;
    int rc = berth_environment_load(db, g->arena, l->environment_id, BERTH_LOCK_NONE, &e, err);
    if (rc < 0 || !e || !l->fingerprint)
        return rc;
    *out = e->status == BERTH_ENVIRONMENT_ACTIVE && strcmp(e->fingerprint, l->fingerprint) == 0;
    return BERTH_OK;
}

static int save_or_again(struct berth_db *db, struct giving *g, struct berth_error *err)
{
    bool won;
    int rc = berth_lease_save(db, g->lease, &won, err);
    g->again = !won;
    return rc;
}

static int save_and_tell(struct berth_db *db, struct giving *g, struct berth_error *err)
{
    int rc = save_or_again(db, g, err);
    if (rc < 0 || g->again)
        return rc;
    return berth_activity_of_lease(db, g->lease, "environment.lease_released", g->request->actor,
                                   err);
}

static int retain(struct berth_db *db, struct giving *g, int64_t ttl_ms, struct berth_error *err)
{
    struct berth_lease *l = g->lease;
    int64_t now = berth_time_wall_ms();
    berth_ledger_enter(l, BERTH_LEASE_RETAINED);
    l->owner = NULL;
    l->last_used_at_ms = l->updated_at_ms = now;
    l->expires_at_ms = l->due_at_ms = berth_time_steady_ms() + ttl_ms;
    return save_and_tell(db, g, err);
}

/* Refuses to give up a place that holds work which is not home. */
static int refuse_work(const struct berth_lease *l, struct berth_error *err)
{
    return berth_fail(err, BERTH_E_CONFLICT,
                      "The place of lease %s holds work that did not come home. Fetch it with "
                      "\"berth workspace pull %s\", or give it up with --discard-work.",
                      l->id, l->id);
}

static int start_release(struct berth_db *db, struct giving *g, struct berth_error *err)
{
    struct berth_lease *l = g->lease;
    bool park;
    int rc = may_park(db, g, &park, err);
    if (rc < 0)
        return rc;
    /* A driver's release parks what its config calls reusable, whatever the lease's policy is. */
    bool destroy = g->adopts || berth_ledger_config_reuses(l);
    enum berth_lease_duty duty = park      ? BERTH_DUTY_PARK
                                 : destroy ? BERTH_DUTY_DESTROY
                                           : BERTH_DUTY_RELEASE;
    berth_ledger_enter_releasing(l, g->request->status);
    berth_ledger_take(g->b, l, duty);
    g->settle = true;
    return save_or_again(db, g, err);
}

/* Loads the row into g->lease. */
static int load(struct berth_db *db, struct giving *g, struct berth_error *err)
{
    g->settle = g->again = false;
    int rc = berth_lease_load(db, g->arena, g->request->lease_id, &g->lease, err);
    if (rc == BERTH_OK && !g->lease)
        rc = berth_lease_not_found(err);
    if (rc == BERTH_OK && g->lease->status == BERTH_LEASE_ACQUIRING)
        g->again = !g->adopts || g->lease->version != g->version;
    return rc;
}

static bool ledger_only(struct berth *b, const struct berth_lease *lease)
{
    const struct berth_route *route;
    struct berth_error ignored; /* without a driver the clean-up is owed, and says why */
    return berth_ledger_route(b, lease, &route, &ignored) == BERTH_OK &&
           berth_route_traits(route)->ledger_only;
}

static int tx_release(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct giving *g = ctx;
    int rc = load(db, g, err);
    if (rc < 0 || g->again)
        return rc;
    struct berth_lease *l = g->lease;
    enum berth_lease_status wanted = g->request->status;
    if (is_closed(l) || l->status == BERTH_LEASE_RELEASING)
        return BERTH_OK; /* done, or being done */
    if (g->request->if_version && l->version != g->request->if_version)
        return BERTH_OK; /* the lease has changed meanwhile */
    if (l->status == BERTH_LEASE_RETAINED && wanted == BERTH_LEASE_FAILED)
        return BERTH_OK;
    if (l->work_at_ms && l->status == BERTH_LEASE_RETAINED)
        return refuse_work(l, err);
    l->failure_reason = failure_reason(g);
    if (l->work_at_ms)
        return retain(db, g, g->b->settings.work_ttl_ms, err);
    if (ledger_only(g->b, l)) {
        berth_ledger_close(l, wanted, BERTH_PLACE_NONE);
        return save_and_tell(db, g, err);
    }
    if (l->policy == BERTH_POLICY_RETAIN_ON_FAILURE && wanted == BERTH_LEASE_FAILED &&
        l->status == BERTH_LEASE_ACTIVE)
        return retain(db, g, g->b->settings.retain_ttl_ms, err);
    return start_release(db, g, err);
}

static int tx_destroy(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct giving *g = ctx;
    int rc = load(db, g, err);
    if (rc < 0 || g->again)
        return rc;
    struct berth_lease *l = g->lease;
    if (l->status == BERTH_LEASE_RELEASING || (is_closed(l) && !l->due_at_ms) ||
        (is_closed(l) && l->owner))
        return BERTH_OK; /* no place is left, or a release is in progress */
    if (l->work_at_ms)
        return refuse_work(l, err);
    if (ledger_only(g->b, l)) {
        berth_ledger_close(l, BERTH_LEASE_FAILED, BERTH_PLACE_NONE);
        l->cleanup = BERTH_CLEANUP_SUCCESS;
        return save_and_tell(db, g, err);
    }
    if (!is_closed(l)) {
        berth_ledger_enter_releasing(l, BERTH_LEASE_FAILED);
    }
    berth_ledger_take(g->b, l, BERTH_DUTY_DESTROY);
    g->settle = true;
    return save_or_again(db, g, err);
}

/* Checks the owner of a lease that is being acquired. It can be released only when no live process
 * works on it. */
static int look_at_owner(struct giving *g, struct berth_error *err)
{
    struct berth_lease *l;
    int rc = berth_lease_get(g->b, g->arena, g->request->lease_id, &l, err);
    if (rc < 0 || l->status != BERTH_LEASE_ACQUIRING)
        return rc;
    bool at_work;
    rc = berth_node_at_work(g->b->node, l->owner, l->id, 1, &at_work, err);
    if (rc == BERTH_OK && at_work)
        rc = berth_fail(err, BERTH_E_CONFLICT,
                        "Lease %s is still being acquired: wait for it, or cancel the acquire.",
                        l->id);
    g->adopts = true;
    g->version = l->version;
    return rc;
}

static int give_back(struct giving *g, berth_tx_fn *intent, struct berth_error *err)
{
    for (int tries = 0;; tries++) {
        int rc = berth_store_tx(g->b->store, intent, g, err);
        if (rc < 0)
            return rc;
        if (!g->again)
            break;
        if (tries == BERTH_STORE_RETRIES_MAX)
            return berth_fail(err, BERTH_E_CONFLICT, "The lease keeps changing: try again.");
        rc = look_at_owner(g, err);
        if (rc < 0)
            return rc;
    }
    if (g->op == BERTH_OP_RELEASE)
        BERTH_FAILPOINT(release_after_intent);
    else
        BERTH_FAILPOINT(destroy_after_intent);
    bool empty =
        g->lease->status == BERTH_LEASE_ACTIVE || berth_lease_execs_end(g->b, g->lease->id);
    if (g->lease->duty == BERTH_DUTY_PARK && !empty)
        g->lease->duty = BERTH_DUTY_DESTROY; /* what has not stopped is not handed on */
    if (!g->settle)
        return BERTH_OK;
    return berth_ledger_settle(g->b, g->arena, &g->lease, g->op, g->request->actor, err);
}

/* Both ways of giving back; request->lease_id is checked here. */
static int give(struct berth *b, struct berth_arena *arena,
                const struct berth_release_request *request, enum berth_ledger_op op,
                struct berth_lease **out, struct berth_error *err)
{
    struct berth_id id;
    if (berth_id_parse(request->lease_id, "Lease", &id, err) < 0)
        return berth_lease_not_found(err);
    struct berth_release_request checked = *request;
    checked.lease_id = id.text;
    struct giving g = {.b = b, .arena = arena, .request = &checked, .op = op};
    int rc = berth_node_claim(b->node, id.text, err);
    if (rc < 0)
        return rc;
    rc = give_back(&g, op == BERTH_OP_RELEASE ? tx_release : tx_destroy, err);
    berth_node_unclaim(b->node, id.text);
    if (rc < 0)
        berth_self_sweep_soon(b); /* the intent may be stored; only now may a sweep take it */
    berth_self_sweep_remind(b);
    if (rc == BERTH_OK && is_closed(g.lease))
        berth_lease_workspace_discard(b, g.lease->id);
    if (rc == BERTH_OK && is_closed(g.lease) &&
        berth_registry_in_place(b->registry, g.lease->driver))
        berth_lease_directory_discard(b, g.lease->id);
    if (rc == BERTH_OK && out)
        *out = g.lease;
    return rc;
}

int berth_lease_release(struct berth *b, struct berth_arena *arena,
                        const struct berth_release_request *request, struct berth_lease **out,
                        struct berth_error *err)
{
    if (request->status != BERTH_LEASE_RELEASED && request->status != BERTH_LEASE_FAILED &&
        request->status != BERTH_LEASE_EXPIRED)
        return berth_fail(err, BERTH_E_INVALID,
                          "A lease is released as released, failed or expired.");
    if (request->reason &&
        (strlen(request->reason) > BERTH_REASON_BYTES_MAX || !berth_utf8_valid(request->reason)))
        return berth_fail(err, BERTH_E_INVALID, "The reason is longer than %d bytes or not UTF-8.",
                          BERTH_REASON_BYTES_MAX);
    BERTH_FAILPOINT(release_before_intent);
    int64_t begun_us = berth_metrics_now_us();
    int rc = give(b, arena, request, BERTH_OP_RELEASE, out, err);
    if (rc == BERTH_OK)
        berth_metrics_observe(b->metrics, BERTH_METRIC_RELEASE, berth_metrics_now_us() - begun_us);
    return rc;
}

int berth_lease_destroy(struct berth *b, struct berth_arena *arena, const char *lease_id,
                        const struct berth_actor *actor, struct berth_lease **out,
                        struct berth_error *err)
{
    struct berth_release_request request = {
        .lease_id = lease_id, .status = BERTH_LEASE_FAILED, .actor = actor};
    BERTH_FAILPOINT(destroy_before_intent);
    return give(b, arena, &request, BERTH_OP_DESTROY, out, err);
}

int berth_lease_release_run(struct berth *b, struct berth_arena *arena, const char *run_id,
                            const struct berth_release_request *request, struct berth_list *out,
                            struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct berth_list open = {0};
    struct berth_id id;
    if (berth_id_parse(run_id, "Run", &id, err) < 0)
        return BERTH_OK; /* it names nothing, so it has no leases */
    struct berth_lease_filter filter = BERTH_LEASE_FILTER_INIT;
    filter.run_id = id.text;
    filter.standing_only = true;
    filter.limit = RUN_LEASES_MAX;
    int first = berth_lease_list(b, arena, &filter, &open, err);
    if (first < 0)
        return first;
    for (int i = 0; i < open.count; i++) {
        const struct berth_lease *l = open.items[i];
        if (is_closed(l) || l->status == BERTH_LEASE_RETAINED)
            continue;
        struct berth_release_request one = *request;
        one.lease_id = l->id;
        if (l->status == BERTH_LEASE_ACTIVE && l->expires_at_ms <= berth_time_steady_ms())
            one.status = BERTH_LEASE_EXPIRED;
        struct berth_lease *released;
        struct berth_error trouble;
        int rc = berth_lease_release(b, arena, &one, &released, &trouble);
        if (rc == BERTH_OK)
            (void)berth_list_add(out, arena, released);
        else if (first == BERTH_OK) {
            first = rc;
            *err = trouble;
        }
    }
    return first < 0 ? first : berth_arena_check(arena, err);
}

/* --- acknowledging --- */

static int tx_acknowledge(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct giving *g = ctx;
    int rc = load(db, g, err);
    if (rc < 0)
        return rc;
    struct berth_lease *l = g->lease;
    if (l->acknowledged_at_ms)
        return BERTH_OK;
    if (!is_closed(l) || l->place != BERTH_PLACE_UNKNOWN)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "Only a closed lease whose place is unknown can be acknowledged; this "
                          "one is %s with place %s.",
                          berth_lease_statuses.names[l->status],
                          berth_lease_places.names[l->place]);
    int64_t now = berth_time_wall_ms();
    l->acknowledged_at_ms = l->updated_at_ms = now;
    l->owner = NULL;
    l->duty = BERTH_DUTY_NULL;
    l->due_at_ms = 0;
    bool won;
    rc = berth_lease_save(db, l, &won, err);
    if (rc == BERTH_OK && !won)
        rc = berth_fail(err, BERTH_E_CONFLICT, "The lease keeps changing: try again.");
    if (rc == BERTH_OK)
        rc = berth_activity_of_lease(db, l, "environment.lease_acknowledged", g->request->actor,
                                     err);
    return rc;
}

int berth_lease_acknowledge(struct berth *b, struct berth_arena *arena, const char *lease_id,
                            const struct berth_actor *actor, struct berth_lease **out,
                            struct berth_error *err)
{
    struct berth_id id;
    if (berth_id_parse(lease_id, "Lease", &id, err) < 0)
        return berth_lease_not_found(err);
    struct berth_release_request request = {.lease_id = id.text, .actor = actor};
    struct giving g = {.b = b, .arena = arena, .request = &request};
    int rc = berth_store_tx(b->store, tx_acknowledge, &g, err);
    if (rc == BERTH_OK)
        *out = g.lease;
    return rc;
}
