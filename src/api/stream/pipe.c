/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/pipe.c - see pipe.h. What touches the exchange runs on the loop's thread, while
 * the handler's thread waits for it. */
#include "api/stream/pipe.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "api/state.h"
#include "api/stream/stream.h"
#include "base/auto.h"
#include "base/container.h"
#include "base/time.h"

#define TAKEN_BYTES_MAX ((size_t)256 * 1024) /* of a body, before the client has to wait */
#define LOOK_MS 200 /* between two looks whether a wait still makes sense */
#define QUEUED_BYTES_MAX ((size_t)512 * 1024) /* of an answer, before the handler has to wait */

struct berth_api_pipe {
    struct berth_api_stream s; /* first; s.x is set while an answer is under way */
    struct berth_api_call *c;
    int64_t body_max;
    bool reads_body, begun;
    int left_fd;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    char *taken, *reading; /* bytes of the body: those that came, and those of the handler */
    size_t taken_len;
    bool room;  /* all of the answer so far has been sent */
    bool held;  /* the body waits until the handler has read */
    bool ended; /* the body is complete */
    bool gone;
};

/* --- on the loop's thread --- */

static void pipe_set_gone(struct berth_api_pipe *p)
{
    pthread_mutex_lock(&p->lock);
    p->gone = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    (void)eventfd_write(p->left_fd, 1);
}

static void on_client_left(void *ctx)
{
    pipe_set_gone(ctx);
}

static size_t on_body_bytes(void *ctx, const char *bytes, size_t len)
{
    struct berth_api_pipe *p = ctx;
    pthread_mutex_lock(&p->lock);
    size_t room = TAKEN_BYTES_MAX - p->taken_len, took = len < room ? len : room;
    memcpy(p->taken + p->taken_len, bytes, took);
    p->taken_len += took;
    p->held = took < len;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return took;
}

static void on_body_end(void *ctx)
{
    struct berth_api_pipe *p = ctx;
    pthread_mutex_lock(&p->lock);
    p->ended = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void pipe_start(void *ctx)
{
    struct berth_api_pipe *p = ctx;
    struct berth_http_body_handlers handlers = {
        .on_bytes = on_body_bytes, .on_end = on_body_end, .on_gone = on_client_left, .ctx = p};
    berth_api_call_wait(p->c);
    if (p->reads_body)
        berth_http_body_read(p->c->x, p->body_max, &handlers);
    else
        berth_http_exchange_on_left(p->c->x, on_client_left, p);
}

static void pipe_read_on(void *ctx)
{
    struct berth_api_pipe *p = ctx;
    berth_http_body_read_on(p->c->x);
}

static void on_stream_room(struct berth_api_stream *s)
{
    struct berth_api_pipe *p = berth_container_of(s, struct berth_api_pipe, s);
    pthread_mutex_lock(&p->lock);
    p->room = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void on_stream_gone(struct berth_api_stream *s)
{
    pipe_set_gone(berth_container_of(s, struct berth_api_pipe, s));
}

/* --- on the handler's thread --- */

static void pipe_do(struct berth_api_pipe *p, void (*run)(void *ctx), void *ctx)
{
    struct berth_error none;
    (void)berth_engine_do(p->s.engine, run, ctx, &none); /* the loop runs: it has the call */
}

static void pipe_free(struct berth_api_pipe *p)
{
    if (p->left_fd >= 0)
        (void)close(p->left_fd);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p->taken);
    free(p->reading);
    free(p);
}

int berth_api_pipe_open(struct berth_api_call *c, bool reads_body, int64_t body_max,
                        struct berth_api_pipe **out, struct berth_error *err)
{
    struct berth_api_pipe *p = calloc(1, sizeof *p);
    if (!p)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: request.");
    pthread_mutex_init(&p->lock, NULL);
    berth_time_cond_init(&p->changed);
    p->left_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->c = c;
    p->reads_body = reads_body;
    p->body_max = body_max;
    p->s = (struct berth_api_stream){.engine = c->b->engine,
                                     .aborts = true,
                                     .on_room = on_stream_room,
                                     .on_gone = on_stream_gone};
    if (reads_body) {
        p->taken = malloc(TAKEN_BYTES_MAX);
        p->reading = malloc(TAKEN_BYTES_MAX);
    }
    if (p->left_fd < 0 || (reads_body && (!p->taken || !p->reading))) {
        pipe_free(p);
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: request.");
    }
    pipe_do(p, pipe_start, p);
    *out = p;
    return BERTH_OK;
}

int berth_api_pipe_left_fd(const struct berth_api_pipe *p)
{
    return p->left_fd;
}

/* Waits until bytes of the body are there, or until nothing more comes. */
static int await_bytes(struct berth_api_pipe *p, const struct berth_pack_sink *sink,
                       struct berth_error *err)
{
    int rc = BERTH_OK;
    pthread_mutex_lock(&p->lock);
    while (rc == BERTH_OK && !p->taken_len && !p->ended && !p->gone) {
        struct timespec until = berth_time_until(LOOK_MS);
        (void)pthread_cond_timedwait(&p->changed, &p->lock, &until);
        if (sink && sink->is_over && sink->is_over(sink->ctx))
            rc = berth_fail(err, BERTH_E_UPSTREAM,
                            "The place ended the transfer before all was sent.");
        else if (berth_is_closing(p->c->b))
            rc = berth_fail(err, BERTH_E_CANCELLED, "The daemon is stopping.");
    }
    pthread_mutex_unlock(&p->lock);
    return rc;
}

ssize_t berth_api_pipe_get(struct berth_api_pipe *p, const struct berth_pack_sink *sink,
                           const void **bytes, struct berth_error *err)
{
    int rc = await_bytes(p, sink, err);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&p->lock);
    char *came = p->taken;
    size_t len = p->taken_len;
    bool held = p->held, gone = p->gone;
    p->taken = p->reading;
    p->reading = came;
    p->taken_len = 0;
    p->held = false;
    pthread_mutex_unlock(&p->lock);
    if (gone)
        return berth_fail(err, BERTH_E_CANCELLED, "The client has left.");
    if (held)
        pipe_do(p, pipe_read_on, p);
    *bytes = came;
    return (ssize_t)len;
}

