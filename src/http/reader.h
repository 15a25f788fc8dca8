/* SPDX-License-Identifier: Apache-2.0
 * src/http/reader.h - parses HTTP/1.1 requests from bytes, one after the other. It does not use a
 * socket. It is strict: it refuses input that two programs could read differently, so that a proxy
 * in front of us and this parser always agree. */
#ifndef BERTH_HTTP_READER_H
#define BERTH_HTTP_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/limits.h"

enum berth_http_method {
    BERTH_HTTP_GET,
    BERTH_HTTP_HEAD,
    BERTH_HTTP_POST,
    BERTH_HTTP_PUT,
    BERTH_HTTP_PATCH,
    BERTH_HTTP_DELETE,
    BERTH_HTTP_OPTIONS,
};
extern const char *const berth_http_methods[]; /* closed by NULL */

struct berth_http_header {
    const char *name, *value; /* the name in lower case; the value without space around it */
};

/* All that stands before the body. Lives until the next request begins. */
struct berth_http_head {
    enum berth_http_method method;
    const char *path;  /* begins with "/", has no empty, "." or ".." segment; still encoded */
    const char *query; /* the part after "?", still encoded; or NULL */
    const char *host;  /* NULL only in HTTP/1.0 */
    struct berth_http_header headers[BERTH_HTTP_HEADERS_MAX];
    int header_count;
    int64_t body_bytes; /* Content-Length; -1: chunked, so the length is unknown */
    bool keep_alive, wants_continue;
    bool chunks;         /* the client reads chunks: it is not HTTP/1.0 */
    const char *upgrade; /* the Upgrade header, or NULL; always NULL in HTTP/1.0 */
};
/* Returns the value of a header by its name in lower case; NULL when it is absent. */
const char *berth_http_header(const struct berth_http_head *head, const char *name);
/* Returns whether the comma-separated list contains the word, in any case. NULL is an empty list.
 */
bool berth_http_has_word(const char *list, const char *word);

enum berth_http_step {
    BERTH_HTTP_MORE, /* all bytes were read; more are needed */
    BERTH_HTTP_HEAD_READ,
    BERTH_HTTP_BODY, /* a piece of the body, of piece_len bytes: never empty */
    BERTH_HTTP_DONE, /* the request is complete; the next one follows */
    BERTH_HTTP_BAD,  /* refused, with a status and a reason; nothing more is read */
};

struct berth_http_reader {
    struct berth_http_head head;
    /* May be set when the head was read, before the next step; 413 beyond. */
    int64_t body_bytes_max;
    const char *piece; /* in the bytes that were handed in */
    size_t piece_len;
    int status; /* of a refusal */
    const char *why;

    int state;            /* enum state */
    bool fresh;           /* the next byte begins a request */
    struct berth_buf buf; /* the head */
    char before;          /* the byte before */
    size_t line_from;     /* the line that is being read */
    uint64_t left;        /* of the body, or of the chunk */
    int64_t total;        /* of the body so far */
    int digits;
};

void berth_http_reader_init(struct berth_http_reader *r);
void berth_http_reader_clear(struct berth_http_reader *r);
/* Reads on. *used is the number of bytes consumed: all of them, unless something was found. */
enum berth_http_step berth_http_reader_step(struct berth_http_reader *r, const char *bytes,
                                            size_t len, size_t *used);
/* Takes back the last `count` bytes of the piece that was read last: they are read again. */
void berth_http_reader_untake(struct berth_http_reader *r, size_t count);
/* Returns whether a request has begun; otherwise the connection is idle. */
bool berth_http_reader_busy(const struct berth_http_reader *r);
#endif
