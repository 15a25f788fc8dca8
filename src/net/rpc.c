/* SPDX-License-Identifier: Apache-2.0
 * src/net/rpc.c - see rpc.h. */
#include "net/rpc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/limits.h"
#include "net/lines.h"
#include "os/pool.h"

#define BUCKETS 64
#define WRITE_BYTES (256 * 1024)
#define LATE_MAX 256                   /* calls that timed out and are still listened for */
#define ERRORS_BYTES_MAX (1024 * 1024) /* of stderr that wait; one read has less */
#define HEAD_BYTES 200                 /* of a line that cannot be read */

/* A call of ours. */
struct call {
    struct berth_rpc *rpc;
    struct call *next; /* in its bucket */
    int64_t id, timeout_ms;
    char *method;
    struct berth_timer timer;
    berth_reply_fn *on_reply, *on_late;
    bool late; /* it has timed out */
    void *ctx;
};

/* Lines on their way out. */
struct outgoing {
    struct outgoing *next;
    struct berth_buf lines;
    size_t sent;
};

struct berth_rpc {
    struct berth_engine *engine;
    struct berth_pool *pool;
    struct berth_process *process;
    struct berth_rpc_handlers handlers;
    struct call *calls[BUCKETS];
    int pending, late;
    int64_t last_id;
    uint64_t heard;
    struct outgoing *head, **tail;
    size_t queued;
    bool deaf; /* it has closed its stdin */
    bool ended;
    struct berth_exec_end end; /* how */

    struct berth_lines lines;
    bool reading; /* a long line is being read on the pool: the others wait */
    char *line;   /* that one */
    size_t len;
    struct berth_message message;
    struct berth_error trouble;
    int trouble_code;
    struct berth_post read_post;
    struct berth_buf errors; /* bytes of stderr */
    size_t errors_taken;     /* how many of them were handed on */
    bool yielded;            /* turn_post is queued, and handles further lines */
    bool paused;             /* nothing is read meanwhile: `reading` or `yielded` */
    struct berth_post turn_post;
};

/* What lines cost while they wait. */
static size_t weight(const struct berth_buf *lines)
{
    return lines->len + BERTH_MESSAGE_OVERHEAD;
}

/* --- calls --- */

static void rpc_enqueue(struct berth_rpc *rpc, struct berth_buf *lines);

static struct call **rpc_find_call(struct berth_rpc *rpc, int64_t id)
{
    struct call **at = &rpc->calls[(uint64_t)id % BUCKETS];
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

static void call_answer(struct call **at, const struct berth_reply *reply)
{
    struct call *call = *at;
    struct berth_rpc *rpc = call->rpc;
    *at = call->next;
    rpc->pending--;
    rpc->late -= call->late;
    berth_timer_clear(rpc->engine, &call->timer);
    call->on_reply(call->ctx, reply);
    free(call->method);
    free(call);
}

static void answer_unsent(const struct berth_rpc_request *request, const char *text)
{
    struct berth_reply reply = {
        .kind = BERTH_REPLY_UNSENT, .code = BERTH_RPC_UNAVAILABLE, .text = text};
    request->on_reply(request->ctx, &reply);
}

static void on_call_timer(struct berth_timer *timer)
{
    struct call *call = berth_container_of(timer, struct call, timer);
    char text[256];
    (void)snprintf(text, sizeof text, "RPC call \"%.100s\" timed out after %lldms", call->method,
                   (long long)call->timeout_ms);
    struct berth_reply reply = {
        .kind = BERTH_REPLY_TIMEOUT, .code = BERTH_RPC_TIMEOUT, .text = text};
    if (!call->on_late) {
        call_answer(rpc_find_call(call->rpc, call->id), &reply);
        return;
    }
    call->on_reply(call->ctx, &reply); /* it stays: an answer may still come */
    call->on_reply = call->on_late;
    call->late = true;
    struct berth_reply none = {
        .kind = BERTH_REPLY_GONE, .code = BERTH_RPC_UNAVAILABLE, .text = "Too many are late."};
    if (++call->rpc->late > LATE_MAX)
        call_answer(rpc_find_call(call->rpc, call->id), &none);
}

void berth_rpc_call(struct berth_rpc *rpc, const struct berth_rpc_request *request)
{
    assert(berth_engine_is_here(rpc->engine));
    struct call *call = calloc(1, sizeof *call);
    char *method = strdup(request->method);
    struct berth_buf lines = BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX);
    lines.secret = true;
    struct berth_message_request words = {.id = rpc->last_id + 1,
                                          .method = request->method,
                                          .params_json = request->params_json,
                                          .invocation_json = request->invocation_json};
    berth_message_write(&lines, &words);
    bool full = rpc->deaf || rpc->queued + weight(&lines) > BERTH_MESSAGES_QUEUED_MAX;
    if (!call || !method || lines.failed || full || rpc->ended) {
        answer_unsent(request, rpc->ended       ? "The worker has ended."
                               : full           ? "The worker does not read what it is sent."
                               : lines.too_long ? "The call is too long for one message."
                                                : "Out of memory: call.");
        berth_buf_clear(&lines);
        free(method);
        free(call);
        return;
    }
    *call = (struct call){.rpc = rpc,
                          .id = ++rpc->last_id,
                          .timeout_ms = request->timeout_ms,
                          .method = method,
                          .timer = {.run = on_call_timer},
                          .on_reply = request->on_reply,
                          .on_late = request->on_late,
                          .ctx = request->ctx};
    struct call **bucket = &rpc->calls[(uint64_t)call->id % BUCKETS];
    call->next = *bucket;
    *bucket = call;
    rpc->pending++;
    rpc_enqueue(rpc, &lines);
    if (request->timeout_ms > 0)
        berth_timer_set(rpc->engine, &call->timer, request->timeout_ms);
}

