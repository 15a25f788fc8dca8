/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/http_client.c - asking over HTTP, of our own server: at a socket, by TCP and by TLS.
 */
#include "net/http_client.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/time.h"
#include "daemon/secure.h"
#include "http/http.h"
#include "os/engine.h"
#include "os/fs.h"

static struct {
    char directory[64], socket[96], certificate[96], key[96];
    struct berth_engine *engine;
    struct berth_http_server *server;
    struct berth_secure *secure;
    int port, tls_port;
    struct berth_http_exchange *held;
} stage;

/* --- the other side --- */

static void on_held_gone(void *ctx)
{
    (void)ctx;
    berth_http_stream_end(stage.held);
    stage.held = NULL;
}

/* One byte at a time: more seldom than one in a second, as the heartbeats of a stream. */
#define BEAT_MS 1600
#define BEATS 5
static struct berth_timer beat;
static int beats_left;

static void on_beat(struct berth_timer *timer)
{
    if (!stage.held)
        return;
    berth_http_stream_write(stage.held, ":", 1);
    if (beats_left-- > 0) {
        berth_timer_set(stage.engine, timer, BEAT_MS);
        return;
    }
    struct berth_http_exchange *x = stage.held;
    stage.held = NULL;
    berth_http_stream_end(x);
}

static void begin_stream(struct berth_http_exchange *x)
{
    struct berth_http_answer head = {.status = 200, .type = "text/event-stream"};
    struct berth_http_stream_handlers handlers = {.on_gone = on_held_gone};
    stage.held = x;
    berth_http_stream_begin(x, &head, &handlers);
    if (stage.held)
        berth_http_stream_write(x, "data: 1\n\n", 9);
}

static void on_whole(void *ctx)
{
    struct berth_http_exchange *x = ctx;
    const struct berth_http_head *h = berth_http_exchange_head(x);
    const char *shown = berth_http_header(h, "authorization"), *own = berth_http_header(h, "x-own");
    size_t len;
    const char *body = berth_http_exchange_body(x, &len);
    struct berth_http_answer a = {
        .status = 200, .type = "text/plain", .body = BERTH_BUF_INIT(64 * 1024 * 1024)};
    bool beats = strcmp(h->path, "/beats") == 0;
    if (beats || strcmp(h->path, "/stream") == 0) {
        begin_stream(x);
        beat.run = on_beat;
        beats_left = BEATS;
        if (beats)
            berth_timer_set(stage.engine, &beat, BEAT_MS);
        return;
    }
    if (strcmp(h->path, "/refuse") == 0) {
        a.status = 403;
        berth_buf_puts(&a.body, "no");
    } else if (strcmp(h->path, "/away") == 0) {
        a.status = 302;
        a.more[0] = (struct berth_http_header){"Location", "/refuse"};
    } else if (strcmp(h->path, "/much") == 0) {
        for (int i = 0; i < 40000; i++)
            berth_buf_printf(&a.body, "%099d\n", i);
    } else {
        berth_buf_printf(&a.body, "%s|%s|%s|%.*s", berth_http_methods[h->method],
                         shown ? shown : "", own ? own : "", (int)len, len ? body : "");
    }
    berth_http_answer(x, &a);
}

/* --- bodies as streams --- */

/* One at a time, of POST /take and what begins so: counts what it takes. */
static struct {
    struct berth_http_exchange *x;
    struct berth_timer again;
    uint64_t count, sum;
    size_t step; /* of /take/slow: bytes at a time */
    bool denies;
    _Atomic int gone;
    _Atomic uint64_t taken;
} taking;

static void answer_taking(int status)
{
    struct berth_http_answer a = {
        .status = status, .type = "text/plain", .body = BERTH_BUF_INIT(100)};
    berth_buf_printf(&a.body, "%llu %llu", (unsigned long long)taking.count,
                     (unsigned long long)taking.sum);
    berth_timer_clear(stage.engine, &taking.again);
    berth_http_answer(taking.x, &a);
}

static size_t on_taking_bytes(void *ctx, const char *bytes, size_t len)
{
    (void)ctx;
    size_t step = len < taking.step ? len : taking.step;
    for (size_t i = 0; i < step; i++)
        taking.sum += (unsigned char)bytes[i];
    taking.count += step;
    atomic_store(&taking.taken, taking.count);
    if (taking.denies && taking.count > 1000000)
        answer_taking(409);
    else if (step < len)
        berth_timer_set(stage.engine, &taking.again, 0);
    return step;
}

