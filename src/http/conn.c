/* SPDX-License-Identifier: Apache-2.0
 * src/http/conn.c - one connection: bytes in, its phases, its deadlines. See conn.h. */
#include "http/conn.h"

#include <assert.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/container.h"
#include "base/json.h"
#include "base/limits.h"
#include "http/answer_head.h"

#define LINGER_MS 2000 /* for the client to read the last bytes before a close */
/* Written at a time of a long body: what the client does not take of it is copied. A fixed body can
 * be had without a token. */
#define STEP_BYTES ((size_t)256 * 1024)
#define FIXED_STEP_BYTES ((size_t)16 * 1024)
/* The bytes of one read, which may be large, are added to what waits before the socket is paused.
 */
#define WAITING_BYTES_HARD_MAX ((size_t)256 * 1024)

/* --- phases --- */

/* A connection that is refusing ends; nothing brings it back. */
static bool conn_may_enter(enum berth_http_phase from, enum berth_http_phase to)
{
    switch (to) {
    case BERTH_HTTP_IDLE:
        return from == BERTH_HTTP_WAITING || from == BERTH_HTTP_STREAMING ||
               from == BERTH_HTTP_SENDING;
    case BERTH_HTTP_READING:
        return from == BERTH_HTTP_IDLE;
    case BERTH_HTTP_ASKING:
        return from == BERTH_HTTP_READING;
    case BERTH_HTTP_RECEIVING:
        return from == BERTH_HTTP_ASKING;
    case BERTH_HTTP_WAITING:
        return from == BERTH_HTTP_RECEIVING;
    case BERTH_HTTP_STREAMING:
        return from == BERTH_HTTP_WAITING;
    case BERTH_HTTP_SENDING:
        return from == BERTH_HTTP_WAITING || from == BERTH_HTTP_STREAMING ||
               from == BERTH_HTTP_SENDING;
    case BERTH_HTTP_REFUSING:
        return true;
    }
    return false;
}

void berth_http_conn_enter(struct berth_http_conn *c, enum berth_http_phase phase)
{
    assert(berth_engine_is_here(c->server->engine));
    assert(conn_may_enter(c->phase, phase));
    assert((phase < BERTH_HTTP_ASKING || phase > BERTH_HTTP_STREAMING) || c->exchange);
    c->phase = phase;
}

/* Returns whether the connection waits for us, not for its client. */
static bool conn_is_ours(const struct berth_http_conn *c)
{
    return c->phase == BERTH_HTTP_ASKING || c->phase == BERTH_HTTP_WAITING ||
           c->phase == BERTH_HTTP_STREAMING ||
           (c->phase == BERTH_HTTP_RECEIVING && c->exchange->body_held);
}

/* What waits for us has no deadline; a client that does not read has one in every phase. */
void berth_http_conn_set_deadline(struct berth_http_conn *c)
{
    const struct berth_http_settings *s = &c->server->settings;
    bool queued = berth_socket_queued(c->socket) > 0;
    int64_t after_ms = queued                             ? s->write_ms
                       : c->phase == BERTH_HTTP_IDLE      ? (c->trusted ? s->idle_ms : s->head_ms)
                       : c->phase == BERTH_HTTP_READING   ? s->head_ms
                       : c->phase == BERTH_HTTP_RECEIVING ? s->body_ms
                                                          : LINGER_MS;
    c->sent = berth_socket_sent(c->socket);
    if (conn_is_ours(c) && !queued)
        berth_timer_clear(c->server->engine, &c->timer);
    else
        berth_timer_set(c->server->engine, &c->timer, after_ms);
}

/* --- strangers ---
 *
 * A stranger is a connection that has no request under way and whose last one was not trusted.
 * Strangers make room when the server is full. */

static void conn_leave_strangers(struct berth_http_conn *c)
{
    struct berth_http_server *server = c->server;
    if (!c->stranger_link)
        return;
    *c->stranger_link = c->next_stranger;
    if (c->next_stranger)
        c->next_stranger->stranger_link = c->stranger_link;
    else
        server->strangers_end = c->stranger_link;
    c->stranger_link = NULL;
}

static void conn_join_strangers(struct berth_http_conn *c)
{
    struct berth_http_server *server = c->server;
    if (c->trusted || c->evicted)
        return;
    c->next_stranger = NULL;
    c->stranger_link = server->strangers_end;
    *server->strangers_end = c;
    server->strangers_end = &c->next_stranger;
}