/* The beginning of an answer. */
struct beginning {
    struct berth_api_pipe *p;
    int status;
    const char *type;
    const struct berth_http_header *more;
};

static void begin_answer(void *ctx)
{
    const struct beginning *b = ctx;
    struct berth_api_pipe *p = b->p;
    berth_api_call_go_on(p->c);
    berth_http_exchange_on_left(p->c->x, NULL, NULL);
    p->s.x = p->c->x;
    p->s.status = b->status;
    p->s.more = b->more;
    berth_api_stream_let_in(&p->s, p->c);
    berth_api_stream_begin(&p->s, b->type);
}

void berth_api_pipe_begin(struct berth_api_pipe *p, int status, const char *type,
                          const struct berth_http_header more[BERTH_HTTP_MORE_MAX])
{
    struct beginning b = {p, status, type, more};
    p->begun = true;
    pipe_do(p, begin_answer, &b);
}

/* A piece of an answer. */
struct putting {
    struct berth_api_pipe *p;
    const void *bytes;
    size_t len;
    bool full;
};

static void put_piece(void *ctx)
{
    struct putting *put = ctx;
    struct berth_api_stream *s = &put->p->s;
    berth_api_stream_put(s, put->bytes, put->len);
    put->full = s->x && berth_http_stream_queued(s->x) > QUEUED_BYTES_MAX;
}

int berth_api_pipe_put(void *pipe, const void *bytes, size_t len, struct berth_error *err)
{
    struct berth_api_pipe *p = pipe;
    struct putting put = {p, bytes, len, false};
    pthread_mutex_lock(&p->lock);
    p->room = false;
    pthread_mutex_unlock(&p->lock);
    pipe_do(p, put_piece, &put);
    pthread_mutex_lock(&p->lock);
    bool closing = false;
    while (put.full && !p->room && !p->gone && !closing) {
        struct timespec until = berth_time_until(LOOK_MS);
        (void)pthread_cond_timedwait(&p->changed, &p->lock, &until);
        closing = berth_is_closing(p->c->b);
    }
    bool gone = p->gone;
    pthread_mutex_unlock(&p->lock);
    if (closing)
        return berth_fail(err, BERTH_E_CANCELLED, "The daemon is stopping.");
    return gone ? berth_fail(err, BERTH_E_CANCELLED, "The client has left.") : BERTH_OK;
}

/* The end of a call. */
struct ending {
    struct berth_api_pipe *p;
    int rc;
    const struct berth_error *err;
};

static void end_call(void *ctx)
{
    const struct ending *e = ctx;
    struct berth_api_pipe *p = e->p;
    if (p->begun && e->rc < 0 && p->s.x)
        berth_api_stream_abort(&p->s);
    else if (p->begun)
        berth_api_stream_end(&p->s);
    if (p->begun) {
        berth_api_pass_on(p->c);
        return;
    }
    berth_api_call_go_on(p->c);
    berth_http_exchange_on_left(p->c->x, NULL, NULL);
    berth_api_answer(p->c, e->rc, e->err); /* on this thread: no handler is called any more */
}

int berth_api_pipe_close(struct berth_api_pipe *p, int rc, const struct berth_error *err)
{
    struct ending e = {p, rc, err};
    pipe_do(p, end_call, &e);
    pipe_free(p);
    return BERTH_API_KEPT;
}
