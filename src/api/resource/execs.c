/* SPDX-License-Identifier: Apache-2.0
 * src/api/resource/execs.c - commands in the place of a lease: started, written to, listened to,
 * ended. No thread waits for one. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/caller.h"
#include "api/command.h"
#include "api/place_call.h"
#include "api/stream/live.h"
#include "api/stream/watch.h"
#include "base/auto.h"
#include "base/container.h"
#include "base/limits.h"
#include "core/lease/lease.h"
#include "core/run/exec.h"
#include "core/run/exec_journal.h"
#include "core/run/exec_result.h"
#include "core/run/exec_rows.h"
#include "crypto/hash.h"
#include "http/websocket.h"
#include "os/shares.h"

#define STDIN_WAIT_MS 30000                 /* for the whole body */
#define SHORT_BYTES_MAX ((size_t)16 * 1024) /* of a stream */
#define ATTACH_PROTOCOL "berth.exec.v1"

/* An exec that a request started, until its answer is sent. */
struct started_exec {
    struct berth_api *api;
    struct berth_api_live *live;
    struct berth_exec *exec;
    struct berth_api_call *c; /* the request that waits for its end, or NULL */
    struct berth_post post;
    struct berth_share *share; /* of the caller's company, for what may block at its end */
    struct berth_job job;
    _Atomic int arrived; /* counts the start's return and the end: the second one goes on */
    struct berth_exec_end end;
    struct berth_buf texts[2]; /* its output while that is short; the log has longer output */
    bool collects;             /* the answer holds the output, so `texts` is filled */
    bool comes_back; /* the request has an Idempotency-Key: the exec goes on when the client leaves
                      */
};

/* --- its end --- */

static void started_exec_free(struct started_exec *a)
{
    berth_share_close(a->share);
    berth_buf_clear(&a->texts[0]);
    berth_buf_clear(&a->texts[1]);
    free(a);
}

static void free_job(void *ctx)
{
    struct started_exec *a = ctx;
    berth_exec_free(a->exec);
    started_exec_free(a);
}

/* Calls `fn` where it may block, in the company's turn. */
static void call_off_loop(struct started_exec *a, berth_job_fn *fn)
{
    a->job = (struct berth_job){.fn = fn, .ctx = a};
    berth_share_put(a->share, &a->job);
}

/* On the loop's thread: who waited has stayed until now, or was told of already. */
static void on_over(void *ctx)
{
    struct started_exec *a = ctx;
    struct berth_error err = {0};
    if (a->c) {
        int rc = berth_buf_check(&a->c->out, "The result", &err);
        berth_http_exchange_on_left(a->c->x, NULL, NULL);
        berth_api_call_go_on(a->c);
        berth_api_answer(a->c, rc, &err);
    }
    if (berth_exec_free_now(a->exec))
        started_exec_free(a);
    else
        call_off_loop(a, free_job);
}

static bool is_short(const struct started_exec *a)
{
    return a->collects && !a->texts[0].failed && !a->texts[1].failed &&
           !berth_exec_truncated(a->exec);
}

/* Answers with the result of the ended command. May block, unless the answer is short and has no
 * Idempotency-Key to be stored under. */
static void exec_finish(struct started_exec *a)
{
    struct berth_error err;
    bool truncated = berth_exec_truncated(a->exec);
    if (a->c && is_short(a))
        berth_exec_put_result(&a->c->w, berth_exec_id(a->exec), &a->end, truncated, a->texts);
    else if (a->c && berth_exec_result_json(&a->c->w, berth_exec_log(a->exec),
                                            berth_exec_id(a->exec), &a->end, truncated, &err) < 0)
        a->c->out.failed = true;
    if (a->c && a->c->once.at_work)
        berth_api_keep_answer(a->c);
    berth_api_live_end(a->live);
}

static void finish_job(void *ctx)
{
    exec_finish(ctx);
}

/* Often on the loop's thread, which goes on at once. */
static void on_end(void *ctx, const struct berth_exec_end *end)
{
    struct started_exec *a = ctx;
    a->end = *end;
    if (atomic_fetch_add(&a->arrived, 1) != 1)
        return;
    if (a->c && (!is_short(a) || a->c->once.at_work))
        call_off_loop(a, finish_job);
    else
        exec_finish(a);
}

static void on_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    struct started_exec *a = ctx;
    if (a->collects) /* what is too long fails, and stays so */
        berth_buf_append(&a->texts[stream], bytes, len);
    berth_api_live_output(a->live, stream, bytes, len);
}