static void on_taking_again(struct berth_timer *timer)
{
    (void)timer;
    berth_http_body_read_on(taking.x);
}

static void on_taking_end(void *ctx)
{
    (void)ctx;
    answer_taking(200);
}

static void on_taking_gone(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&taking.gone, 1);
    answer_taking(400);
}

static void take_body(struct berth_http_exchange *x, const char *path)
{
    struct berth_http_body_handlers handlers = {
        .on_bytes = on_taking_bytes, .on_end = on_taking_end, .on_gone = on_taking_gone};
    taking.x = x;
    taking.again.run = on_taking_again;
    taking.count = taking.sum = 0;
    atomic_store(&taking.taken, 0);
    taking.step = strcmp(path, "/take/slow") == 0 ? 5000 : SIZE_MAX;
    taking.denies = strcmp(path, "/take/deny") == 0;
    if (strcmp(path, "/take/never") == 0)
        answer_taking(403);
    else
        berth_http_body_read(x, INT64_MAX, &handlers);
}

static void on_gone(void *ctx)
{
    struct berth_http_answer a = {.status = 400};
    berth_http_answer(ctx, &a);
}

static void on_head(void *ctx, struct berth_http_exchange *x)
{
    (void)ctx;
    const char *path = berth_http_exchange_head(x)->path;
    if (strncmp(path, "/take", 5) == 0) {
        take_body(x, path);
        return;
    }
    struct berth_http_body_handlers handlers = {.on_end = on_whole, .on_gone = on_gone, .ctx = x};
    berth_http_body_read(x, 8 * 1024 * 1024, &handlers);
}

static void make_certificate(void)
{
    char command[600];
    (void)snprintf(stage.certificate, sizeof stage.certificate, "%s/cert.pem", stage.directory);
    (void)snprintf(stage.key, sizeof stage.key, "%s/key.pem", stage.directory);
    (void)snprintf(
        command, sizeof command,
        "umask 077; openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
        "-days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 "
        "-keyout %s -out %s 2>/dev/null",
        stage.key, stage.certificate);
    assert_int_equal(system(command), 0); /* NOLINT */
}

