/* SPDX-License-Identifier: Apache-2.0
 * src/driver/worker_ask.c - see worker_ask.h. */
#include "driver/worker_ask.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/failpoint.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"

#define LOOK_MS 1000 /* how often a waiting call looks at the clock, which may be moved */

/* --- params --- */

struct berth_json *berth_worker_config(const struct berth_worker_driver *d, const char *config_json)
{
    struct berth_json *config = NULL;
    struct berth_error ignored;
    if (berth_json_parse(config_json, strlen(config_json), BERTH_JSON_OURS, &config, &ignored) < 0)
        return NULL;
    if (d->options.sandbox) { /* these are between the user and us */
        berth_json_remove(config, "provider");
        berth_json_remove(config, "idleTtlMs");
        return config;
    }
    const struct berth_json *inner = berth_json_get(config, "driverConfig");
    struct berth_json *copy = inner ? berth_json_copy(inner) : berth_json_new_object();
    berth_json_free(config);
    return copy;
}

int64_t berth_worker_timeout(const struct berth_json *config, const char *key)
{
    const struct berth_json *value = berth_json_get(config, key);
    double number = berth_json_is(value, BERTH_JSON_INT) || berth_json_is(value, BERTH_JSON_REAL)
                        ? trunc(berth_json_number(value))
                        : 0;
    return number >= 1 && number < 1e15 ? (int64_t)number : 0;
}

int64_t berth_worker_place_timeout(const struct berth_worker_driver *d,
                                   const struct berth_json *config)
{
    int64_t a = berth_worker_timeout(config, "timeoutMs");
    int64_t b = berth_worker_timeout(config, "bridgeRequestTimeoutMs");
    if (!d->options.sandbox || (!a && !b))
        return 0;
    int64_t asked_ms = a > b ? a : b;
    return (asked_ms < BERTH_PLACE_CALL_MS_MAX ? asked_ms : BERTH_PLACE_CALL_MS_MAX) +
           BERTH_WORKER_OVERHEAD_MS;
}

static void put_json(struct berth_json_writer *w, const char *key, const struct berth_json *value)
{
    char *text = berth_json_canonical(value);
    if (!text) {
        w->buf->failed = true;
        return;
    }
    berth_json_put_raw(w, key, text);
    explicit_bzero(text, strlen(text));
    free(text);
}

void berth_worker_begin(struct berth_json_writer *w, const struct berth_worker_driver *d,
                        const struct berth_place_request *who, const struct berth_json *config)
{
    berth_json_open(w, '{');
    berth_json_put_str(w, "driverKey", d->options.driver_key);
    if (who) {
        berth_json_put_str(w, "companyId", who->company_id);
        berth_json_put_str(w, "environmentId", who->environment_id);
    }
    if (who && who->lease_id) /* a probe is for nobody's issue */
        berth_json_put_str(w, "issueId", who->issue_id);
    put_json(w, "config", config);
}

void berth_worker_put_lease(struct berth_json_writer *w, const struct berth_place *place)
{
    berth_json_open_in(w, "lease", '{');
    berth_json_put_str(w, "providerLeaseId", place->id);
    berth_json_put_raw(w, "metadata", place->shown_json ? place->shown_json : "{}");
    berth_json_put_time(w, "expiresAt", place->expires_at_ms);
    berth_json_close(w, '}');
}

const char *berth_worker_object(struct berth_arena *arena, const struct berth_json *value)
{
    return berth_json_is(value, BERTH_JSON_OBJECT) ? berth_json_canonical_in(arena, value) : NULL;
}

int berth_worker_read_lease(struct berth_arena *arena, const struct berth_json *answer,
                            struct berth_place *out, struct berth_error *err)
{
    const struct berth_json *place = berth_json_get(answer, "providerLeaseId");
    const char *id = berth_json_str(place);
    const char *expires = berth_json_str(berth_json_get(answer, "expiresAt"));
    if (id && *id && strlen(id) == berth_json_str_len(place)) /* one with a NUL in it is none */
        out->id = berth_arena_strdup(arena, id);
    out->metadata_json = berth_worker_object(arena, berth_json_get(answer, "metadata"));
    if (!expires || !berth_time_parse_iso(expires, &out->expires_at_ms))
        out->expires_at_ms = 0;
    return berth_arena_check(arena, err);
}

/* --- is it there? --- */

