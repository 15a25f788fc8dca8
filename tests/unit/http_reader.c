/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/http_reader.c - requests as they should be, and those of
 * tests/vectors/hostile-requests. Each stream is read whole, byte by byte and in pieces: what comes
 * out must be the same. */
#include "http/reader.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "os/fs.h"

#define HOST "Host: berth\r\n"

/* Each stream is read in pieces of these sizes; the first is the whole. */
static const size_t pieces[] = {SIZE_MAX / 2, 1, 2, 3, 7, 16};

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

/* "GET / ; DONE; " and so on; the body is between < and >, however it was split. */
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

/* As read_stream, but a body that came in pieces is one body. */
static void read_joined(const char *bytes, size_t len, size_t piece, int64_t body_max,
                        struct berth_buf *out)
{
    auto_buf got = BERTH_BUF_INIT(32 * 1024 * 1024);
    read_stream(bytes, len, piece, body_max, &got);
    const char *text = berth_buf_str(&got);
    for (size_t i = 0; i < got.len; i++)
        if (got.len - i >= 4 && memcmp(text + i, ">; <", 4) == 0)
            i += 3;
        else
            berth_buf_append(out, text + i, 1);
}

static void expect(const char *text, const char *want)
{
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        auto_buf got = BERTH_BUF_INIT(1024 * 1024);
        read_joined(text, strlen(text), pieces[i], 100, &got);
        if (strcmp(berth_buf_str(&got), want) != 0)
            print_message("pieces of %zu: %.300s\n", pieces[i], text);
        assert_string_equal(berth_buf_str(&got), want);
    }
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

/* --- the vectors --- */

#define VECTORS_MAX 500
#define DEFINITIONS_MAX 30
#define BODY_BYTES_MAX (2 * 1024 * 1024) /* the daemon's limit, which the vectors know */

/* A line of the file, cut in its place. */
struct vector {
    char *name, *outcome, *bytes;
};

static struct {
    char *name, *bytes;
} definitions[DEFINITIONS_MAX];
static size_t definition_count;

static void decode(const char *at, const char *end, long round, struct berth_buf *out);

/* Writes what is between the braces of {NAME} or {COUNT*BYTES}. */
static void decode_braces(const char *at, const char *end, struct berth_buf *out)
{
    if (*at >= '0' && *at <= '9') {
        char *star;
        long count = strtol(at, &star, 10);
        assert_true(*star == '*');
        for (long i = 0; i < count; i++)
            decode(star + 1, end, i, out);
        return;
    }
    for (size_t i = 0; i < definition_count; i++)
        if (strlen(definitions[i].name) == (size_t)(end - at) &&
            strncmp(definitions[i].name, at, (size_t)(end - at)) == 0) {
            const char *bytes = definitions[i].bytes;
            decode(bytes, bytes + strlen(bytes), -1, out);
            return;
        }
    fail_msg("{%.*s} is not defined", (int)(end - at), at);
}

/* Writes the byte that the text after a backslash stands for. Returns the end of that text. */
static const char *decode_escape(const char *at, struct berth_buf *out)
{
    static const char letters[] = "rnt\\", bytes[] = "\r\n\t\\";
    const char *letter = strchr(letters, *at);
    if (letter && *letter) {
        berth_buf_append(out, &bytes[letter - letters], 1);
        return at + 1;
    }
    char digits[3] = {at[0] == 'x' ? at[1] : '?', at[2]}, *rest;
    char byte = (char)strtol(digits, &rest, 16);
    assert_true(rest == digits + 2);
    berth_buf_append(out, &byte, 1);
    return at + 3;
}

/* Returns the brace that closes the one at `at`. */
static const char *closing_brace(const char *at, const char *end)
{
    int depth = 0;
    for (; at < end; at++) {
        depth += (*at == '{') - (*at == '}');
        if (depth == 0)
            return at;
    }
    fail_msg("a brace is not closed");
    return NULL;
}

/* Writes the bytes that a vector's text stands for; round: -1 outside of a repetition. */
static void decode(const char *at, const char *end, long round, struct berth_buf *out)
{
    while (at < end) {
        if (*at == '\\') {
            at = decode_escape(at + 1, out);
        } else if (*at == '{' && (isupper((unsigned char)at[1]) || isdigit((unsigned char)at[1]))) {
            const char *close = closing_brace(at, end);
            decode_braces(at + 1, close, out);
            at = close + 1;
        } else if (*at == '#' && round >= 0) {
            berth_buf_printf(out, "%ld", round);
            at++;
        } else {
            berth_buf_append(out, at++, 1);
        }
    }
}