static int set_up(void **state)
{
    (void)state;
    struct berth_error err;
    struct berth_http_settings settings = BERTH_HTTP_SETTINGS_INIT;
    struct berth_http_handlers handlers = {.on_request = on_head};
    (void)snprintf(stage.directory, sizeof stage.directory, "/tmp/berth-client.XXXXXX");
    assert_non_null(mkdtemp(stage.directory));
    (void)snprintf(stage.socket, sizeof stage.socket, "%s/s", stage.directory);
    make_certificate();
    assert_int_equal(berth_engine_new(&stage.engine, &err), 0);
    assert_int_equal(
        berth_http_server_open(stage.engine, &settings, &handlers, &stage.server, &err), 0);
    assert_int_equal(berth_secure_new(stage.certificate, stage.key, &stage.secure, &err), 0);
    struct berth_http_address at = {.path = stage.socket};
    assert_int_equal(berth_http_server_listen(stage.server, &at, &err), 0);
    at = (struct berth_http_address){.host = "127.0.0.1"};
    stage.port = berth_http_server_listen(stage.server, &at, &err);
    at.secure = berth_secure_ops(stage.secure);
    stage.tls_port = berth_http_server_listen(stage.server, &at, &err);
    assert_true(stage.port > 0 && stage.tls_port > 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    struct berth_error err;
    berth_http_server_close(stage.server);
    berth_engine_free(stage.engine);
    berth_secure_free(stage.secure);
    return berth_fs_remove_tree(stage.directory, &err);
}

/* --- tests --- */

static const char *url(bool tls, const char *path)
{
    static char out[200];
    (void)snprintf(out, sizeof out, "http%s://127.0.0.1:%d%s", tls ? "s" : "",
                   tls ? stage.tls_port : stage.port, path);
    return out;
}

static void expect(const struct berth_http_client_request *r, int status, const char *body)
{
    struct berth_http_client_reply reply;
    struct berth_error err;
    int rc = berth_http_client_ask(r, &reply, &err);
    if (rc < 0)
        fail_msg("%s", err.message);
    assert_int_equal(reply.status, status);
    assert_string_equal(berth_buf_str(&reply.body), body);
    berth_buf_clear(&reply.body);
}

static void expect_failure(const struct berth_http_client_request *r, int code)
{
    struct berth_http_client_reply reply;
    struct berth_error err;
    int rc = berth_http_client_ask(r, &reply, &err);
    if (rc != code)
        fail_msg("%d instead of %d: %s", rc, code, rc < 0 ? err.message : "");
    assert_null(reply.body.data);
}

static void asks_in_every_way(void **state)
{
    (void)state;
    struct berth_http_client_request r = BERTH_CLIENT_REQUEST_INIT;
    struct berth_locked token = BERTH_LOCKED_INIT;
    char text[] = "berth_42";
    token.bytes = text;
    token.len = strlen(text);
    const char *const headers[] = {"X-Own: mine", NULL};
    r.url = "http://berth/x";
    r.socket = stage.socket;
    expect(&r, 200, "GET|||");
    r.socket = NULL;
    r.url = url(false, "/x");
    r.method = "POST";
    r.headers = headers;
    r.token = &token;
    r.body = "some bytes";
    r.body_len = 10;
    expect(&r, 200, "POST|Bearer berth_42|mine|some bytes");
    r.method = "PATCH";
    r.body_len = 0;
    r.body = "";
    expect(&r, 200, "PATCH|Bearer berth_42|mine|");
    r = (struct berth_http_client_request)BERTH_CLIENT_REQUEST_INIT;
    r.method = "DELETE";
    r.url = url(false, "/x");
    expect(&r, 200, "DELETE|||");
    r.method = "HEAD";
    expect(&r, 200, "");
    r.method = "GET";
    r.url = url(false, "/refuse");
    expect(&r, 403, "no");
    r.url = url(false, "/away"); /* is not gone to */
    expect(&r, 302, "");
}

static void trusts_whom_it_should(void **state)
{
    (void)state;
    struct berth_http_client_request r = BERTH_CLIENT_REQUEST_INIT;
    r.url = url(true, "/x");
    expect_failure(&r, BERTH_E_DENIED);
    r.ca_file = stage.certificate;
    expect(&r, 200, "GET|||");
}

static void nobody_there(void **state)
{
    (void)state;
    struct berth_http_client_request r = BERTH_CLIENT_REQUEST_INIT;
    r.url = "http://berth/x";
    r.socket = "/nowhere/at/all";
    expect_failure(&r, BERTH_E_UNAVAILABLE);
    r.socket = NULL;
    r.url = "http://127.0.0.1:1/";
    expect_failure(&r, BERTH_E_UNAVAILABLE);
    static const char *const wrong[] = {"", "nonsense://x", "http://", "http://a b/",
                                        "file:///etc/passwd"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        r.url = wrong[i];
        expect_failure(&r, BERTH_E_INVALID);
    }
}

static bool count_bytes(void *ctx, const char *bytes, size_t len)
{
    size_t *count = ctx;
    (void)bytes;
    *count += len;
    return *count < 1000000;
}

static void hears_as_it_comes(void **state)
{
    (void)state;
    struct berth_http_client_request r = BERTH_CLIENT_REQUEST_INIT;
    struct berth_http_client_reply reply;
    struct berth_error err;
    size_t count = 0;
    r.url = url(false, "/much");
    r.on_bytes = count_bytes;
    r.ctx = &count;
    assert_int_equal(berth_http_client_ask(&r, &reply, &err), 0); /* until it has had enough */
    assert_in_range(count, 1000000, 2000000);
    assert_null(reply.body.data);
    r.on_bytes = NULL;
    r.answer_max = 1000;
    expect_failure(&r, BERTH_E_TOO_LARGE);
    count = 0;
    r = (struct berth_http_client_request)BERTH_CLIENT_REQUEST_INIT;
    r.on_bytes = count_bytes;
    r.ctx = &count;
    r.url = url(false, "/refuse"); /* an error is collected */
    expect(&r, 403, "no");
    assert_int_equal(count, 0);
}

static bool cancel_soon(void *ctx, const char *bytes, size_t len)
{
    (void)bytes, (void)len;
    (void)eventfd_write(*(int *)ctx, 1);
    return true;
}

static void ends_when_it_should(void **state)
{
    (void)state;
    struct berth_http_client_request r = BERTH_CLIENT_REQUEST_INIT;
    int cancel = eventfd(0, EFD_CLOEXEC);
    r.url = url(false, "/stream"); /* it never ends by itself */
    r.timeout_ms = 200;
    expect_failure(&r, BERTH_E_TIMEOUT);
    r.timeout_ms = 0;
    r.cancel_fd = cancel;
    r.on_bytes = cancel_soon;
    r.ctx = &cancel;
    int64_t from = berth_time_mono_ms();
    expect_failure(&r, BERTH_E_CANCELLED);
    assert_in_range(berth_time_mono_ms() - from, 0, 900); /* it does not wait for anything */
    (void)close(cancel);
}

/* A command may be silent for hours, and its stream has only heartbeats then. */
static void slow_is_not_stalled(void **state)
{
    (void)state;
    struct berth_http_client_request r = BERTH_CLIENT_REQUEST_INIT;
    r.stall_ms = 2000;
    r.url = url(false, "/beats");
    expect(&r, 200, "data: 1\n\n::::::");
    r.url = url(false, "/stream");
    expect_failure(&r, BERTH_E_TIMEOUT);
}

/* --- bodies that are read while they are sent --- */

struct source {
    uint64_t at, end;
    uint64_t sum;
    int calls;
    int fd; /* of a pipe; -1: bytes are made */
};

static int64_t make_bytes(void *ctx, char *out, size_t size)
{
    struct source *s = ctx;
    uint64_t left = s->end - s->at;
    size_t len = left < size ? (size_t)left : size;
    s->calls++;
    memset(out, (int)(s->at % 251), len);
    s->sum += (s->at % 251) * len;
    s->at += len;
    return (int64_t)len;
}

static int64_t read_pipe(void *ctx, char *out, size_t size)
{
    struct source *s = ctx;
    ssize_t got = read(s->fd, out, size);
    s->calls++;
    if (got < 0)
        return errno == EAGAIN ? BERTH_CLIENT_WAIT : BERTH_CLIENT_STOP;
    for (ssize_t i = 0; i < got; i++)
        s->sum += (unsigned char)out[i];
    s->at += (uint64_t)got;
    return got;
}

static void expect_sent(struct berth_http_client_request *r, const struct source *s)
{
    struct berth_http_client_reply reply;
    struct berth_error err;
    char want[100];
    if (berth_http_client_ask(r, &reply, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(reply.status, 200);
    (void)snprintf(want, sizeof want, "%llu %llu", (unsigned long long)s->at,
                   (unsigned long long)s->sum);
    assert_string_equal(berth_buf_str(&reply.body), want);
    berth_buf_clear(&reply.body);
}

static void sends_what_does_not_fit_in_memory(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {0, 1, 4096, 1000000, 5000000};
    static const char *const paths[] = {"/take", "/take/slow"};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        for (int way = 0; way < 8; way++) {
            bool known = way & 1, tls = way & 2;
            struct source s = {.end = lengths[i], .fd = -1};
            struct berth_http_client_source source = {.read = make_bytes,
                                                      .length = known ? (int64_t)s.end : -1,
                                                      .ready_fd = -1,
                                                      .ctx = &s};
            struct berth_http_client_request r = BERTH_CLIENT_REQUEST_INIT;
            r.method = way & 1 ? "PUT" : "POST";
            r.url = url(tls, paths[way >> 2]);
            r.ca_file = tls ? stage.certificate : NULL;
            r.source = &source;
            expect_sent(&r, &s);
            assert_int_equal(s.at, lengths[i]);
        }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static long peak_kb(void)
{
    char line[200];
    long kb = 0;
    FILE *status = fopen("/proc/self/status", "re");
    while (fgets(line, sizeof line, status))
        (void)sscanf(line, "VmHWM: %ld kB", &kb); /* NOLINT */
    (void)fclose(status);
    return kb;
}

/* Client and server are this process: neither keeps what it passes on. */
static void sends_a_gigabyte_in_bounded_memory(void **state)
{
    (void)state;
    for (int known = 0; known < 2; known++) {
        struct source s = {.end = UINT64_C(1) << 30, .fd = -1};
        struct berth_http_client_source source = {
            .read = make_bytes, .length = known ? (int64_t)s.end : -1, .ready_fd = -1, .ctx = &s};
        struct berth_http_client_request r = BERTH_CLIENT_REQUEST_INIT;
        r.method = "POST";
        r.url = url(false, "/take");
        r.source = &source;
        long before_kb = peak_kb();
        expect_sent(&r, &s);
        assert_in_range(peak_kb() - before_kb, 0, 8 * 1024);
    }
}
#else
static void sends_a_gigabyte_in_bounded_memory(void **state)
{
    (void)state;
    skip();
}
#endif

static void *write_slowly(void *ctx)
{
    int fd = *(int *)ctx;
    char bytes[10000];
    uint64_t sent = 0;
    for (int i = 0; i < 20; i++) {
        memset(bytes, i, sizeof bytes);
        assert_int_equal(write(fd, bytes, sizeof bytes), sizeof bytes);
        sent += sizeof bytes;
        while (atomic_load(&taking.taken) < sent) /* all of it has arrived: the client waits */
            usleep(1000);
    }
    (void)close(fd);
    return NULL;
}

static void waits_for_its_source(void **state)
{
    (void)state;
    for (int known = 0; known < 2; known++) {
        int pipe[2];
        pthread_t thread;
        assert_int_equal(pipe2(pipe, O_CLOEXEC), 0);
        assert_int_equal(fcntl(pipe[0], F_SETFL, O_NONBLOCK), 0);
        struct source s = {.fd = pipe[0]};
        struct berth_http_client_source source = {
            .read = read_pipe, .length = known ? 200000 : -1, .ready_fd = pipe[0], .ctx = &s};
        struct berth_http_client_request r = BERTH_CLIENT_REQUEST_INIT;
        r.method = "POST";
        r.url = url(false, "/take");
        r.source = &source;
        atomic_store(&taking.taken, 0);
        assert_int_equal(pthread_create(&thread, NULL, write_slowly, &pipe[1]), 0);
        expect_sent(&r, &s);
        (void)pthread_join(thread, NULL);
        assert_int_equal(s.at, 200000);
        assert_in_range(s.calls, 20, 200); /* it does not ask again and again */
        (void)close(pipe[0]);
    }
}

static int64_t stop_soon(void *ctx, char *out, size_t size)
{
    struct source *s = ctx;
    return s->at > 100000 ? BERTH_CLIENT_STOP : make_bytes(ctx, out, size);
}

static int64_t wait_for_ever(void *ctx, char *out, size_t size)
{
    const struct source *s = ctx;
    (void)out, (void)size;
    (void)eventfd_write(s->fd, 1);
    return BERTH_CLIENT_WAIT;
}

/* The server has one body at a time. */
static void await_gone(int count)
{
    for (int waited = 0; atomic_load(&taking.gone) < count; waited++) {
        assert_true(waited < 20000);
        usleep(1000);
    }
}

static void bodies_that_break_off(void **state)
{
    (void)state;
    struct source s = {.end = UINT64_C(1) << 40, .fd = -1};
    struct berth_http_client_source source = {
        .read = make_bytes, .length = -1, .ready_fd = -1, .ctx = &s};
    struct berth_http_client_request r = BERTH_CLIENT_REQUEST_INIT;
    struct berth_http_client_reply reply;
    struct berth_error err;
    r.method = "POST";
    r.source = &source;
    r.url = url(false, "/take/never"); /* refused before a byte of it is read */
    assert_int_equal(berth_http_client_ask(&r, &reply, &err), 0);
    assert_int_equal(reply.status, 403);
    assert_int_equal(s.calls, 0);
    berth_buf_clear(&reply.body);
    r.url = url(false, "/take/deny"); /* and in the middle */
    assert_int_equal(berth_http_client_ask(&r, &reply, &err), 0);
    assert_int_equal(reply.status, 409);
    berth_buf_clear(&reply.body);
    source.read = stop_soon;
    s.at = 0;
    r.url = url(false, "/take");
    expect_failure(&r, BERTH_E_CANCELLED);
    await_gone(1);
    s = (struct source){.end = 5000};
    source.read = make_bytes;
    source.length = 4000;
    expect_failure(&r, BERTH_E_TOO_LARGE);
    await_gone(2);
    s.at = 0;
    source.length = 6000;
    expect_failure(&r, BERTH_E_CANCELLED);
    await_gone(3);
    source.read = wait_for_ever; /* cancels by itself */
    s.fd = r.cancel_fd = eventfd(0, EFD_CLOEXEC);
    expect_failure(&r, BERTH_E_CANCELLED);
    (void)close(s.fd);
    await_gone(4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asks_in_every_way),
        cmocka_unit_test(trusts_whom_it_should),
        cmocka_unit_test(nobody_there),
        cmocka_unit_test(hears_as_it_comes),
        cmocka_unit_test(ends_when_it_should),
        cmocka_unit_test(slow_is_not_stalled),
        cmocka_unit_test(sends_what_does_not_fit_in_memory),
        cmocka_unit_test(sends_a_gigabyte_in_bounded_memory),
        cmocka_unit_test(waits_for_its_source),
        cmocka_unit_test(bodies_that_break_off),
    };
    return cmocka_run_group_tests_name("client", tests, set_up, tear_down);
}