void berth_http_conn_detach(struct berth_http_conn *c)
{
    struct berth_http_exchange *x = c->exchange;
    c->exchange = NULL;
    x->conn = NULL;
    c->trusted = c->local || atomic_load(&x->trusted);
    conn_join_strangers(c);
}

void berth_http_conn_evict(struct berth_http_conn *c)
{
    conn_leave_strangers(c);
    c->evicted = true;
    c->server->evicted++;
    berth_http_conn_leave(c);
}

/* --- writing --- */

void berth_http_conn_write(struct berth_http_conn *c, const char *bytes, size_t len)
{
    struct berth_error none;
    if (!c->secure)
        berth_socket_write(c->socket, bytes, len);
    else if (c->secure->write(c->tls, bytes, len, &none) < 0)
        berth_socket_close(c->socket);
}

/* Sends the end of the connection behind what is queued. The client can still read that. */
static void conn_finish(struct berth_http_conn *c)
{
    berth_http_conn_enter(c, BERTH_HTTP_REFUSING);
    berth_http_conn_set_deadline(c);
    if (c->secure)
        c->secure->finish(c->tls);
    berth_socket_finish(c->socket);
    if (c->ended && !berth_socket_queued(c->socket))
        berth_socket_close(c->socket);
}

/* Frees a long body that is written. The socket has a copy of its last step, so the charge and the
 * deadline stay until the client has taken that, too. */
static void conn_end_rest(struct berth_http_conn *c)
{
    if (c->rest_len)
        return;
    berth_buf_clear(&c->rest_body);
    if (berth_socket_queued(c->socket))
        return;
    berth_charge_drop(&c->rest_charge);
    c->rest_end_ms = 0;
}

/* Writes more of a long body, as far as the client takes it. */
static void conn_send_rest(struct berth_http_conn *c)
{
    while (c->rest_len && c->phase != BERTH_HTTP_REFUSING && !berth_socket_queued(c->socket)) {
        const char *bytes = c->rest;
        size_t step = c->rest_body.data ? STEP_BYTES : FIXED_STEP_BYTES;
        step = step < c->rest_len ? step : c->rest_len;
        c->rest += step;
        c->rest_len -= step;
        berth_http_conn_write(c, bytes, step);
    }
    conn_end_rest(c);
}

void berth_http_conn_send_fixed(struct berth_http_conn *c, const char *bytes, size_t len)
{
    const struct berth_http_settings *s = &c->server->settings;
    c->rest = bytes;
    c->rest_len = len;
    c->rest_end_ms = berth_time_mono_ms() + s->write_ms + (int64_t)len * 1000 / s->answer_bytes_s;
    conn_send_rest(c);
}

void berth_http_conn_send(struct berth_http_conn *c, struct berth_buf *head, struct berth_buf *body,
                          struct berth_charge *charge, bool keep_alive)
{
    bool joined = body->len <= BERTH_HTTP_JOINED_BYTES_MAX;
    berth_buf_puts(head, keep_alive ? "\r\n" : "Connection: close\r\n\r\n");
    if (joined)
        berth_buf_append(head, body->data, body->len);
    if (head->failed || body->failed) {
        berth_socket_close(c->socket);
        return;
    }
    berth_http_conn_write(c, head->data, head->len);
    if (joined)
        return;
    c->rest_body = *body;
    *body = (struct berth_buf){0};
    c->rest_charge = *charge;
    *charge = (struct berth_charge){0};
    berth_http_conn_send_fixed(c, c->rest_body.data, c->rest_body.len);
}

void berth_http_conn_refuse(struct berth_http_conn *c, int status, const char *why)
{
    struct berth_http_answer answer;
    struct berth_charge none = {0};
    struct berth_id id = berth_id_new();
    berth_http_write_refusal(status, why, &answer);
    berth_http_conn_enter(c, BERTH_HTTP_REFUSING);
    auto_buf head = BERTH_BUF_INIT(BERTH_HTTP_ANSWER_HEAD_BYTES_MAX);
    berth_http_write_head(&head, &answer, id.text, false);
    berth_http_conn_send(c, &head, &answer.body, &none, false);
    berth_buf_clear(&answer.body);
    conn_finish(c);
    berth_http_exchange_leave(c);
}

/* Returns whether the client takes a long answer too slowly. */
static bool conn_is_late(const struct berth_http_conn *c)
{
    return c->rest_end_ms && berth_time_mono_ms() > c->rest_end_ms;
}

