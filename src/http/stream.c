/* SPDX-License-Identifier: Apache-2.0
 * src/http/stream.c - an answer that goes on, or a connection that changes its protocol. See
 * http.h and conn.h. */
#include "base/auto.h"
#include "http/answer_head.h"
#include "http/conn.h"

#define CHUNK_OVERHEAD 64 /* at least the bytes that frame a chunk */
#define LAST_CHUNK "0\r\n\r\n"

/* Returns the last header and the empty line. */
static const char *stream_head_end(const struct berth_http_exchange *x, bool upgraded)
{
    if (upgraded)
        return "Connection: Upgrade\r\n\r\n";
    if (!x->chunked)
        return "Connection: close\r\n\r\n";
    return x->head.keep_alive ? "Transfer-Encoding: chunked\r\n\r\n"
                              : "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
}

static void stream_count(struct berth_http_exchange *x)
{
    x->streams = true;
    pthread_mutex_lock(&x->server->lock);
    x->server->streams++;
    pthread_mutex_unlock(&x->server->lock);
}

void berth_http_stream_begin(struct berth_http_exchange *x, const struct berth_http_answer *head,
                             const struct berth_http_stream_handlers *handlers)
{
    struct berth_http_conn *c = x->conn;
    x->stream = *handlers;
    stream_count(x);
    if (c && c->ended) { /* nothing would tell that the client has left */
        berth_http_conn_leave(c);
        return;
    }
    if (!c) {
        handlers->on_gone(handlers->ctx);
        return;
    }
    auto_buf out = BERTH_BUF_INIT(BERTH_HTTP_ANSWER_HEAD_BYTES_MAX);
    bool upgraded = handlers->on_bytes != NULL;
    /* Without chunks the end of the connection is the end of the answer. */
    x->chunked = (x->head.keep_alive || (head->framed && x->head.chunks)) && !upgraded;
    if (c->phase != BERTH_HTTP_REFUSING) /* it is when TLS failed; a close follows */
        berth_http_conn_enter(c, BERTH_HTTP_STREAMING);
    berth_http_exchange_write_head(x, head, true, &out);
    berth_buf_puts(&out, stream_head_end(x, upgraded));
    if (out.failed)
        berth_socket_close(c->socket);
    else
        berth_http_conn_write(c, out.data, out.len);
    berth_http_conn_set_deadline(c);
    if (upgraded)
        berth_socket_set_read_max(c->socket, 0);
    if (c->exchange == x && upgraded)
        berth_http_stream_read_on(x);
    if (c->exchange == x && c->server->draining && x->stream.on_drain)
        x->stream.on_drain(x->stream.ctx);
}

void berth_http_stream_read_on(struct berth_http_exchange *x)
{
    if (x->conn)
        berth_http_conn_hand_on_waiting(x->conn);
}

void berth_http_stream_write(struct berth_http_exchange *x, const char *bytes, size_t len)
{
    struct berth_http_conn *c = x->conn;
    if (!c || len == 0 || x->head.method == BERTH_HTTP_HEAD)
        return;
    bool waited = berth_socket_queued(c->socket) > 0;
    auto_buf out = BERTH_BUF_INIT(len + CHUNK_OVERHEAD);
    if (x->chunked)
        berth_buf_printf(&out, "%zx\r\n", len);
    berth_buf_append(&out, bytes, len);
    if (x->chunked)
        berth_buf_append(&out, "\r\n", 2);
    if (out.failed)
        berth_socket_close(c->socket);
    else
        berth_http_conn_write(c, out.data, out.len);
    if (!waited)
        berth_http_conn_set_deadline(c); /* the client has to read from now on */
}

size_t berth_http_stream_queued(const struct berth_http_exchange *x)
{
    return x->conn ? berth_socket_queued(x->conn->socket) : 0;
}

uint64_t berth_http_stream_sent(const struct berth_http_exchange *x)
{
    return x->conn ? berth_socket_sent(x->conn->socket) : 0;
}

void berth_http_stream_abort(struct berth_http_exchange *x)
{
    struct berth_http_conn *c = x->conn;
    if (c) {
        berth_http_conn_detach(c);
        berth_http_conn_enter(c, BERTH_HTTP_REFUSING);
        berth_socket_reset(
            c->socket); /* without chunks, an end would look like that of the answer */
    }
    berth_http_exchange_free(x);
}

void berth_http_stream_end(struct berth_http_exchange *x)
{
    struct berth_http_conn *c = x->conn;
    if (c) {
        berth_http_conn_detach(c); /* before the write, which may find that the client has left */
        if (x->chunked && x->head.method != BERTH_HTTP_HEAD)
            berth_http_conn_write(c, LAST_CHUNK, sizeof LAST_CHUNK - 1);
        berth_http_conn_end_answer(c, x->chunked && x->head.keep_alive && !c->server->draining);
    }
    berth_http_exchange_free(x);
}