int berth_rpc_pending(const struct berth_rpc *rpc)
{
    return rpc->pending;
}

uint64_t berth_rpc_heard(const struct berth_rpc *rpc)
{
    return rpc->heard;
}

struct berth_process *berth_rpc_process(struct berth_rpc *rpc)
{
    return rpc->process;
}

/* --- out --- */

static void drop_head(struct berth_rpc *rpc)
{
    struct outgoing *o = rpc->head;
    rpc->head = o->next;
    if (!rpc->head)
        rpc->tail = &rpc->head;
    rpc->queued -= weight(&o->lines);
    berth_buf_clear(&o->lines);
    free(o);
}

/* As much as the pipe's own queue takes; on_stdin_room goes on. */
static void pump(struct berth_rpc *rpc)
{
    struct berth_error ignored;
    while (rpc->head) {
        struct outgoing *o = rpc->head;
        size_t left = o->lines.len - o->sent, len = left < WRITE_BYTES ? left : WRITE_BYTES;
        int rc = berth_process_write(rpc->process, o->lines.data + o->sent, len, &ignored);
        if (rc == BERTH_E_UNAVAILABLE)
            return;
        rpc->deaf |= rc == BERTH_E_CONFLICT;
        o->sent = rc < 0 ? o->lines.len : o->sent + len; /* it reads no more; on_end follows */
        if (o->sent == o->lines.len)
            drop_head(rpc);
    }
}

static void rpc_enqueue(struct berth_rpc *rpc, struct berth_buf *lines)
{
    struct outgoing *o = calloc(1, sizeof *o);
    bool full = rpc->queued + weight(lines) > BERTH_MESSAGES_QUEUED_MAX;
    if (!o || lines->failed || rpc->ended || full) {
        berth_buf_clear(lines);
        free(o);
        return;
    }
    o->lines = *lines;
    *lines = (struct berth_buf)BERTH_BUF_INIT(lines->max);
    rpc->queued += weight(&o->lines);
    *rpc->tail = o;
    rpc->tail = &o->next;
    pump(rpc);
}

void berth_rpc_send(struct berth_rpc *rpc, struct berth_buf *lines)
{
    if (rpc->queued > BERTH_ANSWERS_QUEUED_MAX)
        berth_buf_clear(lines); /* who asks and does not read hears nothing */
    else
        rpc_enqueue(rpc, lines);
}

static void on_rpc_stdin_room(void *ctx)
{
    pump(ctx);
}

/* --- in --- */

static void take_response(struct berth_rpc *rpc, const struct berth_message *m)
{
    bool number = berth_json_is(m->id, BERTH_JSON_INT) || berth_json_is(m->id, BERTH_JSON_REAL);
    double id = number ? berth_json_number(m->id) : 0;
    struct call **at = id >= 1 && id <= (double)rpc->last_id && id == (double)(int64_t)id
                           ? rpc_find_call(rpc, (int64_t)id)
                           : NULL;
    if (!at || !*at) {
        rpc->handlers.on_noise(rpc->handlers.ctx, rpc->line, rpc->len,
                               m->id ? "received response for unknown request id"
                                     : "received response with null/undefined id");
        return;
    }
    char odd[256];
    struct berth_reply reply = {.kind = BERTH_REPLY_RESULT, .result = m->result};
    if (m->error && berth_json_type(m->error) != BERTH_JSON_NULL) {
        const struct berth_json *code = berth_json_get(m->error, "code");
        const char *text = berth_json_str(berth_json_get(m->error, "message"));
        reply = (struct berth_reply){.kind = BERTH_REPLY_ERROR,
                                     .code = berth_json_is(code, BERTH_JSON_INT)
                                                 ? berth_json_int(code)
                                                 : BERTH_RPC_WORKER_ERROR,
                                     .text = text ? text : ""};
    } else if (!m->result) {
        (void)snprintf(odd, sizeof odd, "Unexpected response format for \"%.100s\"", (*at)->method);
        reply = (struct berth_reply){
            .kind = BERTH_REPLY_ERROR, .code = BERTH_RPC_WORKER_ERROR, .text = odd};
    }
    call_answer(at, &reply);
}