/* Says why a call cannot be made. */
static int not_running(const struct berth_worker_driver *d,
                       const struct berth_worker_absence *absence, int64_t waited_ms,
                       struct berth_error *err)
{
    const struct berth_worker_driver_options *o = &d->options;
    char why[500] = "is not running.";
    if (absence->start_failed)
        (void)snprintf(why, sizeof why, "did not start: %s", absence->error);
    else if (absence->starting)
        (void)snprintf(why, sizeof why, "did not start within %lld ms.", (long long)waited_ms);
    if (o->sandbox)
        return berth_fail(err, BERTH_E_UNAVAILABLE,
                          "Sandbox provider \"%s\" is installed via plugin \"%s\", but its worker "
                          "%s",
                          o->driver_key, o->plugin_key, why);
    if (absence->starting || absence->start_failed)
        return berth_fail(err, BERTH_E_UNAVAILABLE,
                          "The worker of plugin environment driver \"%s:%s\" %s", o->plugin_key,
                          o->driver_key, why);
    return berth_fail(err, BERTH_E_UNAVAILABLE,
                      "Plugin environment driver \"%s:%s\" has no running worker.", o->plugin_key,
                      o->driver_key);
}

int berth_worker_ready(struct berth_worker_driver *d, const struct berth_call *call,
                       struct berth_error *err)
{
    const struct berth_worker_driver_options *o = &d->options;
    const struct berth_workers_ops *ops = o->workers->ops;
    if (ops->is_running(o->workers, o->plugin_id))
        return BERTH_OK;
    int64_t begun_ms = berth_time_mono_ms();
    struct berth_worker_absence first = {0}, absence = {0};
    if (ops->explain)
        ops->explain(o->workers, o->plugin_id, &first);
    for (;;) {
        if (ops->want)
            ops->want(o->workers, o->plugin_id, o->poll_ms);
        if (ops->is_running(o->workers, o->plugin_id))
            return BERTH_OK;
        if (ops->explain)
            ops->explain(o->workers, o->plugin_id, &absence);
        bool in_start = absence.starting && absence.attempts == first.attempts;
        int64_t limit_ms = in_start ? o->start_ms : o->ready_ms;
        if (call->deadline_ms < begun_ms + limit_ms)
            limit_ms = call->deadline_ms > begun_ms ? call->deadline_ms - begun_ms : 0;
        if (berth_time_mono_ms() - begun_ms >= limit_ms) {
            /* Why the awaited start failed says more than that the next one has begun. */
            absence.start_failed |= absence.starting && !in_start && absence.error[0];
            return not_running(d, &absence, limit_ms, err);
        }
        struct pollfd cancel = {.fd = call->cancel_fd, .events = POLLIN};
        if (poll(&cancel, 1, absence.starting && ops->want ? 0 : (int)o->poll_ms) > 0)
            return berth_fail(err, BERTH_E_CANCELLED, "The call was cancelled.");
    }
}

/* --- asking --- */

/* Shared by who waits and by the answer, which may come when nobody waits any more. */
struct answer {
    pthread_mutex_t lock;
    int refs, fd;
    bool there, given_up; /* nobody waits any more */
    enum berth_reply_kind kind;
    int64_t code;
    struct berth_json *result;
    char text[1000];
    /* Of an acquire: */
    char lease_id[BERTH_ID_SIZE];
    void (*on_late)(void *ctx, const char *lease_id, const struct berth_place *place);
    void *late_ctx;
};

static void drop_answer(struct answer *a)
{
    pthread_mutex_lock(&a->lock);
    bool last = --a->refs == 0;
    pthread_mutex_unlock(&a->lock);
    if (!last)
        return;
    berth_json_free(a->result);
    if (a->fd >= 0)
        (void)close(a->fd);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

/* A place was made, and whoever wanted it has gone. */
static void hand_over(const struct answer *a, const struct berth_json *result)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_place place = {0};
    struct berth_error ignored;
    if (a->on_late && berth_worker_read_lease(&arena, result, &place, &ignored) == BERTH_OK &&
        place.id)
        a->on_late(a->late_ctx, a->lease_id, &place);
}

static void on_late(void *ctx, const struct berth_reply *reply)
{
    struct answer *a = ctx;
    if (reply->kind == BERTH_REPLY_RESULT)
        hand_over(a, reply->result);
    drop_answer(a);
}

static void on_reply(void *ctx, const struct berth_reply *reply)
{
    struct answer *a = ctx;
    pthread_mutex_lock(&a->lock);
    bool late = a->given_up && reply->kind == BERTH_REPLY_RESULT;
    if (a->on_late && reply->kind == BERTH_REPLY_TIMEOUT)
        a->refs++; /* for on_late */
    a->there = true;
    a->kind = reply->kind;
    a->code = reply->code;
    if (reply->result)
        a->result = berth_json_copy(reply->result);
    if (reply->text)
        (void)snprintf(a->text, sizeof a->text, "%s", reply->text);
    if (a->fd >= 0)
        (void)eventfd_write(a->fd, 1);
    pthread_mutex_unlock(&a->lock);
    if (late)
        hand_over(a, reply->result);
    drop_answer(a);
}