static void on_conn_timer(struct berth_timer *timer)
{
    struct berth_http_conn *c = berth_container_of(timer, struct berth_http_conn, timer);
    bool queued = berth_socket_queued(c->socket) > 0;
    if (queued && berth_socket_sent(c->socket) != c->sent && !conn_is_late(c))
        berth_http_conn_set_deadline(c); /* the client reads, if slowly */
    else if ((c->phase == BERTH_HTTP_READING || c->phase == BERTH_HTTP_RECEIVING) && !queued)
        berth_http_conn_refuse(c, 408, "The request did not come in time.");
    else
        berth_socket_close(c->socket);
}

/* --- requests --- */

/* Begins an exchange when the head is complete; `at_hand` bytes follow it. A short body that is
 * among them is read before the server's handler is called, which saves the handler a second step.
 */
static void conn_begin_exchange(struct berth_http_conn *c, size_t at_hand)
{
    struct berth_http_server *server = c->server;
    int64_t len = c->reader.head.body_bytes;
    struct berth_http_exchange *x = berth_http_exchange_new(c);
    if (!x) {
        berth_http_conn_refuse(c, 503, "There is no memory for the request.");
        return;
    }
    conn_leave_strangers(c);
    c->exchange = x;
    berth_http_conn_enter(c, BERTH_HTTP_ASKING);
    x->body_early = len >= 0 && len <= BERTH_HTTP_EARLY_BODY_BYTES_MAX && (size_t)len <= at_hand;
    if (x->body_early) {
        c->reader.body_bytes_max = len;
        berth_http_conn_enter(c, BERTH_HTTP_RECEIVING);
    } else {
        berth_http_conn_set_deadline(c);
        server->handlers.on_request(server->handlers.ctx, x);
    }
}

static void conn_end_body(struct berth_http_conn *c)
{
    berth_socket_set_read_max(c->socket, BERTH_HTTP_READ_BYTES);
    berth_http_conn_enter(c, BERTH_HTTP_WAITING);
    berth_http_conn_set_deadline(c);
    berth_http_body_end(c->exchange);
}

/* Keeps bytes for later, and stops reading when too many wait. */
static void conn_keep(struct berth_http_conn *c, const char *bytes, size_t len)
{
    berth_buf_append(&c->waiting, bytes, len);
    if (c->waiting.failed)
        berth_socket_close(c->socket);
    else if (c->waiting.len >= BERTH_HTTP_WAITING_BYTES_MAX || c->phase == BERTH_HTTP_RECEIVING)
        berth_socket_pause(c->socket, true);
}

/* Returns whether bytes of the client are for the reader now. */
static bool conn_is_reading(const struct berth_http_conn *c)
{
    return c->phase == BERTH_HTTP_IDLE || c->phase == BERTH_HTTP_READING ||
           (c->phase == BERTH_HTTP_RECEIVING && !c->exchange->body_held);
}

/* Reads until bytes have to wait, or no byte is left. */
static void conn_read(struct berth_http_conn *c, const char *bytes, size_t len)
{
    size_t done = 0;
    while (conn_is_reading(c)) {
        size_t used;
        enum berth_http_step step =
            berth_http_reader_step(&c->reader, bytes + done, len - done, &used);
        done += used;
        if (c->phase == BERTH_HTTP_IDLE && berth_http_reader_busy(&c->reader)) {
            berth_http_conn_enter(c, BERTH_HTTP_READING);
            berth_http_conn_set_deadline(c);
        }
        if (step == BERTH_HTTP_BAD) {
            berth_http_conn_refuse(c, c->reader.status, c->reader.why);
        } else if (step == BERTH_HTTP_HEAD_READ) {
            conn_begin_exchange(c, len - done);
        } else if (step == BERTH_HTTP_BODY) {
            size_t left = berth_http_body_take_piece(c->exchange);
            berth_http_reader_untake(&c->reader, left);
            done -= left;
        } else if (step == BERTH_HTTP_DONE) {
            conn_end_body(c);
        } else {
            break;
        }
    }
    if (conn_is_ours(c) && done < len)
        conn_keep(c, bytes + done, len - done);
}

/* Gives bytes to a stream that speaks another protocol. Bytes that it does not take wait, and so do
 * all that follow. */
static void conn_hand_on(struct berth_http_conn *c, const char *bytes, size_t len)
{
    const struct berth_http_stream_handlers *on = &c->exchange->stream;
    size_t taken = c->waiting.len ? 0 : on->on_bytes(on->ctx, bytes, len);
    if (c->phase != BERTH_HTTP_STREAMING || taken == len)
        return;
    berth_socket_pause(c->socket, true);
    conn_keep(c, bytes + taken, len - taken);
}

