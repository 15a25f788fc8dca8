/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/http_reader.c - requests as they should be, and everything else. Each stream is read
 * whole, byte by byte and in pieces between: what comes out must be the same. */
#include "http/reader.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

#define HOST "Host: berth\r\n"

/* --- what came of a stream --- */

static void tell_head(struct berth_buf *out, const struct berth_http_head *h)
{
    berth_buf_printf(out, "%s %s", berth_http_methods[h->method], h->path);
    if (h->query)
        berth_buf_printf(out, " ?%s", h->query);
    if (h->body_bytes)
        berth_buf_printf(out, " %lld", (long long)h->body_bytes);
    for (int i = 0; i < h->header_count; i++)
        if (strcmp(h->headers[i].name, "host") != 0)
            berth_buf_printf(out, " [%s=%s]", h->headers[i].name, h->headers[i].value);
    berth_buf_puts(out, h->keep_alive ? "" : " close");
    berth_buf_puts(out, h->wants_continue ? " continue" : "");
    if (h->upgrade)
        berth_buf_printf(out, " upgrade=%s", h->upgrade);
    berth_buf_puts(out, "; ");
}

/* "GET / ; DONE; " and so on; the body stands between < and >, whatever its pieces are. */
static void read_stream(const char *bytes, size_t len, size_t piece, int64_t body_max,
                        struct berth_buf *out)
{
    struct berth_http_reader r;
    bool open = false;
    berth_http_reader_init(&r);
    for (size_t at = 0; at < len || open;) {
        size_t here = len - at < piece ? len - at : piece, used = 0;
        auto_free char *exact = malloc(here + 1); /* so that a sanitizer sees what goes beyond */
        memcpy(exact, bytes + at, here);
        char *rest = exact;
        enum berth_http_step step = BERTH_HTTP_MORE;
        do {
            step = berth_http_reader_step(&r, rest, here, &used);
            assert_true(used <= here);
            if (step != BERTH_HTTP_BODY && open) {
                berth_buf_puts(out, ">; ");
                open = false;
            }
            if (step == BERTH_HTTP_HEAD_READ) {
                tell_head(out, &r.head);
                r.body_bytes_max = body_max;
            } else if (step == BERTH_HTTP_BODY) {
                assert_true(r.piece_len > 0);
                berth_buf_puts(out, open ? "" : "<");
                berth_buf_append(out, r.piece, r.piece_len);
                open = true;
            } else if (step == BERTH_HTTP_DONE) {
                berth_buf_puts(out, "DONE; ");
            }
            at += used;
            here -= used;
            rest += used;
        } while (step != BERTH_HTTP_MORE && step != BERTH_HTTP_BAD);
        if (step == BERTH_HTTP_BAD) {
            size_t more;
            assert_true(r.status >= 400 && r.why && *r.why);
            assert_int_equal(berth_http_reader_step(&r, "GET", 3, &more), BERTH_HTTP_BAD);
            berth_buf_printf(out, "BAD %d", r.status);
            break;
        }
        if (!len)
            break;
    }
    if (r.status == 0)
        berth_buf_puts(out, berth_http_reader_busy(&r) ? "MORE" : "IDLE");
    berth_http_reader_clear(&r);
}

static void expect_bytes(const char *bytes, size_t len, int64_t body_max, const char *want)
{
    static const size_t pieces[] = {SIZE_MAX / 2, 1, 2, 3, 7, 16};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        auto_buf got = BERTH_BUF_INIT(1024 * 1024);
        read_stream(bytes, len, pieces[i], body_max, &got);
        /* A body in pieces is one body. */
        auto_buf joined = BERTH_BUF_INIT(1024 * 1024);
        for (const char *at = berth_buf_str(&got); *at; at++)
            if (strncmp(at, ">; <", 4) == 0)
                at += 3;
            else
                berth_buf_append(&joined, at, 1);
        if (strcmp(berth_buf_str(&joined), want) != 0)
            print_message("pieces of %zu: %.300s\n", pieces[i], bytes);
        assert_string_equal(berth_buf_str(&joined), want);
    }
}

static void expect(const char *text, const char *want)
{
    expect_bytes(text, strlen(text), 100, want);
}

/* --- as it should be --- */