/* Fails the pending call that an unreadable line seems to answer, if its id can be found. The
 * caller need not wait any longer, but what the worker did is not known. */
static void answer_unreadable(struct berth_rpc *rpc)
{
    char head[HEAD_BYTES + 1];
    size_t len = rpc->len < HEAD_BYTES ? rpc->len : HEAD_BYTES;
    memcpy(head, rpc->line, len);
    head[len] = '\0';
    const char *at = strstr(head, "\"id\":");
    bool answers = at && strstr(head, "\"jsonrpc\":\"2.0\"") && !strstr(head, "\"method\"");
    struct call **call = answers ? rpc_find_call(rpc, strtoll(at + 5, NULL, 10)) : NULL;
    struct berth_reply reply = {.kind = BERTH_REPLY_ERROR,
                                .code = BERTH_RPC_UNAVAILABLE,
                                .text = "The answer of the worker cannot be read."};
    if (call && *call)
        call_answer(call, &reply);
}

/* What was read of rpc->line. */
static void dispatch(struct berth_rpc *rpc)
{
    struct berth_message *m = &rpc->message;
    rpc->heard += rpc->trouble_code == BERTH_OK;
    if (rpc->trouble_code < 0) {
        rpc->handlers.on_noise(rpc->handlers.ctx, rpc->line, rpc->len, rpc->trouble.message);
        if (!rpc->ended && strncmp(rpc->trouble.message, "Invalid JSON", 12) == 0)
            answer_unreadable(rpc);
    } else if (m->kind == BERTH_MESSAGE_RESPONSE)
        take_response(rpc, m);
    else if (m->kind == BERTH_MESSAGE_UNKNOWN)
        rpc->handlers.on_noise(rpc->handlers.ctx, rpc->line, rpc->len,
                               "unknown message type from worker");
    else
        rpc->handlers.on_message(rpc->handlers.ctx, m);
    berth_message_clear(m);
}

static void rpc_read_line(struct berth_rpc *rpc)
{
    rpc->trouble_code = berth_message_read(rpc->line, rpc->len, &rpc->message, &rpc->trouble);
}

/* On the pool. */
static void rpc_read_job(void *ctx)
{
    struct berth_rpc *rpc = ctx;
    struct berth_error ignored;
    rpc_read_line(rpc);
    (void)berth_engine_post(rpc->engine, &rpc->read_post, &ignored); /* it runs: we came from it */
}

static bool is_blank(const char *line, size_t len)
{
    return strspn(line, " \t\r\v\f") >= len;
}

/* Handles the next line of stdout. Returns false when there is none, or when it has to wait. */
static bool take_line(struct berth_rpc *rpc)
{
    size_t dropped;
    char why[80];
    struct berth_error ignored;
    if (rpc->reading || !berth_lines_next(&rpc->lines, &rpc->line, &rpc->len, &dropped))
        return false;
    if (dropped) {
        (void)snprintf(why, sizeof why, "a line of %zu bytes was dropped", dropped);
        rpc->handlers.on_noise(rpc->handlers.ctx, "", 0, why);
    } else if (rpc->len > BERTH_MESSAGE_BYTES_SMALL &&
               berth_pool_submit(rpc->pool, rpc_read_job, rpc, &ignored) == BERTH_OK) {
        rpc->reading = true;
    } else if (!is_blank(rpc->line, rpc->len)) {
        rpc_read_line(rpc);
        dispatch(rpc);
    }
    return true;
}

/* Hands on what waits of stderr, up to the end of a line. Returns false when nothing waits. */
static bool take_error(struct berth_rpc *rpc)
{
    size_t left = rpc->errors.len - rpc->errors_taken;
    if (!left)
        return false;
    const char *from = rpc->errors.data + rpc->errors_taken, *end = memchr(from, '\n', left);
    size_t len = end ? (size_t)(end - from) + 1 : left;
    rpc->errors_taken += len;
    rpc->handlers.on_stderr(rpc->handlers.ctx, from, len);
    if (rpc->errors_taken == rpc->errors.len) {
        berth_buf_clear(&rpc->errors);
        rpc->errors_taken = 0;
    }
    return true;
}