static struct answer *new_answer(const struct berth_worker_question *question)
{
    struct answer *a = calloc(1, sizeof *a);
    int fd = a ? eventfd(0, EFD_CLOEXEC) : -1;
    if (fd < 0) {
        free(a);
        return NULL;
    }
    a->refs = 2;
    a->fd = fd;
    if (question->acquires && question->who->on_late) {
        (void)snprintf(a->lease_id, sizeof a->lease_id, "%s", question->who->lease_id);
        a->on_late = question->who->on_late;
        a->late_ctx = question->who->late_ctx;
    }
    pthread_mutex_init(&a->lock, NULL);
    return a;
}

static int ask_await(const struct berth_call *call, const struct answer *a, struct berth_error *err)
{
    struct pollfd fds[] = {{.fd = a->fd, .events = POLLIN},
                           {.fd = call->cancel_fd, .events = POLLIN}};
    for (;;) {
        int64_t left_ms =
            call->deadline_ms == INT64_MAX ? LOOK_MS : call->deadline_ms - berth_time_mono_ms();
        if (left_ms <= 0)
            return berth_fail(err, BERTH_E_TIMEOUT, "The worker did not answer in time.");
        int ready = poll(fds, 2, left_ms < LOOK_MS ? (int)left_ms : LOOK_MS);
        if (ready > 0 && fds[0].revents)
            return BERTH_OK;
        if (ready > 0)
            return berth_fail(err, BERTH_E_CANCELLED, "The call was cancelled.");
    }
}

static int code_of(const struct answer *a)
{
    switch (a->kind) {
    case BERTH_REPLY_RESULT:
        return a->result ? BERTH_OK : BERTH_E_NO_MEMORY;
    case BERTH_REPLY_TIMEOUT:
        return BERTH_E_TIMEOUT;
    case BERTH_REPLY_ERROR:
        if (a->code == BERTH_RPC_UNAVAILABLE) /* it did not come to it, or not to its end */
            return BERTH_E_UNAVAILABLE;
        if (a->code == BERTH_RPC_TIMEOUT)
            return BERTH_E_TIMEOUT;
        return a->code == BERTH_RPC_NO_METHOD || a->code == BERTH_RPC_NOT_IMPLEMENTED
                   ? BERTH_E_UNSUPPORTED
                   : BERTH_E_UPSTREAM;
    default:
        return BERTH_E_UNAVAILABLE;
    }
}

int berth_worker_ask(struct berth_worker_driver *d, const struct berth_call *call,
                     struct berth_worker_question *question, struct berth_json **out,
                     struct berth_error *err)
{
    struct berth_workers *workers = d->options.workers;
    question->unsent = true;
    int rc = berth_buf_check(question->params, "Params", err);
    if (rc < 0)
        return rc;
    struct answer *a = new_answer(question);
    if (!a)
        return berth_fail(err, BERTH_E_UNAVAILABLE, "Cannot make an event descriptor.");
    const struct berth_place_request *who = question->who;
    struct berth_worker_call what = {.plugin_id = d->options.plugin_id,
                                     .method = question->method,
                                     .params_json = berth_buf_str(question->params),
                                     .timeout_ms = question->timeout_ms,
                                     .secrets = who ? who->secrets : NULL,
                                     .secret_count = who ? who->secret_count : 0,
                                     .on_reply = on_reply,
                                     .on_late = a->on_late ? on_late : NULL,
                                     .ctx = a};
    BERTH_FAILPOINT(worker_before_call);
    workers->ops->call(workers, &what);
    question->unsent = false;
    rc = ask_await(call, a, err);
    BERTH_FAILPOINT(worker_after_call);
    pthread_mutex_lock(&a->lock);
    if (rc == BERTH_OK) {
        question->unsent = a->kind == BERTH_REPLY_UNSENT;
        rc = code_of(a);
        if (rc == BERTH_OK)
            *out = take_ptr(a->result);
        else
            (void)berth_fail(err, rc, "%s", a->text[0] ? a->text : "The worker said nothing.");
        if (a->kind == BERTH_REPLY_ERROR)
            (void)berth_wrap(err, "code %lld", (long long)a->code);
    }
    a->given_up = true;
    (void)close(a->fd); /* what comes late may come very late */
    a->fd = -1;
    bool missed = rc < 0 && a->there && a->kind == BERTH_REPLY_RESULT; /* it came just now */
    pthread_mutex_unlock(&a->lock);
    if (missed)
        hand_over(a, a->result);
    drop_answer(a);
    return rc < 0 ? berth_wrap(err, "plugin %s: %s", d->options.plugin_key, question->method) : rc;
}