static void requests(void **state)
{
    (void)state;
    expect("", "IDLE");
    expect("GET / HTTP/1.1\r\n" HOST "\r\n", "GET /; DONE; IDLE");
    expect("GET /api/x?a=1&b=%20+ HTTP/1.1\r\nhost:berth:80\r\nX-Y:\t two  words \t\r\n\r\n",
           "GET /api/x ?a=1&b=%20+ [x-y=two  words]; DONE; IDLE");
    expect("DELETE /a/b%2Dc/ HTTP/1.1\r\n" HOST "Empty:\r\n\r\n",
           "DELETE /a/b%2Dc/ [empty=]; DONE; IDLE");
    expect("POST /a HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello",
           "POST /a 5 [content-length=5]; <hello>; DONE; IDLE");
    expect("POST /a HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n",
           "POST /a [content-length=0]; DONE; IDLE");
    expect("PUT /a HTTP/1.1\r\n" HOST "\r\n", "PUT /a; DONE; IDLE");
    expect("PATCH /a HTTP/1.1\r\n" HOST "transfer-encoding: Chunked\r\n\r\n"
           "3\r\nabc\r\n00a\r\n0123456789\r\n0\r\n\r\n",
           "PATCH /a -1 [transfer-encoding=Chunked]; <abc0123456789>; DONE; IDLE");
    expect("POST /a HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
           "POST /a -1 [transfer-encoding=chunked]; DONE; IDLE");
    expect("POST /a HTTP/1.1\r\n" HOST "Expect: 100-Continue\r\nContent-Length: 2\r\n\r\nok",
           "POST /a 2 [expect=100-Continue] [content-length=2] continue; <ok>; DONE; IDLE");
    expect("GET / HTTP/1.1\r\n" HOST
           "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n",
           "GET / [connection=keep-alive, Upgrade] [upgrade=websocket] upgrade=websocket; DONE; "
           "IDLE");
    expect("GET / HTTP/1.1\r\n" HOST "Upgrade: websocket\r\n\r\n",
           "GET / [upgrade=websocket]; DONE; IDLE");
    expect("HEAD / HTTP/1.1\r\n" HOST "Connection: x,CLOSE\r\n\r\n",
           "HEAD / [connection=x,CLOSE] close; DONE; IDLE");
    expect("GET / HTTP/1.0\r\n\r\n", "GET / close; DONE; IDLE");
    expect("OPTIONS /x HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", "OPTIONS /x; DONE; IDLE");
    expect("GET / HTTP/1.1\r\n" HOST, "MORE");
    expect("POST /a HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhe",
           "POST /a 5 [content-length=5]; <he>; MORE");
}

static void one_after_the_other(void **state)
{
    (void)state;
    expect("POST /1 HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc"
           "GET /2 HTTP/1.1\r\n" HOST "X: y\r\n\r\n"
           "POST /3 HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
           "GET /4 HTTP/1.1\r\n" HOST "\r\n"
           "GET",
           "POST /1 3 [content-length=3]; <abc>; DONE; GET /2 [x=y]; DONE; "
           "POST /3 -1 [transfer-encoding=chunked]; <x>; DONE; GET /4; DONE; MORE");
}

/* --- as it should not be --- */

/* Refused with that status, however it comes, and never handed on with a head. */
struct refusal {
    int status;
    const char *text;
};

static void expect_refusals(const struct refusal *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char want[20];
        (void)snprintf(want, sizeof want, "BAD %d", rows[i].status);
        expect(rows[i].text, want);
    }
}
#define REFUSED(rows) expect_refusals(rows, sizeof(rows) / sizeof *(rows))

