/* SPDX-License-Identifier: Apache-2.0
 * src/core/activity.c - see activity.h. */
#include "core/activity.h"

#include <stdio.h>

#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "store/store.h"

static const struct berth_actor system_actor = {.type = "system"};

static void lease_details(struct berth_json_writer *w, const struct berth_lease *l)
{
    berth_json_open(w, '{');
    berth_json_put_str(w, "environmentId", l->environment_id);
    berth_json_put_str(w, "driver", l->driver);
    berth_json_put_str(w, "leasePolicy", berth_lease_policies.names[l->policy]);
    berth_json_put_str(w, "provider", l->provider);
    berth_json_put_str(w, "providerLeaseId", l->provider_lease_id);
    berth_json_put_str(w, "executionWorkspaceId", l->execution_workspace_id);
    berth_json_put_str(w, "issueId", l->issue_id);
    if (l->status != BERTH_LEASE_ACTIVE) {
        berth_json_put_str(w, "status", berth_lease_statuses.names[l->status]);
        berth_json_put_str(w, "place", berth_lease_places.names[l->place]);
        berth_json_put_str(w, "cleanupStatus",
                           l->cleanup ? berth_lease_cleanups.names[l->cleanup] : NULL);
        berth_json_put_str(w, "failureReason", l->failure_reason);
    }
    berth_json_close(w, '}');
}

int berth_activity_of_lease(struct berth_db *db, const struct berth_lease *lease,
                            const char *action, const struct berth_actor *actor,
                            struct berth_error *err)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_METADATA_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    lease_details(&w, lease);
    int rc = berth_buf_check(&buf, "Activity details", err);
    if (rc < 0)
        return rc;
    if (!actor)
        actor = &system_actor;
    struct berth_activity activity = {
        .company_id = lease->company_id,
        .actor_type = actor->type,
        .actor_id = actor->id,
        .action = action,
        .entity_type = "environment_lease",
        .entity_id = lease->id,
        .run_id = lease->heartbeat_run_id,
        .details_json = berth_buf_str(&buf),
        .created_at_ms = berth_time_wall_ms(),
    };
    return berth_activity_insert(db, &activity, err);
}

int berth_activity_of(struct berth_db *db, const struct berth_entity *entity, const char *action,
                      const struct berth_actor *actor, const char *details_json,
                      struct berth_error *err)
{
    if (!actor)
        actor = &system_actor;
    struct berth_activity activity = {
        .company_id = entity->company_id,
        .actor_type = actor->type,
        .actor_id = actor->id,
        .action = action,
        .entity_type = entity->type,
        .entity_id = entity->id,
        .details_json = details_json,
        .created_at_ms = berth_time_wall_ms(),
    };
    return berth_activity_insert(db, &activity, err);
}

int berth_activity_of_environment(struct berth_db *db, const struct berth_environment *environment,
                                  const char *action, const struct berth_actor *actor,
                                  const char *details_json, struct berth_error *err)
{
    struct berth_entity entity = {environment->company_id, "environment", environment->id};
    return berth_activity_of(db, &entity, action, actor, details_json, err);
}

struct listing {
    struct berth_arena *arena;
    const struct berth_activity_filter *filter;
    struct berth_list *out;
};

static int tx_list(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct listing *listing = ctx;
    return berth_activity_select(db, listing->arena, listing->filter, listing->out, err);
}

int berth_activity_list(struct berth *b, struct berth_arena *arena,
                        const struct berth_activity_filter *filter, struct berth_list *out,
                        struct berth_error *err)
{
    *out = (struct berth_list){0};
    if (!berth_id_names(filter->company_id) || !berth_id_names(filter->entity_id))
        return BERTH_OK;
    struct listing listing = {.arena = arena, .filter = filter, .out = out};
    return berth_store_read(b->store, tx_list, &listing, err);
}

static int tx_last(struct berth_db *db, void *ctx, struct berth_error *err)
{
    return berth_activity_last(db, ctx, err);
}

static int tx_await(struct berth_db *db, void *ctx, struct berth_error *err)
{
    (void)ctx;
    return berth_activity_await_writers(db, err);
}

int berth_activity_settled(struct berth *b, int64_t *out, struct berth_error *err)
{
    int rc = berth_store_read(b->store, tx_last, out, err);
    return rc < 0 ? rc : berth_store_read(b->store, tx_await, NULL, err);
}

struct page {
    struct berth_arena *arena;
    const char *company_id;
    int64_t after, last;
    int limit;
    struct berth_list *out;
};

static int tx_after(struct berth_db *db, void *ctx, struct berth_error *err)
{
    const struct page *p = ctx;
    return berth_activity_select_after(db, p->arena, p->company_id, p->after, p->last, p->limit,
                                       p->out, err);
}

int berth_activity_after(struct berth *b, struct berth_arena *arena, const char *company_id,
                         int64_t after, int64_t last, int limit, struct berth_list *out,
                         struct berth_error *err)
{
    struct page page = {arena, company_id, after, last, limit, out};
    return berth_store_read(b->store, tx_after, &page, err);
}

void berth_activity_json(struct berth_json_writer *w, const struct berth_activity *a)
{
    char id[24];
    (void)snprintf(id, sizeof id, "%lld", (long long)a->id);
    berth_json_open(w, '{');
    berth_json_put_str(w, "id", id);
    berth_json_put_str(w, "companyId", a->company_id);
    berth_json_put_str(w, "actorType", a->actor_type);
    berth_json_put_str(w, "actorId", a->actor_id);
    berth_json_put_str(w, "action", a->action);
    berth_json_put_str(w, "entityType", a->entity_type);
    berth_json_put_str(w, "entityId", a->entity_id);
    berth_json_put_str(w, "agentId", a->agent_id);
    berth_json_put_str(w, "runId", a->run_id);
    berth_json_put_raw(w, "details", a->details_json);
    berth_json_put_time(w, "createdAt", a->created_at_ms);
    berth_json_close(w, '}');
}

const char *berth_activity_to_json(struct berth_arena *arena, const struct berth_activity *a)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    berth_activity_json(&(struct berth_json_writer){.buf = &buf}, a);
    return berth_arena_strdup(arena, berth_buf_str(&buf));
}
