/* SPDX-License-Identifier: Apache-2.0
 * src/http/reader.c - see reader.h. A head is looked at byte by byte as it comes, so that what can
 * never become a request is refused at once, and cut into its parts when it is whole. */
#include "http/reader.h"

#include <string.h>
#include <strings.h>

#define BODY_BYTES_DEFAULT (1024 * 1024)
#define DIGITS_MAX 18 /* of a length: more cannot be counted */
#define CHUNK_DIGITS_MAX 15

enum state {
    LINES,      /* of a head */
    BODY,       /* `left` bytes of it */
    CHUNK_SIZE, /* its digits */
    CHUNK_SIZE_LF,
    CHUNK, /* `left` bytes of one */
    CHUNK_CR,
    CHUNK_LF,
    LAST_CR, /* the empty line behind the last one */
    LAST_LF,
    OVER, /* to be told */
    REFUSED,
};

const char *const berth_http_methods[] = {"GET",   "HEAD",   "POST",    "PUT",
                                          "PATCH", "DELETE", "OPTIONS", NULL};

static enum berth_http_step reader_refuse(struct berth_http_reader *r, int status, const char *why)
{
    r->state = REFUSED;
    r->status = status;
    r->why = why;
    return BERTH_HTTP_BAD;
}

/* --- characters --- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
    return is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool reader_is_one_of(char c, const char *set)
{
    return c && strchr(set, c);
}

static bool reader_is_token(char c)
{
    return is_alnum(c) || reader_is_one_of(c, "!#$%&'*+-.^_`|~");
}

/* -1: it is none. */
static int reader_hex(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* --- the request line --- */

/* The character at *at, decoded, and *at behind it; -1: it must not stand there. */
static int next_character(const char **at)
{
    char c = *(*at)++;
    if (c != '%')
        return is_alnum(c) || reader_is_one_of(c, "-._~!$&'()*+,;=:@/?") ? c : -1;
    int high = reader_hex((*at)[0]), low = high < 0 ? -1 : reader_hex((*at)[1]);
    *at += 2;
    return low < 0 ? -1 : high * 16 + low;
}

/* What a segment says when it is decoded must be as plain as it looks. */
static bool reader_is_plain(int c)
{
    return c > 0x1f && c < 0x7f && c != '/' && c != '\\';
}

/* From `at`, behind a "/", to the next one or to the end; NULL: it is a trick. */
static const char *pass_segment(const char *at)
{
    int len = 0, dots = 0;
    for (; *at && *at != '/'; len++) {
        bool question = *at == '?';
        int c = next_character(&at);
        if (!reader_is_plain(c) || question)
            return NULL;
        dots += c == '.';
    }
    bool last = !*at;
    return (len == 0 && !last) || (len > 0 && len <= 2 && dots == len) ? NULL : at;
}

static bool is_path(const char *at)
{
    if (*at != '/')
        return false;
    while (at && *at)
        at = pass_segment(at + 1);
    return at != NULL;
}

static bool is_query(const char *at)
{
    while (*at)
        if (next_character(&at) <= 0)
            return false;
    return true;
}

static enum berth_http_step read_target(struct berth_http_reader *r, char *target)
{
    if (strlen(target) > BERTH_HTTP_TARGET_BYTES_MAX)
        return reader_refuse(r, 414, "The request target is too long.");
    char *question = strchr(target, '?');
    if (question)
        *question = '\0';
    r->head.path = target;
    r->head.query = question ? question + 1 : NULL;
    if (!is_path(target) || (question && !is_query(question + 1)))
        return reader_refuse(r, 400, "The request target is not a plain path with a query.");
    return BERTH_HTTP_MORE;
}

static enum berth_http_step read_method(struct berth_http_reader *r, const char *name)
{
    for (int i = 0; berth_http_methods[i]; i++)
        if (strcmp(berth_http_methods[i], name) == 0) {
            r->head.method = (enum berth_http_method)i;
            return BERTH_HTTP_MORE;
        }
    for (const char *c = name; *c; c++)
        if (!reader_is_token(*c))
            return reader_refuse(r, 400, "The request line is malformed.");
    return reader_refuse(r, *name ? 501 : 400, "The request method is not known.");
}

/* "METHOD TARGET HTTP/1.1", with one space each. *old: it is HTTP/1.0. */
static enum berth_http_step read_request_line(struct berth_http_reader *r, char *line, bool *old)
{
    char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version)
        return reader_refuse(r, 400, "The request line is malformed.");
    *target++ = *version++ = '\0';
    *old = strcmp(version, "HTTP/1.0") == 0;
    if (!*old && strcmp(version, "HTTP/1.1") != 0)
        return strncmp(version, "HTTP/", 5) == 0 && is_digit(version[5]) && version[6] == '.' &&
                       is_digit(version[7]) && !version[8]
                   ? reader_refuse(r, 505, "Only HTTP/1.1 is spoken here.")
                   : reader_refuse(r, 400, "The request line is malformed.");
    enum berth_http_step step = read_method(r, line);
    return step == BERTH_HTTP_BAD ? step : read_target(r, target);
}