static void rpc_finish(struct berth_rpc *rpc);

/* Handles some lines. A worker that writes many of them must not keep the engine's thread from
 * others: the rest waits for a later turn, and meanwhile nothing more is read. */
static void take_lines(struct berth_rpc *rpc)
{
    struct berth_error ignored;
    int taken = 0;
    for (bool some = true; some && taken < BERTH_WORKER_LINES_PER_TURN; taken++) {
        some = take_line(rpc);
        some |= take_error(rpc);
    }
    if (taken == BERTH_WORKER_LINES_PER_TURN && !rpc->yielded)
        rpc->yielded = berth_engine_post(rpc->engine, &rpc->turn_post, &ignored) == BERTH_OK;
    bool waits = rpc->reading || rpc->yielded;
    if (rpc->ended && !waits)
        rpc_finish(rpc);
    else if (!rpc->ended && waits != rpc->paused)
        berth_process_pause(rpc->process, rpc->paused = waits);
}

static void run_turn(struct berth_post *post)
{
    struct berth_rpc *rpc = berth_container_of(post, struct berth_rpc, turn_post);
    rpc->yielded = false;
    take_lines(rpc);
}

static void run_read(struct berth_post *post)
{
    struct berth_rpc *rpc = berth_container_of(post, struct berth_rpc, read_post);
    dispatch(rpc);
    rpc->reading = false;
    take_lines(rpc);
}

static void on_rpc_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    struct berth_rpc *rpc = ctx;
    assert(!rpc->paused); /* the line that is being read stays where it is */
    if (stream == BERTH_STDERR)
        berth_buf_append(&rpc->errors, bytes, len);
    else
        berth_lines_put(&rpc->lines, bytes, len);
    if (rpc->errors.failed) { /* no memory: this part is lost */
        berth_buf_clear(&rpc->errors);
        rpc->errors_taken = 0;
    }
    take_lines(rpc);
}

/* --- the end --- */

/* All that it said is being heard: a last line may lack its end. */
static void rpc_finish(struct berth_rpc *rpc)
{
    if (rpc->lines.buf.len > rpc->lines.taken) {
        berth_lines_put(&rpc->lines, "\n", 1);
        take_lines(rpc); /* comes back here */
        return;
    }
    struct berth_buf text = BERTH_BUF_INIT(64 * 1024);
    rpc->handlers.on_end(rpc->handlers.ctx, &rpc->end, &text);
    const char *words = berth_buf_str(&text);
    struct berth_reply reply = {.kind = BERTH_REPLY_GONE,
                                .code = BERTH_RPC_UNAVAILABLE,
                                .text = words ? words : "The worker has ended."};
    for (int i = 0; i < BUCKETS; i++)
        while (rpc->calls[i])
            call_answer(&rpc->calls[i], &reply);
    berth_buf_clear(&text);
}

static void on_rpc_end(void *ctx, const struct berth_exec_end *end)
{
    struct berth_rpc *rpc = ctx;
    rpc->ended = true;
    rpc->end = *end;
    while (rpc->head)
        drop_head(rpc);
    take_lines(rpc);
}

int berth_rpc_start(struct berth_engine *engine, struct berth_pool *pool,
                    const struct berth_process_options *options,
                    const struct berth_rpc_handlers *handlers, struct berth_rpc **out,
                    struct berth_error *err)
{
    assert(berth_engine_is_here(engine));
    struct berth_rpc *rpc = calloc(1, sizeof *rpc);
    if (!rpc)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: worker.");
    rpc->engine = engine;
    rpc->pool = pool;
    rpc->handlers = *handlers;
    rpc->tail = &rpc->head;
    rpc->read_post.run = run_read;
    rpc->turn_post.run = run_turn;
    rpc->errors = (struct berth_buf)BERTH_BUF_INIT(ERRORS_BYTES_MAX);
    berth_lines_init(&rpc->lines, BERTH_MESSAGE_BYTES_MAX);
    struct berth_exec_handlers ours = {.on_output = on_rpc_output,
                                       .on_stdin_room = on_rpc_stdin_room,
                                       .on_end = on_rpc_end,
                                       .ctx = rpc};
    struct berth_process_options with = *options;
    with.with_stdin = true;
    int rc = berth_process_start(engine, &with, &ours, &rpc->process, err);
    if (rc < 0)
        free(rpc);
    else
        *out = rpc;
    return rc;
}

void berth_rpc_free(struct berth_rpc *rpc)
{
    if (!rpc)
        return;
    berth_process_free(rpc->process);
    berth_lines_clear(&rpc->lines);
    berth_buf_clear(&rpc->errors);
    free(rpc);
}