static void on_stdin_room(void *ctx)
{
    struct started_exec *a = ctx;
    berth_api_live_room(a->live);
}

/* --- its beginning --- */

/* Who waits for the answer and leaves does not want it any more. */
static void on_left(void *ctx)
{
    struct started_exec *a = ctx;
    struct berth_error none;
    (void)berth_api_live_cancel(a->api, a->live->id, &none);
}

static void on_waiting(struct berth_post *post)
{
    struct started_exec *a = berth_container_of(post, struct started_exec, post);
    berth_api_call_wait(a->c);
    if (!a->comes_back)
        berth_http_exchange_on_left(a->c->x, on_left, a);
}

/* A program that is not there is the caller's mistake, not a route that is missing. */
static int mend_error(struct berth_api_call *c, int rc, struct berth_error *err)
{
    if (rc != BERTH_E_NOT_FOUND && rc != BERTH_E_DENIED)
        return rc;
    berth_issues_add(&c->issues, "command",
                     rc == BERTH_E_NOT_FOUND ? "command_not_found" : "command_not_executable");
    err->code = BERTH_E_UNPROCESSABLE;
    return err->code;
}

static int exec_start(struct berth_api_call *c, const struct berth_exec_request *request,
                      bool collects, struct berth_buf *input, struct started_exec **out,
                      struct berth_error *err)
{
    struct started_exec *a = calloc(1, sizeof *a);
    if (!a)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: command.");
    struct berth_buf empty = BERTH_BUF_INIT(SHORT_BYTES_MAX);
    empty.secret = true;
    *a = (struct started_exec){
        .api = c->api, .post = {.run = on_waiting}, .collects = collects, .texts = {empty, empty}};
    struct berth_exec_handlers handlers = {.on_output = on_output,
                                           .on_stdin_room = on_stdin_room,
                                           .on_end = on_end,
                                           .quick_end = true,
                                           .ctx = a};
    int rc = berth_share_open(c->api->quick, NULL, c->turn, &a->share, err);
    if (rc == BERTH_OK)
        rc = berth_api_live_new(c->api, &a->live, err);
    if (rc < 0) {
        started_exec_free(a);
        return rc;
    }
    a->live->on_over = on_over;
    a->live->ctx = a;
    rc = berth_exec_start(c->b, request, &handlers, &a->exec, err);
    if (rc < 0) {
        a->live->on_over = NULL;
        berth_api_live_end(a->live);
        started_exec_free(a);
        return mend_error(c, rc, err);
    }
    berth_api_live_begin(a->live, a->exec, input);
    *out = a;
    return BERTH_OK;
}

/* From here on it may be over at any moment, and `a` with it. */
static void let_run(struct started_exec *a)
{
    if (atomic_fetch_add(&a->arrived, 1) == 1)
        exec_finish(a);
}

/* A request to run a command, read and checked. */
struct exec_call {
    struct berth_api_command body;
    struct berth_exec_request request;
};

static int run_now(struct berth_api_call *c, struct berth_error *err)
{
    const struct exec_call *call = c->state;
    const struct berth_api_command *body = &call->body;
    struct started_exec *a = NULL;
    auto_buf input = BERTH_BUF_INIT(BERTH_CONFIG_BYTES_MAX);
    if (body->input) {
        berth_buf_puts(&input, body->input);
        berth_buf_reserve(&input, 1); /* also of "" there is something */
    }
    int rc = berth_buf_check(&input, "stdin", err);
    if (rc == BERTH_OK)
        rc = exec_start(c, &call->request, !body->detach && !berth_api_wants_events(c),
                        body->input ? &input : NULL, &a, err);
    if (rc < 0)
        return rc;
    const char *id = berth_arena_strdup(&c->arena, berth_exec_id(a->exec));
    c->brief = berth_arena_printf(&c->arena, "{\"execId\":\"%s\"}", berth_exec_id(a->exec));
    struct berth_error later; /* the command runs, and its row is written later */
    if (body->detach) {
        let_run(a);
        /* Other processes must find the exec once its id is out. */
        (void)berth_exec_journal_flush(c->b, &later);
        c->status = 202;
        berth_json_open(&c->w, '{');
        berth_json_put_str(&c->w, "execId", id);
        berth_json_put_str(&c->w, "status", "running");
        berth_json_close(&c->w, '}');
        return berth_arena_check(&c->arena, err);
    }
    if (berth_api_wants_events(c)) {
        struct berth_api_watch_options options = {.exec_id = id,
                                                  .stream = -1,
                                                  .events = true,
                                                  .follow = true,
                                                  .announce = true,
                                                  .cancel = !c->once.at_work};
        berth_api_keep_stream(c);
        let_run(a);
        rc = id ? berth_api_watch_start(c, &options, err) : berth_arena_check(&c->arena, err);
        if (rc < 0) /* the client does not learn the exec's id */
            (void)berth_api_live_cancel(c->api, id ? id : "", &(struct berth_error){0});
        return rc < 0 ? rc : BERTH_API_PASSED_ON;
    }
    a->c = c;
    a->comes_back = c->once.at_work;
    (void)berth_engine_post(c->b->engine, &a->post, err); /* its loop runs */
    let_run(a);
    return BERTH_API_KEPT;
}