/* --- headers --- */

static enum berth_http_step read_header(struct berth_http_reader *r, char *line)
{
    char *colon = strchr(line, ':');
    if (!colon || colon == line)
        return reader_refuse(r, 400, "A header line is malformed.");
    if (r->head.header_count == BERTH_HTTP_HEADERS_MAX)
        return reader_refuse(r, 431, "There are too many headers.");
    *colon = '\0';
    for (char *c = line; *c; c++) { /* a line that begins with a space goes on with another */
        if (!reader_is_token(*c))
            return reader_refuse(r, 400, "A header name is malformed.");
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c - 'A' + 'a');
    }
    char *value = colon + 1 + strspn(colon + 1, " \t");
    char *end = value + strlen(value);
    while (end > value && reader_is_one_of(end[-1], " \t"))
        *--end = '\0';
    r->head.headers[r->head.header_count++] = (struct berth_http_header){line, value};
    return BERTH_HTTP_MORE;
}

const char *berth_http_header(const struct berth_http_head *head, const char *name)
{
    for (int i = 0; i < head->header_count; i++)
        if (strcmp(head->headers[i].name, name) == 0)
            return head->headers[i].value;
    return NULL;
}

/* Returns whether a header that must be unique is repeated. Another program could use the other
 * value. */
static bool is_repeated(const struct berth_http_head *head)
{
    static const char *const once[] = {"host",
                                       "connection",
                                       "content-length",
                                       "transfer-encoding",
                                       "content-type",
                                       "content-encoding",
                                       "expect",
                                       "upgrade",
                                       "authorization",
                                       "origin",
                                       "idempotency-key",
                                       "last-event-id",
                                       "sec-websocket-key",
                                       "sec-websocket-version",
                                       NULL};
    for (int i = 0; once[i]; i++) {
        int count = 0;
        for (int k = 0; k < head->header_count; k++)
            count += strcmp(head->headers[k].name, once[i]) == 0;
        if (count > 1)
            return true;
    }
    return false;
}

/* "name", "name:port", "1.2.3.4:80", "[::1]:80"; whose name it is, others decide. */
static bool reader_is_host(const char *host)
{
    bool bracketed = *host == '[';
    const char *at = host + bracketed;
    size_t len = strspn(at, bracketed ? "0123456789abcdefABCDEF:."
                                      : "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"
                                        "WXYZ.-_");
    at += len;
    if (len == 0 || (bracketed && *at++ != ']'))
        return false;
    if (*at == ':') {
        size_t digits = strspn(at + 1, "0123456789");
        if (digits == 0 || digits > 5)
            return false;
        at += 1 + digits;
    }
    return !*at;
}

bool berth_http_has_word(const char *list, const char *word)
{
    size_t len = strlen(word);
    while (list && *list) {
        list += strspn(list, " \t,");
        size_t here = strcspn(list, " \t,");
        if (here == len && strncasecmp(list, word, len) == 0)
            return true;
        list += here;
    }
    return false;
}

/* -1: it is not a length. */
static int64_t reader_read_length(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    int64_t value = 0;
    if (digits == 0 || text[digits] || digits > DIGITS_MAX)
        return -1;
    for (; *text; text++)
        value = value * 10 + (*text - '0');
    return value;
}

/* How long the body is, by one word that leaves no doubt. */
static enum berth_http_step read_framing(struct berth_http_reader *r, bool old)
{
    struct berth_http_head *h = &r->head;
    const char *length = berth_http_header(h, "content-length");
    const char *coding = berth_http_header(h, "transfer-encoding");
    if (coding && (length || old))
        return reader_refuse(r, 400, "The length of the body is ambiguous.");
    if (coding && strcasecmp(coding, "chunked") != 0)
        return reader_refuse(r, 501, "The transfer encoding is not known.");
    h->body_bytes = coding ? -1 : length ? reader_read_length(length) : 0;
    if (length && h->body_bytes < 0)
        return reader_refuse(r, 400, "Content-Length is not a number.");
    if ((h->method == BERTH_HTTP_GET || h->method == BERTH_HTTP_HEAD) && h->body_bytes != 0)
        return reader_refuse(r, 400, "This method has no body.");
    return BERTH_HTTP_MORE;
}