static void request_lines(void **state)
{
    (void)state;
    static const struct refusal rows[] = {
        {400, "\r\nGET / HTTP/1.1\r\n" HOST "\r\n"},
        {400, "\n"},
        {400, " GET / HTTP/1.1\r\n" HOST "\r\n"},
        {400, "get / HTTP/1.1\r\n" HOST "\r\n"},
        {400, "\x16\x03\x01\x02"},
        {400, "GET\r\n\r\n"},
        {400, "GET /\r\n\r\n"},
        {400, "GET / \r\n\r\n"},
        {400, "GET  / HTTP/1.1\r\n" HOST "\r\n"},
        {400, "GET /  HTTP/1.1\r\n" HOST "\r\n"},
        {400, "GET / HTTP/1.1 \r\n" HOST "\r\n"},
        {400, "GET / HTTP/1.1\t\r\n" HOST "\r\n"},
        {400, "GET\t/ HTTP/1.1\r\n" HOST "\r\n"},
        {400, "GET / http/1.1\r\n" HOST "\r\n"},
        {400, "GET / HTTP/1.10\r\n" HOST "\r\n"},
        {400, "GET / HTTP/11\r\n" HOST "\r\n"},
        {505, "GET / HTTP/2.0\r\n" HOST "\r\n"},
        {505, "GET / HTTP/0.9\r\n" HOST "\r\n"},
        {400, "PRI * HTTP/2.0 \r\n\r\nSM\r\n\r\n"},
        {501, "BREW / HTTP/1.1\r\n" HOST "\r\n"},
        {501, "CONNECT berth:80 HTTP/1.1\r\n" HOST "\r\n"},
        {501, "TRACE / HTTP/1.1\r\n" HOST "\r\n"},
        {400, "G(T / HTTP/1.1\r\n" HOST "\r\n"},
        {400, "GET / HTTP/1.1\n" HOST "\n"},
        {400, "GET / HTTP/1.1\r\n" HOST "\n"},
        {400, "GET / HTTP/1.1\rHost: x\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\r\n" HOST "\r\n"},
    };
    REFUSED(rows);
}

static void targets(void **state)
{
    (void)state;
    static const char *const targets[] = {"*",
                                          "x",
                                          "http://berth/",
                                          "HTTP://berth/api",
                                          "berth:80",
                                          "//berth/api",
                                          "/a//b",
                                          "/.",
                                          "/..",
                                          "/../etc/passwd",
                                          "/a/./b",
                                          "/a/../b",
                                          "/a/..",
                                          "/%2e",
                                          "/%2E%2e/x",
                                          "/.%2e/x",
                                          "/a%2fb",
                                          "/a%2Fb",
                                          "/a%5cb",
                                          "/a\\b",
                                          "/%00",
                                          "/a%00b",
                                          "/%0a",
                                          "/%0d%0a",
                                          "/%7f",
                                          "/%80",
                                          "/%c0%ae",
                                          "/%",
                                          "/%2",
                                          "/%zz",
                                          "/%2g",
                                          "/a#b",
                                          "/a\"b",
                                          "/<x>",
                                          "/{x}",
                                          "/a|b",
                                          "/a^b",
                                          "/a`b",
                                          "/?a b",
                                          "/?%",
                                          "/?%4",
                                          "/?%xx",
                                          "/?%00",
                                          "/?a#b",
                                          "/?\"",
                                          "?a=1",
                                          ""};
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        char text[300];
        (void)snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n" HOST "\r\n", targets[i]);
        expect(text, "BAD 400");
    }
    static const char *const fine[] = {"/...", "/.a",       "/a..",          "/a.b",
                                       "/~x",  "/a:b@c",    "/%41%20",       "/a/",
                                       "/?",   "/?a=/../x", "/?x=%c3%a9%0a", "/?a=b?c"};
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        char text[300];
        auto_buf got = BERTH_BUF_INIT(1000);
        (void)snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n" HOST "\r\n", fine[i]);
        read_stream(text, strlen(text), 1000, 0, &got);
        assert_non_null(strstr(berth_buf_str(&got), "DONE; IDLE"));
    }
}

