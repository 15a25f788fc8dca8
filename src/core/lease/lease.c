/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/lease.c - giving leases back, and looking at them. Taking one is acquire.c. */
#include "core/lease/lease.h"

#include <string.h>

#include "base/failpoint.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"
#include "core/lease/ledger.h"
#include "core/lease/node.h"
#include "core/plugin/plugin.h"
#include "core/lease/lease_execs.h"
#include "core/sweep/sweep.h"
#include "store/store.h"

#define RUN_LEASES_MAX 100000

/* --- looking --- */

struct look {
    struct berth_arena *arena;
    const char *id;
    const struct berth_lease_filter *filter;
    struct berth_lease *lease;
    struct berth_list *list;
};

static int tx_get(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct look *look = ctx;
    return berth_lease_load(db, look->arena, look->id, &look->lease, err);
}

static int tx_list(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct look *look = ctx;
    return berth_lease_select(db, look->arena, look->filter, look->list, err);
}

static int not_found(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_NOT_FOUND, "Environment lease not found");
}

int berth_lease_get(struct berth *b, struct berth_arena *arena, const char *lease_id,
                    struct berth_lease **out, struct berth_error *err)
{
    struct berth_id id;
    if (berth_id_parse(lease_id, "Lease", &id, err) < 0)
        return not_found(err);
    struct look look = {.arena = arena, .id = id.text};
    int rc = berth_store_read(b->store, tx_get, &look, err);
    if (rc == BERTH_OK && !look.lease)
        rc = not_found(err);
    if (rc == BERTH_OK)
        *out = look.lease;
    return rc;
}

int berth_lease_list(struct berth *b, struct berth_arena *arena,
                     const struct berth_lease_filter *filter, struct berth_list *out,
                     struct berth_error *err)
{
    *out = (struct berth_list){0};
    if (!berth_id_names(filter->company_id) || !berth_id_names(filter->environment_id) ||
        !berth_id_names(filter->run_id))
        return BERTH_OK;
    struct berth_list all = {0};
    struct look look = {.arena = arena, .filter = filter, .list = &all};
    int rc = berth_store_read(b->store, tx_list, &look, err);
    for (int i = 0; rc == BERTH_OK && i < all.count; i++) {
        struct berth_lease *l = all.items[i];
        if (l->trouble)
            berth_log_line(&b->log, BERTH_LOG_ERROR, "unreadable lease left out", "leaseId", l->id,
                           "error", l->trouble, NULL);
        else
            (void)berth_list_add(out, arena, l);
    }
    return rc < 0 ? rc : berth_arena_check(arena, err);
}

void berth_lease_json(struct berth_json_writer *w, const struct berth_lease *l)
{
    berth_json_open(w, '{');
    berth_json_put_str(w, "id", l->id);
    berth_json_put_str(w, "companyId", l->company_id);
    berth_json_put_str(w, "environmentId", l->environment_id);
    berth_json_put_str(w, "executionWorkspaceId", l->execution_workspace_id);
    berth_json_put_str(w, "issueId", l->issue_id);
    berth_json_put_str(w, "heartbeatRunId", l->heartbeat_run_id);
    berth_json_put_str(w, "status", berth_lease_statuses.names[l->status]);
    berth_json_put_str(w, "leasePolicy", berth_lease_policies.names[l->policy]);
    berth_json_put_str(w, "provider", l->provider);
    berth_json_put_str(w, "providerLeaseId", l->provider_lease_id);
    berth_json_put_time(w, "acquiredAt", l->acquired_at_ms);
    berth_json_put_time(w, "lastUsedAt", l->last_used_at_ms);
    berth_json_put_time(w, "expiresAt", l->expires_at_ms);
    berth_json_put_time(w, "releasedAt", l->released_at_ms);
    berth_json_put_str(w, "failureReason", l->failure_reason);
    berth_json_put_str(w, "cleanupStatus",
                       l->cleanup ? berth_lease_cleanups.names[l->cleanup] : NULL);
    berth_json_put_raw(w, "metadata", l->metadata_json);
    berth_json_put_time(w, "createdAt", l->created_at_ms);
    berth_json_put_time(w, "updatedAt", l->updated_at_ms);
    berth_json_put_int(w, "version", l->version);
    berth_json_put_str(w, "place", berth_lease_places.names[l->place]);
    berth_json_put_int(w, "cleanupAttempts", l->cleanup_attempts);
    berth_json_put_str(w, "cleanupError", l->cleanup_error);
    berth_json_put_time(w, "acknowledgedAt", l->acknowledged_at_ms);
    berth_json_put_time(w, "dueAt", l->due_at_ms);
    berth_json_close(w, '}');
}