static enum berth_http_step read_meaning(struct berth_http_reader *r, bool old)
{
    struct berth_http_head *h = &r->head;
    const char *connection = berth_http_header(h, "connection");
    const char *expect = berth_http_header(h, "expect");
    if (is_repeated(h))
        return reader_refuse(r, 400, "A header that must stand alone is repeated.");
    h->host = berth_http_header(h, "host");
    if ((!h->host && !old) || (h->host && !reader_is_host(h->host)))
        return reader_refuse(r, 400, "There is no Host header, or not a valid one.");
    if (expect && strcasecmp(expect, "100-continue") != 0)
        return reader_refuse(r, 417, "That expectation cannot be met.");
    h->wants_continue = expect && !old;
    h->chunks = !old;
    h->keep_alive = !old && !berth_http_has_word(connection, "close");
    h->upgrade =
        !old && berth_http_has_word(connection, "upgrade") ? berth_http_header(h, "upgrade") : NULL;
    return read_framing(r, old);
}

/* The lines in buf, each closed by NUL where its CR was. */
static enum berth_http_step read_head(struct berth_http_reader *r)
{
    char *at = r->buf.data, *end = at + r->buf.len - 2; /* before the empty line */
    bool old = false;
    enum berth_http_step step = BERTH_HTTP_MORE;
    for (bool first = true; at < end && step != BERTH_HTTP_BAD; first = false) {
        char *line = at;
        at = memchr(line, '\r', (size_t)(end - line));
        *at = '\0';
        at += 2;
        step = first ? read_request_line(r, line, &old) : read_header(r, line);
    }
    if (step != BERTH_HTTP_BAD)
        step = read_meaning(r, old);
    if (step == BERTH_HTTP_BAD)
        return step;
    r->left = r->head.body_bytes > 0 ? (uint64_t)r->head.body_bytes : 0;
    r->state = r->head.body_bytes < 0 ? CHUNK_SIZE : r->left ? BODY : OVER;
    return BERTH_HTTP_HEAD_READ;
}

/* The next byte of a head, which has `len` bytes with it. *whole: the empty line ends with it. */
static enum berth_http_step reader_look_at(struct berth_http_reader *r, char c, size_t len,
                                           bool *whole)
{
    if ((c == '\n') != (r->before == '\r'))
        return reader_refuse(r, 400, "Lines end with CR and LF.");
    if (c != '\r' && c != '\n' && c != '\t' && (c < 0x20 || c > 0x7e))
        return reader_refuse(r, 400, "There is a byte that no header may have.");
    if (len == 1 && (c < 'A' || c > 'Z'))
        return reader_refuse(r, 400, "This is not a request.");
    if (len > BERTH_HTTP_HEAD_BYTES_MAX)
        return r->line_from == 0 ? reader_refuse(r, 414, "The request target is too long.")
                                 : reader_refuse(r, 431, "The headers are too long.");
    r->before = c;
    *whole = c == '\n' && len - r->line_from == 2;
    if (c == '\n')
        r->line_from = len;
    return BERTH_HTTP_MORE;
}

static enum berth_http_step read_lines(struct berth_http_reader *r, const char *bytes, size_t len,
                                       size_t *used)
{
    size_t before = r->buf.len;
    bool whole = false;
    while (*used < len && !whole) {
        enum berth_http_step step = reader_look_at(r, bytes[*used], before + *used + 1, &whole);
        ++*used;
        if (step == BERTH_HTTP_BAD)
            return step;
    }
    berth_buf_append(&r->buf, bytes, *used);
    if (r->buf.failed)
        return reader_refuse(r, 503, "There is no memory for the headers.");
    return whole ? read_head(r) : BERTH_HTTP_MORE;
}

/* Begins a new request. Pointers into the previous request become invalid. */
static void reader_begin(struct berth_http_reader *r)
{
    berth_buf_truncate(&r->buf, 0);
    r->head.header_count = 0;
    r->fresh = false;
    r->before = '\0';
    r->line_from = 0;
    r->left = 0;
    r->total = 0;
    r->digits = 0;
}

/* --- the body --- */