static void headers(void **state)
{
    (void)state;
#define GET(lines) "GET / HTTP/1.1\r\n" lines "\r\n"
    static const struct refusal rows[] = {
        {400, GET("")},
        {400, GET("Host:\r\n")},
        {400, GET("Host: a b\r\n")},
        {400, GET("Host: a/b\r\n")},
        {400, GET("Host: user@a\r\n")},
        {400, GET("Host: a:\r\n")},
        {400, GET("Host: a:x\r\n")},
        {400, GET("Host: a:123456\r\n")},
        {400, GET("Host: [::1\r\n")},
        {400, GET("Host: []\r\n")},
        {400, GET("Host: a, b\r\n")},
        {400, GET(HOST HOST)},
        {400, GET(HOST "host: other\r\n")},
        {400, GET("Host : berth\r\n")},
        {400, GET(" Host: berth\r\n")},
        {400, GET(HOST "X: a\r\n b\r\n")},
        {400, GET(HOST "X: a\r\n\tb\r\n")},
        {400, GET(HOST "X : a\r\n")},
        {400, GET(HOST "X\t: a\r\n")},
        {400, GET(HOST ": a\r\n")},
        {400, GET(HOST "no colon\r\n")},
        {400, GET(HOST "X(: a\r\n")},
        {400, GET(HOST "X\xc3\xa9: a\r\n")},
        {400, GET(HOST "X: a\nY: b\r\n")},
        {400, GET(HOST "X: a\rY: b\r\n")},
        {400, GET(HOST "X: a\x01\r\n")},
        {400, GET(HOST "X: a\x7f\r\n")},
        {400, GET(HOST "X: a\xff\r\n")},
        {400, GET(HOST "Connection: close\r\nConnection: keep-alive\r\n")},
        {400, GET(HOST "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n")},
        {417, GET(HOST "Expect: 200-ok\r\n")},
        {400, GET(HOST "Expect: 100-continue\r\nExpect: 100-continue\r\n")},
    };
    REFUSED(rows);
    static const char nul[] = "GET / HTTP/1.1\r\n" HOST "X: a\0b\r\n\r\n";
    expect_bytes(nul, sizeof nul - 1, 100, "BAD 400");
    static const char early[] = "GET /\0 HTTP/1.1\r\n" HOST "\r\n";
    expect_bytes(early, sizeof early - 1, 100, "BAD 400");
}

