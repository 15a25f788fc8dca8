/* SPDX-License-Identifier: Apache-2.0
 * src/http/body.c - the body of a request: collected in memory, or handed on piece by piece. See
 * http.h and conn.h. */
#include <stdlib.h>

#include "base/limits.h"
#include "http/conn.h"

#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

bool berth_http_body_is_whole(const struct berth_http_exchange *x)
{
    return x->body_whole;
}

/* --- collecting --- */

/* Charges the memory of the buffer to the budget of all bodies. Returns false when it does not fit.
 */
static bool body_charge(struct berth_http_exchange *x)
{
    return berth_charge_set(&x->body_charge, x->server->bodies, berth_http_exchange_owner(x),
                            (int64_t)x->body.cap);
}

void berth_http_body_free(struct berth_http_exchange *x)
{
    berth_buf_clear(&x->body);
    berth_charge_drop(&x->body_charge);
}

/* The buffer doubles, but not beyond the announced length. */
static void body_make_room(struct berth_http_exchange *x, size_t more)
{
    size_t need = x->body.len + more + 1, cap = x->body.cap * 2;
    if (x->head.body_bytes < 0 || need <= x->body.cap)
        return;
    size_t all = (size_t)x->head.body_bytes + 1;
    cap = cap < all ? cap : all;
    berth_buf_reserve(&x->body, (cap > need ? cap : need) - x->body.len - 1);
}

static void body_collect(struct berth_http_exchange *x, const char *bytes, size_t len)
{
    body_make_room(x, len);
    berth_buf_append(&x->body, bytes, len);
    if (!x->body.failed && (x->body_early || body_charge(x)))
        return;
    berth_http_body_free(x);
    berth_http_conn_refuse(x->conn, 503, "There is no memory for the body. Try again later.");
}

/* --- handing on --- */

/* Returns whether the body's reader is still there: it may have answered. */
static bool body_is_read(const struct berth_http_exchange *x)
{
    return x->body_wanted && !atomic_load(&x->answered);
}

size_t berth_http_body_take_piece(struct berth_http_exchange *x)
{
    struct berth_http_reader *r = &x->conn->reader;
    size_t len = r->piece_len;
    if (!x->body_on.on_bytes) {
        body_collect(x, r->piece, len);
        return 0;
    }
    size_t taken = body_is_read(x) ? x->body_on.on_bytes(x->body_on.ctx, r->piece, len) : len;
    x->body_held = taken < len;
    return len - taken;
}

/* Ends the reading, with one of the two last calls. */
static void body_finish(struct berth_http_exchange *x, void (*tell)(void *ctx))
{
    bool told = body_is_read(x);
    x->body_wanted = x->body_held = false;
    if (told)
        tell(x->body_on.ctx);
}

void berth_http_body_end(struct berth_http_exchange *x)
{
    struct berth_http_server *server = x->server;
    bool early = x->body_early;
    x->body_whole = true;
    x->body_early = false;
    if (early)
        server->handlers.on_request(server->handlers.ctx, x);
    else
        body_finish(x, x->body_on.on_end);
}

void berth_http_body_leave(struct berth_http_exchange *x)
{
    if (x->body_wanted)
        body_finish(x, x->body_on.on_gone);
}

/* Gives a body that is at hand to its reader. */
static void body_give(struct berth_http_exchange *x)
{
    const struct berth_http_body_handlers *on = &x->body_on;
    while (on->on_bytes && !x->body_held && body_is_read(x) && x->body_at < x->body.len) {
        size_t left = x->body.len - x->body_at;
        size_t taken = on->on_bytes(on->ctx, x->body.data + x->body_at, left);
        x->body_at += taken;
        x->body_held = taken < left;
    }
    if (!x->body_held)
        body_finish(x, on->on_end);
}

void berth_http_body_read(struct berth_http_exchange *x, int64_t max,
                          const struct berth_http_body_handlers *handlers)
{
    struct berth_http_conn *c = x->conn;
    x->body_on = *handlers;
    x->body_wanted = true;
    if (!c) {
        berth_http_body_leave(x);
        return;
    }
    if (x->body_whole) {
        body_give(x);
        return;
    }
    c->reader.body_bytes_max = max;
    berth_http_conn_enter(c, BERTH_HTTP_RECEIVING);
    berth_http_conn_set_deadline(c);
    if (x->head.wants_continue && x->head.body_bytes <= max)
        berth_http_conn_write(c, CONTINUE, sizeof CONTINUE - 1);
    if (x->conn) /* the write has not found that the client has left */
        berth_http_conn_read_waiting(c);
}

void berth_http_body_read_on(struct berth_http_exchange *x)
{
    if (!x->body_held)
        return;
    x->body_held = false;
    if (x->body_whole)
        body_give(x);
    else if (x->conn)
        berth_http_conn_read_waiting(x->conn);
}
