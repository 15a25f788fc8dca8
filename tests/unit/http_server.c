/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/http_server.c - connections as their clients see them: over real sockets, with answers
 * that come at once, later, or from another thread. Time is moved. */
#include "http/http.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/container.h"
#include "fixture.h"
#include "os/engine.h"

#define HOST "Host: berth\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" HOST "\r\n"
#define PATIENCE_MS 120000
#define HELD_MAX 64

/* A server that answers what it was asked: at once, or when the test says so. */
struct stage {
    struct berth_engine *engine;
    struct berth_http_server *server;
    char directory[64], path[96];
    int port;
    pthread_mutex_t lock;
    struct berth_http_exchange *held[HELD_MAX]; /* of paths that begin with /held, in their order */
    int held_count;
    _Atomic int asked, readers_gone, full;
    struct taking *taking; /* the last body that was taken as a stream */
    _Atomic int takings_ended, takings_gone;
};

static void answer(struct berth_http_exchange *x)
{
    const struct berth_http_head *h = berth_http_exchange_head(x);
    const struct berth_peer *peer = berth_http_exchange_peer(x);
    size_t len;
    const char *body = berth_http_exchange_body(x, &len);
    struct berth_http_answer a = {.status = strcmp(h->path, "/none") == 0 ? 204 : 200,
                                  .type = "text/plain",
                                  .more = {{"X-Path", h->path}},
                                  .brief = h->method == BERTH_HTTP_POST ? "it is done" : NULL,
                                  .body = BERTH_BUF_INIT(64 * 1024 * 1024)};
    if (strcmp(h->path, "/who") == 0)
        berth_buf_printf(&a.body, "%s %d", peer->local ? "local" : "tcp", (int)peer->uid);
    else if (strcmp(h->path, "/much") == 0)
        for (int i = 0; i < 40000; i++)
            berth_buf_printf(&a.body, "%099d\n", i);
    else if (strcmp(h->path, "/some") == 0)
        for (int i = 0; i < 2500; i++)
            berth_buf_printf(&a.body, "%099d\n", i);
    else
        berth_buf_append(&a.body, body, len);
    berth_http_answer(x, &a);
}

/* --- bodies that are taken as a stream --- */

/* What was taken of a body: under /take/N at most N bytes at a time, then a pause. */
struct taking {
    struct stage *s;
    struct berth_http_exchange *x;
    struct berth_timer again;
    size_t step;
    _Atomic uint64_t count;
    uint64_t sum; /* of the bytes and their places, so that none is lost, doubled or moved */
    bool resumes; /* by itself */
    uint64_t deny_at;
};

static uint64_t sum_of(uint64_t sum, uint64_t place, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        sum += (place + i + 1) * (unsigned char)bytes[i];
    return sum;
}

static void answer_taking(struct taking *t, int status)
{
    struct berth_http_answer a = {.status = status, .body = BERTH_BUF_INIT(100)};
    berth_buf_printf(&a.body, "%llu %llu", (unsigned long long)t->count,
                     (unsigned long long)t->sum);
    berth_timer_clear(t->s->engine, &t->again);
    berth_http_answer(t->x, &a);
    t->x = NULL;
}

static size_t on_taking_bytes(void *ctx, const char *bytes, size_t len)
{
    struct taking *t = ctx;
    assert_non_null(t->x); /* nothing comes after its answer */
    size_t step = len < t->step ? len : t->step;
    t->sum = sum_of(t->sum, t->count, bytes, step);
    atomic_fetch_add(&t->count, step);
    if (t->deny_at && t->count >= t->deny_at)
        answer_taking(t, 403);
    else if (step < len && t->resumes)
        berth_timer_set(t->s->engine, &t->again, 0);
    return step;
}

static void on_taking_again(struct berth_timer *timer)
{
    berth_http_body_read_on(berth_container_of(timer, struct taking, again)->x);
}

static void on_taking_end(void *ctx)
{
    struct taking *t = ctx;
    atomic_fetch_add(&t->s->takings_ended, 1);
    answer_taking(t, 200);
}

static void on_taking_gone(void *ctx)
{
    struct taking *t = ctx;
    atomic_fetch_add(&t->s->takings_gone, 1);
    answer_taking(t, 499);
}

/* Ends with the stage. */
static void take_body(struct stage *s, struct berth_http_exchange *x)
{
    const char *path = berth_http_exchange_head(x)->path;
    struct taking *t = s->taking;
    *t = (struct taking){.s = s, .x = x, .again.run = on_taking_again, .step = SIZE_MAX};
    t->resumes = strncmp(path, "/take/", 6) == 0;
    if (t->resumes)
        t->step = strtoul(path + 6, NULL, 10);
    else if (strcmp(path, "/keep") == 0)
        t->step = 10000;
    else
        t->deny_at = 100000;
    struct berth_http_body_handlers handlers = {
        .on_bytes = on_taking_bytes, .on_end = on_taking_end, .on_gone = on_taking_gone, .ctx = t};
    berth_http_body_read(x, INT64_MAX, &handlers);
}

/* --- requests, when all of them is there --- */

static void begin_counting(struct stage *s, struct berth_http_exchange *x);

static void on_whole(struct stage *s, struct berth_http_exchange *x)
{
    atomic_fetch_add(&s->asked, 1);
    if (strncmp(berth_http_exchange_head(x)->path, "/count", 6) == 0) {
        begin_counting(s, x);
        return;
    }
    if (strncmp(berth_http_exchange_head(x)->path, "/held", 5) != 0) {
        answer(x);
        return;
    }
    pthread_mutex_lock(&s->lock);
    s->held[s->held_count++] = x;
    pthread_mutex_unlock(&s->lock);
}

struct collecting {
    struct stage *s;
    struct berth_http_exchange *x;
};

static void on_collected(void *ctx)
{
    struct collecting *c = ctx;
    size_t len;
    assert_true(berth_http_body_is_whole(c->x));
    assert_non_null(berth_http_exchange_body(c->x, &len));
    on_whole(c->s, c->x);
    free(c);
}

static void on_not_collected(void *ctx)
{
    struct collecting *c = ctx;
    answer(c->x);
    free(c);
}

static void collect(struct stage *s, struct berth_http_exchange *x)
{
    struct collecting *c = calloc(1, sizeof *c);
    struct berth_http_body_handlers handlers = {
        .on_end = on_collected, .on_gone = on_not_collected, .ctx = c};
    *c = (struct collecting){s, x};
    bool small = strcmp(berth_http_exchange_head(x)->path, "/small") == 0;
    berth_http_body_read(x, small ? 10 : 8 * 1024 * 1024, &handlers);
}

