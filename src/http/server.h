/* SPDX-License-Identifier: Apache-2.0
 * src/http/server.h - connections that speak HTTP/1.1, on the engine's loop: requests in, answers
 * out, in order. Handlers are told on the loop's thread and must not block; the answer may come
 * from any thread, and much later. */
#ifndef BERTH_HTTP_SERVER_H
#define BERTH_HTTP_SERVER_H

#include "http/reader.h"
#include "os/socket.h"

struct berth_http_server;
struct berth_http_exchange; /* one request and its answer */

struct berth_http_settings {
    int connections_max; /* of them 64, or a quarter if that is less, are for Unix sockets */
    int64_t head_ms;     /* from its first byte to the end of a head */
    int64_t body_ms;     /* and of a body */
    int64_t idle_ms;     /* between two requests; by TCP the first has head_ms to begin */
    int64_t write_ms;    /* without progress, until a reader is given up */
};
#define BERTH_HTTP_SETTINGS_INIT                                                                   \
    {                                                                                              \
        .connections_max = 8192, .head_ms = 10000, .body_ms = 60000, .idle_ms = 75000,             \
        .write_ms = 30000                                                                          \
    }

struct berth_http_handlers {
    /* The head is there: so many bytes may the body have. */
    int64_t (*body_bytes_max)(void *ctx, const struct berth_http_head *head,
                              const struct berth_peer *peer);
    /* All of it is there: to be answered, once. */
    void (*on_request)(void *ctx, struct berth_http_exchange *x);
    void *ctx;
};

/* From any thread but the engine's, as the next three. */
int berth_http_server_open(struct berth_engine *engine, const struct berth_http_settings *settings,
                           const struct berth_http_handlers *handlers,
                           struct berth_http_server **out, struct berth_error *err);
/* What stands between the bytes of the network and those of HTTP: TLS. A link is one connection's;
 * it hands on what it is given by these, and frees nothing from within. */
struct berth_http_link_handlers {
    void (*on_plain)(void *ctx, const char *bytes, size_t len);
    void (*on_wire)(void *ctx, const char *bytes, size_t len);
    void *ctx;
};
struct berth_http_secure {
    int (*open)(void *ctx, const struct berth_http_link_handlers *handlers, void **link,
                struct berth_error *err);
    /* < 0: it is of no use any more. *ended: nothing more comes. */
    int (*read)(void *link, const char *bytes, size_t len, bool *ended, struct berth_error *err);
    int (*write)(void *link, const char *bytes, size_t len, struct berth_error *err);
    void (*finish)(void *link); /* nothing more goes */
    void (*close)(void *link);
    void *ctx;
};
struct berth_http_address {
    const char *path; /* of a Unix socket, or NULL */
    const char *host; /* of TCP, and port; 0: any */
    int port;
    const struct berth_http_secure *secure; /* lives as long as the server; or NULL */
};
/* Answers the port. */
int berth_http_server_listen(struct berth_http_server *server,
                             const struct berth_http_address *address, struct berth_error *err);
/* Accepts nobody any more, ends idle connections, and waits so long for the others. */
void berth_http_server_drain(struct berth_http_server *server, int64_t wait_ms);
/* Whoever is still to answer may do so, and is heard by nobody. NULL is fine. */
void berth_http_server_close(struct berth_http_server *server);

struct berth_http_stats {
    int64_t connections, streams, requests; /* now; now; so far */
};
struct berth_http_stats berth_http_server_stats(struct berth_http_server *server);

/* What was asked; until it is answered. */
const struct berth_http_head *berth_http_exchange_head(const struct berth_http_exchange *x);
const char *berth_http_exchange_body(const struct berth_http_exchange *x, size_t *len);
const struct berth_peer *berth_http_exchange_peer(const struct berth_http_exchange *x);
const char *berth_http_exchange_id(const struct berth_http_exchange *x); /* a name for logs */
/* Readable when the one who asked has left; -1: there is none. From any thread. */
int berth_http_exchange_left_fd(struct berth_http_exchange *x);
/* The same as a call, on the loop's thread, where this is to be called; NULL: no more. Whoever has
 * left already is told of at once. */
void berth_http_exchange_on_left(struct berth_http_exchange *x, void (*on_left)(void *ctx),
                                 void *ctx);

/* The page that asked may read the answer, although it is of another origin (CORS). Before it is
 * answered, on the loop's thread. */
void berth_http_exchange_share(struct berth_http_exchange *x);

#define BERTH_HTTP_MORE_MAX 4
struct berth_http_answer {
    int status;
    const char *type; /* of the body */
    /* Closed by one without a name; names as they are written. */
    struct berth_http_header more[BERTH_HTTP_MORE_MAX];
    struct berth_buf body; /* taken over */
};
/* From any thread, once; texts are borrowed for the call. The exchange is gone afterwards. */
void berth_http_answer(struct berth_http_exchange *x, struct berth_http_answer *answer);

/* An answer that goes on: events, logs. All of it on the loop's thread, and instead of
 * berth_http_answer. Whoever writes looks at what is queued: a reader may be slow. */
struct berth_http_stream_handlers {
    void (*on_room)(void *ctx); /* all that was written has gone; or NULL */
    void (*on_gone)(void *ctx); /* the reader has left: what is written is dropped; end it */
    /* Of a connection that speaks another protocol from now on (101): what comes, also what came
     * behind the request. Answers how much was taken; the rest waits, as whatever comes behind it
     * does, until berth_http_stream_read_on. Or NULL. */
    size_t (*on_bytes)(void *ctx, const char *bytes, size_t len);
    void (*on_drain)(void *ctx); /* the server is about to end; or NULL */
    void *ctx;
};
void berth_http_stream_begin(struct berth_http_exchange *x, const struct berth_http_answer *head,
                             const struct berth_http_stream_handlers *handlers);
void berth_http_stream_write(struct berth_http_exchange *x, const char *bytes, size_t len);
size_t berth_http_stream_queued(const struct berth_http_exchange *x);
void berth_http_stream_read_on(struct berth_http_exchange *x);
uint64_t berth_http_stream_sent(const struct berth_http_exchange *x); /* bytes that have gone */
void berth_http_stream_end(struct berth_http_exchange *x); /* the exchange is gone afterwards */
/* The same, and its reader sees that something is missing. */
void berth_http_stream_abort(struct berth_http_exchange *x);

const char *berth_http_reason(int status); /* "Not Found" */
#endif