/* --- giving back --- */

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
    if (g->request->status == BERTH_LEASE_FAILED && strcmp(g->lease->driver, "sandbox") == 0)
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

static int retain(struct berth_db *db, struct giving *g, struct berth_error *err)
{
    struct berth_lease *l = g->lease;
    int64_t now = berth_time_wall_ms();
    l->status = BERTH_LEASE_RETAINED;
    l->last_used_at_ms = l->updated_at_ms = now;
    l->expires_at_ms = l->due_at_ms = now + g->b->settings.retain_ttl_ms;
    return save_and_tell(db, g, err);
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
    l->status = BERTH_LEASE_RELEASING;
    l->final_status = g->request->status;
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
        rc = not_found(err);
    if (rc == BERTH_OK && g->lease->status == BERTH_LEASE_ACQUIRING)
        g->again = !g->adopts || g->lease->version != g->version;
    return rc;
}

static bool ledger_only(struct berth *b, const struct berth_lease *lease)
{
    const struct berth_route *route;
    struct berth_error ignored; /* without a driver the clean-up is owed, and says why */
    return berth_ledger_route(b, lease, &route, &ignored) == BERTH_OK &&
           berth_route_ledger_only(route);
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
        return BERTH_OK; /* somebody has decided otherwise meanwhile */
    if (l->status == BERTH_LEASE_RETAINED && wanted == BERTH_LEASE_FAILED)
        return BERTH_OK;
    l->failure_reason = failure_reason(g);
    if (ledger_only(g->b, l)) {
        berth_ledger_close(l, wanted, BERTH_PLACE_NONE);
        return save_and_tell(db, g, err);
    }
    if (l->policy == BERTH_POLICY_RETAIN_ON_FAILURE && wanted == BERTH_LEASE_FAILED &&
        l->status == BERTH_LEASE_ACTIVE)
        return retain(db, g, err);
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
        return BERTH_OK; /* nothing is there, or somebody is at it */
    if (ledger_only(g->b, l)) {
        berth_ledger_close(l, BERTH_LEASE_FAILED, BERTH_PLACE_NONE);
        l->cleanup = BERTH_CLEANUP_SUCCESS;
        return save_and_tell(db, g, err);
    }
    if (!is_closed(l)) {
        l->status = BERTH_LEASE_RELEASING;
        l->final_status = BERTH_LEASE_FAILED;
    }
    berth_ledger_take(g->b, l, BERTH_DUTY_DESTROY);
    g->settle = true;
    return save_or_again(db, g, err);
}

/* A lease that is being acquired can be given back only when nobody is at it any more. */
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
        return not_found(err);
    struct berth_release_request checked = *request;
    checked.lease_id = id.text;
    struct giving g = {.b = b, .arena = arena, .request = &checked, .op = op};
    int rc = berth_node_begin(b->node, id.text, err);
    if (rc < 0)
        return rc;
    rc = give_back(&g, op == BERTH_OP_RELEASE ? tx_release : tx_destroy, err);
    berth_node_end(b->node, id.text);
    if (rc < 0)
        berth_sweep_soon(b); /* the intent may be stored; only now may a sweep take it */
    berth_sweep_remind(b);
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
        berth_metrics_observe(b, BERTH_METRIC_RELEASE, berth_metrics_now_us() - begun_us);
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
        if (l->status == BERTH_LEASE_ACTIVE && l->expires_at_ms <= berth_time_wall_ms())
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
        return not_found(err);
    struct berth_release_request request = {.lease_id = id.text, .actor = actor};
    struct giving g = {.b = b, .arena = arena, .request = &request};
    int rc = berth_store_tx(b->store, tx_acknowledge, &g, err);
    if (rc == BERTH_OK)
        *out = g.lease;
    return rc;
}

/* --- for embedding programs --- */

const char *berth_lease_id(const struct berth_lease *l)
{
    return l->id;
}

const char *berth_lease_company_id(const struct berth_lease *l)
{
    return l->company_id;
}

const char *berth_lease_environment_id(const struct berth_lease *l)
{
    return l->environment_id;
}

const char *berth_lease_run_id(const struct berth_lease *l)
{
    return l->heartbeat_run_id;
}

const char *berth_lease_provider_lease_id(const struct berth_lease *l)
{
    return l->provider_lease_id;
}

enum berth_lease_status berth_lease_status(const struct berth_lease *l)
{
    return l->status;
}