static int run(struct berth_api_call *c, struct berth_error *err)
{
    struct exec_call *call = berth_api_state(c, sizeof *call);
    struct berth_lease *lease;
    if (!call)
        return berth_arena_check(&c->arena, err);
    *call = (struct exec_call){.body = BERTH_API_COMMAND_INIT, .request = BERTH_EXEC_REQUEST_INIT};
    int rc = berth_lease_get(c->b, &c->arena, c->params[0], &lease, err);
    if (rc == BERTH_OK)
        rc = berth_api_allow_local(c, berth_registry_in_place(c->b->registry, lease->driver), err);
    if (rc == BERTH_OK)
        rc = berth_api_command_read(c, &call->body, err);
    if (rc == BERTH_OK)
        rc = berth_api_command_build(c, &call->body, &call->request, err);
    if (rc < 0)
        return rc;
    call->request.lease_id = lease->id;
    return berth_api_at_lease(c, lease, run_now, err);
}

/* --- what runs --- */

/* Loads the exec. DENIED: it runs on this machine, and the caller is not an operator of the
 * instance. */
static int find_own(struct berth_api_call *c, struct berth_exec_record **out,
                    struct berth_error *err)
{
    struct berth_lease *lease;
    int rc = berth_exec_rows_get(c->b, &c->arena, c->params[0], out, err);
    if (rc < 0 || !c->caller.company_id) /* callers of the instance may use every exec */
        return rc;
    rc = berth_lease_get(c->b, &c->arena, (*out)->lease_id, &lease, err);
    return rc < 0 ? rc
                  : berth_api_allow_local(c, berth_registry_in_place(c->b->registry, lease->driver),
                                          err);
}

/* Answers with the result of an exec, for a client that did not wait for the first answer. */
static int result(struct berth_api_call *c, struct berth_error *err)
{
    auto_free char *path = NULL;
    struct berth_exec_record *record;
    int rc = berth_exec_rows_get(c->b, &c->arena, c->params[0], &record, err);
    if (rc == BERTH_OK && !record->ended)
        rc = berth_fail(err, BERTH_E_CONFLICT, "Command %s has not ended.", record->id);
    if (rc == BERTH_OK)
        rc = berth_exec_rows_log(c->b, record->id, &path, err);
    if (rc == BERTH_OK)
        rc = berth_exec_result_json(&c->w, path, record->id, &record->end, record->truncated, err);
    return rc;
}

static int exec_get(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_exec_record *record;
    int rc = berth_exec_rows_get(c->b, &c->arena, c->params[0], &record, err);
    if (rc == BERTH_OK)
        berth_exec_rows_json(&c->w, record);
    return rc;
}

static int exec_cancel(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_exec_record *record;
    struct berth_error none;
    int rc = find_own(c, &record, err);
    if (rc == BERTH_OK)
        rc = berth_api_body(c, berth_api_nothing, NULL, NULL, err);
    if (rc < 0)
        return rc;
    if (!record->ended && berth_api_live_cancel(c->api, record->id, &none) < 0)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "Another process runs command %s: cancel its run, or end it there.",
                          record->id);
    c->status = 202;
    berth_exec_rows_json(&c->w, record);
    return BERTH_OK;
}

/* --- its standard input --- */

/* A request that writes to the standard input of a command, on the loop's thread. It holds no
 * thread while it waits for room. */
struct stdin_call {
    struct berth_api_call *c;
    const char *exec_id;
    size_t at;  /* bytes of the body that the command has taken */
    bool close; /* closes the standard input after them */
    struct berth_api_waiter waiter;
    struct berth_post post;
    struct berth_timer timer;
};

