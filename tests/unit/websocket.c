/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/websocket.c - handshakes, frames and their violations, over a real socket: what is
 * said comes back, or the connection ends with the code that RFC 6455 has for it. */
#include "http/websocket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "crypto/hash.h"
#include "fixture.h"
#include "os/engine.h"
#include "wsclient.h"

#define PROTOCOL "echo.v1"

/* --- the handshake --- */

static struct berth_http_handshake shake(const char *line, const char *headers)
{
    struct berth_http_reader r;
    struct berth_http_handshake out;
    char text[1000];
    size_t used;
    int len = snprintf(text, sizeof text, "%s\r\nHost: x\r\n%s\r\n", line, headers);
    berth_http_reader_init(&r);
    assert_int_equal(berth_http_reader_step(&r, text, (size_t)len, &used), BERTH_HTTP_HEAD_READ);
    berth_http_handshake_read(&r.head, PROTOCOL, &out);
    berth_http_reader_clear(&r);
    return out;
}

#define KEY "Sec-WebSocket-Key: " WS_KEY "\r\n"
#define ASKED "Connection: Upgrade\r\nUpgrade: websocket\r\n"
#define VERSION "Sec-WebSocket-Version: 13\r\n"

static void handshakes(void **state)
{
    (void)state;
    static const struct {
        const char *line, *headers;
        int status;
        bool named;
    } cases[] = {
        {"GET / HTTP/1.1", ASKED VERSION KEY, 101, false},
        {"GET / HTTP/1.1", WS_HANDSHAKE, 101, false},
        {"GET / HTTP/1.1", "Connection: upgrade\r\nUpgrade: h2c, WEBSOCKET\r\n" VERSION KEY, 101,
         false},
        {"GET / HTTP/1.1", WS_HANDSHAKE "Sec-WebSocket-Protocol: echo.v1\r\n", 101, true},
        {"GET / HTTP/1.1", WS_HANDSHAKE "Sec-WebSocket-Protocol: a, echo.v1,b\r\n", 101, true},
        {"GET / HTTP/1.1",
         WS_HANDSHAKE "Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: echo.v1\r\n", 101,
         true},
        {"GET / HTTP/1.1", WS_HANDSHAKE "Sec-WebSocket-Protocol: echo.v11, xecho.v1\r\n", 101,
         false},
        {"GET / HTTP/1.1", "", 426, false},
        {"POST / HTTP/1.1", ASKED VERSION KEY, 426, false},
        {"HEAD / HTTP/1.1", ASKED VERSION KEY, 426, false},
        {"GET / HTTP/1.0", ASKED VERSION KEY, 426, false},
        {"GET / HTTP/1.1", "Upgrade: websocket\r\n" VERSION KEY, 426, false},
        {"GET / HTTP/1.1", "Connection: Upgrade\r\n" VERSION KEY, 426, false},
        {"GET / HTTP/1.1", "Connection: Upgrade\r\nUpgrade: websockets\r\n" VERSION KEY, 426,
         false},
        {"GET / HTTP/1.1", ASKED KEY, 426, false},
        {"GET / HTTP/1.1", ASKED KEY "Sec-WebSocket-Version: 8\r\n", 426, false},
        {"GET / HTTP/1.1", ASKED KEY "Sec-WebSocket-Version: 013\r\n", 426, false},
        {"GET / HTTP/1.1", ASKED VERSION, 400, false},
        {"GET / HTTP/1.1", ASKED VERSION "Sec-WebSocket-Key: \r\n", 400, false},
        {"GET / HTTP/1.1", ASKED VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j\r\n", 400, false},
        {"GET / HTTP/1.1", ASKED VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=\r\n", 400,
         false},
        {"GET / HTTP/1.1", ASKED VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZSE=\r\n", 400,
         false},
        {"GET / HTTP/1.1", ASKED VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub2*jZQ==\r\n", 400,
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct berth_http_handshake got = shake(cases[i].line, cases[i].headers);
        if (got.status != cases[i].status || got.named != cases[i].named ||
            (got.why == NULL) != (got.status == 101))
            fail_msg("%s %s: %d %s", cases[i].line, cases[i].headers, got.status, got.why);
    }
    struct berth_http_handshake got = shake("GET / HTTP/1.1", WS_HANDSHAKE);
    struct berth_error err;
    char accept[BERTH_SHA1_BASE64_SIZE];
    assert_int_equal(berth_sha1_base64(got.challenge, strlen(got.challenge), accept, &err), 0);
    assert_string_equal(accept, WS_ACCEPT);
}

static void heads_of_frames(void **state)
{
    (void)state;
    static const struct {
        size_t len;
        const char *head;
        size_t head_len;
    } cases[] = {
        {0, "\x82\x00", 2},
        {125, "\x82\x7d", 2},
        {126, "\x82\x7e\x00\x7e", 4},
        {65535, "\x82\x7e\xff\xff", 4},
        {65536, "\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00", 10},
        {(size_t)1 << 40, "\x82\x7f\x00\x00\x01\x00\x00\x00\x00\x00", 10},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        auto_buf out = BERTH_BUF_INIT(100);
        berth_http_websocket_frame(&out, false, cases[i].len);
        assert_int_equal(out.len, cases[i].head_len);
        assert_memory_equal(out.data, cases[i].head, out.len);
    }
}

/* --- a server that says what it hears --- */

struct stage {
    struct berth_engine *engine;
    struct berth_http_server *server;
    char directory[64], path[96];
    pthread_mutex_t lock;
    struct berth_http_exchange *held; /* of /later: the test says when */
    struct peer *peer;                /* the last one; of the loop's thread */
    _Atomic int messages, gone;
    _Atomic bool holds; /* it hears one message and no more */
    _Atomic int64_t bytes;
};

struct peer {
    struct stage *s;
    struct berth_http_exchange *x;
    struct berth_http_websocket *ws;
};

static void on_message(void *ctx, bool text, const char *bytes, size_t len)
{
    struct peer *p = ctx;
    auto_buf out = BERTH_BUF_INIT(len + 100);
    assert_int_equal(bytes[len], '\0');
    p->s->messages++;
    p->s->bytes += (int64_t)len;
    if (p->s->holds) {
        berth_http_websocket_hold(p->ws, true);
        return;
    }
    if (text && strcmp(bytes, "end") == 0) {
        berth_http_websocket_end(p->ws, BERTH_HTTP_CLOSE_POLICY);
        p->s->gone++;
        free(p);
        return;
    }
    berth_http_websocket_frame(&out, text, len);
    berth_buf_append(&out, bytes, len);
    berth_http_websocket_write(p->ws, out.data, out.len);
}

static void on_gone(void *ctx)
{
    struct peer *p = ctx;
    berth_http_websocket_end(p->ws, BERTH_HTTP_CLOSE_NORMAL);
    p->s->peer = NULL;
    p->s->gone++;
    free(p);
}

static void begin(struct stage *s, struct berth_http_exchange *x)
{
    struct berth_http_handshake asked;
    struct berth_error err;
    struct peer *p = calloc(1, sizeof *p);
    struct berth_http_websocket_handlers handlers = {
        .on_message = on_message, .on_gone = on_gone, .ctx = p};
    berth_http_handshake_read(berth_http_exchange_head(x), PROTOCOL, &asked);
    assert_int_equal(asked.status, 101);
    *p = (struct peer){.s = s, .x = x};
    s->peer = p;
    assert_int_equal(
        berth_http_websocket_new(WS_ACCEPT, asked.named ? PROTOCOL : NULL, &p->ws, &err), 0);
    berth_http_websocket_begin(p->ws, x, &handlers);
}

static void on_request(void *ctx, struct berth_http_exchange *x)
{
    struct stage *s = ctx;
    if (strcmp(berth_http_exchange_head(x)->path, "/later") != 0) {
        begin(s, x);
        return;
    }
    pthread_mutex_lock(&s->lock);
    s->held = x;
    pthread_mutex_unlock(&s->lock);
}

static int set_up(void **state)
{
    struct stage *s = calloc(1, sizeof *s);
    struct berth_error err;
    struct berth_http_settings settings = BERTH_HTTP_SETTINGS_INIT;
    struct berth_http_handlers handlers = {.on_request = on_request, .ctx = s};
    (void)snprintf(s->directory, sizeof s->directory, "/tmp/berth-ws.XXXXXX");
    assert_non_null(mkdtemp(s->directory));
    (void)snprintf(s->path, sizeof s->path, "%s/socket", s->directory);
    pthread_mutex_init(&s->lock, NULL);
    assert_int_equal(berth_engine_new(&s->engine, &err), 0);
    assert_int_equal(berth_http_server_open(s->engine, &settings, &handlers, &s->server, &err), 0);
    struct berth_http_address address = {.path = s->path};
    assert_int_equal(berth_http_server_listen(s->server, &address, &err), 0);
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct stage *s = *state;
    berth_http_server_close(s->server);
    berth_engine_free(s->engine);
    assert_int_equal(rmdir(s->directory), 0);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return 0;
}

static int dial(struct stage *s)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(to.sun_path, sizeof to.sun_path, "%s", s->path);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void open_at(struct stage *s, struct ws *ws, const char *path)
{
    assert_int_equal(ws_open(ws, dial(s), path, WS_HANDSHAKE), 101);
    assert_non_null(strstr(ws->data.data, "\r\nSec-WebSocket-Accept: " WS_ACCEPT "\r\n"));
}

/* --- messages --- */

static void messages_come_back(void **state)
{
    struct stage *s = *state;
    struct ws ws;
    open_at(s, &ws, "/");
    assert_null(strstr(ws.data.data, "Sec-WebSocket-Protocol"));
    assert_non_null(strstr(ws.data.data, "\r\nConnection: Upgrade\r\n"));
    ws_send(&ws, WS_TEXT, "gr\xc3\xbc\xc3\x9f", 6);
    ws_expect(&ws, WS_TEXT, "gr\xc3\xbc\xc3\x9f");
    ws_send(&ws, WS_BINARY, "\xff", 1);
    ws_expect(&ws, WS_BINARY, "\xff");
    ws_send(&ws, WS_TEXT, "", 0);
    ws_expect(&ws, WS_TEXT, "");
    ws_send(&ws, WS_PING, "are you there", 13);
    ws_expect(&ws, WS_PONG, "are you there");
    ws_send(&ws, WS_PONG, "unasked", 7);
    static const size_t sizes[] = {125, 126, 4095, 4096, 65535, 65536, 1024 * 1024};
    auto_free char *much = malloc(1024 * 1024);
    memset(much, 'x', 1024 * 1024);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ws_send(&ws, WS_BINARY, much, sizes[i]);
        assert_true(ws_next(&ws));
        assert_int_equal(ws.data.len, sizes[i]);
        assert_memory_equal(ws.data.data, much, sizes[i]);
    }
    assert_int_equal(berth_http_server_stats(s->server).streams, 1);
    ws_close(&ws);
    WAIT_FOR(s->gone == 1);
    WAIT_FOR(berth_http_server_stats(s->server).streams == 0);
}

/* Each byte by itself. */
static void send_slowly(struct ws *ws, struct berth_buf *bytes)
{
    for (size_t i = 0; i < bytes->len; i++)
        assert_int_equal(send(ws->fd, bytes->data + i, 1, MSG_NOSIGNAL), 1);
    berth_buf_truncate(bytes, 0);
}

static void fragments_are_joined(void **state)
{
    struct stage *s = *state;
    struct ws ws;
    auto_buf out = BERTH_BUF_INIT(1 << 20);
    assert_int_equal(
        ws_open(&ws, dial(s), "/", WS_HANDSHAKE "Sec-WebSocket-Protocol: x, echo.v1\r\n"), 101);
    assert_non_null(strstr(ws.data.data, "\r\nSec-WebSocket-Protocol: echo.v1\r\n"));
    ws_frame(&out, WS_TEXT, "gr\xc3", 3); /* in the middle of a character */
    ws_frame(&out, 0x80 | WS_PING, "", 0);
    send_slowly(&ws, &out);
    ws_expect(&ws, WS_PONG, "");
    ws_frame(&out, WS_MORE, "", 0);
    ws_frame(&out, WS_MORE, "\xbc\xc3\x9f", 3);
    ws_frame(&out, 0x80 | WS_MORE, "en", 2);
    send_slowly(&ws, &out);
    ws_expect(&ws, WS_TEXT, "gr\303\274\303\237en");
    ws_close(&ws);
}

static void begin_held(void *ctx)
{
    struct stage *s = ctx;
    begin(s, s->held);
}

static bool is_held(struct stage *s)
{
    pthread_mutex_lock(&s->lock);
    bool held = s->held != NULL;
    pthread_mutex_unlock(&s->lock);
    return held;
}

/* Also messages that came before the handshake was answered. */
static void bytes_behind_the_handshake(void **state)
{
    struct stage *s = *state;
    struct ws ws = {.fd = dial(s), .in = BERTH_BUF_INIT(1 << 20), .data = BERTH_BUF_INIT(1 << 20)};
    auto_buf out = BERTH_BUF_INIT(1 << 20);
    auto_free char *much = malloc(100000);
    memset(much, 'y', 100000);
    berth_buf_puts(&out, "GET /later HTTP/1.1\r\nHost: x\r\n" WS_HANDSHAKE "\r\n");
    ws_frame(&out, 0x80 | WS_TEXT, "first", 5);
    ws_frame(&out, 0x80 | WS_BINARY, much, 100000);
    ws_frame(&out, 0x80 | WS_TEXT, "last", 4);
    assert_int_equal(ws_push(&ws, out.data, out.len, out.len), out.len);
    struct berth_error err;
    WAIT_FOR(is_held(s));
    pause_ms(50);
    assert_int_equal(berth_engine_do(s->engine, begin_held, s, &err), 0);
    while (!strstr(berth_buf_str(&ws.in), "\r\n\r\n")) {
        char byte;
        assert_int_equal(recv(ws.fd, &byte, 1, 0), 1);
        berth_buf_append(&ws.in, &byte, 1);
    }
    berth_buf_truncate(&ws.in, 0);
    ws_expect(&ws, WS_TEXT, "first");
    assert_true(ws_next(&ws));
    assert_int_equal(ws.data.len, 100000);
    ws_expect(&ws, WS_TEXT, "last");
    ws_close(&ws);
}

/* --- ends --- */

static void violations(void **state)
{
    struct stage *s = *state;
    static const struct {
        const char *what, *bytes;
        size_t len;
        int code;
    } cases[] = {
#define CASE(what, bytes, code) {what, bytes, sizeof bytes - 1, code}
        CASE("not masked", "\x81\x02hi", 1002),
        CASE("not masked, empty", "\x81\x00", 1002),
        CASE("RSV1", "\xc1\x80\0\0\0\0", 1002),
        CASE("RSV2", "\xa1\x80\0\0\0\0", 1002),
        CASE("RSV3 of a ping", "\x99\x80\0\0\0\0", 1002),
        CASE("opcode 3", "\x83\x80\0\0\0\0", 1002),
        CASE("opcode 7", "\x87\x81\0\0\0\0x", 1002),
        CASE("opcode 11", "\x8b\x80\0\0\0\0", 1002),
        CASE("opcode 15", "\x8f\x80\0\0\0\0", 1002),
        CASE("a long ping", "\x89\xfe\0\x7e\0\0\0\0", 1002),
        CASE("a ping in fragments", "\x09\x80\0\0\0\0", 1002),
        CASE("a close in fragments", "\x08\x80\0\0\0\0", 1002),
        CASE("a fragment of nothing", "\x80\x80\0\0\0\0", 1002),
        CASE("a text in a text", "\x01\x81\0\0\0\0x\x81\x81\0\0\0\0x", 1002),
        CASE("126 in two bytes too many", "\x82\xfe\0\x7d\0\0\0\0", 1002),
        CASE("127 in eight bytes too many", "\x82\xff\0\0\0\0\0\0\xff\xff\0\0\0\0", 1002),
        CASE("2^63 bytes", "\x82\xff\x80\0\0\0\0\0\0\0\0\0\0\0x", 1002),
        CASE("2^63 - 1 bytes", "\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0x", 1009),
        CASE("1 MiB and a byte", "\x82\xff\0\0\0\0\0\x10\0\x01\0\0\0\0x", 1009),
        CASE("no UTF-8", "\x81\x81\0\0\0\0\xff", 1007),
        CASE("half a character", "\x81\x81\0\0\0\0\xc3", 1007),
        CASE("a surrogate", "\x81\x83\0\0\0\0\xed\xa0\x80", 1007),
        CASE("an overlong slash", "\x81\x82\0\0\0\0\xc0\xaf", 1007),
        CASE("no UTF-8 in the second fragment", "\x01\x81\0\0\0\0\xc3\x80\x81\0\0\0\0x", 1007),
        CASE("close by half a code", "\x88\x81\0\0\0\0\x03", 1002),
        CASE("close by 999", "\x88\x82\0\0\0\0\x03\xe7", 1002),
        CASE("close by 1005", "\x88\x82\0\0\0\0\x03\xed", 1002),
        CASE("close by 1000", "\x88\x82\0\0\0\0\x03\xe8", 1000),
        CASE("close by 4321", "\x88\x82\0\0\0\0\x10\xe1", 4321),
        CASE("close without a code", "\x88\x80\0\0\0\0", 0),
        CASE("end",
             "\x81\x83\0\0\0\0"
             "end",
             1008),
#undef CASE
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ws ws;
        print_message("# %s\n", cases[i].what);
        open_at(s, &ws, "/");
        assert_int_equal(send(ws.fd, cases[i].bytes, cases[i].len, MSG_NOSIGNAL),
                         (ssize_t)cases[i].len);
        ws_send(&ws, WS_TEXT, "behind", 6);
        assert_int_equal(ws_await_close(&ws), cases[i].code);
        ws_close(&ws);
        WAIT_FOR(s->gone == (int)i + 1);
    }
    assert_int_equal(s->messages, 1); /* the last */
}

static void fragments_that_are_too_much(void **state)
{
    struct stage *s = *state;
    struct ws ws;
    auto_buf out = BERTH_BUF_INIT(4 << 20);
    auto_free char *half = calloc(1, 512 * 1024);
    open_at(s, &ws, "/");
    ws_frame(&out, WS_BINARY, half, 512 * 1024);
    ws_frame(&out, WS_MORE, half, 512 * 1024);
    ws_frame(&out, 0x80 | WS_MORE, half, 1);
    (void)send(ws.fd, out.data, out.len, MSG_NOSIGNAL);
    assert_int_equal(ws_await_close(&ws), 1009);
    ws_close(&ws);
    assert_int_equal(s->messages, 0);
}

static void release(void *ctx)
{
    struct stage *s = ctx;
    s->holds = false;
    berth_http_websocket_hold(s->peer->ws, false);
}

/* Messages of a paused client are kept, and arrive later. */
static void nothing_is_read_while_it_is_held(void **state)
{
    struct stage *s = *state;
    struct ws ws;
    struct berth_error err;
    enum { LEN = 16000, COUNT = 1000 };
    auto_buf one = BERTH_BUF_INIT(LEN + 100);
    auto_free char *zeros = calloc(1, LEN);
    ws_frame(&one, 0x80 | WS_BINARY, zeros, LEN);
    open_at(s, &ws, "/");
    s->holds = true;
    size_t sent = ws_push(&ws, one.data, one.len, one.len * COUNT);
    assert_in_range(sent, 1, 2 * 1024 * 1024);
    int before = s->messages;
    assert_in_range(before, 1, 2);
    assert_int_equal(berth_engine_do(s->engine, release, s, &err), 0);
    for (size_t i = (size_t)before; i < sent / one.len; i++)
        assert_true(ws_next(&ws));
    size_t left = one.len - sent % one.len; /* of one that is cut, or another */
    assert_int_equal(ws_push(&ws, one.data + one.len - left, left, left), left);
    assert_true(ws_next(&ws));
    assert_int_equal(ws.data.len, LEN);
    assert_int_equal(s->bytes, (int64_t)LEN * (int64_t)(sent / one.len + 1));
    ws_close(&ws);
}

/* A client who asks and asks, and never reads the answers, is not listened to any more. */
static void answers_that_nobody_reads(void **state)
{
    struct stage *s = *state;
    struct ws ws;
    auto_buf pings = BERTH_BUF_INIT(1 << 20);
    char data[125] = {0};
    for (int i = 0; i < 500; i++)
        ws_frame(&pings, 0x80 | WS_PING, data, sizeof data);
    open_at(s, &ws, "/");
    size_t sent = ws_push(&ws, pings.data, pings.len, 64 << 20);
    assert_in_range(sent, 1, 4 << 20);
    for (size_t i = 0; i < sent / (pings.len / 500);
         i++) { /* the client reads, and the server goes on */
        assert_true(ws_next(&ws));
        assert_int_equal(ws.opcode, WS_PONG);
        assert_int_equal(ws.data.len, sizeof data);
    }
    ws_close(&ws);
    WAIT_FOR(s->gone == 1);
}

/* Writes until some bytes wait for the client, then one round of a command's output. */
static void write_too_much(void *ctx)
{
    const struct peer *p = ((struct stage *)ctx)->peer;
    auto_free char *zeros = calloc(1, BERTH_FAN_BYTES_MAX);
    auto_buf small = BERTH_BUF_INIT(2000), round = BERTH_BUF_INIT(2 * BERTH_FAN_BYTES_MAX);
    berth_http_websocket_frame(&small, false, 1000);
    berth_buf_append(&small, zeros, 1000);
    berth_http_websocket_frame(&round, false, BERTH_FAN_BYTES_MAX);
    berth_buf_append(&round, zeros, BERTH_FAN_BYTES_MAX);
    while (berth_http_stream_queued(p->x) == 0)
        berth_http_websocket_write(p->ws, small.data, small.len);
    berth_http_websocket_write(p->ws, round.data, round.len);
}

static void who_does_not_read_is_still_heard(void **state)
{
    struct stage *s = *state;
    struct ws ws;
    struct berth_error err;
    open_at(s, &ws, "/");
    assert_int_equal(berth_engine_do(s->engine, write_too_much, s, &err), 0);
    ws_send(&ws, WS_TEXT, "end", 3);
    WAIT_FOR(s->gone == 1);
    ws_close(&ws);
}

static void beat(void *ctx)
{
    struct stage *s = ctx;
    s->messages = berth_http_websocket_beat(s->peer->ws);
}

static void clients_are_asked_whether_they_are_there(void **state)
{
    struct stage *s = *state;
    struct ws ws;
    struct berth_error err;
    open_at(s, &ws, "/");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(berth_engine_do(s->engine, beat, s, &err), 0);
        assert_int_equal(s->messages, 1);
        ws_next(&ws);
        assert_int_equal(ws.opcode, WS_PING);
        if (i < 2) {
            ws_send(&ws, WS_PONG, "", 0);
            pause_ms(100);
        }
    }
    assert_int_equal(berth_engine_do(s->engine, beat, s, &err), 0);
    assert_int_equal(s->messages, 0);
    ws_close(&ws);
}