const char *berth_lease_status_name(enum berth_lease_status status)
{
    return berth_lease_statuses.names[status];
}

const char *berth_lease_failure_reason(const struct berth_lease *l)
{
    return l->failure_reason;
}

int64_t berth_lease_expires_at_ms(const struct berth_lease *l)
{
    return l->expires_at_ms;
}

bool berth_lease_stands(const struct berth_lease *l)
{
    return l->due_at_ms != 0;
}

const char *berth_lease_to_json(struct berth_arena *arena, const struct berth_lease *l)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    berth_lease_json(&(struct berth_json_writer){.buf = &buf}, l);
    return berth_arena_strdup(arena, berth_buf_str(&buf));
}

/* --- using --- */

static int tx_touch(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct look *look = ctx;
    return berth_lease_touch(db, look->id, berth_time_wall_ms(), err);
}

int berth_lease_begin_use(struct berth *b, struct berth_arena *arena, const char *lease_id,
                          struct berth_lease **l, const struct berth_route **route,
                          struct berth_error *err)
{
    berth_plugins_refresh(b);
    int rc = berth_lease_get(b, arena, lease_id, l, err);
    if (rc == BERTH_OK && (*l)->status != BERTH_LEASE_ACTIVE)
        rc = berth_fail(err, BERTH_E_CONFLICT, "Lease %s is not active (status: %s).", (*l)->id,
                        berth_lease_statuses.names[(*l)->status]);
    if (rc == BERTH_OK && (*l)->expires_at_ms <= berth_time_wall_ms())
        rc = berth_fail(err, BERTH_E_CONFLICT, "Lease %s has expired.", (*l)->id);
    if (rc == BERTH_OK)
        rc = berth_ledger_route(b, *l, route, err);
    return rc < 0 ? rc : berth_node_may_act(b->node, err);
}

int berth_lease_resume(struct berth *b, struct berth_arena *arena, const char *lease_id,
                       struct berth_place *out, struct berth_error *err)
{
    struct berth_lease *l;
    const struct berth_route *route;
    auto_driver_input use = {0};
    int rc = berth_lease_begin_use(b, arena, lease_id, &l, &route, err);
    if (rc == BERTH_OK && !l->provider_lease_id)
        rc = berth_fail(err, BERTH_E_UNPROCESSABLE,
                        "Plugin environment lease \"%s\" does not have a provider lease id to "
                        "resume.",
                        l->id);
    if (rc == BERTH_OK)
        rc = berth_ledger_input(b, arena, l, &use, err);
    if (rc < 0)
        return rc;
    struct berth_call call = berth_ledger_call(b, route, arena, 0, -1);
    struct berth_place place = berth_ledger_place(l);
    rc = berth_driver_resume(route, &call, &use.who, &place, out, err);
    if (rc < 0)
        berth_driver_input_mask_error(&use, err);
    else if (berth_driver_input_shows(&use, out->id))
        rc = berth_fail(err, BERTH_E_UPSTREAM, "Provider \"%s\" answered with a secret.",
                        berth_route_provider(route));
    else
        rc = berth_driver_input_clean(&use, arena, &out->metadata_json, err);
    struct look look = {.id = l->id};
    return rc < 0 ? rc : berth_store_tx(b->store, tx_touch, &look, err);
}

int berth_lease_realize(struct berth *b, struct berth_arena *arena, const char *lease_id,
                        const struct berth_workspace *workspace, struct berth_realized *out,
                        struct berth_error *err)
{
    struct berth_lease *l;
    const struct berth_route *route;
    auto_driver_input use = {0};
    int rc = berth_lease_begin_use(b, arena, lease_id, &l, &route, err);
    if (rc == BERTH_OK)
        rc = berth_ledger_input(b, arena, l, &use, err);
    if (rc < 0)
        return rc;
    struct berth_call call = berth_ledger_call(b, route, arena, 0, -1);
    struct berth_place place = berth_ledger_place(l);
    rc = berth_driver_realize(route, &call, &use.who, &place, workspace, out, err);
    if (rc < 0)
        berth_driver_input_mask_error(&use, err);
    else
        rc = berth_driver_input_clean(&use, arena, &out->metadata_json, err);
    if (rc == BERTH_OK && berth_driver_input_shows(&use, out->cwd))
        rc = berth_fail(err, BERTH_E_UPSTREAM, "Provider \"%s\" answered with a secret.",
                        berth_route_provider(route));
    if (rc < 0)
        return rc;
    struct look look = {.id = l->id};
    return berth_store_tx(b->store, tx_touch, &look, err);
}
