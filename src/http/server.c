/* SPDX-License-Identifier: Apache-2.0
 * src/http/server.c - see server.h. A connection has one request at a time; what comes behind it
 * waits, some of it here, the rest with the client. */
#include "http/server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/json.h"
#include "base/limits.h"
#include "os/engine.h"

#define ADDRESSES_MAX 40
#define LINGER_MS 2000 /* for the last words to be read before the line is cut */
#define HEAD_BYTES_MAX (64 * 1024)
#define RESERVED_MAX 64              /* connections that only Unix sockets may have */
#define JOINED_BYTES_MAX (16 * 1024) /* a longer body is not copied behind its head */

struct berth_http_server {
    struct berth_engine *engine;
    struct berth_http_settings settings;
    struct berth_http_handlers handlers;
    struct address {
        struct berth_http_server *server;
        struct berth_listener *listener;
        const struct berth_http_secure *secure;
    } addresses[ADDRESSES_MAX];
    int address_count;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int connections; /* under the lock; the loop alone changes it */
    int remote;      /* of them, by TCP; the same */
    int exchanges;   /* not answered yet: they still know us */
    int streams;
    int64_t requests; /* so far */

    /* The loop's thread alone: */
    struct conn *first;
    bool draining;
};

enum phase {
    IDLE,
    READING,   /* a head, or a body */
    WAITING,   /* for the answer */
    STREAMING, /* an answer that goes on */
    SENDING,   /* the answer is not read as fast; what comes behind has to wait for that */
    REFUSING,  /* the last answer is on its way, and nothing more is read */
};

struct conn {
    struct conn *next, **link;
    struct berth_http_server *server;
    struct berth_socket *socket;
    const struct berth_http_secure *secure; /* or NULL */
    void *tls;                              /* its link */
    bool local;                             /* by a Unix socket */
    bool greeted;                           /* something came through it */
    struct berth_http_reader reader;
    enum phase phase;
    struct berth_buf body, waiting;
    struct berth_timer timer;
    struct berth_http_exchange *exchange; /* while WAITING */
    bool in_body;                         /* while READING: the head is there */
    uint64_t sent;                        /* when the timer was set */
};

struct berth_http_exchange {
    struct berth_post post;
    struct berth_http_server *server;
    struct conn *conn; /* the loop's thread alone; NULL: the client has left */
    struct berth_http_head head;
    struct berth_buf head_bytes, body; /* what `head` points into */
    struct berth_peer peer;
    struct berth_id id;
    struct berth_buf answer_head, answer_body;
    struct berth_http_stream_handlers stream; /* once it is one */
    bool streams, chunked, shared;
    _Atomic int left_fd;
    _Atomic bool left;
};

/* --- answers --- */

const char *berth_http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } known[] = {{101, "Switching Protocols"},
                 {200, "OK"},
                 {201, "Created"},
                 {202, "Accepted"},
                 {204, "No Content"},
                 {304, "Not Modified"},
                 {400, "Bad Request"},
                 {401, "Unauthorized"},
                 {403, "Forbidden"},
                 {404, "Not Found"},
                 {405, "Method Not Allowed"},
                 {408, "Request Timeout"},
                 {409, "Conflict"},
                 {411, "Length Required"},
                 {413, "Content Too Large"},
                 {414, "URI Too Long"},
                 {415, "Unsupported Media Type"},
                 {417, "Expectation Failed"},
                 {421, "Misdirected Request"},
                 {422, "Unprocessable Content"},
                 {426, "Upgrade Required"},
                 {429, "Too Many Requests"},
                 {431, "Request Header Fields Too Large"},
                 {499, "Client Closed Request"},
                 {500, "Internal Server Error"},
                 {501, "Not Implemented"},
                 {502, "Bad Gateway"},
                 {503, "Service Unavailable"},
                 {504, "Gateway Timeout"},
                 {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].status == status)
            return known[i].reason;
    return "Unknown";
}