static void on_request(void *ctx, struct berth_http_exchange *x)
{
    struct stage *s = ctx;
    const char *path = berth_http_exchange_head(x)->path;
    if (strcmp(path, "/trusted") == 0)
        berth_http_exchange_trust(x, NULL);
    if (berth_http_header(berth_http_exchange_head(x), "x-owner"))
        berth_http_exchange_trust(x, berth_http_header(berth_http_exchange_head(x), "x-owner"));
    if (strncmp(path, "/take/", 6) == 0 || strcmp(path, "/keep") == 0 || strcmp(path, "/deny") == 0)
        take_body(s, x);
    else if (berth_http_body_is_whole(x) || strncmp(path, "/held", 5) == 0)
        on_whole(s, x);
    else
        collect(s, x);
}

/* The n-th that was held. */
static struct berth_http_exchange *await_held(struct stage *s, int n)
{
    for (int waited = 0; waited < PATIENCE_MS; waited++) {
        pthread_mutex_lock(&s->lock);
        struct berth_http_exchange *x = s->held_count > n ? s->held[n] : NULL;
        pthread_mutex_unlock(&s->lock);
        if (x)
            return x;
        pause_ms(1);
    }
    fail_msg("it was never asked");
    return NULL;
}

static int listen_at(struct stage *s, const char *path, const char *host, int port,
                     struct berth_error *err)
{
    struct berth_http_address address = {.path = path, .host = host, .port = port};
    return berth_http_server_listen(s->server, &address, err);
}

static void on_full(void *ctx)
{
    struct stage *s = ctx;
    atomic_fetch_add(&s->full, 1);
}

static void open_server(struct stage *s, const struct berth_http_settings *settings)
{
    struct berth_http_handlers handlers = {.on_request = on_request, .on_full = on_full, .ctx = s};
    struct berth_error err;
    assert_int_equal(berth_http_server_open(s->engine, settings, &handlers, &s->server, &err), 0);
    assert_int_equal(listen_at(s, s->path, NULL, 0, &err), 0);
    s->port = listen_at(s, NULL, "127.0.0.1", 0, &err);
    assert_true(s->port > 0);
}

static int set_up(void **state)
{
    struct stage *s = calloc(1, sizeof *s);
    struct berth_error err;
    struct berth_http_settings settings = BERTH_HTTP_SETTINGS_INIT;
    (void)snprintf(s->directory, sizeof s->directory, "/tmp/berth-http.XXXXXX");
    assert_non_null(mkdtemp(s->directory));
    (void)snprintf(s->path, sizeof s->path, "%s/socket", s->directory);
    pthread_mutex_init(&s->lock, NULL);
    s->taking = calloc(1, sizeof *s->taking);
    assert_int_equal(berth_engine_new(&s->engine, &err), 0);
    open_server(s, &settings);
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct stage *s = *state;
    berth_http_server_close(s->server);
    berth_engine_free(s->engine);
    assert_int_equal(rmdir(s->directory), 0); /* the socket is gone */
    pthread_mutex_destroy(&s->lock);
    free(s->taking);
    free(s);
    return 0;
}

/* --- a client --- */

static int dial_unix(struct stage *s)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(to.sun_path, sizeof to.sun_path, "%s", s->path);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static int dial_tcp(struct stage *s)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void say_bytes(int fd, const char *bytes, size_t len)
{
    while (len) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);
        assert_true(sent > 0);
        bytes += sent;
        len -= (size_t)sent;
    }
}

static void say(int fd, const char *text)
{
    say_bytes(fd, text, strlen(text));
}

/* Reads until the text ends so, or (NULL) to the end of the connection. */
static char *hear(int fd, const char *ending, struct berth_buf *out)
{
    char chunk[4096];
    for (;;) {
        const char *text = berth_buf_str(out);
        size_t want = ending ? strlen(ending) : 0;
        if (ending && out->len >= want && strcmp(text + out->len - want, ending) == 0)
            return out->data;
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, PATIENCE_MS) <= 0)
            fail_msg("nothing more came behind: %s", text);
        ssize_t got = recv(fd, chunk, sizeof chunk, 0);
        if (got <= 0 && ending)
            fail_msg("it ended behind: %s", text);
        if (got <= 0)
            return out->data;
        berth_buf_append(out, chunk, (size_t)got);
    }
}
#define HEARD BERTH_BUF_INIT(64 * 1024 * 1024)

static bool has_ended(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    char byte;
    return poll(&ready, 1, PATIENCE_MS) > 0 && recv(fd, &byte, 1, MSG_PEEK) <= 0;
}

static bool is_silent(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    return poll(&ready, 1, 50) == 0;
}

/* --- requests and answers --- */