/* Writes what the reader has to say after the head: "<body>; BAD 400". */
static void vector_outcome(const struct vector *v, size_t len, const char *handed_on,
                           struct berth_buf *out)
{
    int status = atoi(v->outcome);
    if (handed_on && handed_on[1] != '>') {
        decode(handed_on, handed_on + strlen(handed_on), -1, out);
        berth_buf_puts(out, "; ");
    }
    if (strstr(v->outcome, "framed"))
        berth_buf_puts(out, "DONE; IDLE");
    else if (status == 0)
        berth_buf_puts(out, len == 0 ? "IDLE" : "MORE");
    else
        berth_buf_printf(out, "BAD %d", status);
}

static void vector_is_read(void **state)
{
    const struct vector *v = *state;
    const char *handed_on = strchr(v->outcome, '<');
    bool only_the_end = strstr(v->outcome, "framed") || atoi(v->outcome) == 0;
    auto_buf bytes = BERTH_BUF_INIT(32 * 1024 * 1024), want = BERTH_BUF_INIT(32 * 1024 * 1024);
    decode(v->bytes, v->bytes + strlen(v->bytes), -1, &bytes);
    vector_outcome(v, bytes.len, handed_on, &want);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        auto_buf got = BERTH_BUF_INIT(32 * 1024 * 1024);
        read_joined(berth_buf_str(&bytes), bytes.len, pieces[i], BODY_BYTES_MAX, &got);
        size_t from = 0;
        if (only_the_end)
            from = got.len < want.len ? 0 : got.len - want.len;
        else if (handed_on) { /* the head is first */
            assert_memory_equal(berth_buf_str(&got), "POST /", 6);
            from = (size_t)(strstr(berth_buf_str(&got), "; ") + 2 - berth_buf_str(&got));
        }
        if (got.len - from != want.len ||
            memcmp(berth_buf_str(&got) + from, berth_buf_str(&want), want.len) != 0)
            fail_msg("%s, in pieces of %zu: wanted %.200s, got %.400s", v->name, pieces[i],
                     berth_buf_str(&want), berth_buf_str(&got));
    }
}

/* Fills in the vectors, which point into the text. Returns how many there are. */
static size_t parse_vectors(char *text, struct vector *vectors)
{
    size_t count = 0;
    char *rest;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *outcome = strstr(line, " | "), *bytes = outcome ? strstr(outcome + 3, " | ") : NULL;
        if (*line == '#')
            continue;
        if (strncmp(line, "define ", 7) == 0) {
            assert_true(definition_count < DEFINITIONS_MAX);
            definitions[definition_count].name = line + 7;
            char *space = strchr(line + 7, ' ');
            definitions[definition_count++].bytes = space ? space + 1 : strchr(line, '\0');
            if (space)
                *space = '\0';
            continue;
        }
        assert_true(bytes && count < VECTORS_MAX);
        *outcome = *bytes = '\0';
        vectors[count++] = (struct vector){line, outcome + 3, bytes + 3};
    }
    return count;
}

/* --- targets and chunks that are accepted --- */

static void targets(void **state)
{
    (void)state;
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

/* A body may be as long as the limit, which is 100 bytes here. */
static void chunks(void **state)
{
    (void)state;
#define CHUNKED "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
#define HEAD_OF_IT "POST / -1 [transfer-encoding=chunked]; "
    expect(CHUNKED "64\r\n", HEAD_OF_IT "MORE");
    expect(CHUNKED "65\r\n", HEAD_OF_IT "BAD 413");
    expect(CHUNKED "5\r\nhello0\r\n\r\n", HEAD_OF_IT "<hello>; BAD 400");
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
    static const struct CMUnitTest own[] = {
        cmocka_unit_test(requests), cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(targets),  cmocka_unit_test(chunks),
        cmocka_unit_test(limits),   cmocka_unit_test(nothing_is_left_of_the_one_before),
    };
    static struct vector vectors[VECTORS_MAX];
    static struct CMUnitTest tests[VECTORS_MAX + sizeof own / sizeof own[0]];
    size_t count = sizeof own / sizeof own[0];
    auto_buf text = BERTH_BUF_INIT(1024 * 1024);
    auto_close int fd = open(VECTORS_FILE, O_RDONLY | O_CLOEXEC);
    struct berth_error err;
    if (fd < 0 || berth_fs_read_all(fd, &text, &err) < 0) {
        printf("Bail out! cannot read %s\n", VECTORS_FILE);
        return 1;
    }
    auto_free char *lines = berth_buf_take(&text);
    size_t vector_count = parse_vectors(lines, vectors);
    memcpy(tests, own, sizeof own);
    for (size_t i = 0; i < vector_count; i++)
        tests[count++] = (struct CMUnitTest){
            .name = vectors[i].name, .test_func = vector_is_read, .initial_state = &vectors[i]};
    /* The macro would run the whole array, also what was not filled. */
    return _cmocka_run_group_tests("http_reader", tests, count, NULL, NULL);
}