/* All but the last line of a head, which says whether the connection goes on. */
static void write_head(struct berth_buf *out, const struct berth_http_answer *answer,
                       const char *request_id, bool endless)
{
    berth_buf_printf(out, "HTTP/1.1 %d %s\r\n", answer->status, berth_http_reason(answer->status));
    if (answer->type)
        berth_buf_printf(out, "Content-Type: %s\r\n", answer->type);
    if (!endless && answer->status != 204 && answer->status != 304)
        berth_buf_printf(out, "Content-Length: %zu\r\n", answer->body.len);
    berth_buf_printf(out,
                     "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                     "X-Request-Id: %s\r\n",
                     request_id);
    for (int i = 0; i < BERTH_HTTP_MORE_MAX && answer->more[i].name; i++)
        berth_buf_printf(out, "%s: %s\r\n", answer->more[i].name, answer->more[i].value);
}

static void write_head_of(struct berth_buf *out, const struct berth_http_exchange *x,
                          const struct berth_http_answer *answer, bool endless)
{
    write_head(out, answer, x->id.text, endless);
    if (x->shared)
        berth_buf_printf(out,
                         "Access-Control-Allow-Origin: %s\r\nVary: Origin\r\n"
                         "Access-Control-Expose-Headers: X-Request-Id, Retry-After, "
                         "Idempotency-Replayed\r\n",
                         berth_http_header(&x->head, "origin"));
}

static void set_deadline(struct conn *c);

static void put(struct conn *c, const char *bytes, size_t len)
{
    struct berth_error none;
    if (!c->secure)
        berth_socket_write(c->socket, bytes, len);
    else if (c->secure->write(c->tls, bytes, len, &none) < 0)
        berth_socket_close(c->socket);
}

/* Nothing more is said; the other side may still read it. */
static void finish(struct conn *c)
{
    c->phase = REFUSING;
    set_deadline(c);
    if (c->secure)
        c->secure->finish(c->tls);
    berth_socket_finish(c->socket);
}

/* A short body goes with its head. */
static void send_answer(struct conn *c, struct berth_buf *head, const struct berth_buf *body,
                        bool keep_alive)
{
    bool joined = body->len <= JOINED_BYTES_MAX;
    berth_buf_puts(head, keep_alive ? "\r\n" : "Connection: close\r\n\r\n");
    if (joined)
        berth_buf_append(head, body->data, body->len);
    if (head->failed || body->failed) {
        berth_socket_close(c->socket); /* there is no memory for a word */
        return;
    }
    put(c, head->data, head->len);
    if (!joined)
        put(c, body->data, body->len);
}

/* The wire's name of what was wrong. */
static const char *code_of(int status)
{
    switch (status) {
    case 408:
        return berth_code_wire(BERTH_E_TIMEOUT);
    case 413:
        return berth_code_wire(BERTH_E_TOO_LARGE);
    case 501:
        return berth_code_wire(BERTH_E_UNSUPPORTED);
    case 503:
        return berth_code_wire(BERTH_E_UNAVAILABLE);
    default:
        return berth_code_wire(BERTH_E_INVALID);
    }
}

static void refuse(struct conn *c, int status, const char *why)
{
    struct berth_http_answer answer = {
        .status = status, .type = "application/json", .body = BERTH_BUF_INIT(4096)};
    struct berth_json_writer w = {.buf = &answer.body};
    struct berth_id id = berth_id_new();
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "error", why);
    berth_json_put_str(&w, "code", code_of(status));
    berth_json_close(&w, '}');
    c->phase = REFUSING;
    auto_buf head = BERTH_BUF_INIT(HEAD_BYTES_MAX);
    write_head(&head, &answer, id.text, false);
    send_answer(c, &head, &answer.body, false);
    berth_buf_clear(&answer.body);
    finish(c);
}

/* --- time --- */