static void the_server_says_goodbye(void **state)
{
    struct stage *s = *state;
    struct ws ws;
    open_at(s, &ws, "/");
    ws_send(&ws, WS_TEXT, "x", 1);
    ws_expect(&ws, WS_TEXT, "x");
    berth_time_shift(0, 24 * 3600 * 1000); /* it has no deadline */
    ws_send(&ws, WS_TEXT, "y", 1);
    ws_expect(&ws, WS_TEXT, "y");
    berth_http_server_drain(s->server, 0);
    assert_int_equal(ws_await_close(&ws), 1001);
    ws_close(&ws);
    assert_int_equal(s->gone, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handshakes),
        cmocka_unit_test(heads_of_frames),
        cmocka_unit_test_setup_teardown(messages_come_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fragments_are_joined, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bytes_behind_the_handshake, set_up, tear_down),
        cmocka_unit_test_setup_teardown(violations, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fragments_that_are_too_much, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_read_while_it_is_held, set_up, tear_down),
        cmocka_unit_test_setup_teardown(answers_that_nobody_reads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_does_not_read_is_still_heard, set_up, tear_down),
        cmocka_unit_test_setup_teardown(clients_are_asked_whether_they_are_there, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_server_says_goodbye, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("websocket", tests, NULL, NULL);
}