static struct berth_buf conn_take_waiting(struct berth_http_conn *c)
{
    struct berth_buf waiting = c->waiting;
    c->waiting = (struct berth_buf){.max = WAITING_BYTES_HARD_MAX, .secret = true};
    return waiting;
}

void berth_http_conn_hand_on_waiting(struct berth_http_conn *c)
{
    auto_buf waiting = conn_take_waiting(c);
    if (waiting.len)
        conn_hand_on(c, waiting.data, waiting.len);
    if (c->phase == BERTH_HTTP_STREAMING && !c->waiting.len)
        berth_socket_pause(c->socket, false);
}

void berth_http_conn_read_waiting(struct berth_http_conn *c)
{
    auto_buf waiting = conn_take_waiting(c);
    bool large = c->phase == BERTH_HTTP_RECEIVING;
    berth_socket_set_read_max(c->socket, large ? 0 : BERTH_HTTP_READ_BYTES);
    berth_http_conn_set_deadline(c);
    conn_read(c, waiting.data, waiting.len);
    if (c->ended && conn_is_reading(c))
        berth_http_conn_leave(c); /* the rest of the request does not come */
    else if (conn_is_reading(c) ||
             (c->phase != BERTH_HTTP_RECEIVING && c->waiting.len < BERTH_HTTP_WAITING_BYTES_MAX))
        berth_socket_pause(c->socket, false);
}

/* Begins with what waited behind the last request. */
static void conn_begin_next(struct berth_http_conn *c)
{
    berth_http_conn_enter(c, BERTH_HTTP_IDLE);
    berth_http_conn_read_waiting(c);
}

/* The phase is REFUSING when a write found that the client has left. */
void berth_http_conn_end_answer(struct berth_http_conn *c, bool keep_alive)
{
    if (c->phase == BERTH_HTTP_REFUSING)
        return;
    if (c->rest_len || (keep_alive && berth_socket_queued(c->socket) > 0)) {
        berth_http_conn_enter(c, BERTH_HTTP_SENDING);
        berth_http_conn_set_deadline(c);
        c->last = !keep_alive;
    } else if (!keep_alive) {
        conn_finish(c);
    } else {
        conn_begin_next(c);
    }
}

/* --- what the socket and TLS report --- */

/* Takes bytes of a body. Those of a stream move its deadline; a collected body has one deadline. */
static void conn_receive(struct berth_http_conn *c, const char *bytes, size_t len)
{
    bool stream = c->exchange->body_on.on_bytes != NULL;
    if (c->exchange->body_held)
        conn_keep(c, bytes, len);
    else
        conn_read(c, bytes, len);
    if (stream && c->phase == BERTH_HTTP_RECEIVING)
        berth_http_conn_set_deadline(c);
}

static void on_conn_plain(void *ctx, const char *bytes, size_t len)
{
    struct berth_http_conn *c = ctx;
    switch (c->phase) {
    case BERTH_HTTP_IDLE:
    case BERTH_HTTP_READING:
        conn_read(c, bytes, len);
        break;
    case BERTH_HTTP_RECEIVING:
        conn_receive(c, bytes, len);
        break;
    case BERTH_HTTP_STREAMING:
        if (c->exchange->stream.on_bytes)
            conn_hand_on(c, bytes, len);
        else
            conn_keep(c, bytes, len);
        break;
    case BERTH_HTTP_ASKING:
    case BERTH_HTTP_WAITING:
    case BERTH_HTTP_SENDING:
        conn_keep(c, bytes, len);
        break;
    case BERTH_HTTP_REFUSING:
        break;
    }
}

static void on_conn_wire(void *ctx, const char *bytes, size_t len)
{
    struct berth_http_conn *c = ctx;
    berth_socket_write(c->socket, bytes, len);
}

void berth_http_conn_leave(struct berth_http_conn *c)
{
    berth_http_conn_enter(c, BERTH_HTTP_REFUSING);
    berth_http_exchange_leave(c);
    berth_socket_close(c->socket);
}

static void on_conn_gone(void *ctx)
{
    berth_http_conn_leave(ctx);
}