static void on_timer(struct berth_timer *timer)
{
    struct conn *c = (struct conn *)(void *)((char *)timer - offsetof(struct conn, timer));
    bool queued = berth_socket_queued(c->socket) > 0;
    if (queued && berth_socket_sent(c->socket) != c->sent)
        set_deadline(c); /* it reads, if slowly */
    else if (c->phase == READING && !queued)
        refuse(c, 408, "The request did not come in time.");
    else
        berth_socket_close(c->socket);
}

/* Each phase has its time; the wait for an answer has none, but its reader has. */
static void set_deadline(struct conn *c)
{
    const struct berth_http_settings *s = &c->server->settings;
    bool queued = berth_socket_queued(c->socket) > 0;
    int64_t after_ms = queued                ? s->write_ms
                       : c->phase == IDLE    ? (c->greeted ? s->idle_ms : s->head_ms)
                       : c->phase != READING ? LINGER_MS
                       : c->in_body          ? s->body_ms
                                             : s->head_ms;
    c->sent = berth_socket_sent(c->socket);
    if ((c->phase == WAITING || c->phase == STREAMING) && !queued)
        berth_timer_clear(c->server->engine, &c->timer);
    else
        berth_timer_set(c->server->engine, &c->timer, after_ms);
}

/* --- requests --- */