static enum berth_http_step too_large(struct berth_http_reader *r)
{
    return reader_refuse(r, 413, "The body is too large.");
}

/* A piece, and what comes when it is the last. */
static enum berth_http_step give_piece(struct berth_http_reader *r, const char *bytes, size_t len,
                                       size_t *used, enum state next)
{
    r->piece = bytes;
    r->piece_len = len < r->left ? len : (size_t)r->left;
    *used += r->piece_len;
    r->left -= r->piece_len;
    r->total += (int64_t)r->piece_len;
    if (r->left == 0)
        r->state = (int)next;
    return BERTH_HTTP_BODY;
}

static enum berth_http_step read_chunk_size(struct berth_http_reader *r, char c)
{
    int digit = reader_hex(c);
    if (digit >= 0 && r->digits < CHUNK_DIGITS_MAX) {
        r->digits++;
        r->left = r->left * 16 + (uint64_t)digit;
        if (r->left > (uint64_t)(r->body_bytes_max - r->total))
            return too_large(r);
        return BERTH_HTTP_MORE;
    }
    if (c != '\r' || r->digits == 0)
        return reader_refuse(r, 400, "The size of a chunk is malformed.");
    r->state = CHUNK_SIZE_LF;
    return BERTH_HTTP_MORE;
}

/* The bytes that stand around chunks, one at a time. Neither extensions nor trailers are taken. */
static enum berth_http_step read_between(struct berth_http_reader *r, char c)
{
    static const struct {
        char want;
        enum state next;
    } steps[] = {[CHUNK_SIZE_LF] = {'\n', CHUNK},
                 [CHUNK_CR] = {'\r', CHUNK_LF},
                 [CHUNK_LF] = {'\n', CHUNK_SIZE},
                 [LAST_CR] = {'\r', LAST_LF},
                 [LAST_LF] = {'\n', OVER}};
    if (r->state == CHUNK_SIZE)
        return read_chunk_size(r, c);
    if (c != steps[r->state].want)
        return reader_refuse(r, 400, "A chunk is malformed, or has a trailer.");
    bool last = r->state == CHUNK_SIZE_LF && r->left == 0;
    r->state = (int)(last ? LAST_CR : steps[r->state].next);
    r->digits = r->state == CHUNK_SIZE ? 0 : r->digits;
    return BERTH_HTTP_MORE;
}

void berth_http_reader_init(struct berth_http_reader *r)
{
    *r = (struct berth_http_reader){.buf = BERTH_BUF_INIT(BERTH_HTTP_HEAD_BYTES_MAX + 2),
                                    .body_bytes_max = BODY_BYTES_DEFAULT,
                                    .fresh = true};
    r->buf.secret = true; /* a token is in it */
}

void berth_http_reader_clear(struct berth_http_reader *r)
{
    berth_buf_clear(&r->buf);
}

bool berth_http_reader_busy(const struct berth_http_reader *r)
{
    return r->state != LINES || (!r->fresh && r->buf.len > 0);
}

void berth_http_reader_untake(struct berth_http_reader *r, size_t count)
{
    if (count == 0)
        return;
    r->state = r->head.body_bytes < 0 ? CHUNK : BODY;
    r->left += count;
    r->total -= (int64_t)count;
    r->piece_len -= count;
}

static enum berth_http_step read_body(struct berth_http_reader *r, const char *bytes, size_t len,
                                      size_t *used)
{
    enum berth_http_step step = BERTH_HTTP_MORE;
    if (r->head.body_bytes > r->body_bytes_max)
        return too_large(r);
    while (*used < len && step == BERTH_HTTP_MORE && r->state != OVER)
        step = r->state == BODY    ? give_piece(r, bytes + *used, len - *used, used, OVER)
               : r->state == CHUNK ? give_piece(r, bytes + *used, len - *used, used, CHUNK_CR)
                                   : read_between(r, bytes[(*used)++]);
    if (step == BERTH_HTTP_MORE && r->state == OVER) {
        r->state = LINES;
        r->fresh = true;
        return BERTH_HTTP_DONE;
    }
    return step;
}

enum berth_http_step berth_http_reader_step(struct berth_http_reader *r, const char *bytes,
                                            size_t len, size_t *used)
{
    *used = 0;
    if (r->state == REFUSED)
        return BERTH_HTTP_BAD;
    if (r->state != LINES)
        return read_body(r, bytes, len, used);
    if (r->fresh && len)
        reader_begin(r);
    return read_lines(r, bytes, len, used);
}