static void stdin_answer(struct stdin_call *s, int rc, const struct berth_error *err)
{
    struct berth_api_call *c = s->c;
    berth_api_waiter_leave(&s->waiter);
    berth_timer_clear(c->b->engine, &s->timer);
    berth_http_exchange_on_left(c->x, NULL, NULL);
    berth_api_call_go_on(c);
    if (rc == BERTH_E_UNAVAILABLE)
        berth_issues_add(&c->issues, "taken", "%zu", s->at);
    if (rc == BERTH_OK)
        berth_api_say_ok(c);
    berth_api_answer(c, rc, err);
}

/* Writes what the command takes. Returns true when the call waits for room, and false when it was
 * answered. */
static bool stdin_feed(struct stdin_call *s)
{
    struct berth_api_call *c = s->c;
    struct berth_error err = {0};
    bool last = s->at == c->body_len && !s->close;
    int rc = BERTH_OK;
    while (rc == BERTH_OK && !last) {
        size_t rest = c->body_len - s->at;
        size_t step = rest < BERTH_STDIN_STEP_BYTES ? rest : BERTH_STDIN_STEP_BYTES;
        rc = berth_api_live_write(c->api, s->exec_id, c->body + s->at, step,
                                  step == rest && s->close, &err);
        if (rc == BERTH_OK) {
            s->at += step;
            last = step == rest;
        } else if (rc == BERTH_E_UNAVAILABLE) {
            if (berth_api_live_wait(c->api, s->exec_id, &s->waiter))
                return true;
            rc = BERTH_OK; /* it ended just now, and the next write says so */
        }
    }
    stdin_answer(s, rc, &err);
    return false;
}

static void on_waiter_room(struct berth_api_waiter *w)
{
    (void)stdin_feed(berth_container_of(w, struct stdin_call, waiter));
}

static void on_stdin_late(struct berth_timer *timer)
{
    struct berth_error err;
    int rc = berth_fail(&err, BERTH_E_UNAVAILABLE,
                        "The command does not read its standard input. Try again later.");
    stdin_answer(berth_container_of(timer, struct stdin_call, timer), rc, &err);
}

static void on_stdin_left(void *ctx)
{
    struct berth_error err;
    stdin_answer(ctx, berth_fail(&err, BERTH_E_CANCELLED, "The client has left."), &err);
}

static void on_stdin_start(struct berth_post *post)
{
    struct stdin_call *s = berth_container_of(post, struct stdin_call, post);
    struct berth_api_call *c = s->c;
    berth_timer_set(c->b->engine, &s->timer, STDIN_WAIT_MS);
    if (!stdin_feed(s))
        return;
    berth_api_call_wait(c);
    berth_http_exchange_on_left(c->x, on_stdin_left, s);
}

/* The body is what it reads; ?close=true: nothing more comes. A command that does not read is
 * waited for, for a while; then it is said how much it took. */
static int put_stdin(struct berth_api_call *c, struct berth_error *err)
{
    struct stdin_call *s = berth_api_state(c, sizeof *s);
    struct berth_exec_record *record;
    if (!s)
        return berth_arena_check(&c->arena, err);
    int rc = find_own(c, &record, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_flag(c, "close", &s->close, err);
    if (rc == BERTH_OK && !c->x) /* without a daemon, commands run in other processes */
        rc = berth_api_live_write(c->api, record->id, c->body, c->body_len, s->close, err);
    if (rc < 0)
        return rc;
    s->c = c;
    s->exec_id = record->id;
    s->waiter.on_room = on_waiter_room;
    s->timer.run = on_stdin_late;
    s->post.run = on_stdin_start;
    rc = berth_engine_post(c->b->engine, &s->post, err);
    return rc < 0 ? rc : BERTH_API_KEPT;
}

static int exec_resize(struct berth_api_call *c, struct berth_error *err)
{
    struct body {
        int64_t rows, columns;
    } body = {0};
    static const struct berth_api_field fields[] = {
        {"rows", BERTH_API_NUMBER, offsetof(struct body, rows), .required = true},
        {"columns", BERTH_API_NUMBER, offsetof(struct body, columns), .required = true},
        {0}};
    struct berth_exec_record *record;
    int rc = find_own(c, &record, err);
    if (rc == BERTH_OK)
        rc = berth_api_body(c, fields, &body, NULL, err);
    if (rc == BERTH_OK)
        rc = berth_api_check_size(c, body.rows, body.columns, err);
    if (rc == BERTH_OK)
        rc = berth_api_live_resize(c->api, record->id, (unsigned short)body.rows,
                                   (unsigned short)body.columns, err);
    if (rc == BERTH_OK)
        berth_api_say_ok(c);
    return rc;
}

static int log_of(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_exec_record *record;
    struct berth_api_watch_options options;
    int rc = berth_exec_rows_get(c->b, &c->arena, c->params[0], &record, err);
    if (rc == BERTH_OK)
        rc = berth_api_watch_query(c, &options, err);
    if (rc < 0)
        return rc;
    options.exec_id = record->id;
    rc = berth_api_watch_start(c, &options, err);
    return rc < 0 ? rc : BERTH_API_PASSED_ON;
}

/* --- by a WebSocket --- */

static void refuse_handshake(struct berth_api_call *c, const struct berth_http_handshake *shake)
{
    struct berth_http_answer answer = {
        .status = shake->status, .type = "application/json", .body = BERTH_BUF_INIT(4096)};
    struct berth_json_writer w = {.buf = &answer.body};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "error", shake->why);
    berth_json_put_str(&w, "code", berth_code_wire(BERTH_E_INVALID));
    berth_json_close(&w, '}');
    if (shake->status == 426) {
        answer.more[0] = (struct berth_http_header){"Upgrade", "websocket"};
        answer.more[1] = (struct berth_http_header){"Sec-WebSocket-Version", "13"};
    }
    berth_http_answer(c->x, &answer);
}