static void free_exchange(struct berth_http_exchange *x)
{
    struct berth_http_server *server = x->server;
    int fd = atomic_load(&x->left_fd);
    if (fd >= 0)
        (void)close(fd);
    berth_buf_clear(&x->head_bytes);
    berth_buf_clear(&x->body);
    berth_buf_clear(&x->answer_head);
    berth_buf_clear(&x->answer_body);
    bool stream = x->streams;
    free(x);
    pthread_mutex_lock(&server->lock);
    server->exchanges--;
    server->streams -= stream;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

static void begin_exchange(struct conn *c)
{
    struct berth_http_server *server = c->server;
    struct berth_http_exchange *x = calloc(1, sizeof *x);
    if (!x) {
        refuse(c, 503, "There is no memory for the request.");
        return;
    }
    x->server = server;
    x->conn = c;
    x->head = c->reader.head;
    x->head_bytes = c->reader.buf; /* what the head points into goes with it */
    c->reader.buf = (struct berth_buf){.max = x->head_bytes.max, .secret = true};
    x->body = c->body;
    c->body = (struct berth_buf){.max = INT64_MAX, .secret = true};
    x->peer = *berth_socket_peer(c->socket);
    x->id = berth_id_new();
    atomic_init(&x->left_fd, -1);
    c->exchange = x;
    c->phase = WAITING;
    set_deadline(c);
    pthread_mutex_lock(&server->lock);
    server->exchanges++;
    server->requests++;
    pthread_mutex_unlock(&server->lock);
    server->handlers.on_request(server->handlers.ctx, x);
}

static void begin_body(struct conn *c)
{
    struct berth_http_reader *r = &c->reader;
    struct berth_http_server *server = c->server;
    c->in_body = true;
    r->body_bytes_max = server->handlers.body_bytes_max(server->handlers.ctx, &r->head,
                                                        berth_socket_peer(c->socket));
    set_deadline(c);
    if (r->head.wants_continue && r->head.body_bytes != 0 &&
        r->head.body_bytes <= r->body_bytes_max)
        put(c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
}

static void take_piece(struct conn *c)
{
    berth_buf_append(&c->body, c->reader.piece, c->reader.piece_len);
    if (c->body.failed)
        refuse(c, 503, "There is no memory for the body.");
}

/* What was not used is kept; beyond a bound the client keeps it. */
static void keep(struct conn *c, const char *bytes, size_t len)
{
    berth_buf_append(&c->waiting, bytes, len);
    if (c->waiting.failed)
        berth_socket_close(c->socket);
    else if (c->waiting.len >= BERTH_HTTP_WAITING_BYTES_MAX)
        berth_socket_pause(c->socket, true);
}

/* Reads until there is a request to be answered, or no byte is left. */
static void read_on(struct conn *c, const char *bytes, size_t len)
{
    size_t done = 0;
    while (c->phase == IDLE || c->phase == READING) {
        size_t used;
        enum berth_http_step step =
            berth_http_reader_step(&c->reader, bytes + done, len - done, &used);
        done += used;
        if (c->phase == IDLE && berth_http_reader_busy(&c->reader)) {
            c->phase = READING;
            c->in_body = false;
            set_deadline(c);
        }
        if (step == BERTH_HTTP_BAD)
            refuse(c, c->reader.status, c->reader.why);
        else if (step == BERTH_HTTP_HEAD_READ)
            begin_body(c);
        else if (step == BERTH_HTTP_BODY)
            take_piece(c);
        else if (step == BERTH_HTTP_DONE)
            begin_exchange(c);
        else
            break;
    }
    if ((c->phase == WAITING || c->phase == STREAMING) && done < len)
        keep(c, bytes + done, len - done);
}

/* All of it is another protocol's. What is not taken holds up what comes behind it. */
static void hand_on(struct conn *c, const char *bytes, size_t len)
{
    const struct berth_http_stream_handlers *on = &c->exchange->stream;
    size_t taken = c->waiting.len ? 0 : on->on_bytes(on->ctx, bytes, len);
    if (c->phase != STREAMING || taken == len)
        return;
    berth_socket_pause(c->socket, true);
    keep(c, bytes + taken, len - taken);
}

static void on_plain(void *ctx, const char *bytes, size_t len)
{
    struct conn *c = ctx;
    c->greeted = true;
    if (c->phase == STREAMING && c->exchange->stream.on_bytes)
        hand_on(c, bytes, len);
    else if (c->phase == WAITING || c->phase == STREAMING || c->phase == SENDING)
        keep(c, bytes, len);
    else if (c->phase != REFUSING)
        read_on(c, bytes, len);
}

static void on_gone(void *ctx);

static void on_bytes(void *ctx, const char *bytes, size_t len)
{
    struct conn *c = ctx;
    struct berth_error none;
    bool ended = false;
    if (!c->secure)
        on_plain(c, bytes, len);
    else if (c->secure->read(c->tls, bytes, len, &ended, &none) < 0)
        finish(c); /* what it says last is on its way */
    else if (ended)
        on_gone(c);
}

static void on_wire(void *ctx, const char *bytes, size_t len)
{
    struct conn *c = ctx;
    berth_socket_write(c->socket, bytes, len);
}

/* --- the answer --- */

static struct berth_buf take_waiting(struct conn *c)
{
    struct berth_buf waiting = c->waiting;
    c->waiting = (struct berth_buf){.max = 4 * BERTH_HTTP_WAITING_BYTES_MAX, .secret = true};
    return waiting;
}

/* What waited behind the request comes now. */
static void go_on(struct conn *c)
{
    auto_buf waiting = take_waiting(c);
    c->phase = IDLE;
    set_deadline(c);
    if (waiting.len)
        read_on(c, waiting.data, waiting.len);
    if (c->waiting.len < BERTH_HTTP_WAITING_BYTES_MAX)
        berth_socket_pause(c->socket, false);
}

/* All of the answer has been written. Whoever was found to have left meanwhile is REFUSING. */
static void end_answer(struct conn *c, bool keep_alive)
{
    if (c->phase == REFUSING)
        return;
    if (!keep_alive) {
        finish(c);
    } else if (berth_socket_queued(c->socket) > 0) {
        c->phase = SENDING;
        set_deadline(c);
    } else {
        go_on(c);
    }
}

static void run_answer(struct berth_post *post)
{
    struct berth_http_exchange *x = (struct berth_http_exchange *)(void *)post;
    struct conn *c = x->conn;
    if (c) {
        bool keep_alive = x->head.keep_alive && !c->server->draining;
        c->exchange = NULL; /* before a write, which may find that nobody is there */
        send_answer(c, &x->answer_head, &x->answer_body, keep_alive);
        end_answer(c, keep_alive);
    }
    free_exchange(x);
}

void berth_http_answer(struct berth_http_exchange *x, struct berth_http_answer *answer)
{
    struct berth_error ignored;
    x->answer_head = (struct berth_buf)BERTH_BUF_INIT(HEAD_BYTES_MAX);
    write_head_of(&x->answer_head, x, answer, false);
    if (x->head.method == BERTH_HTTP_HEAD) /* it has the head of its answer, and nothing else */
        berth_buf_clear(&answer->body);
    x->answer_body = answer->body;
    answer->body = (struct berth_buf){.max = answer->body.max};
    x->post.run = run_answer;
    (void)berth_engine_post(x->server->engine, &x->post,
                            &ignored); /* its loop runs: we heard of x */
}

/* --- streams --- */

void berth_http_stream_begin(struct berth_http_exchange *x, const struct berth_http_answer *head,
                             const struct berth_http_stream_handlers *handlers)
{
    struct conn *c = x->conn;
    x->stream = *handlers;
    x->streams = true;
    pthread_mutex_lock(&x->server->lock);
    x->server->streams++;
    pthread_mutex_unlock(&x->server->lock);
    if (!c) {
        handlers->on_gone(handlers->ctx);
        return;
    }
    auto_buf out = BERTH_BUF_INIT(HEAD_BYTES_MAX);
    bool upgraded = handlers->on_bytes != NULL;
    /* Else the end of the connection is the end of it. */
    x->chunked = x->head.keep_alive && !upgraded;
    c->phase = STREAMING;
    write_head_of(&out, x, head, true);
    berth_buf_puts(&out, upgraded     ? "Connection: Upgrade\r\n\r\n"
                         : x->chunked ? "Transfer-Encoding: chunked\r\n\r\n"
                                      : "Connection: close\r\n\r\n");
    if (out.failed)
        berth_socket_close(c->socket);
    else
        put(c, out.data, out.len);
    set_deadline(c);
    if (c->exchange == x && upgraded)
        berth_http_stream_read_on(x);
    if (c->exchange == x && c->server->draining && x->stream.on_drain)
        x->stream.on_drain(x->stream.ctx);
}

void berth_http_stream_read_on(struct berth_http_exchange *x)
{
    struct conn *c = x->conn;
    if (!c)
        return;
    auto_buf waiting = take_waiting(c);
    if (waiting.len)
        hand_on(c, waiting.data, waiting.len);
    if (c->phase == STREAMING && !c->waiting.len)
        berth_socket_pause(c->socket, false);
}

void berth_http_stream_write(struct berth_http_exchange *x, const char *bytes, size_t len)
{
    struct conn *c = x->conn;
    if (!c || len == 0 || x->head.method == BERTH_HTTP_HEAD)
        return;
    bool waited = berth_socket_queued(c->socket) > 0;
    auto_buf out = BERTH_BUF_INIT(len + 64);
    if (x->chunked)
        berth_buf_printf(&out, "%zx\r\n", len);
    berth_buf_append(&out, bytes, len);
    if (x->chunked)
        berth_buf_append(&out, "\r\n", 2);
    if (out.failed)
        berth_socket_close(c->socket);
    else
        put(c, out.data, out.len);
    if (!waited)
        set_deadline(c); /* from now on its reader has to read */
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
    struct conn *c = x->conn;
    if (c) {
        c->exchange = NULL;
        c->phase = REFUSING;
        berth_socket_close(c->socket);
    }
    free_exchange(x);
}

void berth_http_stream_end(struct berth_http_exchange *x)
{
    struct conn *c = x->conn;
    if (c) {
        c->exchange = NULL; /* as in run_answer */
        if (x->chunked && x->head.method != BERTH_HTTP_HEAD)
            put(c, "0\r\n\r\n", 5);
        end_answer(c, x->chunked && !c->server->draining);
    }
    free_exchange(x);
}

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

void berth_http_exchange_share(struct berth_http_exchange *x)
{
    x->shared = true;
}

int berth_http_exchange_left_fd(struct berth_http_exchange *x)
{
    int fd = atomic_load(&x->left_fd);
    if (fd >= 0)
        return fd;
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_store(&x->left_fd, fd);
    if (fd >= 0 && atomic_load(&x->left)) /* it left before there was anything to be told by */
        (void)eventfd_write(fd, 1);
    return fd;
}

void berth_http_exchange_on_left(struct berth_http_exchange *x, void (*on_left)(void *ctx),
                                 void *ctx)
{
    x->stream = (struct berth_http_stream_handlers){.on_gone = on_left, .ctx = ctx};
    if (!x->conn && on_left)
        on_left(ctx);
}

/* --- connections --- */

static void tell_left(struct conn *c)
{
    struct berth_http_exchange *x = c->exchange;
    if (!x)
        return;
    c->exchange = NULL;
    x->conn = NULL;
    atomic_store(&x->left, true);
    int fd = atomic_load(&x->left_fd);
    if (fd >= 0)
        (void)eventfd_write(fd, 1);
    if (x->stream.on_gone)
        x->stream.on_gone(x->stream.ctx);
}

static void on_gone(void *ctx)
{
    struct conn *c = ctx;
    c->phase = REFUSING;
    tell_left(c);
    berth_socket_close(c->socket);
}

/* It has read all of it. A request that is on its way keeps the time that it has. */
static void on_room(void *ctx)
{
    struct conn *c = ctx;
    if (c->phase == SENDING) {
        end_answer(c, !c->server->draining);
        return;
    }
    if (c->phase != READING)
        set_deadline(c);
    if (c->phase == STREAMING && c->exchange->stream.on_room)
        c->exchange->stream.on_room(c->exchange->stream.ctx);
}

static void on_closed(void *ctx)
{
    struct conn *c = ctx;
    struct berth_http_server *server = c->server;
    bool local = c->local;
    tell_left(c);
    berth_timer_clear(server->engine, &c->timer);
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    berth_http_reader_clear(&c->reader);
    berth_buf_clear(&c->body);
    berth_buf_clear(&c->waiting);
    if (c->tls)
        c->secure->close(c->tls);
    free(c);
    pthread_mutex_lock(&server->lock);
    server->connections--;
    server->remote -= !local;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

/* Without memory for it there is no connection. */
static bool open_link(struct conn *c)
{
    struct berth_error none;
    struct berth_http_link_handlers handlers = {.on_plain = on_plain, .on_wire = on_wire, .ctx = c};
    return !c->secure || c->secure->open(c->secure->ctx, &handlers, &c->tls, &none) == BERTH_OK;
}

/* Lock held. However many come by TCP, those who are here get in. */
static bool is_full(const struct berth_http_server *server, bool local)
{
    int max = server->settings.connections_max;
    int kept = max / 4 < RESERVED_MAX ? max / 4 : RESERVED_MAX;
    return server->connections >= max || (!local && server->remote >= max - kept);
}

static void on_socket(void *ctx, struct berth_socket *socket)
{
    const struct address *address = ctx;
    struct berth_http_server *server = address->server;
    struct conn *c = calloc(1, sizeof *c);
    if (c) {
        c->socket = socket;
        c->secure = address->secure;
        c->local = berth_socket_peer(socket)->local;
    }
    if (c && !open_link(c)) {
        free(c);
        c = NULL;
    }
    pthread_mutex_lock(&server->lock);
    bool full = !c || server->draining || is_full(server, c->local);
    server->connections += !full;
    server->remote += !full && !c->local;
    pthread_mutex_unlock(&server->lock);
    if (full) {
        if (c && c->tls)
            c->secure->close(c->tls);
        free(c);
        berth_socket_close(socket);
        return;
    }
    c->server = server;
    c->greeted = c->local;
    c->body = (struct berth_buf){.max = INT64_MAX, .secret = true};
    c->waiting = (struct berth_buf){.max = 4 * BERTH_HTTP_WAITING_BYTES_MAX, .secret = true};
    c->timer.run = on_timer;
    berth_http_reader_init(&c->reader);
    c->next = server->first;
    c->link = &server->first;
    if (c->next)
        c->next->link = &c->next;
    server->first = c;
    set_deadline(c);
    struct berth_socket_handlers handlers = {.on_bytes = on_bytes,
                                             .on_room = on_room,
                                             .on_gone = on_gone,
                                             .on_closed = on_closed,
                                             .ctx = c};
    berth_socket_start(socket, &handlers);
}

/* --- the server --- */

int berth_http_server_open(struct berth_engine *engine, const struct berth_http_settings *settings,
                           const struct berth_http_handlers *handlers,
                           struct berth_http_server **out, struct berth_error *err)
{
    struct berth_http_server *server = calloc(1, sizeof *server);
    if (!server)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: server.");
    server->engine = engine;
    server->settings = *settings;
    server->handlers = *handlers;
    pthread_mutex_init(&server->lock, NULL);
    berth_time_cond_init(&server->changed);
    *out = server;
    return BERTH_OK;
}

int berth_http_server_listen(struct berth_http_server *server,
                             const struct berth_http_address *address, struct berth_error *err)
{
    if (server->address_count == ADDRESSES_MAX)
        return berth_fail(err, BERTH_E_INVALID, "There are too many addresses to listen at.");
    struct address *at = &server->addresses[server->address_count];
    *at = (struct address){.server = server, .secure = address->secure};
    struct berth_listener_options options = {.path = address->path,
                                             .host = address->host,
                                             .port = address->port,
                                             .on_socket = on_socket,
                                             .ctx = at};
    int rc = berth_listener_open(server->engine, &options, &at->listener, err);
    if (rc < 0)
        return rc;
    server->address_count++;
    return berth_listener_port(at->listener);
}

struct berth_http_stats berth_http_server_stats(struct berth_http_server *server)
{
    pthread_mutex_lock(&server->lock);
    struct berth_http_stats stats = {.connections = server->connections,
                                     .streams = server->streams,
                                     .requests = server->requests};
    pthread_mutex_unlock(&server->lock);
    return stats;
}

static void run_drain(void *ctx)
{
    struct berth_http_server *server = ctx;
    server->draining = true;
    for (struct conn *c = server->first; c; c = c->next)
        if (c->phase == IDLE)
            berth_socket_close(c->socket);
        else if (c->phase == STREAMING && c->exchange->stream.on_drain)
            c->exchange->stream.on_drain(c->exchange->stream.ctx);
}

static void run_close(void *ctx)
{
    struct berth_http_server *server = ctx;
    server->draining = true;
    for (struct conn *c = server->first; c; c = c->next)
        berth_socket_close(c->socket);
}

static void stop_listening(struct berth_http_server *server)
{
    for (int i = 0; i < server->address_count; i++)
        berth_listener_close(server->addresses[i].listener);
    server->address_count = 0;
}

void berth_http_server_drain(struct berth_http_server *server, int64_t wait_ms)
{
    struct timespec until = berth_time_until(wait_ms);
    struct berth_error ignored; /* a loop that cannot run has no connections */
    stop_listening(server);
    (void)berth_engine_do(server->engine, run_drain, server, &ignored);
    pthread_mutex_lock(&server->lock);
    while (server->connections && wait_ms > 0)
        if (pthread_cond_timedwait(&server->changed, &server->lock, &until) != 0)
            break;
    pthread_mutex_unlock(&server->lock);
}

void berth_http_server_close(struct berth_http_server *server)
{
    if (!server)
        return;
    struct berth_error ignored;
    stop_listening(server);
    (void)berth_engine_do(server->engine, run_close, server, &ignored);
    pthread_mutex_lock(&server->lock);
    while (server->connections || server->exchanges)
        pthread_cond_wait(&server->changed, &server->lock);
    pthread_mutex_unlock(&server->lock);
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->changed);
    free(server);
}
