/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/worker_call.c - calls to a worker: those that wait for it to run, and those that wait
 * for its answer. See worker.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/container.h"
#include "base/json.h"
#include "base/limits.h"
#include "plugin/verdict.h"
#include "plugin/worker.h"

#define VALIDATE "environmentValidateConfig"
#define EXECUTE "environmentExecute"
#define SENT_BYTES_MAX (2 * BERTH_CONFIG_BYTES_MAX) /* params of a validation are not longer */

/* --- calls that wait for the worker to run --- */

static void parked_go(struct berth_parked *parked)
{
    struct berth_parked **at = &parked->worker->parked;
    while (*at != parked)
        at = &(*at)->next;
    *at = parked->next;
    berth_timer_clear(parked->worker->ground->engine, &parked->timer);
    parked->go(parked);
}

/* A start has a time of its own, also when it began while the call was waiting. */
static void parked_set_timer(struct berth_parked *parked)
{
    struct berth_worker *w = parked->worker;
    parked->for_start = w->state == BERTH_WORKER_STARTING;
    berth_timer_set(w->ground->engine, &parked->timer,
                    parked->for_start ? BERTH_WORKER_START_MS : BERTH_WORKER_READY_MS);
}

static void on_parked_timer(struct berth_timer *timer)
{
    struct berth_parked *parked = berth_container_of(timer, struct berth_parked, timer);
    if (parked->worker->state == BERTH_WORKER_STARTING && !parked->for_start)
        parked_set_timer(parked);
    else
        parked_go(parked);
}

void berth_worker_release_parked(struct berth_worker *w)
{
    while (w->parked)
        parked_go(w->parked);
}

void berth_worker_enter(struct berth_worker *w, struct berth_parked *parked)
{
    bool coming = w->state == BERTH_WORKER_STARTING || w->state == BERTH_WORKER_CRASHED ||
                  w->state == BERTH_WORKER_BACKOFF;
    if (!coming || w->stop_wanted) {
        parked->go(parked);
        return;
    }
    parked->worker = w;
    parked->timer = (struct berth_timer){.run = on_parked_timer};
    parked->next = w->parked;
    w->parked = parked;
    parked_set_timer(parked);
}

/* --- calls that wait for an answer --- */

struct berth_stream_watch {
    struct berth_stream_watch *next;
    char *invocation; /* "" when its output is not streamed */
    void (*on_output)(void *ctx, enum berth_stream stream, const char *bytes, size_t len);
    berth_reply_fn *on_reply, *on_late;
    void *ctx;
    struct berth_worker *worker;
    char *sent; /* the params of a validation, or NULL */
};

static void watch_drop(struct berth_stream_watch *watch)
{
    struct berth_stream_watch **at = &watch->worker->watches;
    while (*at != watch)
        at = &(*at)->next;
    *at = watch->next;
    free(watch->invocation);
    free(watch->sent);
    free(watch);
}

void berth_worker_hand_output(struct berth_worker *w, const char *invocation,
                              enum berth_stream stream, const char *bytes, size_t len)
{
    for (struct berth_stream_watch *watch = w->watches; watch; watch = watch->next)
        if (watch->on_output && strcmp(watch->invocation, invocation) == 0) {
            watch->on_output(watch->ctx, stream, bytes, len);
            return;
        }
}

static void worker_count_call(struct berth_worker *w, int change)
{
    pthread_mutex_lock(&w->ground->lock);
    w->pending += change;
    pthread_mutex_unlock(&w->ground->lock);
}

/* Hands on the answer and frees the watch. Errors lose every secret that the worker was ever told;
 * the caller takes those of its own call out of a result. */
static void watch_end(struct berth_stream_watch *watch, berth_reply_fn *tell,
                      const struct berth_reply *reply)
{
    struct berth_worker *w = watch->worker;
    struct berth_reply clean = *reply;
    auto_json *verdict = NULL;
    struct berth_error err;
    auto_free char *text = reply->text ? berth_worker_clean_text(w, reply->text) : NULL;
    if (watch->sent && reply->result &&
        berth_verdict_clean(w->log, watch->sent, reply->result, &verdict, &err) < 0)
        clean = (struct berth_reply){
            .kind = BERTH_REPLY_ERROR, .code = BERTH_RPC_WORKER_ERROR, .text = err.message};
    else if (verdict)
        clean.result = verdict;
    else if (reply->text)
        clean.text = text;
    worker_count_call(w, w->rpc ? -1 : 0); /* the end of the process has set the count to 0 */
    tell(watch->ctx, &clean);
    watch_drop(watch);
}

