/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/session.c - see session.h. */
#include "plugin/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/container.h"
#include "base/limits.h"

#define CLOSE_MS 2000
#define STREAMED_OVERHEAD 512 /* bytes that a message takes beside its texts */

/* --- on the engine's thread, and waited for --- */

struct errand {
    struct berth_session *session;
    const void *bytes;
    size_t len;
    int rc;
    struct berth_error *err;
};

static int do_errand(struct errand *e, void (*run)(void *ctx), struct berth_error *err)
{
    e->err = err;
    int rc = berth_engine_do(e->session->engine, run, e, err);
    return rc < 0 ? rc : e->rc;
}

/* --- what it says --- */

static struct berth_json *copy_text(const struct berth_json *value, size_t *bytes)
{
    *bytes += berth_json_str_len(value);
    return berth_json_is(value, BERTH_JSON_STRING) ? berth_json_copy(value) : berth_json_new_null();
}

/* Keeps what the checks look at of an execute.log, and nothing after the first that is too much. */
static void keep_streamed(struct berth_session *s, const struct berth_message *m)
{
    struct berth_json *kept = berth_json_new_object(), *params = berth_json_new_object();
    size_t bytes = STREAMED_OVERHEAD;
    (void)berth_json_set(params, "stream", copy_text(berth_json_get(m->params, "stream"), &bytes));
    (void)berth_json_set(params, "chunk", copy_text(berth_json_get(m->params, "chunk"), &bytes));
    (void)berth_json_set(kept, "paperclipInvocationId",
                         copy_text(berth_json_get(m->whole, "paperclipInvocationId"), &bytes));
    (void)berth_json_set(kept, "params", params);
    pthread_mutex_lock(&s->lock);
    s->streamed_bytes += bytes;
    if (s->streamed_bytes <= BERTH_CHECK_STREAMED_BYTES_MAX)
        (void)berth_json_add(s->streamed, take_ptr(kept));
    pthread_mutex_unlock(&s->lock);
    berth_json_free(kept);
}

static void on_session_message(void *ctx, const struct berth_message *m)
{
    struct berth_session *s = ctx;
    if (m->kind == BERTH_MESSAGE_NOTIFICATION) {
        if (strcmp(m->method, "execute.log") == 0)
            keep_streamed(s, m);
        return;
    }
    struct berth_buf line = BERTH_BUF_INIT(64 * 1024);
    if (strcmp(m->method, "config.get") == 0)
        berth_message_write_result(&line, m->id, "{}");
    else if (strcmp(m->method, "log") == 0)
        berth_message_write_result(&line, m->id, NULL);
    else
        berth_message_write_error(&line, m->id, BERTH_RPC_NO_METHOD,
                                  "Host does not handle this method");
    berth_rpc_send(s->rpc, &line);
}

static void on_session_noise(void *ctx, const char *line, size_t len, const char *why)
{
    struct berth_session *s = ctx;
    if (strstr(why, "null/undefined id"))
        return; /* it could not read what it was sent, and says so */
    pthread_mutex_lock(&s->lock);
    if (s->noise++ == 0)
        (void)snprintf(s->odd, sizeof s->odd, "%s: %.*s", why, (int)(len < 100 ? len : 100), line);
    pthread_mutex_unlock(&s->lock);
}

static void on_session_stderr(void *ctx, const char *bytes, size_t len)
{
    struct berth_session *s = ctx;
    pthread_mutex_lock(&s->lock);
    size_t have = strlen(s->said), max = sizeof s->said - 1;
    size_t kept = len < max ? len : max, old = have + kept > max ? max - kept : have;
    memmove(s->said, s->said + have - old, old);
    memcpy(s->said + old, bytes + len - kept, kept);
    s->said[old + kept] = '\0';
    pthread_mutex_unlock(&s->lock);
}

static void on_session_end(void *ctx, const struct berth_exec_end *end, struct berth_buf *text)
{
    struct berth_session *s = ctx;
    pthread_mutex_lock(&s->lock);
    s->ended = true;
    s->end = *end;
    berth_buf_printf(text, "it ended (code %d, signal %d)%s%.300s", end->exit_code, end->signal,
                     s->said[0] ? ": " : "", s->said);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* --- beginning and end --- */

static void run_start(void *ctx)
{
    struct errand *e = ctx;
    struct berth_session *s = e->session;
    struct berth_rpc_handlers handlers = {.on_message = on_session_message,
                                          .on_noise = on_session_noise,
                                          .on_stderr = on_session_stderr,
                                          .on_end = on_session_end,
                                          .ctx = s};
    e->rc = berth_rpc_start(s->engine, s->pool, &s->launch.options, &handlers, &s->rpc, e->err);
}

int berth_session_open(struct berth_engine *engine, const struct berth_worker_spec *spec,
                       struct berth_session **out, struct berth_error *err)
{
    struct berth_session *s = calloc(1, sizeof *s);
    if (!s)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: worker.");
    s->engine = engine;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_t clock;
    (void)pthread_condattr_init(&clock);
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &clock);
    (void)pthread_condattr_destroy(&clock);
    s->streamed = berth_json_new_array();
    struct errand errand = {.session = s};
    int rc = berth_launch_prepare("check", spec, &s->launch, err);
    if (rc == BERTH_OK)
        rc = berth_pool_new(2, &s->pool, err);
    if (rc == BERTH_OK)
        rc = do_errand(&errand, run_start, err);
    if (rc < 0) {
        s->ended = true;
        berth_session_close(s);
        return rc;
    }
    *out = s;
    return BERTH_OK;
}