/* One that runs here, or has ended; it may do so while we look. */
static int find_attachable(struct berth_api_call *c, struct berth_exec_record **out,
                           struct berth_error *err)
{
    int rc = find_own(c, out, err);
    if (rc < 0 || (*out)->ended || berth_api_live_find(c->api, (*out)->id))
        return rc;
    rc = berth_exec_rows_get(c->b, &c->arena, c->params[0], out, err);
    if (rc < 0 || (*out)->ended)
        return rc;
    return berth_fail(err, BERTH_E_CONFLICT,
                      "Another process runs command %s: attach to it there, or read its log.",
                      (*out)->id);
}

static int attach_query(struct berth_api_call *c, struct berth_api_watch_options *out,
                        struct berth_error *err)
{
    int64_t offset = 0;
    bool cancel_too = false;
    int rc = berth_api_query_number(c, "offset", 0, INT64_MAX, 0, &offset, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_flag(c, "cancel", &cancel_too, err);
    *out = (struct berth_api_watch_options){
        .stream = -1, .offset = (uint64_t)offset, .follow = true, .cancel = cancel_too};
    return rc;
}

/* What it writes, from an offset on, to its end; and what the client writes, to its stdin. */
static int attach(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_exec_record *record;
    struct berth_api_watch_options options;
    struct berth_http_handshake shake;
    char accept[BERTH_SHA1_BASE64_SIZE];
    berth_http_handshake_read(c->head, ATTACH_PROTOCOL, &shake);
    int rc = find_attachable(c, &record, err);
    if (rc == BERTH_OK)
        rc = attach_query(c, &options, err);
    if (rc == BERTH_OK && shake.status != 101) {
        refuse_handshake(c, &shake);
        return BERTH_API_PASSED_ON;
    }
    if (rc == BERTH_OK)
        rc = berth_sha1_base64(shake.challenge, strlen(shake.challenge), accept, err);
    if (rc == BERTH_OK)
        rc = berth_http_websocket_new(accept, shake.named ? ATTACH_PROTOCOL : NULL,
                                      &options.websocket, err);
    if (rc < 0)
        return rc;
    options.exec_id = record->id;
    rc = berth_api_watch_start(c, &options, err);
    if (rc < 0)
        berth_http_websocket_free(options.websocket);
    return rc < 0 ? rc : BERTH_API_PASSED_ON;
}

const struct berth_api_route berth_api_exec_routes[] = {
    {"POST", "/api/environment-leases/:leaseId/exec", run, BERTH_API_MANAGE, .live = true,
     .once = BERTH_API_ONCE},
    {"GET", "/api/execs/:id", exec_get, BERTH_API_MANAGE, .run = true},
    {"GET", "/api/execs/:id/result", result, BERTH_API_MANAGE, .run = true},
    {"GET", "/api/execs/:id/log", log_of, BERTH_API_MANAGE, .live = true, .run = true,
     .query = "stream follow offset"},
    {"GET", "/api/execs/:id/attach", attach, BERTH_API_MANAGE, .live = true,
     .query = "offset cancel"},
    {"POST", "/api/execs/:id/cancel", exec_cancel, BERTH_API_MANAGE},
    {"POST", "/api/execs/:id/stdin", put_stdin, BERTH_API_MANAGE, .query = "close"},
    {"POST", "/api/execs/:id/resize", exec_resize, BERTH_API_MANAGE},
    {0},
};
