/* SPDX-License-Identifier: Apache-2.0
 * src/api/resource/runs.c - runs: listing, starting, ending, and the output of their commands. */
#include "core/run/run.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/caller.h"
#include "api/command.h"
#include "api/place_call.h"
#include "api/quick.h"
#include "api/sync.h"
#include "api/stream/live.h"
#include "api/stream/watch.h"
#include "base/auto.h"
#include "base/container.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "core/activity.h"
#include "core/company.h"
#include "core/environment/environment.h"
#include "core/place_share.h"
#include "core/run/exec_rows.h"
#include "core/run/run_cancel.h"
#include "store/run.h"

#define END_WAIT_MS 60000

static void run_item(struct berth_json_writer *w, const void *run)
{
    berth_run_json(w, run);
}

static int run_list(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_run_filter filter = BERTH_RUN_FILTER_INIT;
    struct berth_company *company;
    struct berth_list found;
    int rc = berth_company_get(c->b, &c->arena, c->params[0], &company, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_word(c, "status", berth_run_statuses.names, &filter.status, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_limit(c, &filter.limit, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_id(c, "before", &filter.before, err);
    if (rc < 0)
        return rc;
    filter.company_id = company->id;
    rc = berth_run_list(c->b, &c->arena, &filter, &found, err);
    if (rc == BERTH_OK)
        berth_api_say_list(c, &found, run_item);
    return rc;
}

static int run_get(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_run *run;
    int rc = berth_run_get(c->b, &c->arena, c->params[0], &run, err);
    if (rc == BERTH_OK)
        berth_run_json_with_diff(&c->w, run);
    return rc;
}

/* --- runs that this daemon performs --- */

/* A run that a request started, until its place is given back. */
struct started_run {
    struct berth_api_run run; /* first: the map of runs points at it */
    struct berth_api *api;
    struct berth_arena arena; /* taken over from the request */
    struct berth_run_request request;
    struct berth_actor actor;
    struct berth_api_live *live; /* NULL: the command is over */
    struct berth_buf input;
    bool has_input;
    struct berth_api_call *c; /* the request to answer when the run has a row, or NULL */
    bool events;
    char id[BERTH_ID_SIZE];
};

/* --- requests that wait for the end of a run, without a thread --- */

/* In the arena of its call. */
struct berth_api_run_waiter {
    struct berth_api_call *c;
    const char *run_id;
    struct berth_post begin, over; /* the second comes after the first */
    struct berth_timer timer;
    struct berth_api_run_waiter *next, **link; /* lives_lock; link is NULL: not linked */
};

/* Lock held. Returns false when it is not linked. */
static bool run_waiter_leave(struct berth_api_run_waiter *w)
{
    if (!w->link)
        return false;
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    w->link = NULL;
    return true;
}

static void run_waiter_job(void *ctx)
{
    struct berth_api_run_waiter *w = ctx;
    struct berth_api_call *c = w->c;
    struct berth_run *run;
    struct berth_error err = {0};
    int rc = berth_run_get(c->b, &c->arena, w->run_id, &run, &err);
    if (rc == BERTH_OK)
        berth_run_json(&c->w, run);
    berth_api_end_call(c, rc, &err);
}

/* Answers with the run as it is now. On the loop's thread. */
static void run_waiter_answer(struct berth_api_run_waiter *w)
{
    struct berth_error err;
    berth_timer_clear(w->c->b->engine, &w->timer);
    berth_api_call_go_on(w->c);
    if (berth_api_quick(w->c->api->quick, w->c->turn, run_waiter_job, w, &err) < 0)
        berth_api_end_call(w->c, err.code, &err);
}

static void on_waiter_begin(struct berth_post *post)
{
    struct berth_api_run_waiter *w = berth_container_of(post, struct berth_api_run_waiter, begin);
    berth_timer_set(w->c->b->engine, &w->timer, END_WAIT_MS);
    berth_api_call_wait(w->c);
}

static void on_waiter_over(struct berth_post *post)
{
    run_waiter_answer(berth_container_of(post, struct berth_api_run_waiter, over));
}

static void on_waiter_late(struct berth_timer *timer)
{
    struct berth_api_run_waiter *w = berth_container_of(timer, struct berth_api_run_waiter, timer);
    struct berth_api *api = w->c->api;
    berth_lock_take(&api->lives_lock);
    bool left = run_waiter_leave(w);
    berth_lock_drop(&api->lives_lock);
    if (left) /* else the run is over, and on_waiter_over comes */
        run_waiter_answer(w);
}

/* Lock held. */
static void run_waiters_tell(struct started_run *p)
{
    struct berth_error none;
    for (struct berth_api_run_waiter *w; (w = p->run.waiters);) {
        (void)run_waiter_leave(w);
        (void)berth_engine_post(p->api->b->engine, &w->over, &none); /* its loop runs */
    }
}

/* Cancels the run if a request to this daemon started it; the call is answered at its end, or after
 * END_WAIT_MS. Returns false when no such run is under way here. */
static bool run_waiter_start(struct berth_api_call *c, const char *run_id,
                             struct berth_api_run_waiter *w)
{
    struct berth_api *api = c->api;
    struct berth_error none;
    *w = (struct berth_api_run_waiter){.c = c,
                                       .run_id = run_id,
                                       .begin = {.run = on_waiter_begin},
                                       .over = {.run = on_waiter_over},
                                       .timer = {.run = on_waiter_late}};
    berth_lock_take(&api->lives_lock);
    struct berth_api_run *run = berth_map_get(&api->runs, run_id);
    if (run) {
        (void)berth_engine_post(api->b->engine, &w->begin, &none); /* its loop runs */
        berth_run_cancel(run->job);
        w->next = run->waiters;
        w->link = &run->waiters;
        if (w->next)
            w->next->link = &w->next;
        run->waiters = w;
    }
    berth_lock_drop(&api->lives_lock);
    return run != NULL;
}

static void run_tell(struct started_run *p, const struct berth_error *trouble)
{
    struct berth_api_call *c = p->c;
    struct berth_error err = {0};
    struct berth_run *run;
    p->c = NULL;
    if (!c)
        return;
    int rc = berth_run_get(c->b, &c->arena, p->id, &run, &err);
    if (rc == BERTH_OK)
        c->brief = berth_run_to_json(&c->arena, run);
    if (rc == BERTH_OK && p->events) {
        struct berth_api_watch_options options = {
            .run_id = p->id, .stream = -1, .events = true, .follow = true};
        berth_api_keep_stream(c);
        rc = berth_api_watch_start(c, &options, &err);
        if (rc == BERTH_OK) {
            berth_api_pass_on(c);
            return;
        }
    }
    if (rc == BERTH_OK)
        berth_run_json(&c->w, run);
    else if (trouble) /* no run was made: `trouble` says why */
        err = *trouble;
    c->status = 201;
    berth_api_answer(c, rc < 0 ? err.code : rc, &err);
}

static void on_created(void *ctx, const struct berth_run *run)
{
    (void)run;
    run_tell(ctx, NULL);
}

static void on_started(void *ctx, struct berth_exec *exec)
{
    struct started_run *p = ctx;
    berth_api_live_begin(p->live, exec, p->has_input ? &p->input : NULL);
}

static void on_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    struct started_run *p = ctx;
    berth_api_live_output(p->live, stream, bytes, len);
}

static void on_stdin_room(void *ctx)
{
    struct started_run *p = ctx;
    berth_api_live_room(p->live);
}

static void on_progress(void *ctx, const struct berth_workspace_progress *now)
{
    struct started_run *p = ctx;
    berth_lock_take(&p->api->lives_lock);
    if (!now->bytes)
        p->run.began_ms = berth_time_mono_ms();
    p->run.progress = *now;
    p->run.changes++;
    berth_lock_drop(&p->api->lives_lock);
}

static void end_live(struct started_run *p)
{
    struct berth_api_live *live = p->live;
    p->live = NULL;
    if (live)
        berth_api_live_end(live);
}

static void on_stopped(void *ctx)
{
    end_live(ctx);
}

static void started_run_free(struct started_run *p)
{
    if (p->input.data)
        explicit_bzero(p->input.data, p->input.len);
    berth_buf_clear(&p->input);
    berth_arena_wipe(&p->arena);
    free(p);
}

static void on_done(void *ctx, const struct berth_run_result *result, const struct berth_error *err)
{
    struct started_run *p = ctx;
    struct berth_api *api = p->api;
    (void)result;
    berth_lock_take(&api->lives_lock);
    (void)berth_map_remove(&api->runs, p->id);
    run_waiters_tell(p);
    berth_lock_drop(&api->lives_lock);
    run_tell(p, err);
    end_live(p);
    started_run_free(p);
    berth_lock_take(&api->lives_lock);
    api->run_count--;
    pthread_cond_broadcast(&api->lives_changed);
    berth_lock_drop(&api->lives_lock);
}

/* --- its beginning --- */

struct run_body {
    struct berth_api_command in;
    const char *environment_id, *workspace, *provision;
    const char *issue_id, *execution_workspace_id, *agent_id;
    int64_t ttl_ms;
    bool in_place;
    struct berth_list secrets; /* "NAME=id" */
    const char *sync_json;
    struct berth_run_sync sync;
};

static int take_secrets(struct berth_api_call *c, const struct berth_list *pairs,
                        struct berth_run_request *r, struct berth_error *err)
{
    struct berth_run_secret *all =
        berth_arena_alloc(&c->arena, ((size_t)pairs->count + 1) * sizeof *all);
    for (int i = 0; all && i < pairs->count; i++) {
        char *pair = pairs->items[i], *equals = strchr(pair, '=');
        *equals = '\0';
        all[i] = (struct berth_run_secret){.variable = pair, .secret_id = equals + 1};
    }
    r->secrets = all;
    r->secret_count = pairs->count;
    return berth_arena_check(&c->arena, err);
}

/* The request outlives the call: it takes the call's memory along. */
static int perform(struct berth_api_call *c, const struct run_body *body,
                   struct berth_run_request *r, struct berth_error *err)
{
    struct started_run *p = calloc(1, sizeof *p);
    if (!p)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: run.");
    struct berth_id id = berth_id_new_random();
    *p = (struct started_run){.api = c->api,
                              .actor = {.type = berth_arena_strdup(&c->arena, c->actor.type),
                                        .id = berth_arena_strdup(&c->arena, c->actor.id)},
                              .input = BERTH_BUF_INIT(BERTH_CONFIG_BYTES_MAX),
                              .has_input = body->in.input != NULL,
                              .c = c,
                              .events = berth_api_wants_events(c)};
    memcpy(p->id, id.text, sizeof p->id);
    if (body->in.input) {
        berth_buf_puts(&p->input, body->in.input);
        berth_buf_reserve(&p->input, 1); /* also of "" there is something */
    }
    r->run_id = p->id;
    r->actor = &p->actor;
    r->on_created = on_created;
    r->on_started = on_started;
    r->on_stopped = on_stopped;
    r->on_progress = on_progress;
    r->handlers = (struct berth_exec_handlers){
        .on_output = on_output, .on_stdin_room = on_stdin_room, .ctx = p};
    p->request = *r;
    int rc = berth_buf_check(&p->input, "stdin", err);
    if (rc == BERTH_OK)
        rc = berth_arena_check(&c->arena, err);
    if (rc == BERTH_OK)
        rc = berth_api_live_new(c->api, &p->live, err);
    if (rc < 0) {
        started_run_free(p);
        return rc;
    }
    p->arena = c->arena;
    c->arena = (struct berth_arena)BERTH_ARENA_INIT;
    struct berth_api *api = p->api;    /* the call may be gone when it has begun */
    berth_lock_take(&api->lives_lock); /* its end waits until it is named */
    rc = berth_run_start(c->b, &p->request, on_done, p, &p->run.job, err);
    if (rc == BERTH_OK) {
        (void)berth_map_put(&api->runs, p->id, &p->run);
        api->run_count++;
    }
    berth_lock_drop(&api->lives_lock);
    if (rc < 0) {
        end_live(p);
        started_run_free(p);
        return rc;
    }
    return BERTH_API_KEPT;
}

/* A run is not stored for a lease that would be refused. */
static int check_ids(const struct run_body *body, struct berth_error *err)
{
    if (!berth_id_names(body->issue_id))
        return berth_fail(err, BERTH_E_INVALID, "issueId must be a UUID.");
    return berth_id_names(body->execution_workspace_id)
               ? BERTH_OK
               : berth_fail(err, BERTH_E_INVALID, "executionWorkspaceId must be a UUID.");
}

/* Checks that the caller may give the run its secrets, and may run commands on this machine if the
 * run is local. */
static int may_perform(struct berth_api_call *c, const struct run_body *body,
                       struct berth_error *err)
{
    struct berth_environment *e;
    struct berth_error none;
    if (body->secrets.count && c->caller.kind != BERTH_TOKEN_OPERATOR)
        return berth_fail(err, BERTH_E_DENIED, "Board access required");
    if (body->secrets.count && !(c->caller.permissions & BERTH_MAY_SECRETS))
        return berth_fail(err, BERTH_E_DENIED, "Missing permission: secrets:manage");
    bool local = !body->environment_id;
    if (body->environment_id && c->caller.company_id && /* a missing one is reported later */
        berth_environment_get(c->b, &c->arena, body->environment_id, &e, &none) == BERTH_OK)
        local =
            berth_environment_in_place(c->b, e) && strcmp(e->company_id, c->caller.company_id) == 0;
    return berth_api_allow_local(c, local, err);
}

/* Refuses a run when too many requests wait for its provider. Without this the run would be
 * created, and would then fail. */
static int check_room(struct berth_api_call *c, const char *environment_id, struct berth_error *err)
{
    struct berth_environment *e;
    struct berth_share *share;
    struct berth_error none; /* the run reports what is missing */
    if (!environment_id || berth_environment_get(c->b, &c->arena, environment_id, &e, &none) < 0 ||
        berth_place_share_environment(c->b, e, &share, &none) < 0)
        return BERTH_OK;
    int rc = berth_share_check(share, err);
    berth_share_close(share);
    return rc;
}

/* Creates a run. Without a command, the client performs the run itself and finishes it. */
static int run_create(struct berth_api_call *c, struct berth_error *err)
{
    static const struct berth_api_field fields[] = {
        BERTH_API_COMMAND_FIELDS(struct run_body, in),
        {"environmentId", BERTH_API_TEXT, offsetof(struct run_body, environment_id),
         .nullable = true},
        {"workspacePath", BERTH_API_TEXT, offsetof(struct run_body, workspace), .nullable = true},
        {"workspace", BERTH_API_OBJECT, offsetof(struct run_body, sync_json), .nullable = true},
        {"inPlace", BERTH_API_FLAG, offsetof(struct run_body, in_place)},
        {"provisionCommand", BERTH_API_TEXT, offsetof(struct run_body, provision),
         .nullable = true},
        {"issueId", BERTH_API_TEXT, offsetof(struct run_body, issue_id), .nullable = true},
        {"executionWorkspaceId", BERTH_API_TEXT, offsetof(struct run_body, execution_workspace_id),
         .nullable = true},
        {"agentId", BERTH_API_TEXT, offsetof(struct run_body, agent_id), .nullable = true},
        {"ttlMs", BERTH_API_NUMBER, offsetof(struct run_body, ttl_ms)},
        {"secrets", BERTH_API_PAIRS, offsetof(struct run_body, secrets)},
        {0}};
    struct run_body body = {.in = BERTH_API_COMMAND_INIT};
    struct berth_run_request request = BERTH_RUN_REQUEST_INIT;
    struct berth_company *company;
    struct berth_run *run;
    unsigned given;
    int rc = berth_company_get(c->b, &c->arena, c->params[0], &company, err);
    if (rc == BERTH_OK)
        rc = berth_api_body(c, fields, &body, &given, err);
    if (rc < 0)
        return rc;
    if (!given) {
        rc = berth_run_create(c->b, &c->arena, company->id, &run, err);
        c->status = 201;
        if (rc == BERTH_OK)
            berth_run_json(&c->w, run);
        return rc;
    }
    rc = berth_api_command_build(c, &body.in, &request.command, err);
    if (rc == BERTH_OK && body.sync_json)
        rc = berth_api_sync_read(c, body.sync_json, &body.sync, err);
    if (rc == BERTH_OK && body.sync_json && (body.workspace || body.in_place))
        rc = berth_fail(err, BERTH_E_INVALID,
                        "A run has either workspace, or workspacePath and inPlace.");
    if (rc == BERTH_OK)
        rc = may_perform(c, &body, err);
    if (rc == BERTH_OK)
        rc = check_ids(&body, err);
    if (rc == BERTH_OK)
        rc = berth_api_take_agent(c, &body.agent_id, err);
    if (rc == BERTH_OK)
        rc = take_secrets(c, &body.secrets, &request, err);
    if (rc < 0)
        return rc;
    rc = check_room(c, body.environment_id, err);
    if (rc < 0)
        return rc;
    request.company_id = company->id;
    request.environment_id = body.environment_id;
    request.workspace = body.workspace;
    request.in_place = body.in_place;
    request.sync = body.sync;
    request.provision_command = body.provision;
    request.issue_id = body.issue_id;
    request.execution_workspace_id = body.execution_workspace_id;
    request.agent_id = body.agent_id;
    request.ttl_ms = body.ttl_ms;
    return perform(c, &body, &request, err);
}

/* --- its end --- */

struct end_call {
    struct berth_run *run;
    struct berth_run_end end;
    struct berth_api_run_waiter waiter; /* while this daemon performs the run */
};

/* Ends a run that no request to this daemon started. */
static int end_now(struct berth_api_call *c, struct berth_error *err)
{
    const struct end_call *call = c->state;
    struct berth_run *run = call->run;
    struct berth_list released;
    int rc =
        !run->owner || berth_run_ended((int)run->status)
            ? berth_run_finish(c->b, &c->arena, run->id, &call->end, &released, err)
            : berth_run_cancel_elsewhere(c->b, &c->arena, run->id, berth_api_left_fd(c), &run, err);
    if (rc == BERTH_OK)
        rc = berth_run_get(c->b, &c->arena, run->id, &run, err);
    if (rc == BERTH_OK)
        berth_run_json(&c->w, run);
    return rc;
}

/* c->state holds how the run ends. */
static int end_one(struct berth_api_call *c, struct berth_error *err)
{
    struct end_call *call = c->state;
    struct berth_environment *e;
    struct berth_error none;
    int rc = berth_run_get(c->b, &c->arena, c->params[0], &call->run, err);
    if (rc < 0)
        return rc;
    const struct berth_run *run = call->run;
    if (c->x && run_waiter_start(c, run->id, &call->waiter))
        return BERTH_API_KEPT;
    if (run->environment_id &&
        berth_environment_get(c->b, &c->arena, run->environment_id, &e, &none) == BERTH_OK)
        return berth_api_at_environment(c, e, end_now, err);
    return berth_api_at_length(c, run->company_id, end_now, err);
}

static int run_post_cancel(struct berth_api_call *c, struct berth_error *err)
{
    struct end_call *call = berth_api_state(c, sizeof *call);
    if (!call)
        return berth_arena_check(&c->arena, err);
    call->end = (struct berth_run_end){
        .status = BERTH_RUN_CANCELLED, .error_code = "cancelled", .actor = &c->actor};
    int rc = berth_api_body(c, berth_api_nothing, NULL, NULL, err);
    return rc < 0 ? rc : end_one(c, err);
}

/* Finishes a run that the client performs itself. */
static int run_finish(struct berth_api_call *c, struct berth_error *err)
{
    static const char *const words[] = {"succeeded", "failed", "cancelled", "timed_out", NULL};
    struct body {
        int status;
        struct berth_run_end end;
    } body = {0};
    static const struct berth_api_field fields[] = {
        {"status", BERTH_API_WORD, offsetof(struct body, status), .required = true, .words = words},
        {"error", BERTH_API_TEXT, offsetof(struct body, end.error), .nullable = true},
        {"errorCode", BERTH_API_TEXT, offsetof(struct body, end.error_code), .nullable = true},
        {"workspace", BERTH_API_OBJECT, offsetof(struct body, end.workspace_json),
         .nullable = true},
        {"workspaceDiff", BERTH_API_TEXT, offsetof(struct body, end.workspace_diff),
         .nullable = true},
        {0}};
    struct berth_run *run;
    int rc = berth_run_get(c->b, &c->arena, c->params[0], &run, err);
    if (rc == BERTH_OK)
        rc = berth_api_body(c, fields, &body, NULL, err);
    if (rc < 0)
        return rc;
    if (run->owner && !berth_run_ended((int)run->status))
        return berth_fail(err, BERTH_E_CONFLICT, "berth performs run %s, and finishes it.",
                          run->id);
    if (body.end.workspace_diff && strlen(body.end.workspace_diff) > BERTH_RUN_DIFF_BYTES_MAX)
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "A difference of more than %zu bytes is not kept: cut it.",
                          BERTH_RUN_DIFF_BYTES_MAX);
    body.end.status = BERTH_RUN_SUCCEEDED + (enum berth_run_status)body.status;
    body.end.actor = &c->actor;
    struct end_call *call = berth_api_state(c, sizeof *call);
    if (!call)
        return berth_arena_check(&c->arena, err);
    call->end = body.end;
    return end_one(c, err);
}

/* --- its commands --- */

static void exec_item(struct berth_json_writer *w, const void *record)
{
    berth_exec_rows_json(w, record);
}

static int execs(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_run *run;
    struct berth_list found;
    const char *before;
    int limit;
    int rc = berth_run_get(c->b, &c->arena, c->params[0], &run, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_limit(c, &limit, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_id(c, "before", &before, err);
    if (rc == BERTH_OK)
        rc = berth_exec_rows_list(c->b, &c->arena, run->id, before, limit, &found, err);
    if (rc == BERTH_OK)
        berth_api_say_list(c, &found, exec_item);
    return rc;
}

/* Of all of them, one after the other. */
static int log_of(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_run *run;
    struct berth_api_watch_options options;
    int rc = berth_run_get(c->b, &c->arena, c->params[0], &run, err);
    if (rc == BERTH_OK)
        rc = berth_api_watch_query(c, &options, err);
    if (rc < 0)
        return rc;
    options.run_id = run->id;
    rc = berth_api_watch_start(c, &options, err);
    return rc < 0 ? rc : BERTH_API_PASSED_ON;
}

const struct berth_api_route berth_api_run_routes[] = {
    {"GET", "/api/companies/:companyId/runs", run_list, BERTH_API_READ,
     .query = "status limit before"},
    {"POST", "/api/companies/:companyId/runs", run_create, BERTH_API_MANAGE, .live = true,
     .once = BERTH_API_ONCE},
    {"GET", "/api/runs/:id", run_get, BERTH_API_READ, .run = true},
    {"GET", "/api/runs/:id/execs", execs, BERTH_API_MANAGE, .run = true, .query = "limit before"},
    {"GET", "/api/runs/:id/log", log_of, BERTH_API_MANAGE, .live = true, .run = true,
     .query = "stream follow offset"},
    {"POST", "/api/runs/:id/cancel", run_post_cancel, BERTH_API_MANAGE},
    {"POST", "/api/runs/:id/finish", run_finish, BERTH_API_MANAGE},
    {0},
};