/* The client has closed its sending side. It gets the answers to the requests that are complete. */
static void on_conn_end(void *ctx)
{
    struct berth_http_conn *c = ctx;
    bool queued = berth_socket_queued(c->socket) > 0;
    if (c->ended)
        return;
    c->ended = true;
    if (conn_is_reading(c) || c->phase == BERTH_HTTP_STREAMING ||
        (c->phase == BERTH_HTTP_REFUSING && !queued))
        berth_http_conn_leave(c);
    else if (c->phase == BERTH_HTTP_ASKING || c->phase == BERTH_HTTP_WAITING)
        berth_http_exchange_doubt(c->exchange);
}

static void on_conn_bytes(void *ctx, const char *bytes, size_t len)
{
    struct berth_http_conn *c = ctx;
    struct berth_error none;
    bool ended = false;
    if (!c->secure)
        on_conn_plain(c, bytes, len);
    else if (c->secure->read(c->tls, bytes, len, &ended, &none) < 0)
        conn_finish(c); /* TLS has written its alert */
    else if (ended)
        on_conn_end(c);
}

/* Called when all that was queued has been sent. A request that is being read keeps its deadline.
 */
static void on_conn_room(void *ctx)
{
    struct berth_http_conn *c = ctx;
    conn_end_rest(c);
    if (conn_is_late(c)) {
        berth_socket_close(c->socket);
        return;
    }
    if (c->phase == BERTH_HTTP_SENDING) {
        conn_send_rest(c);
        berth_http_conn_end_answer(c, !c->server->draining && !c->last);
        return;
    }
    if (c->phase == BERTH_HTTP_REFUSING && c->ended) {
        berth_socket_close(c->socket); /* the client has all that there is for it */
        return;
    }
    if (c->phase != BERTH_HTTP_READING && c->phase != BERTH_HTTP_RECEIVING)
        berth_http_conn_set_deadline(c);
    if (c->phase == BERTH_HTTP_STREAMING && c->exchange->stream.on_room)
        c->exchange->stream.on_room(c->exchange->stream.ctx);
}

static void on_conn_closed(void *ctx)
{
    struct berth_http_conn *c = ctx;
    struct berth_http_server *server = c->server;
    bool local = c->local;
    berth_http_exchange_leave(c);
    berth_timer_clear(server->engine, &c->timer);
    conn_leave_strangers(c);
    server->evicted -= c->evicted;
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    berth_http_reader_clear(&c->reader);
    berth_buf_clear(&c->waiting);
    berth_buf_clear(&c->rest_body);
    berth_charge_drop(&c->rest_charge);
    if (c->tls)
        c->secure->close(c->tls);
    free(c);
    berth_http_server_dismiss(server, local);
}

/* --- the beginning --- */

/* Opens the TLS link of a secure connection. Returns false when memory ran out. */
static bool conn_open_link(struct berth_http_conn *c)
{
    struct berth_error none;
    struct berth_http_link_handlers handlers = {
        .on_plain = on_conn_plain, .on_wire = on_conn_wire, .ctx = c};
    return !c->secure || c->secure->open(c->secure->ctx, &handlers, &c->tls, &none) == BERTH_OK;
}

static void conn_link(struct berth_http_conn *c)
{
    struct berth_http_conn **first = &c->server->first;
    c->next = *first;
    c->link = first;
    if (c->next)
        c->next->link = &c->next;
    *first = c;
}

void berth_http_conn_open(const struct berth_http_listening *address, struct berth_socket *socket)
{
    bool local = berth_socket_peer(socket)->local;
    struct berth_http_conn *c = calloc(1, sizeof *c);
    if (c)
        *c = (struct berth_http_conn){
            .server = address->server,
            .socket = socket,
            .secure = address->secure,
            .local = local,
            .trusted = local,
            .waiting = {.max = WAITING_BYTES_HARD_MAX, .secret = true},
            .timer = {.run = on_conn_timer},
        };
    bool opened = c && conn_open_link(c);
    if (!opened || !berth_http_server_admit(address->server, local)) {
        if (opened && c->tls)
            c->secure->close(c->tls);
        free(c);
        berth_socket_close(socket);
        return;
    }
    berth_http_reader_init(&c->reader);
    berth_socket_set_read_max(socket, BERTH_HTTP_READ_BYTES);
    conn_link(c);
    conn_join_strangers(c);
    berth_http_conn_set_deadline(c);
    struct berth_socket_handlers handlers = {.on_bytes = on_conn_bytes,
                                             .on_room = on_conn_room,
                                             .on_end = on_conn_end,
                                             .on_gone = on_conn_gone,
                                             .on_closed = on_conn_closed,
                                             .ctx = c};
    berth_socket_start(socket, &handlers);
}