static void run_session_free(void *ctx)
{
    struct errand *e = ctx;
    berth_rpc_free(e->session->rpc);
    e->session->rpc = NULL;
}

void berth_session_close(struct berth_session *s)
{
    struct berth_error ignored;
    if (!s)
        return;
    if (s->rpc) {
        berth_session_hang_up(s);
        if (!berth_session_wait_end(s, CLOSE_MS))
            berth_session_kill(s);
        (void)berth_session_wait_end(s, INT32_MAX);
        struct errand errand = {.session = s};
        (void)do_errand(&errand, run_session_free, &ignored);
    }
    berth_pool_free(s->pool);
    berth_launch_clear(&s->launch);
    berth_json_free(s->streamed);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* --- asking --- */

struct berth_session_question {
    struct berth_post post;
    struct berth_session *session;
    struct berth_rpc_request request;
    char *method, *params, *invocation;
    struct berth_session_reply reply;
    bool answered;
};

static void on_session_reply(void *ctx, const struct berth_reply *reply)
{
    struct berth_session_question *q = ctx;
    struct berth_session *s = q->session;
    pthread_mutex_lock(&s->lock);
    q->reply.kind = reply->kind;
    q->reply.code = reply->code;
    q->reply.streamed = berth_json_count(s->streamed);
    if (reply->result)
        q->reply.result = berth_json_copy(reply->result);
    (void)snprintf(q->reply.text, sizeof q->reply.text, "%s", reply->text ? reply->text : "");
    q->answered = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void run_ask(struct berth_post *post)
{
    struct berth_session_question *q =
        berth_container_of(post, struct berth_session_question, post);
    berth_rpc_call(q->session->rpc, &q->request);
}

static void free_question(struct berth_session_question *q)
{
    free(q->method);
    free(q->params);
    free(q->invocation);
    free(q);
}

struct berth_session_question *berth_session_begin(struct berth_session *s, const char *method,
                                                   const char *params_json,
                                                   const char *invocation_json, int64_t timeout_ms)
{
    struct berth_session_question *q = calloc(1, sizeof *q);
    struct berth_error ignored;
    if (!q)
        return NULL;
    q->session = s;
    q->method = strdup(method);
    q->params = params_json ? strdup(params_json) : NULL;
    q->invocation = invocation_json ? strdup(invocation_json) : NULL;
    q->request = (struct berth_rpc_request){.method = q->method,
                                            .params_json = q->params,
                                            .invocation_json = q->invocation,
                                            .timeout_ms = timeout_ms,
                                            .on_reply = on_session_reply,
                                            .ctx = q};
    q->post.run = run_ask;
    if (q->method && q->params && !invocation_json == !q->invocation &&
        berth_engine_post(s->engine, &q->post, &ignored) == BERTH_OK)
        return q;
    free_question(q);
    return NULL;
}

struct berth_session_reply berth_session_await(struct berth_session_question *q)
{
    if (!q)
        return (struct berth_session_reply){.kind = BERTH_REPLY_UNSENT,
                                            .text = "Out of memory: question."};
    struct berth_session *s = q->session;
    pthread_mutex_lock(&s->lock);
    while (!q->answered)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    struct berth_session_reply reply = q->reply;
    free_question(q);
    return reply;
}

struct berth_session_reply berth_session_ask(struct berth_session *s, const char *method,
                                             const char *params_json, int64_t timeout_ms)
{
    return berth_session_await(berth_session_begin(s, method, params_json, NULL, timeout_ms));
}

struct berth_json *berth_session_take_streamed(struct berth_session *s)
{
    struct berth_json *fresh = berth_json_new_array();
    pthread_mutex_lock(&s->lock);
    struct berth_json *streamed = s->streamed;
    s->streamed = fresh;
    s->streamed_bytes = 0;
    pthread_mutex_unlock(&s->lock);
    return streamed;
}

void berth_session_reply_clear(struct berth_session_reply *reply)
{
    berth_json_free(reply->result);
    reply->result = NULL;
}

/* --- other things that happen to workers --- */

static void run_session_write(void *ctx)
{
    struct errand *e = ctx;
    struct berth_buf lines = BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX);
    berth_buf_append(&lines, e->bytes, e->len);
    berth_rpc_send(e->session->rpc, &lines);
}

void berth_session_write(struct berth_session *s, const char *bytes, size_t len)
{
    struct errand errand = {.session = s, .bytes = bytes, .len = len};
    struct berth_error ignored;
    (void)do_errand(&errand, run_session_write, &ignored);
}

static void run_hang_up(void *ctx)
{
    struct errand *e = ctx;
    berth_process_close_stdin(berth_rpc_process(e->session->rpc));
}

void berth_session_hang_up(struct berth_session *s)
{
    struct errand errand = {.session = s};
    struct berth_error ignored;
    (void)do_errand(&errand, run_hang_up, &ignored);
}

static void run_kill(void *ctx)
{
    struct errand *e = ctx;
    berth_process_kill(berth_rpc_process(e->session->rpc));
}

void berth_session_kill(struct berth_session *s)
{
    struct errand errand = {.session = s};
    struct berth_error ignored;
    (void)do_errand(&errand, run_kill, &ignored);
}

bool berth_session_wait_end(struct berth_session *s, int64_t wait_ms)
{
    struct timespec until = berth_time_until(wait_ms);
    pthread_mutex_lock(&s->lock);
    while (!s->ended)
        if (pthread_cond_timedwait(&s->changed, &s->lock, &until) != 0)
            break;
    bool ended = s->ended;
    pthread_mutex_unlock(&s->lock);
    return ended;
}
