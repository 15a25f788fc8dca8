/* SPDX-License-Identifier: Apache-2.0
 * src/api/resource/runs.c - runs: listing, starting, ending, and the output of their commands. */
#include "core/run/run.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "api/call.h"
#include "api/caller.h"
#include "api/command.h"
#include "api/stream/live.h"
#include "api/stream/watch.h"
#include "base/auto.h"
#include "base/id.h"
#include "base/limits.h"
#include "core/activity.h"
#include "core/company.h"
#include "core/environment/environment.h"
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
        berth_run_json(&c->w, run);
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

/* Lock held; twice is fine. */
static void waiter_leave(struct berth_api_run_waiter *waiter)
{
    if (!waiter->link)
        return;
    *waiter->link = waiter->next;
    if (waiter->next)
        waiter->next->link = waiter->link;
    waiter->link = NULL;
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
    while (p->run.waiters) {
        (void)eventfd_write(p->run.waiters->fd, 1);
        waiter_leave(p->run.waiters);
    }
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
    struct berth_list secrets; /* "NAME=id" */
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
    struct berth_id id = berth_id_new();
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

/* Creates a run. Without a command, the client performs the run itself and finishes it. */
static int run_create(struct berth_api_call *c, struct berth_error *err)
{
    static const struct berth_api_field fields[] = {
        BERTH_API_COMMAND_FIELDS(struct run_body, in),
        {"environmentId", BERTH_API_TEXT, offsetof(struct run_body, environment_id),
         .nullable = true},
        {"workspacePath", BERTH_API_TEXT, offsetof(struct run_body, workspace), .nullable = true},
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
    request.company_id = company->id;
    request.environment_id = body.environment_id;
    request.workspace = body.workspace;
    request.provision_command = body.provision;
    request.issue_id = body.issue_id;
    request.execution_workspace_id = body.execution_workspace_id;
    request.agent_id = body.agent_id;
    request.ttl_ms = body.ttl_ms;
    return perform(c, &body, &request, err);
}

/* --- its end --- */

/* Lock held. Cancels the run if a request to this daemon started it, and then links the waiter.
 * Returns false when no such run is under way here. */
static bool cancel_ours(struct berth_api *api, const char *id, struct berth_api_run_waiter *waiter)
{
    struct berth_api_run *run = berth_map_get(&api->runs, id);
    if (!run)
        return false;
    berth_run_cancel(run->job);
    waiter->next = run->waiters;
    waiter->link = &run->waiters;
    if (waiter->next)
        waiter->next->link = &waiter->next;
    run->waiters = waiter;
    return true;
}

/* Cancels the run and waits until its place is given back, but not longer than the client does.
 * *ours is false when no request to this daemon started it. */
static int end_ours(struct berth_api_call *c, const char *id, bool *ours, struct berth_error *err)
{
    struct berth_api *api = c->api;
    auto_close int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct berth_api_run_waiter waiter = {.fd = fd};
    berth_lock_take(&api->lives_lock);
    *ours = cancel_ours(api, id, &waiter);
    berth_lock_drop(&api->lives_lock);
    if (!*ours)
        return BERTH_OK;
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN},
                           {.fd = berth_api_left_fd(c), .events = POLLIN}};
    while (fd >= 0 && poll(fds, 2, END_WAIT_MS) < 0 && errno == EINTR)
        continue;
    berth_lock_take(&api->lives_lock);
    waiter_leave(&waiter);
    berth_lock_drop(&api->lives_lock);
    return fd >= 0 ? BERTH_OK
                   : berth_fail(err, BERTH_E_UNAVAILABLE,
                                "Run %s was cancelled, but there is no descriptor left to wait for "
                                "its end.",
                                id);
}

static int end_one(struct berth_api_call *c, const struct berth_run_end *end,
                   struct berth_error *err)
{
    struct berth_run *run;
    struct berth_list released;
    int rc = berth_run_get(c->b, &c->arena, c->params[0], &run, err);
    if (rc < 0)
        return rc;
    bool ours;
    rc = end_ours(c, run->id, &ours, err);
    if (rc < 0 || ours)
        ; /* its row says how it ended */
    else if (!run->owner || berth_run_ended((int)run->status))
        rc = berth_run_finish(c->b, &c->arena, run->id, end, &released, err);
    else
        rc = berth_run_cancel_elsewhere(c->b, &c->arena, run->id, berth_api_left_fd(c), &run, err);
    if (rc == BERTH_OK)
        rc = berth_run_get(c->b, &c->arena, run->id, &run, err);
    if (rc == BERTH_OK)
        berth_run_json(&c->w, run);
    return rc;
}

static int run_post_cancel(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_run_end end = {
        .status = BERTH_RUN_CANCELLED, .error_code = "cancelled", .actor = &c->actor};
    int rc = berth_api_body(c, berth_api_nothing, NULL, NULL, err);
    return rc < 0 ? rc : end_one(c, &end, err);
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
    body.end.status = BERTH_RUN_SUCCEEDED + (enum berth_run_status)body.status;
    body.end.actor = &c->actor;
    return end_one(c, &body.end, err);
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
    {"POST", "/api/companies/:companyId/runs", run_create, BERTH_API_MANAGE, .slow = true,
     .live = true, .once = BERTH_API_ONCE},
    {"GET", "/api/runs/:id", run_get, BERTH_API_READ, .run = true},
    {"GET", "/api/runs/:id/execs", execs, BERTH_API_MANAGE, .run = true, .query = "limit before"},
    {"GET", "/api/runs/:id/log", log_of, BERTH_API_MANAGE, .live = true, .run = true,
     .query = "stream follow offset"},
    {"POST", "/api/runs/:id/cancel", run_post_cancel, BERTH_API_MANAGE, .slow = true},
    {"POST", "/api/runs/:id/finish", run_finish, BERTH_API_MANAGE, .slow = true},
    {0},
};