static void answers_over_both_kinds_of_sockets(void **state)
{
    struct stage *s = *state;
    auto_close int local = dial_unix(s), tcp = dial_tcp(s);
    char want[40];
    auto_buf a = HEARD, b = HEARD;
    say(local, GET("/who"));
    (void)snprintf(want, sizeof want, "\r\n\r\nlocal %d", (int)getuid());
    const char *text = hear(local, want, &a);
    assert_int_equal(strncmp(text, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n", 43), 0);
    assert_non_null(strstr(text, "\r\nX-Path: /who\r\n"));
    assert_non_null(strstr(text, "\r\nX-Request-Id: "));
    assert_null(strstr(text, "Connection: close"));
    say(tcp, GET("/who"));
    (void)hear(tcp, "\r\n\r\ntcp 0", &b);
}

static void one_connection_many_requests(void **state)
{
    struct stage *s = *state;
    auto_close int fd = dial_unix(s);
    for (int i = 0; i < 100; i++) {
        auto_buf heard = HEARD;
        char text[200], want[40];
        (void)snprintf(text, sizeof text,
                       "POST /x HTTP/1.1\r\n" HOST "Content-Length: 6\r\n\r\nno %03d", i);
        say(fd, text);
        (void)snprintf(want, sizeof want, "\r\n\r\nno %03d", i);
        (void)hear(fd, want, &heard);
    }
    auto_buf none = HEARD, head = HEARD;
    say(fd, GET("/none"));
    assert_null(strstr(hear(fd, "\r\n\r\n", &none), "Content-Length"));
    say(fd, "HEAD /much HTTP/1.1\r\n" HOST "\r\n");
    assert_non_null(strstr(hear(fd, "\r\n\r\n", &head), "Content-Length: 4000000\r\n"));
    assert_true(is_silent(fd));
}

/* They are answered in their order, whoever is done first; what does not fit waits outside. */
static void pipelined_requests(void **state)
{
    struct stage *s = *state;
    auto_close int fd = dial_unix(s);
    auto_buf heard = HEARD;
    say(fd, GET("/held/1") GET("/quick") GET("/held/2") GET("/last"));
    struct berth_http_exchange *first = await_held(s, 0);
    assert_true(is_silent(fd));
    assert_int_equal(s->asked, 1);
    answer(first);
    answer(await_held(s, 1));
    const char *text = hear(fd, "X-Path: /last\r\n\r\n", &heard);
    const char *at[] = {strstr(text, "/held/1"), strstr(text, "/quick"), strstr(text, "/held/2"),
                        strstr(text, "/last")};
    for (int i = 0; i < 4; i++)
        assert_true(at[i] && (i == 0 || at[i] > at[i - 1]));
    assert_int_equal(s->asked, 4);
}

static void bodies(void **state)
{
    struct stage *s = *state;
    auto_close int fd = dial_tcp(s);
    auto_buf a = HEARD, b = HEARD, c = HEARD;
    say(fd, "POST /x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
            "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n");
    (void)hear(fd, "\r\n\r\nabcdefg", &a);
    say(fd, "POST /x HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_string_equal(hear(fd, "\r\n\r\n", &b), "HTTP/1.1 100 Continue\r\n\r\n");
    say(fd, "ok");
    (void)hear(fd, "\r\n\r\nok", &b);
    size_t len = 4 * 1024 * 1024;
    auto_free char *much = malloc(len + 1);
    for (size_t i = 0; i < len; i++)
        much[i] = (char)('a' + i % 26);
    much[len - 1] = '!';
    much[len] = '\0';
    say(fd, "POST /x HTTP/1.1\r\n" HOST "Content-Length: 4194304\r\n\r\n");
    say_bytes(fd, much, len);
    assert_non_null(strstr(hear(fd, "!", &c), "\r\n\r\nabc"));
    assert_memory_equal(c.data + c.len - len, much, len);
}

/* --- bodies that the handler asks for --- */

/* Sends until nothing more is taken, or `max` bytes are. */
static size_t send_all_that_goes(int fd, size_t max)
{
    char much[16 * 1024] = "";
    size_t sent = 0;
    for (int idle = 0; idle < 20 && sent < max;) {
        ssize_t got = send(fd, much, sizeof much, MSG_NOSIGNAL | MSG_DONTWAIT);
        sent += got > 0 ? (size_t)got : 0;
        idle = got > 0 ? 0 : idle + 1;
        pause_ms(got > 0 ? 0 : 10);
    }
    return sent;
}

struct to_collect {
    struct stage *s;
    struct berth_http_exchange *x;
};

static void run_collect(void *ctx)
{
    struct to_collect *c = ctx;
    collect(c->s, c->x);
}

/* Without an answer from the handler, a client gets rid of what the kernel's buffers hold. */
static void bodies_wait_until_they_are_wanted(void **state)
{
    struct stage *s = *state;
    struct berth_error err;
    auto_close int fd = dial_unix(s), polite = dial_tcp(s), refused = dial_tcp(s);
    auto_buf a = HEARD, b = HEARD, c = HEARD;
    say(fd, "POST /held/1 HTTP/1.1\r\n" HOST "Content-Length: 100000000\r\n\r\n");
    struct berth_http_exchange *x = await_held(s, 0);
    assert_false(berth_http_body_is_whole(x));
    assert_in_range(send_all_that_goes(fd, 100000000), 1, 4 * 1024 * 1024);
    answer(x); /* "no": what was sent is thrown away */
    assert_non_null(strstr(hear(fd, NULL, &a), "\r\nConnection: close\r\n"));
    say(polite,
        "POST /held/2 HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    struct to_collect wanted = {s, await_held(s, 1)};
    assert_true(is_silent(polite));
    assert_int_equal(berth_engine_do(s->engine, run_collect, &wanted, &err), 0);
    assert_string_equal(hear(polite, "\r\n\r\n", &b), "HTTP/1.1 100 Continue\r\n\r\n");
    say(polite, "ok");
    answer(await_held(s, 2));
    (void)hear(polite, "\r\n\r\nok", &b);
    say(refused,
        "POST /held/3 HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    answer(await_held(s, 3));
    assert_null(strstr(hear(refused, NULL, &c), "100 Continue"));
}

/* Fills the bytes with what depends on their place. */
static void fill(char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(i * 31 + i / 251);
}

static void expect_taken(int fd, uint64_t count, uint64_t sum)
{
    auto_buf heard = HEARD;
    char want[100];
    (void)snprintf(want, sizeof want, "\r\n\r\n%llu %llu", (unsigned long long)count,
                   (unsigned long long)sum);
    (void)hear(fd, want, &heard);
}

/* Whatever its reader takes at a time, and however the client sends it. */
static void bodies_as_streams(void **state)
{
    struct stage *s = *state;
    static const struct {
        size_t step, len;
    } rows[] = {{SIZE_MAX, 3000000}, {70000, 3000000}, {100, 100000}, {1, 5000}, {7, 20}, {3, 0}};
    auto_free char *bytes = malloc(3000000);
    char line[200];
    fill(bytes, 3000000);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        auto_close int fd = dial_tcp(s);
        size_t len = rows[i].len;
        uint64_t sum = sum_of(0, 0, bytes, len);
        (void)snprintf(line, sizeof line,
                       "POST /take/%zu HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n",
                       rows[i].step, len);
        say(fd, line);
        say_bytes(fd, bytes, len);
        expect_taken(fd, len, sum);
        (void)snprintf(line, sizeof line,
                       "POST /take/%zu HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n",
                       rows[i].step);
        say(fd, line); /* on the same connection */
        for (size_t at = 0, chunk = 1; at < len; at += chunk, chunk = chunk * 3 % 9973 + 1) {
            chunk = chunk < len - at ? chunk : len - at;
            (void)snprintf(line, sizeof line, "%zx\r\n", chunk);
            say(fd, line);
            say_bytes(fd, bytes + at, chunk);
            say(fd, "\r\n");
        }
        say(fd, "0\r\n\r\n" GET("/behind"));
        char want[100];
        (void)snprintf(want, sizeof want, "\r\n\r\n%zu %llu", len, (unsigned long long)sum);
        auto_buf heard = HEARD;
        assert_non_null(strstr(hear(fd, "X-Path: /behind\r\n\r\n", &heard), want));
    }
    assert_int_equal(s->takings_ended, 2 * sizeof rows / sizeof rows[0]);
    assert_int_equal(s->takings_gone, 0);
}

static void await_count(_Atomic int *count, int want)
{
    for (int waited = 0; atomic_load(count) < want; waited++) {
        assert_true(waited < PATIENCE_MS);
        pause_ms(1);
    }
}

static void run_read_on(void *ctx)
{
    struct stage *s = ctx;
    berth_http_body_read_on(s->taking->x);
}

/* A reader that stops holds the client back, and time does not pass meanwhile. */
static void slow_readers_of_bodies(void **state)
{
    struct stage *s = *state;
    struct berth_error err;
    auto_close int fd = dial_tcp(s);
    auto_buf heard = HEARD;
    say(fd, "POST /keep HTTP/1.1\r\n" HOST "Content-Length: 1000000000\r\n\r\n");
    size_t sent = send_all_that_goes(fd, 1000000000);
    assert_in_range(sent, 10000, 16 * 1024 * 1024);
    assert_in_range(s->taking->count, 10000, 20000);
    berth_time_shift(0, 24 * 3600 * 1000);
    assert_true(is_silent(fd));
    for (int i = 0; i < 50; i++)
        assert_int_equal(berth_engine_do(s->engine, run_read_on, s, &err), 0);
    assert_in_range(s->taking->count, 20000, 520000); /* nothing piles up before it */
    while (s->taking->count < sent)
        assert_int_equal(berth_engine_do(s->engine, run_read_on, s, &err), 0);
    assert_true(is_silent(fd));
    berth_time_shift(0, 61000); /* now the client is the one that is waited for */
    assert_non_null(strstr(hear(fd, NULL, &heard), "408 Request Timeout"));
    await_count(&s->takings_gone, 1);
    assert_int_equal(s->takings_ended, 0);
}

static void clients_that_leave_their_body(void **state)
{
    struct stage *s = *state;
    static const char *const texts[] = {
        "POST /take/9999999 HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\nsome",
        "POST /take/2 HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\nsome",
        "POST /take/99 HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nab",
        "POST /x HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\nsome"};
    for (int i = 0; i < 4; i++) {
        int fd = dial_tcp(s);
        say(fd, texts[i]);
        pause_ms(20);
        (void)close(fd);
        await_count(&s->takings_gone, i < 3 ? i + 1 : 3);
    }
    auto_close int bad = dial_tcp(s);
    auto_buf heard = HEARD;
    say(bad, "POST /take/99 HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nabcdeXX");
    assert_non_null(strstr(hear(bad, NULL, &heard), "400 Bad Request"));
    await_count(&s->takings_gone, 4);
    for (int waited = 0; berth_http_server_stats(s->server).connections; waited++) {
        assert_true(waited < PATIENCE_MS);
        (void)shutdown(bad, SHUT_RDWR);
        pause_ms(1);
    }
    assert_int_equal(s->takings_ended + s->asked, 0);
}

/* The client hears of it, though it goes on sending. */
static void readers_that_refuse_in_the_middle(void **state)
{
    struct stage *s = *state;
    auto_close int fd = dial_tcp(s);
    auto_buf heard = HEARD;
    say(fd, "POST /deny HTTP/1.1\r\n" HOST "Content-Length: 1000000000\r\n\r\n");
    (void)send_all_that_goes(fd, 1000000);
    const char *text = hear(fd, NULL, &heard);
    assert_int_equal(strncmp(text, "HTTP/1.1 403 ", 13), 0);
    assert_non_null(strstr(text, "\r\nConnection: close\r\n"));
    assert_int_equal(s->takings_ended + s->takings_gone, 0);
    assert_true(s->taking->count < 1000000);
}

/* What does not fit is refused and may come again later; short ones always fit. */
static void bodies_share_one_budget(void **state)
{
    struct stage *s = *state;
    struct berth_http_settings settings = BERTH_HTTP_SETTINGS_INIT;
    settings.bodies_bytes_max = 2000000;
    berth_http_server_close(s->server);
    open_server(s, &settings);
    auto_free char *much = malloc(900000);
    memset(much, 'x', 900000);
    for (int round = 0; round < 2; round++) {
        int fds[3];
        for (int i = 0; i < 2; i++) {
            fds[i] = dial_tcp(s);
            say(fds[i], "POST /x HTTP/1.1\r\n" HOST "Content-Length: 900001\r\n\r\n");
            say_bytes(fds[i], much, 900000);
        }
        int64_t held = 0;
        for (int waited = 0; held < 1800000; waited++) {
            held = berth_http_server_stats(s->server).bodies_bytes;
            assert_true(waited < PATIENCE_MS && held <= 2000000);
            pause_ms(1);
        }
        fds[2] = dial_tcp(s);
        auto_buf refused = HEARD, fine = HEARD, last = HEARD;
        say(fds[2], "POST /x HTTP/1.1\r\n" HOST "Content-Length: 900000\r\n\r\n");
        (void)send_all_that_goes(fds[2], 900000);
        const char *text = hear(fds[2], NULL, &refused);
        assert_non_null(strstr(text, "503 Service Unavailable"));
        assert_non_null(strstr(text, "\r\nRetry-After: 1\r\n"));
        auto_close int small = dial_tcp(s);
        say(small, "POST /x HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello");
        (void)hear(small, "\r\n\r\nhello", &fine);
        for (int i = 0; i < 2; i++) {
            auto_buf whole = HEARD;
            say(fds[i], "!");
            (void)hear(fds[i], "x!", &whole);
        }
        /* The memory is returned just after the answer was written. */
        for (int waited = 0; berth_http_server_stats(s->server).bodies_bytes; waited++) {
            assert_true(waited < PATIENCE_MS);
            pause_ms(1);
        }
        for (int i = 0; i < 3; i++)
            (void)close(fds[i]);
    }
}

/* --- refusals --- */

static void refusals_end_the_connection(void **state)
{
    struct stage *s = *state;
    static const char *const texts[] = {
        "GET / HTTP/1.1\nHost: x\n\n", "BREW / HTTP/1.1\r\n\r\n", "GET / HTTP/3.0\r\n\r\n",
        "POST /small HTTP/1.1\r\n" HOST "Content-Length: 11\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n"
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" GET("/stolen")};
    static const char *const wants[] = {
        "HTTP/1.1 400 Bad Request\r\n", "HTTP/1.1 501 Not Implemented\r\n",
        "HTTP/1.1 505 HTTP Version Not Supported\r\n", "HTTP/1.1 413 Content Too Large\r\n",
        "HTTP/1.1 400 Bad Request\r\n"};
    for (int i = 0; i < 5; i++) {
        auto_close int fd = dial_tcp(s);
        auto_buf heard = HEARD;
        say(fd, texts[i]);
        const char *text = hear(fd, NULL, &heard);
        assert_int_equal(strncmp(text, wants[i], strlen(wants[i])), 0);
        assert_non_null(strstr(text, "\r\nConnection: close\r\n"));
        assert_non_null(strstr(text, "\r\n\r\n{\"error\":\""));
    }
    assert_int_equal(s->asked, 0);
}

/* Also one who goes on sending hears why nobody listens. */
static void refusal_reaches_who_is_still_sending(void **state)
{
    struct stage *s = *state;
    auto_close int fd = dial_tcp(s);
    auto_buf heard = HEARD;
    char much[64 * 1024];
    memset(much, 'x', sizeof much);
    say(fd, "POST /small HTTP/1.1\r\n" HOST "Content-Length: 100000000\r\n\r\n");
    for (int i = 0; i < 40; i++)
        if (send(fd, much, sizeof much, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
    assert_non_null(strstr(hear(fd, NULL, &heard), "413 Content Too Large"));
}

static void last_request_of_a_connection(void **state)
{
    struct stage *s = *state;
    static const char *const texts[] = {"GET /x HTTP/1.1\r\n" HOST
                                        "Connection: close\r\n\r\n" GET("/y"),
                                        "GET /x HTTP/1.0\r\n\r\n"};
    for (int i = 0; i < 2; i++) {
        auto_close int fd = dial_unix(s);
        auto_buf heard = HEARD;
        say(fd, texts[i]);
        const char *text = hear(fd, NULL, &heard);
        assert_non_null(strstr(text, "200 OK"));
        assert_non_null(strstr(text, "Connection: close"));
        assert_null(strstr(text, "/y"));
    }
}

/* --- time --- */

static void whoever_is_slow_is_given_up(void **state)
{
    struct stage *s = *state;
    auto_close int idle = dial_unix(s), head = dial_unix(s), body = dial_unix(s),
                   busy = dial_unix(s);
    auto_buf a = HEARD, b = HEARD, c = HEARD, d = HEARD;
    say(idle, GET("/x"));
    (void)hear(idle, "/x\r\n\r\n", &a);
    say(busy, GET("/held"));
    struct berth_http_exchange *x = await_held(s, 0);
    say(head, "GET /");
    say(body, "POST /x HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhe");
    assert_true(is_silent(head) && is_silent(body) && is_silent(idle));
    berth_time_shift(0, 5000);
    say(head, "a"); /* a byte now and then does not help */
    pause_ms(20);
    berth_time_shift(0, 6000);
    assert_non_null(strstr(hear(head, NULL, &b), "408 Request Timeout"));
    assert_true(is_silent(body) && is_silent(idle));
    berth_time_shift(0, 50000);
    assert_non_null(strstr(hear(body, NULL, &c), "408 Request Timeout"));
    assert_true(is_silent(idle));
    berth_time_shift(0, 20000);
    assert_true(has_ended(idle));
    berth_time_shift(0, 24 * 3600 * 1000);
    assert_true(is_silent(busy)); /* an answer may take as long as it takes */
    answer(x);
    (void)hear(busy, "/held\r\n\r\n", &d);
}

static void reader_that_does_not_read_is_given_up(void **state)
{
    struct stage *s = *state;
    auto_close int fd = dial_unix(s);
    auto_buf heard = HEARD;
    say(fd, GET("/much"));
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    assert_true(poll(&ready, 1, PATIENCE_MS) > 0);
    /* Bytes that the kernel took count as read, once: it takes two rounds, or more on a machine
     * that is too busy to see each of them. */
    for (int waited = 0; berth_http_server_stats(s->server).connections; waited += 50) {
        assert_true(waited < PATIENCE_MS);
        berth_time_shift(0, 31000);
        pause_ms(50);
    }
    assert_true(strlen(hear(fd, NULL, &heard)) < 4000000);
}

#define MUCH_OF(owner) "GET /much HTTP/1.1\r\n" HOST "X-Owner: " owner "\r\n\r\n"

/* Answers of 4 MB that are not taken: what does not fit is refused, first for whoever has most. */
static void answers_share_one_budget(void **state)
{
    struct stage *s = *state;
    struct berth_http_settings settings = BERTH_HTTP_SETTINGS_INIT;
    settings.answers_bytes_max = 12 * 1024 * 1024;
    berth_http_server_close(s->server);
    open_server(s, &settings);
    int fds[2];
    for (int i = 0; i < 2; i++) {
        fds[i] = dial_unix(s);
        say(fds[i], MUCH_OF("a"));
        char first[12];
        assert_int_equal(recv(fds[i], first, sizeof first, MSG_WAITALL), sizeof first);
        assert_int_equal(memcmp(first, i ? "HTTP/1.1 503" : "HTTP/1.1 200", 12), 0);
    }
    auto_close int other = dial_unix(s), small = dial_unix(s);
    auto_buf all = HEARD, short_one = HEARD, rest = HEARD, again = HEARD;
    auto_close int done = dial_unix(s);
    auto_buf brief = HEARD;
    say(done, "POST /much HTTP/1.1\r\n" HOST "X-Owner: a\r\nContent-Length: 0\r\n\r\n");
    assert_non_null(strstr(hear(done, "it is done", &brief), "HTTP/1.1 200"));
    say(other, MUCH_OF("b"));
    assert_non_null(strstr(hear(other, "039999\n", &all), "200 OK"));
    say(small, "GET /x HTTP/1.1\r\n" HOST "X-Owner: a\r\n\r\n");
    (void)hear(small, "/x\r\n\r\n", &short_one);
    (void)hear(fds[0], "039999\n", &rest);
    WAIT_FOR(berth_http_server_stats(s->server).answers_bytes == 0);
    say(fds[1], MUCH_OF("a"));
    assert_non_null(strstr(hear(fds[1], "039999\n", &again), "Retry-After: 1"));
    (void)close(fds[0]);
    (void)close(fds[1]);
}

#define SOME_OF(owner) "GET /some HTTP/1.1\r\n" HOST "X-Owner: " owner "\r\n\r\n"

/* Answers of 250 KB are written in one step. They count until the client has taken them. */
static void answers_of_one_step_share_the_budget(void **state)
{
    struct stage *s = *state;
    struct berth_http_settings settings = BERTH_HTTP_SETTINGS_INIT;
    settings.answers_bytes_max = (int64_t)3 * 256 * 1024;
    berth_http_server_close(s->server);
    open_server(s, &settings);
    auto_close int slow = dial_unix(s), next = dial_unix(s), other = dial_unix(s);
    auto_buf all = HEARD, refused = HEARD, fits = HEARD, again = HEARD;
    say(slow, SOME_OF("a") SOME_OF("a") SOME_OF("a") GET("/last")); /* more than the kernel holds */
    WAIT_FOR(berth_http_server_stats(s->server).answers_bytes > 0);
    pause_ms(50);
    say(next, SOME_OF("a"));
    assert_non_null(strstr(hear(next, "}", &refused), "HTTP/1.1 503"));
    say(other, SOME_OF("b"));
    assert_non_null(strstr(hear(other, "002499\n", &fits), "200 OK"));
    assert_null(strstr(hear(slow, "X-Path: /last\r\n\r\n", &all), "HTTP/1.1 503"));
    WAIT_FOR(berth_http_server_stats(s->server).answers_bytes == 0);
    say(next, SOME_OF("a"));
    assert_non_null(strstr(hear(next, "002499\n", &again), "200 OK"));
}

/* A few bytes now and then are not enough: the memory of the answer is needed. */
static void reader_that_is_too_slow_is_given_up(void **state)
{
    struct stage *s = *state;
    auto_close int fd = dial_unix(s);
    char bytes[1000];
    say(fd, GET("/much"));
    /* 4 MB at 32 KiB a second, and 30 seconds: gone after less than 160 */
    for (int waited = 0; berth_http_server_stats(s->server).connections; waited++) {
        assert_true(waited < 40);
        (void)recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        berth_time_shift(0, 10000);
        pause_ms(50);
    }
    assert_int_equal(berth_http_server_stats(s->server).answers_bytes, 0);
}

/* As long as nobody reads an answer, the next one is not made: else they would pile up. */
static void unread_answers_hold_the_next_request_back(void **state)
{
    struct stage *s = *state;
    auto_close int fd = dial_unix(s);
    auto_buf heard = HEARD;
    say(fd, GET("/much") GET("/much") GET("/much") GET("/last"));
    pause_ms(100);
    assert_int_equal(s->asked, 1);
    (void)hear(fd, "X-Path: /last\r\n\r\n", &heard);
    assert_int_equal(s->asked, 4);
}

/* --- streams --- */

/* Counts to 1000 as fast as it is read, then ends. */
struct counting {
    struct berth_http_exchange *x;
    struct stage *s;
    int at;
    size_t most; /* that was queued */
};

static void count_on(void *ctx)
{
    struct counting *n = ctx;
    char line[2000];
    while (n->at < 1000 && berth_http_stream_queued(n->x) < 256 * 1024) {
        int len = snprintf(line, sizeof line, "data: %01900d\n\n", n->at++);
        berth_http_stream_write(n->x, line, (size_t)len);
        size_t queued = berth_http_stream_queued(n->x);
        n->most = queued > n->most ? queued : n->most;
    }
    if (n->at == 1000 && berth_http_stream_queued(n->x) == 0) {
        n->at++;
        berth_http_stream_end(n->x);
        free(n);
    }
}

static void on_reader_gone(void *ctx)
{
    struct counting *n = ctx;
    atomic_fetch_add(&n->s->readers_gone, 1);
    berth_http_stream_end(n->x);
    free(n);
}

static void begin_counting(struct stage *s, struct berth_http_exchange *x)
{
    struct counting *n = calloc(1, sizeof *n);
    n->x = x;
    n->s = s;
    struct berth_http_answer head = {.status = 200, .type = "text/event-stream"};
    struct berth_http_stream_handlers handlers = {
        .on_room = count_on, .on_gone = on_reader_gone, .ctx = n};
    berth_http_stream_begin(x, &head, &handlers);
    if (strcmp(berth_http_exchange_head(x)->path, "/count/later") != 0)
        count_on(n);
}

static void streams_to_their_end(void **state)
{
    struct stage *s = *state;
    auto_close int fd = dial_tcp(s), old = dial_unix(s);
    auto_buf heard = HEARD, plain = HEARD;
    say(fd, GET("/x") GET("/count") GET("/count") GET("/behind")); /* also behind another */
    pause_ms(100); /* it fills up, and goes on when there is room */
    const char *text = hear(fd, "X-Path: /behind\r\n\r\n", &heard);
    assert_non_null(strstr(text, "\r\nTransfer-Encoding: chunked\r\n\r\n774\r\ndata: 0"));
    const char *head = strstr(text, "text/event-stream");
    assert_true(strstr(head, "Content-Length") > strstr(head, "\r\n\r\n")); /* of the last */
    assert_non_null(strstr(text, "0999\n\n\r\n0\r\n\r\nHTTP/1.1 200 OK"));
    assert_true(heard.len > 2 * 1000 * 1900);
    say(old, "GET /count HTTP/1.0\r\n\r\n");
    text = hear(old, NULL, &plain);
    assert_null(strstr(text, "chunked"));
    assert_non_null(strstr(text, "\r\n\r\ndata: 0"));
    assert_int_equal(strcmp(text + plain.len - 6, "0999\n\n"), 0);
}

static void reader_of_a_stream_leaves(void **state)
{
    struct stage *s = *state;
    int fd = dial_tcp(s);
    auto_buf heard = HEARD;
    say(fd, GET("/count/later"));
    (void)hear(fd, "chunked\r\n\r\n", &heard);
    berth_time_shift(0, 24 * 3600 * 1000);
    assert_true(is_silent(fd)); /* a stream may be silent for as long as it likes */
    (void)close(fd);
    for (int waited = 0; s->readers_gone < 1; waited++) {
        assert_true(waited < PATIENCE_MS);
        pause_ms(1);
    }
    auto_close int stuck = dial_unix(s); /* and one that stops reading is given up */
    say(stuck, GET("/count"));
    struct pollfd ready = {.fd = stuck, .events = POLLIN};
    assert_true(poll(&ready, 1, PATIENCE_MS) > 0);
    for (int waited = 0; s->readers_gone < 2; waited += 50) {
        assert_true(waited < PATIENCE_MS);
        berth_time_shift(0, 31000);
        pause_ms(50);
    }
}

/* --- those who leave --- */

static void client_that_leaves_is_noticed(void **state)
{
    struct stage *s = *state;
    for (int late = 0; late < 2; late++) {
        int fd = dial_tcp(s);
        say(fd, GET("/held"));
        struct berth_http_exchange *x = await_held(s, late);
        struct pollfd left = {.fd = late ? -1 : berth_http_exchange_left_fd(x), .events = POLLIN};
        if (!late)
            assert_int_equal(poll(&left, 1, 20), 0);
        (void)close(fd);
        pause_ms(late ? 50 : 0);
        left.fd = berth_http_exchange_left_fd(x);
        assert_int_equal(poll(&left, 1, PATIENCE_MS), 1);
        answer(x); /* nobody hears it, and nobody minds */
    }
}

/* Nothing is read of one who has sent too much ahead, so only a write finds out that he left. */
static void client_that_leaves_unnoticed(void **state)
{
    struct stage *s = *state;
    int fd = dial_unix(s), idle = 0;
    say(fd, GET("/held"));
    struct berth_http_exchange *x = await_held(s, 0);
    while (idle < 10) { /* until nobody takes any more of it */
        bool taken = send(fd, GET("/x"), strlen(GET("/x")), MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
        idle = taken ? 0 : idle + 1;
        pause_ms(taken ? 0 : 10);
    }
    (void)close(fd);
    answer(x);
    auto_close int other = dial_unix(s);
    auto_buf heard = HEARD;
    say(other, GET("/other"));
    (void)hear(other, "X-Path: /other\r\n\r\n", &heard);
    assert_int_equal(s->asked, 2); /* what he sent ahead is nobody's */
}

/* "nc -N" closes its sending side behind the request. */
static void clients_that_send_nothing_more(void **state)
{
    struct stage *s = *state;
    for (int tcp = 0; tcp < 2; tcp++) {
        auto_close int quick = tcp ? dial_tcp(s) : dial_unix(s),
                       body = tcp ? dial_tcp(s) : dial_unix(s),
                       held = tcp ? dial_tcp(s) : dial_unix(s),
                       half = tcp ? dial_tcp(s) : dial_unix(s),
                       much = tcp ? dial_tcp(s) : dial_unix(s);
        auto_buf a = HEARD, b = HEARD, c = HEARD, d = HEARD, e = HEARD;
        char bytes[50000];
        say(quick, GET("/1") GET("/2") GET("/3"));
        (void)shutdown(quick, SHUT_WR);
        const char *text = hear(quick, NULL, &a);
        assert_true(strstr(text, "/1\r\n\r\n") && strstr(text, "/2\r\n\r\n"));
        assert_non_null(strstr(text, "/3\r\n"));
        memset(bytes, 'x', sizeof bytes);
        say(body, "POST /x HTTP/1.1\r\n" HOST "Content-Length: 50000\r\n\r\n");
        say_bytes(body, bytes, sizeof bytes);
        (void)shutdown(body, SHUT_WR);
        assert_non_null(strstr(hear(body, NULL, &b), "\r\n\r\nxxxxx"));
        assert_true(b.len > sizeof bytes);
        say(held, GET("/held"));
        (void)shutdown(held, SHUT_WR);
        struct berth_http_exchange *x = await_held(s, tcp);
        struct pollfd left = {.fd = berth_http_exchange_left_fd(x), .events = POLLIN};
        assert_int_equal(poll(&left, 1, PATIENCE_MS), 1); /* it may have left */
        assert_true(is_silent(held));
        answer(x);
        assert_non_null(strstr(hear(held, NULL, &c), "X-Path: /held\r\n"));
        say(half, GET("/x") "POST /x HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhal");
        (void)shutdown(half, SHUT_WR);
        assert_non_null(strstr(hear(half, NULL, &d), "X-Path: /x\r\n"));
        say(much, GET("/much"));
        (void)shutdown(much, SHUT_WR);
        pause_ms(50); /* its answer does not fit into the kernel's buffers */
        (void)hear(much, NULL, &e);
        assert_true(e.len > 4000000);
    }
    for (int waited = 0; berth_http_server_stats(s->server).connections; waited++) {
        assert_true(waited < PATIENCE_MS);
        pause_ms(1);
    }
}

static void too_many_are_turned_away(void **state)
{
    struct stage *s = *state;
    struct berth_http_settings settings = BERTH_HTTP_SETTINGS_INIT;
    settings.connections_max = 3;
    berth_http_server_close(s->server);
    open_server(s, &settings);
    auto_close int a = dial_unix(s), b = dial_unix(s), c = dial_unix(s), d = dial_unix(s);
    auto_buf first = HEARD, again = HEARD;
    assert_true(has_ended(d));
    say(c, GET("/x"));
    (void)hear(c, "/x\r\n\r\n", &first);
    (void)shutdown(a, SHUT_RDWR);
    pause_ms(50);
    auto_close int e = dial_unix(s);
    say(e, GET("/x"));
    (void)hear(e, "/x\r\n\r\n", &again);
    (void)b;
}

/* Asks for something that makes the client trusted. */
static void get_trusted(int fd)
{
    auto_buf heard = HEARD;
    say(fd, GET("/trusted"));
    (void)hear(fd, "/trusted\r\n\r\n", &heard);
}

/* However many come by TCP, and are trusted: who is here gets in. */
static void tcp_does_not_take_all(void **state)
{
    struct stage *s = *state;
    struct berth_http_settings settings = BERTH_HTTP_SETTINGS_INIT;
    settings.connections_max = 8;
    berth_http_server_close(s->server);
    open_server(s, &settings);
    int fds[8];
    for (int i = 0; i < 8; i++) {
        fds[i] = dial_tcp(s);
        if (i < 6)
            get_trusted(fds[i]);
    }
    assert_true(has_ended(fds[6]) && has_ended(fds[7]));
    assert_int_equal(s->full, 1); /* once, not for each of them */
    auto_close int here = dial_unix(s);
    auto_buf heard = HEARD;
    say(here, GET("/x"));
    (void)hear(here, "/x\r\n\r\n", &heard);
    for (int i = 0; i < 6; i++)
        assert_true(is_silent(fds[i]));
    for (int i = 0; i < 8; i++)
        (void)close(fds[i]);
}

/* Who has shown nothing makes room for whoever comes, the one that was idle longest first; and does
 * not stay as long. */
static void strangers_make_room(void **state)
{
    struct stage *s = *state;
    struct berth_http_settings settings = BERTH_HTTP_SETTINGS_INIT;
    settings.connections_max = 8; /* 6 of them by TCP */
    berth_http_server_close(s->server);
    open_server(s, &settings);
    auto_close int silent = dial_tcp(s), begun = dial_tcp(s), trusted = dial_tcp(s),
                   once = dial_tcp(s), asks = dial_tcp(s), held = dial_tcp(s);
    auto_buf a = HEARD, b = HEARD, c = HEARD, d = HEARD;
    get_trusted(trusted);
    get_trusted(once);
    say(once, GET("/x"));
    (void)hear(once, "/x\r\n\r\n", &a);
    say(held, GET("/held"));
    struct berth_http_exchange *x = await_held(s, 0);
    say(begun, "GET /");
    say(asks, GET("/x"));
    (void)hear(asks, "/x\r\n\r\n", &b);
    int more[4];
    for (int i = 0; i < 4; i++)
        more[i] = dial_tcp(s);
    assert_true(has_ended(silent) && has_ended(begun) && has_ended(once) && has_ended(asks));
    assert_true(is_silent(trusted) && is_silent(held));
    get_trusted(more[0]);
    answer(x);
    (void)hear(held, "/held\r\n\r\n", &c);
    berth_time_shift(0, settings.head_ms + 1000);
    assert_true(has_ended(held) && has_ended(more[1]) && has_ended(more[2]) && has_ended(more[3]));
    assert_true(is_silent(trusted) && is_silent(more[0]));
    say(trusted, GET("/x"));
    (void)hear(trusted, "/x\r\n\r\n", &d);
    for (int i = 0; i < 4; i++)
        (void)close(more[i]);
}

/* The descriptors in reserve are for the Unix socket; who does not get one waits. */
static void few_descriptors(void **state)
{
    struct stage *s = *state;
    enum { CLIENTS = 12 };
    int fds[CLIENTS];
    struct rlimit before, none;
    auto_close int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)s->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s", s->path);
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int lowest = dup(tcp);
    none = (struct rlimit){.rlim_cur = (rlim_t)lowest, .rlim_max = before.rlim_max};
    (void)close(lowest);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(dup(tcp), -1);
    assert_int_equal(connect(tcp, (struct sockaddr *)&to, sizeof to), 0);
    say(tcp, GET("/tcp"));
    assert_true(is_silent(tcp));
    for (int i = 0; i < CLIENTS; i++) {
        auto_buf heard = HEARD;
        assert_int_equal(connect(fds[i], (struct sockaddr *)&at, sizeof at), 0);
        say(fds[i], GET("/x"));
        if (i < 8)
            (void)hear(fds[i], "/x\r\n\r\n", &heard);
        else
            assert_true(is_silent(fds[i]));
    }
    assert_true(is_silent(tcp));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 8; i < CLIENTS; i++) {
        auto_buf heard = HEARD;
        (void)hear(fds[i], "/x\r\n\r\n", &heard);
    }
    auto_buf heard = HEARD;
    (void)hear(tcp, "/tcp\r\n\r\n", &heard);
    for (int i = 0; i < CLIENTS; i++)
        (void)close(fds[i]);
}

/* --- the end --- */

static void *drain_main(void *ctx)
{
    berth_http_server_drain(ctx, PATIENCE_MS);
    return NULL;
}

static void drain_lets_requests_finish(void **state)
{
    struct stage *s = *state;
    auto_close int idle = dial_unix(s), busy = dial_unix(s);
    auto_buf a = HEARD, b = HEARD;
    say(idle, GET("/x"));
    (void)hear(idle, "/x\r\n\r\n", &a);
    say(busy, GET("/held") GET("/behind"));
    struct berth_http_exchange *x = await_held(s, 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, drain_main, s->server), 0);
    assert_true(has_ended(idle));
    assert_int_equal(access(s->path, F_OK), -1);
    answer(x);
    const char *text = hear(busy, NULL, &b);
    assert_non_null(strstr(text, "X-Path: /held"));
    assert_non_null(strstr(text, "Connection: close"));
    assert_null(strstr(text, "/behind"));
    (void)close(busy);
    busy = -1;
    (void)pthread_join(thread, NULL);
}

static void *close_main(void *ctx)
{
    struct stage *s = ctx;
    berth_http_server_close(s->server);
    s->server = NULL;
    return NULL;
}

static void close_waits_for_whoever_is_to_answer(void **state)
{
    struct stage *s = *state;
    auto_close int fd = dial_unix(s);
    say(fd, GET("/held"));
    struct berth_http_exchange *x = await_held(s, 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, close_main, s), 0);
    assert_true(has_ended(fd));
    pause_ms(20);
    answer(x);
    (void)pthread_join(thread, NULL);
}

/* --- addresses --- */

static void addresses(void **state)
{
    struct stage *s = *state;
    struct berth_error err;
    struct stat st;
    char long_path[200], left[120];
    assert_int_equal(stat(s->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(listen_at(s, s->path, NULL, 0, &err), BERTH_E_CONFLICT);
    assert_int_equal(listen_at(s, NULL, "127.0.0.1", s->port, &err), BERTH_E_CONFLICT);
    assert_int_equal(listen_at(s, NULL, "localhost", 0, &err), BERTH_E_INVALID);
    memset(long_path, 'x', sizeof long_path);
    long_path[0] = '/';
    long_path[150] = '\0';
    assert_int_equal(listen_at(s, long_path, NULL, 0, &err), BERTH_E_INVALID);
    /* A socket that somebody left is taken over; a file is not. */
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    (void)snprintf(left, sizeof left, "%s/left", s->directory);
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%.100s", left);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    (void)close(fd);
    assert_int_equal(listen_at(s, left, NULL, 0, &err), 0);
    (void)snprintf(left, sizeof left, "%s/file", s->directory);
    FILE *file = fopen(left, "w");
    (void)fclose(file);
    assert_int_equal(listen_at(s, left, NULL, 0, &err), BERTH_E_CONFLICT);
    assert_int_equal(unlink(left), 0);
    assert_true(listen_at(s, NULL, "::1", 0, &err) > 0);
}

#define ON_STAGE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_STAGE(answers_over_both_kinds_of_sockets),
        ON_STAGE(one_connection_many_requests),
        ON_STAGE(pipelined_requests),
        ON_STAGE(bodies),
        ON_STAGE(bodies_wait_until_they_are_wanted),
        ON_STAGE(bodies_as_streams),
        ON_STAGE(slow_readers_of_bodies),
        ON_STAGE(clients_that_leave_their_body),
        ON_STAGE(readers_that_refuse_in_the_middle),
        ON_STAGE(bodies_share_one_budget),
        ON_STAGE(refusals_end_the_connection),
        ON_STAGE(refusal_reaches_who_is_still_sending),
        ON_STAGE(last_request_of_a_connection),
        ON_STAGE(whoever_is_slow_is_given_up),
        ON_STAGE(reader_that_does_not_read_is_given_up),
        ON_STAGE(answers_share_one_budget),
        ON_STAGE(answers_of_one_step_share_the_budget),
        ON_STAGE(reader_that_is_too_slow_is_given_up),
        ON_STAGE(unread_answers_hold_the_next_request_back),
        ON_STAGE(streams_to_their_end),
        ON_STAGE(reader_of_a_stream_leaves),
        ON_STAGE(client_that_leaves_is_noticed),
        ON_STAGE(client_that_leaves_unnoticed),
        ON_STAGE(clients_that_send_nothing_more),
        ON_STAGE(too_many_are_turned_away),
        ON_STAGE(tcp_does_not_take_all),
        ON_STAGE(strangers_make_room),
        ON_STAGE(few_descriptors),
        ON_STAGE(drain_lets_requests_finish),
        ON_STAGE(close_waits_for_whoever_is_to_answer),
        ON_STAGE(addresses),
    };
    return cmocka_run_group_tests_name("http_server", tests, NULL, NULL);
}
