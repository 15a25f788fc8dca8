/* SPDX-License-Identifier: Apache-2.0
 * src/api/resource/leases.c - leases: taken, looked at, given back. */
#include "core/lease/lease.h"

#include <stddef.h>

#include <berth/driver.h>

#include "api/call.h"
#include "api/caller.h"
#include "api/place_call.h"
#include "api/sync.h"
#include "core/company.h"
#include "core/environment/environment.h"
#include "core/place_share.h"
#include "core/workspace/workspace.h"

static void lease_item(struct berth_json_writer *w, const void *lease)
{
    berth_lease_json(w, lease);
}

static int lease_say(struct berth_api_call *c, int rc, const struct berth_lease *lease)
{
    if (rc == BERTH_OK)
        berth_lease_json(&c->w, lease);
    return rc;
}

static int lease_get(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_lease *l = NULL;
    int rc = berth_lease_get(c->b, &c->arena, c->params[0], &l, err);
    return lease_say(c, rc, l);
}

static int say_page(struct berth_api_call *c, struct berth_lease_filter *filter,
                    struct berth_error *err)
{
    struct berth_list found;
    int rc = berth_api_query_word(c, "status", berth_lease_statuses.names, &filter->status, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_flag(c, "standing", &filter->standing_only, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_id(c, "runId", &filter->run_id, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_limit(c, &filter->limit, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_id(c, "before", &filter->before, err);
    if (rc == BERTH_OK)
        rc = berth_lease_list(c->b, &c->arena, filter, &found, err);
    if (rc == BERTH_OK)
        berth_api_say_list(c, &found, lease_item);
    return rc;
}

static int list_of_environment(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_lease_filter filter = BERTH_LEASE_FILTER_INIT;
    struct berth_environment *e;
    int rc = berth_environment_get(c->b, &c->arena, c->params[0], &e, err);
    if (rc < 0)
        return rc;
    filter.environment_id = e->id; /* without the company: last used first */
    return say_page(c, &filter, err);
}

static int list_of_company(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_lease_filter filter = BERTH_LEASE_FILTER_INIT;
    struct berth_company *company;
    int rc = berth_company_get(c->b, &c->arena, c->params[0], &company, err);
    if (rc < 0)
        return rc;
    filter.company_id = company->id;
    rc = berth_api_query_id(c, "environmentId", &filter.environment_id, err);
    return rc < 0 ? rc : say_page(c, &filter, err);
}

static int acquire_now(struct berth_api_call *c, struct berth_error *err)
{
    const struct berth_lease_request *request = c->state;
    struct berth_lease *l = NULL;
    c->status = 201;
    int rc = berth_lease_acquire(c->b, &c->arena, request, &l, err);
    if (rc == BERTH_OK)
        c->brief = berth_arena_printf(&c->arena, "{\"id\":\"%s\"}", l->id);
    return lease_say(c, rc, l);
}

static int lease_acquire(struct berth_api_call *c, struct berth_error *err)
{
    static const struct berth_api_field fields[] = {
        {"heartbeatRunId", BERTH_API_TEXT, offsetof(struct berth_lease_request, run_id),
         .nullable = true},
        {"issueId", BERTH_API_TEXT, offsetof(struct berth_lease_request, issue_id),
         .nullable = true},
        {"executionWorkspaceId", BERTH_API_TEXT,
         offsetof(struct berth_lease_request, execution_workspace_id), .nullable = true},
        {"executionWorkspaceMode", BERTH_API_TEXT,
         offsetof(struct berth_lease_request, workspace_mode), .nullable = true},
        {"agentId", BERTH_API_TEXT, offsetof(struct berth_lease_request, agent_id),
         .nullable = true},
        {"ttlMs", BERTH_API_NUMBER, offsetof(struct berth_lease_request, ttl_ms)},
        {"timeoutMs", BERTH_API_NUMBER, offsetof(struct berth_lease_request, timeout_ms)},
        {"retainOnFailure", BERTH_API_FLAG,
         offsetof(struct berth_lease_request, retain_on_failure)},
        {0}};
    struct berth_lease_request *request = berth_api_state(c, sizeof *request);
    struct berth_environment *e;
    if (!request)
        return berth_arena_check(&c->arena, err);
    *request = (struct berth_lease_request)BERTH_LEASE_REQUEST_INIT;
    int rc = berth_environment_get(c->b, &c->arena, c->params[0], &e, err);
    if (rc == BERTH_OK)
        rc = berth_api_allow_local(c, berth_environment_in_place(c->b, e), err);
    if (rc == BERTH_OK)
        rc = berth_api_body(c, fields, request, NULL, err);
    if (rc == BERTH_OK)
        rc = berth_api_take_agent(c, &request->agent_id, err);
    if (rc < 0)
        return rc;
    request->id = c->once.at_work ? c->once.id.text : NULL;
    request->environment_id = e->id;
    request->cancel_fd = berth_api_left_fd(c);
    request->actor = &c->actor;
    return berth_place_is_ledger_only(c->b, e) ? acquire_now(c, err)
                                               : berth_api_at_environment(c, e, acquire_now, err);
}

/* How to give a lease back. */
struct lease_giving {
    struct berth_release_request request;
    bool discard_work;
};

static int release_now(struct berth_api_call *c, struct berth_error *err)
{
    const struct lease_giving *g = c->state;
    struct berth_lease *l = NULL;
    int rc = g->discard_work ? berth_lease_discard_work(c->b, g->request.lease_id, &c->actor, err)
                             : BERTH_OK;
    if (rc == BERTH_OK)
        rc = berth_lease_release(c->b, &c->arena, &g->request, &l, err);
    return lease_say(c, rc, l);
}

static int lease_release(struct berth_api_call *c, struct berth_error *err)
{
    static const char *const ends[] = {"released", "failed", "expired", NULL};
    static const enum berth_lease_status statuses[] = {BERTH_LEASE_RELEASED, BERTH_LEASE_FAILED,
                                                       BERTH_LEASE_EXPIRED};
    struct body {
        int status;
        const char *reason;
        bool discard_work;
    } body = {0};
    static const struct berth_api_field fields[] = {
        {"status", BERTH_API_WORD, offsetof(struct body, status), .words = ends},
        {"failureReason", BERTH_API_TEXT, offsetof(struct body, reason), .nullable = true},
        {"discardWork", BERTH_API_FLAG, offsetof(struct body, discard_work)},
        {0}};
    struct lease_giving *giving = berth_api_state(c, sizeof *giving);
    struct berth_lease *l = NULL;
    if (!giving)
        return berth_arena_check(&c->arena, err);
    int rc = berth_lease_get(c->b, &c->arena, c->params[0], &l, err);
    if (rc == BERTH_OK)
        rc = berth_api_body(c, fields, &body, NULL, err);
    if (rc < 0)
        return rc;
    *giving = (struct lease_giving){.request = {.lease_id = l->id,
                                                .status = statuses[body.status],
                                                .reason = body.reason,
                                                .actor = &c->actor},
                                    .discard_work = body.discard_work};
    return berth_api_at_lease(c, l, release_now, err);
}

/* Goes on with `next` for the lease of the path. The body must be empty. */
static int at_lease(struct berth_api_call *c, berth_api_handler *next, struct berth_error *err)
{
    struct berth_lease *l = NULL;
    int rc = berth_api_body(c, berth_api_nothing, NULL, NULL, err);
    if (rc == BERTH_OK)
        rc = berth_lease_get(c->b, &c->arena, c->params[0], &l, err);
    return rc < 0 ? rc : berth_api_at_lease(c, l, next, err);
}

static int destroy_now(struct berth_api_call *c, struct berth_error *err)
{
    const struct lease_giving *g = c->state;
    struct berth_lease *l = NULL;
    int rc =
        g->discard_work ? berth_lease_discard_work(c->b, c->params[0], &c->actor, err) : BERTH_OK;
    if (rc == BERTH_OK)
        rc = berth_lease_destroy(c->b, &c->arena, c->params[0], &c->actor, &l, err);
    return lease_say(c, rc, l);
}

static int destroy(struct berth_api_call *c, struct berth_error *err)
{
    static const struct berth_api_field fields[] = {
        {"discardWork", BERTH_API_FLAG, offsetof(struct lease_giving, discard_work)}, {0}};
    struct lease_giving *giving = berth_api_state(c, sizeof *giving);
    struct berth_lease *l = NULL;
    if (!giving)
        return berth_arena_check(&c->arena, err);
    *giving = (struct lease_giving){0};
    int rc = berth_lease_get(c->b, &c->arena, c->params[0], &l, err);
    if (rc == BERTH_OK)
        rc = berth_api_body(c, fields, giving, NULL, err);
    return rc < 0 ? rc : berth_api_at_lease(c, l, destroy_now, err);
}

/* What is owed is tried now, whenever it was due. */
static int retry_cleanup(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_lease *l = NULL;
    int rc = berth_lease_get(c->b, &c->arena, c->params[0], &l, err);
    if (rc == BERTH_OK && l->cleanup != BERTH_CLEANUP_FAILED && l->cleanup != BERTH_CLEANUP_PENDING)
        rc = berth_fail(err, BERTH_E_CONFLICT, "Lease %s owes no clean-up.", l->id);
    return rc < 0 ? rc : destroy(c, err);
}

static int acknowledge(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_lease *l = NULL;
    int rc = berth_api_body(c, berth_api_nothing, NULL, NULL, err);
    if (rc == BERTH_OK)
        rc = berth_lease_acknowledge(c->b, &c->arena, c->params[0], &c->actor, &l, err);
    return lease_say(c, rc, l);
}

static int resume_now(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_place place;
    int rc = berth_lease_resume(c->b, &c->arena, c->params[0], &place, err);
    if (rc < 0)
        return rc;
    berth_json_open(&c->w, '{');
    berth_json_put_str(&c->w, "providerLeaseId", place.id);
    berth_json_put_raw(&c->w, "metadata", place.metadata_json);
    berth_json_close(&c->w, '}');
    return BERTH_OK;
}

static int resume(struct berth_api_call *c, struct berth_error *err)
{
    return at_lease(c, resume_now, err);
}

/* --- workspaces --- */

static int push_now(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_workspace_push *push = c->state;
    struct berth_workspace_report report;
    int rc = berth_workspace_push(c->b, &c->arena, push, &report, err);
    if (rc < 0)
        return rc;
    berth_json_open(&c->w, '{');
    berth_json_put_str(&c->w, "cwd", report.cwd);
    berth_json_put_int(&c->w, "files", (int64_t)report.files);
    berth_json_put_int(&c->w, "bytes", report.bytes);
    berth_json_put_str(&c->w, "note", report.note);
    berth_workspace_put_findings(&c->w, &report);
    berth_json_close(&c->w, '}');
    return BERTH_OK;
}

/* The directory is on the daemon's machine, so only an operator of the instance may name one. */
static int push(struct berth_api_call *c, struct berth_error *err)
{
    struct body {
        struct berth_api_sync in;
    } body = {0};
    const struct berth_api_field fields[] = {BERTH_API_SYNC_FIELDS(struct body, in), {0}};
    struct berth_lease *l = NULL;
    struct berth_run_sync sync;
    struct berth_workspace_push *wanted = berth_api_state(c, sizeof *wanted);
    if (!wanted)
        return berth_arena_check(&c->arena, err);
    int rc = berth_lease_get(c->b, &c->arena, c->params[0], &l, err);
    if (rc == BERTH_OK)
        rc = berth_api_allow_local(c, true, err);
    if (rc == BERTH_OK)
        rc = berth_api_body(c, fields, &body, NULL, err);
    if (rc == BERTH_OK)
        rc = berth_api_sync_build(c, &body.in, &sync, err);
    if (rc < 0)
        return rc;
    *wanted = (struct berth_workspace_push){.lease_id = l->id,
                                            .path = sync.path,
                                            .exclude = sync.exclude,
                                            .on_conflict = sync.on_conflict,
                                            .branch = sync.branch,
                                            .setup = sync.setup,
                                            .cancel_fd = berth_api_left_fd(c)};
    return berth_api_at_lease(c, l, push_now, err);
}

static int pull_now(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_workspace_report report;
    int rc = berth_workspace_pull(c->b, &c->arena, c->state, &report, err);
    if (rc == BERTH_OK)
        berth_json_put_raw(&c->w, NULL, report.json_with_diff);
    return rc;
}

static int pull(struct berth_api_call *c, struct berth_error *err)
{
    struct body {
        int on_conflict;
        bool mass_deletion, dry_run, diff;
    } body = {.on_conflict = -1};
    const struct berth_api_field fields[] = {
        {"onConflict", BERTH_API_WORD, offsetof(struct body, on_conflict),
         .words = berth_merge_policies.names},
        {"massDeletion", BERTH_API_FLAG, offsetof(struct body, mass_deletion)},
        {"dryRun", BERTH_API_FLAG, offsetof(struct body, dry_run)},
        {"diff", BERTH_API_FLAG, offsetof(struct body, diff)},
        {0}};
    struct berth_workspace_pull *wanted = berth_api_state(c, sizeof *wanted);
    struct berth_lease *l = NULL;
    if (!wanted)
        return berth_arena_check(&c->arena, err);
    int rc = berth_lease_get(c->b, &c->arena, c->params[0], &l, err);
    if (rc == BERTH_OK)
        rc = berth_api_allow_local(c, true, err);
    if (rc == BERTH_OK)
        rc = berth_api_body(c, fields, &body, NULL, err);
    if (rc < 0)
        return rc;
    *wanted =
        (struct berth_workspace_pull){.lease_id = l->id,
                                      .on_conflict = body.on_conflict,
                                      .mass_deletion = body.mass_deletion,
                                      .dry_run = body.dry_run,
                                      .diff_max = body.diff ? BERTH_WORKSPACE_DIFF_BYTES_MAX : 0,
                                      .cancel_fd = berth_api_left_fd(c)};
    return berth_api_at_lease(c, l, pull_now, err);
}

const struct berth_api_route berth_api_lease_routes[] = {
    {"GET", "/api/environments/:id/leases", list_of_environment, BERTH_API_MANAGE,
     .query = "status standing runId limit before"},
    {"POST", "/api/environments/:id/leases", lease_acquire, BERTH_API_MANAGE,
     .once = BERTH_API_MAKES_LEASE},
    {"GET", "/api/companies/:companyId/leases", list_of_company, BERTH_API_MANAGE,
     .query = "status standing runId environmentId limit before"},
    {"GET", "/api/environment-leases/:leaseId", lease_get, BERTH_API_MANAGE, .run = true},
    {"POST", "/api/environment-leases/:leaseId/release", lease_release, BERTH_API_MANAGE},
    {"POST", "/api/environment-leases/:leaseId/destroy", destroy, BERTH_API_MANAGE},
    {"POST", "/api/environment-leases/:leaseId/retry-cleanup", retry_cleanup, BERTH_API_MANAGE},
    {"POST", "/api/environment-leases/:leaseId/acknowledge", acknowledge, BERTH_API_MANAGE},
    {"POST", "/api/environment-leases/:leaseId/workspace/push", push, BERTH_API_MANAGE},
    {"POST", "/api/environment-leases/:leaseId/workspace/pull", pull, BERTH_API_MANAGE},
    {"POST", "/api/environment-leases/:leaseId/resume", resume, BERTH_API_MANAGE},
    {0},
};
