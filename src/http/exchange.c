/* SPDX-License-Identifier: Apache-2.0
 * src/http/exchange.c - one request and its answer. See http.h and conn.h. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/container.h"
#include "http/answer_head.h"
#include "http/conn.h"

/* --- life --- */

struct berth_http_exchange *berth_http_exchange_new(struct berth_http_conn *c)
{
    struct berth_http_server *server = c->server;
    struct berth_http_exchange *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->server = server;
    x->conn = c;
    x->head = c->reader.head;
    x->head_bytes = c->reader.buf; /* x->head points into it */
    c->reader.buf = (struct berth_buf){.max = x->head_bytes.max, .secret = true};
    x->body = (struct berth_buf){.max = INT64_MAX, .secret = true};
    x->peer = *berth_socket_peer(c->socket);
    x->id = berth_id_new();
    x->secure = c->secure != NULL;
    atomic_init(&x->left_fd, -1);
    pthread_mutex_lock(&server->lock);
    server->exchanges++;
    server->requests++;
    pthread_mutex_unlock(&server->lock);
    return x;
}

void berth_http_exchange_free(struct berth_http_exchange *x)
{
    struct berth_http_server *server = x->server;
    int fd = atomic_load(&x->left_fd);
    if (fd >= 0)
        (void)close(fd);
    berth_buf_clear(&x->head_bytes);
    berth_http_body_free(x);
    berth_buf_clear(&x->answer_head);
    berth_buf_clear(&x->answer_body);
    berth_charge_drop(&x->answer_charge);
    bool stream = x->streams;
    free(x);
    pthread_mutex_lock(&server->lock);
    server->exchanges--;
    server->streams -= stream;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

void berth_http_exchange_leave(struct berth_http_conn *c)
{
    struct berth_http_exchange *x = c->exchange;
    if (!x)
        return;
    berth_http_conn_detach(c);
    if (x->body_early) { /* nothing else knows the exchange */
        berth_http_exchange_free(x);
        return;
    }
    berth_http_body_leave(x);
    berth_http_exchange_doubt(x);
}

void berth_http_exchange_doubt(struct berth_http_exchange *x)
{
    struct berth_http_stream_handlers told = x->stream;
    x->stream.on_gone = NULL; /* is called once */
    atomic_store(&x->left, true);
    int fd = atomic_load(&x->left_fd);
    if (fd >= 0)
        (void)eventfd_write(fd, 1);
    if (told.on_gone) /* may end a stream, which frees the exchange */
        told.on_gone(told.ctx);
}

/* --- the request --- */

const struct berth_http_head *berth_http_exchange_head(const struct berth_http_exchange *x)
{
    return &x->head;
}

const char *berth_http_exchange_body(const struct berth_http_exchange *x, size_t *len)
{
    *len = x->body.len;
    return berth_buf_str(&x->body);
}

const struct berth_peer *berth_http_exchange_peer(const struct berth_http_exchange *x)
{
    return &x->peer;
}

const char *berth_http_exchange_id(const struct berth_http_exchange *x)
{
    return x->id.text;
}

bool berth_http_exchange_secure(const struct berth_http_exchange *x)
{
    return x->secure;
}

int berth_http_exchange_left_fd(struct berth_http_exchange *x)
{
    int fd = atomic_load(&x->left_fd);
    if (fd >= 0)
        return fd;
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_store(&x->left_fd, fd);
    if (fd >= 0 && atomic_load(&x->left)) /* the client left before the descriptor existed */
        (void)eventfd_write(fd, 1);
    return fd;
}

void berth_http_exchange_on_left(struct berth_http_exchange *x, void (*on_left)(void *ctx),
                                 void *ctx)
{
    x->stream = (struct berth_http_stream_handlers){.on_gone = on_left, .ctx = ctx};
    if (on_left && atomic_load(&x->left)) {
        x->stream.on_gone = NULL;
        on_left(ctx);
    }
}

const char *berth_http_exchange_owner(const struct berth_http_exchange *x)
{
    return atomic_load(&x->trusted) && x->owner[0] ? x->owner : NULL;
}

void berth_http_exchange_trust(struct berth_http_exchange *x, const char *owner)
{
    (void)snprintf(x->owner, sizeof x->owner, "%s", owner ? owner : "");
    atomic_store(&x->trusted, true);
}

void berth_http_exchange_refuse(struct berth_http_exchange *x, int status, const char *why)
{
    if (x->conn)
        berth_http_conn_refuse(x->conn, status, why);
}

/* --- the answer --- */

void berth_http_exchange_share(struct berth_http_exchange *x)
{
    x->shared = true;
}

void berth_http_exchange_write_head(const struct berth_http_exchange *x,
                                    const struct berth_http_answer *answer, bool endless,
                                    struct berth_buf *out)
{
    berth_http_write_head(out, answer, x->id.text, endless);
    if (x->shared)
        berth_buf_printf(out,
                         "Access-Control-Allow-Origin: %s\r\nVary: Origin\r\n"
                         "Access-Control-Expose-Headers: X-Request-Id, Retry-After, "
                         "Idempotency-Replayed, Content-Range, X-File-Size\r\n",
                         berth_http_header(&x->head, "origin"));
}

static void run_answer(struct berth_post *post)
{
    struct berth_http_exchange *x = berth_container_of(post, struct berth_http_exchange, post);
    struct berth_http_conn *c = x->conn;
    if (c) {
        bool last = c->server->draining || (c->ended && !c->waiting.len);
        bool keep_alive = x->head.keep_alive && x->body_whole && !last;
        berth_http_conn_detach(c); /* before the write, which may find that the client has left */
        berth_http_conn_send(c, &x->answer_head, &x->answer_body, &x->answer_charge, keep_alive);
        if (x->answer_fixed)
            berth_http_conn_send_fixed(c, x->answer_fixed, x->answer_fixed_len);
        berth_http_conn_end_answer(c, keep_alive);
    }
    berth_http_exchange_free(x);
}

/* Charges the memory of a long answer. One that does not fit becomes its brief form, or a refusal.
 */
static void answer_charge(struct berth_http_exchange *x, struct berth_http_answer *answer)
{
    if (answer->body.len <= BERTH_HTTP_JOINED_BYTES_MAX ||
        berth_charge_set(&x->answer_charge, x->server->answers, berth_http_exchange_owner(x),
                         (int64_t)answer->body.cap))
        return;
    berth_buf_clear(&answer->body);
    if (answer->brief) {
        answer->body = (struct berth_buf)BERTH_BUF_INIT(BERTH_HTTP_JOINED_BYTES_MAX);
        berth_buf_puts(&answer->body, answer->brief);
        return;
    }
    berth_http_write_refusal(503, "There is no memory for the answer. Try again later.", answer);
}

void berth_http_answer(struct berth_http_exchange *x, struct berth_http_answer *answer)
{
    struct berth_error ignored;
    if (x->head.method != BERTH_HTTP_HEAD)
        answer_charge(x, answer);
    x->answer_head = (struct berth_buf)BERTH_BUF_INIT(BERTH_HTTP_ANSWER_HEAD_BYTES_MAX);
    berth_http_exchange_write_head(x, answer, false, &x->answer_head);
    if (x->head.method == BERTH_HTTP_HEAD) /* such an answer has no body */
        berth_buf_clear(&answer->body);
    else
        x->answer_fixed = answer->fixed;
    x->answer_fixed_len = answer->fixed_len;
    x->answer_body = answer->body;
    answer->body = (struct berth_buf){.max = answer->body.max};
    atomic_store(&x->answered, true);
    x->post.run = run_answer;
    /* Cannot fail: the loop runs, or there would not be an exchange. */
    (void)berth_engine_post(x->server->engine, &x->post, &ignored);
}