static void on_watch_reply(void *ctx, const struct berth_reply *reply)
{
    struct berth_stream_watch *watch = ctx;
    if (reply->kind == BERTH_REPLY_TIMEOUT && watch->on_late)
        watch->on_reply(watch->ctx, reply);
    else
        watch_end(watch, watch->on_reply, reply);
}

static void on_watch_late(void *ctx, const struct berth_reply *reply)
{
    struct berth_stream_watch *watch = ctx;
    watch_end(watch, watch->on_late, reply);
}

static void call_refuse(const struct berth_worker_call *call, const char *status)
{
    char text[256];
    (void)snprintf(text, sizeof text,
                   "Cannot call \"%.80s\" \xe2\x80\x94 worker for \"%.40s\" is %s", call->method,
                   call->plugin_id, status);
    struct berth_reply reply = {
        .kind = BERTH_REPLY_UNSENT, .code = BERTH_RPC_UNAVAILABLE, .text = text};
    call->on_reply(call->ctx, &reply);
}

static char *call_invocation_json(const struct berth_worker_call *call)
{
    struct berth_buf buf = BERTH_BUF_INIT(1024);
    struct berth_json_writer p = {.buf = &buf};
    berth_json_open(&p, '{');
    berth_json_put_str(&p, "id", call->invocation);
    berth_json_open_in(&p, "scope", '{');
    berth_json_put_str(&p, "companyId", call->company_id);
    berth_json_close(&p, '}');
    berth_json_close(&p, '}');
    return berth_buf_take(&buf);
}

/* Returns NULL when memory ran out. */
static struct berth_stream_watch *watch_new(struct berth_worker *w,
                                            const struct berth_worker_call *call)
{
    struct berth_stream_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return NULL;
    *watch =
        (struct berth_stream_watch){.invocation = strdup(call->invocation ? call->invocation : ""),
                                    .on_output = call->on_output,
                                    .on_reply = call->on_reply,
                                    .on_late = call->on_late,
                                    .ctx = call->ctx,
                                    .worker = w};
    bool validates = strcmp(call->method, VALIDATE) == 0;
    if (validates)
        watch->sent = strdup(strlen(call->params_json) < SENT_BYTES_MAX ? call->params_json : "{}");
    if (watch->invocation && (!validates || watch->sent))
        return watch;
    free(watch->invocation);
    free(watch->sent);
    free(watch);
    return NULL;
}

/* Returns 0, no limit, for a command: it takes as long as it takes. */
static int64_t call_timeout_ms(const struct berth_worker_call *call)
{
    if (call->timeout_ms)
        return call->timeout_ms;
    return strcmp(call->method, EXECUTE) == 0 ? 0 : BERTH_WORKER_CALL_MS;
}

void berth_worker_call(struct berth_worker *w, const struct berth_worker_call *call)
{
    if (w->state != BERTH_WORKER_RUNNING) {
        call_refuse(call, berth_worker_states[w->state]);
        return;
    }
    auto_free char *envelope = call->invocation ? call_invocation_json(call) : NULL;
    struct berth_stream_watch *watch = watch_new(w, call);
    if (!watch) {
        call_refuse(call, "short of memory");
        return;
    }
    berth_worker_log_hide(w->log, call->secrets, call->secret_count);
    watch->next = w->watches;
    w->watches = watch;
    struct berth_rpc_request request = {.method = call->method,
                                        .params_json = call->params_json,
                                        .invocation_json = envelope,
                                        .timeout_ms = call_timeout_ms(call),
                                        .on_reply = on_watch_reply,
                                        .on_late = call->on_late ? on_watch_late : NULL,
                                        .ctx = watch};
    worker_count_call(w, 1);
    berth_rpc_call(w->rpc, &request);
}