static void framing(void **state)
{
    (void)state;
#define POST(lines) "POST / HTTP/1.1\r\n" HOST lines "\r\n"
    static const struct refusal rows[] = {
        {400, POST("Content-Length: 5\r\nContent-Length: 5\r\n") "hello"},
        {400, POST("Content-Length: 5\r\nContent-Length: 6\r\n") "hello"},
        {400, POST("Content-Length: 5, 5\r\n") "hello"},
        {400, POST("Content-Length: +5\r\n") "hello"},
        {400, POST("Content-Length: -5\r\n") "hello"},
        {400, POST("Content-Length: 0x5\r\n") "hello"},
        {400, POST("Content-Length: 5 5\r\n") "hello"},
        {400, POST("Content-Length: 5.0\r\n") "hello"},
        {400, POST("Content-Length:\r\n") "hello"},
        {400, POST("Content-Length: five\r\n") "hello"},
        {400, POST("Content-Length: 18446744073709551621\r\n") "hello"},
        {400, POST("Content-Length: 9999999999999999999\r\n") "hello"},
        {400, POST("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n") "0\r\n\r\n"},
        {400, POST("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n") "0\r\n\r\n"},
        {400, POST("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n") "0\r\n\r\n"},
        {400, POST("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n") "0\r\n\r\n"},
        {501, POST("Transfer-Encoding: gzip, chunked\r\n") "0\r\n\r\n"},
        {501, POST("Transfer-Encoding: chunked, identity\r\n") "0\r\n\r\n"},
        {501, POST("Transfer-Encoding: xchunked\r\n") "0\r\n\r\n"},
        {501, POST("Transfer-Encoding: \"chunked\"\r\n") "0\r\n\r\n"},
        {501, POST("Transfer-Encoding: identity\r\n") "hello"},
        {501, POST("Transfer-Encoding:\r\n") "hello"},
        {400, POST("Transfer-Encoding : chunked\r\n") "0\r\n\r\n"},
        {400, POST("Transfer-Encoding:\x0b"
                   "chunked\r\n") "0\r\n\r\n"},
        {400, "POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello"},
        {400, "HEAD / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
    };
    REFUSED(rows);
}

static void chunks(void **state)
{
    (void)state;
#define CHUNKED "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
#define HEAD_OF_IT "POST / -1 [transfer-encoding=chunked]; "
    static const struct {
        const char *body, *want;
    } rows[] = {
        {"5\nhello\r\n0\r\n\r\n", "BAD 400"},
        {"5\r\nhello0\r\n\r\n", "<hello>; BAD 400"},
        {"5\r\nhello\n0\r\n\r\n", "<hello>; BAD 400"},
        {"5\r\nhellooo\r\n", "<hello>; BAD 400"},
        {"5 \r\nhello\r\n0\r\n\r\n", "BAD 400"},
        {" 5\r\nhello\r\n0\r\n\r\n", "BAD 400"},
        {"+5\r\nhello\r\n0\r\n\r\n", "BAD 400"},
        {"-1\r\n", "BAD 400"},
        {"0x5\r\nhello\r\n", "BAD 400"},
        {"5;ext=1\r\nhello\r\n", "BAD 400"},
        {"5;\r\nhello\r\n", "BAD 400"},
        {"\r\n", "BAD 400"},
        {"g\r\n", "BAD 400"},
        {"0000000000000000\r\n", "BAD 400"},
        {"10000000000000005\r\nhello\r\n", "BAD 413"},
        {"ffffffffffffffff\r\n", "BAD 413"},
        {"7fffffff\r\n", "BAD 413"},
        {"65\r\n", "BAD 413"},
        {"64\r\n", "MORE"},
        {"0\r\nX: y\r\n\r\n", "BAD 400"},
        {"0\r\n\n", "BAD 400"},
        {"0\n\n", "BAD 400"},
        {"0\r\rX", "BAD 400"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[300], want[300];
        (void)snprintf(text, sizeof text, CHUNKED "%s", rows[i].body);
        (void)snprintf(want, sizeof want, HEAD_OF_IT "%s", rows[i].want);
        expect(text, want);
    }
}

/* --- limits --- */

static void limits(void **state)
{
    (void)state;
    expect("POST / HTTP/1.1\r\n" HOST "Content-Length: 101\r\n\r\n",
           "POST / 101 [content-length=101]; BAD 413");
    static const char *const texts[] = {"GET /", "GET / HTTP/1.1\r\n" HOST "X: "};
    static const char *const wants[] = {"BAD 414", "BAD 431"};
    for (int i = 0; i < 2; i++) {
        auto_buf text = BERTH_BUF_INIT(1024 * 1024);
        berth_buf_puts(&text, texts[i]);
        while (text.len < BERTH_HTTP_HEAD_BYTES_MAX + 100)
            berth_buf_puts(&text, "aaaaaaaaaa");
        expect(berth_buf_str(&text), wants[i]);
    }
    auto_buf target = BERTH_BUF_INIT(1024 * 1024);
    berth_buf_puts(&target, "GET /");
    while (target.len < BERTH_HTTP_TARGET_BYTES_MAX + 10)
        berth_buf_puts(&target, "a");
    berth_buf_puts(&target, " HTTP/1.1\r\n" HOST "\r\n");
    expect(berth_buf_str(&target), "BAD 414");
    for (int count = 99; count < 102; count++) {
        auto_buf many = BERTH_BUF_INIT(1024 * 1024), got = BERTH_BUF_INIT(1024 * 1024);
        berth_buf_puts(&many, "GET / HTTP/1.1\r\n" HOST);
        for (int i = 1; i < count; i++)
            berth_buf_printf(&many, "X%d: y\r\n", i);
        berth_buf_puts(&many, "\r\n");
        read_stream(berth_buf_str(&many), many.len, 1000, 0, &got);
        if (count > BERTH_HTTP_HEADERS_MAX)
            assert_string_equal(berth_buf_str(&got), "BAD 431");
        else
            assert_non_null(strstr(berth_buf_str(&got), "DONE; IDLE"));
    }
}

/* What the reader was given before is not in what it says afterwards. */
static void nothing_is_left_of_the_one_before(void **state)
{
    (void)state;
    expect("POST /first?q=1 HTTP/1.1\r\n" HOST "X: y\r\nExpect: 100-continue\r\n"
           "Content-Length: 2\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nab"
           "GET /second HTTP/1.1\r\n" HOST "\r\n",
           "POST /first ?q=1 2 [x=y] [expect=100-continue] [content-length=2] [connection=upgrade] "
           "[upgrade=x] continue upgrade=x; <ab>; DONE; GET /second; DONE; IDLE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests),
        cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(request_lines),
        cmocka_unit_test(targets),
        cmocka_unit_test(headers),
        cmocka_unit_test(framing),
        cmocka_unit_test(chunks),
        cmocka_unit_test(limits),
        cmocka_unit_test(nothing_is_left_of_the_one_before),
    };
    return cmocka_run_group_tests_name("http_reader", tests, NULL, NULL);
}
