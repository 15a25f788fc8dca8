/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/lease.c - reads leases, shows them as JSON, and uses their places. */
#include "core/lease/lease.h"

#include <string.h>

#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "core/lease/ledger.h"
#include "core/lease/node.h"
#include "core/plugin/plugin.h"
#include "store/store.h"

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

int berth_lease_not_found(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_NOT_FOUND, "Environment lease not found");
}

int berth_lease_get(struct berth *b, struct berth_arena *arena, const char *lease_id,
                    struct berth_lease **out, struct berth_error *err)
{
    struct berth_id id;
    if (berth_id_parse(lease_id, "Lease", &id, err) < 0)
        return berth_lease_not_found(err);
    struct look look = {.arena = arena, .id = id.text};
    int rc = berth_store_read(b->store, tx_get, &look, err);
    if (rc == BERTH_OK && !look.lease)
        rc = berth_lease_not_found(err);
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

static int tx_tally(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct look *look = ctx;
    return berth_lease_tally(db, look->arena, look->list, err);
}

int berth_lease_tallies(struct berth *b, struct berth_arena *arena, struct berth_list *out,
                        struct berth_error *err)
{
    struct look look = {.arena = arena, .list = out};
    return berth_store_read(b->store, tx_tally, &look, err);
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
    berth_json_put_time(w, "expiresAt", berth_time_steady_to_wall(l->expires_at_ms));
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
    berth_json_put_time(w, "workAt", l->work_at_ms);
    berth_json_put_time(w, "homeAt", l->home_at_ms == BERTH_LEASE_SENDING ? 0 : l->home_at_ms);
    berth_json_put_time(w, "dueAt", berth_time_steady_to_wall(l->due_at_ms));
    berth_json_close(w, '}');
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
    return berth_time_steady_to_wall(l->expires_at_ms);
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

int berth_lease_not_active(const struct berth_lease *l, struct berth_error *err)
{
    const char *hint = l->status == BERTH_LEASE_RETAINED && l->work_at_ms
                           ? " Its place was kept with work: run \"berth workspace open\" first."
                           : "";
    return berth_fail(err, BERTH_E_CONFLICT, "Lease %s is not active (status: %s).%s", l->id,
                      berth_lease_statuses.names[l->status], hint);
}

int berth_lease_expired(const struct berth_lease *l, struct berth_error *err)
{
    return berth_fail(err, BERTH_E_CONFLICT, "Lease %s has expired.", l->id);
}

int berth_lease_begin_use(struct berth *b, struct berth_arena *arena, const char *lease_id,
                          struct berth_lease **l, const struct berth_route **route,
                          struct berth_error *err)
{
    berth_plugins_refresh(b);
    int rc = berth_lease_get(b, arena, lease_id, l, err);
    if (rc == BERTH_OK && (*l)->status != BERTH_LEASE_ACTIVE)
        rc = berth_lease_not_active(*l, err);
    if (rc == BERTH_OK && (*l)->expires_at_ms <= berth_time_steady_ms())
        rc = berth_lease_expired(*l, err);
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
