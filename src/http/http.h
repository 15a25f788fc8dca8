/* SPDX-License-Identifier: Apache-2.0
 * src/http/http.h - an HTTP/1.1 server on the engine's loop: it reads requests and sends answers,
 * in order on each connection. Handlers run on the loop thread and must not block. The answer may
 * come from any thread, and much later. */
#ifndef BERTH_HTTP_HTTP_H
#define BERTH_HTTP_HTTP_H

#include "http/reader.h"
#include "os/socket.h"

struct berth_http_server;
struct berth_http_exchange; /* one request and its answer */

struct berth_http_settings {
    int connections_max; /* 64 of these, or a quarter if that is less, are for Unix sockets */
    int remote_fd_max;   /* TCP connections have descriptors below this number; 0: any */
    int64_t head_ms;     /* from the first byte of a head to its end */
    /* For a body to be collected; or without a byte, of one that is taken as a stream. It begins
     * when the handler asks for the body. */
    int64_t body_ms;
    int64_t idle_ms;  /* between two requests; head_ms by TCP, for a client that is not trusted */
    int64_t write_ms; /* without progress, until a client that does not read is cut off */
    int64_t bodies_bytes_max;  /* of all bodies that are collected at once; 503 beyond */
    int64_t answers_bytes_max; /* of all answers that wait for their clients; 503 beyond */
    int64_t answer_bytes_s;    /* the least speed, after write_ms, at which a client takes one */
};
#define BERTH_HTTP_SETTINGS_INIT                                                                   \
    {                                                                                              \
        .connections_max = 8192, .head_ms = 10000, .body_ms = 60000, .idle_ms = 75000,             \
        .write_ms = 30000, .bodies_bytes_max = BERTH_HTTP_BODIES_BYTES_MAX,                        \
        .answers_bytes_max = BERTH_HTTP_ANSWERS_BYTES_MAX,                                         \
        .answer_bytes_s = BERTH_HTTP_ANSWER_BYTES_S                                                \
    }

struct berth_http_handlers {
    /* Called when the head of a request is complete. The exchange has to be answered, once. Its
     * body has not been read (see "bodies"), unless berth_http_body_is_whole says so. */
    void (*on_request)(void *ctx, struct berth_http_exchange *x);
    /* Called when connections_max is reached, at most once a minute; or NULL. */
    void (*on_full)(void *ctx);
    void *ctx;
};

/* Opens a server that does not listen yet. Call this and the next three from any thread except the
 * engine's. */
int berth_http_server_open(struct berth_engine *engine, const struct berth_http_settings *settings,
                           const struct berth_http_handlers *handlers,
                           struct berth_http_server **out, struct berth_error *err);
/* What a TLS link reports: decrypted bytes, and bytes for the network. They must not free the
 * link. */
struct berth_http_link_handlers {
    void (*on_plain)(void *ctx, const char *bytes, size_t len);
    void (*on_wire)(void *ctx, const char *bytes, size_t len);
    void *ctx;
};
/* TLS, between the bytes of the network and those of HTTP. A link belongs to one connection. */
struct berth_http_secure {
    int (*open)(void *ctx, const struct berth_http_link_handlers *handlers, void **link,
                struct berth_error *err);
    /* Takes bytes from the network. Returns < 0 when the link is broken. Sets *ended when the
     * client has ended it. */
    int (*read)(void *link, const char *bytes, size_t len, bool *ended, struct berth_error *err);
    int (*write)(void *link, const char *bytes, size_t len, struct berth_error *err);
    void (*finish)(void *link); /* sends the end; nothing is written afterwards */
    void (*close)(void *link);
    void *ctx;
};
struct berth_http_address {
    const char *path; /* of a Unix socket, or NULL for TCP */
    const char *host;
    int port;                               /* 0: any that is free */
    const struct berth_http_secure *secure; /* outlives the server; NULL: plain bytes */
};
/* Starts to accept connections. Returns the port. */
int berth_http_server_listen(struct berth_http_server *server,
                             const struct berth_http_address *address, struct berth_error *err);
/* Stops accepting, ends idle connections, and waits up to wait_ms for the others to end. */
void berth_http_server_drain(struct berth_http_server *server, int64_t wait_ms);
/* Closes all connections and waits until every exchange has been answered. Answers that come after
 * the close are dropped. NULL is fine. */
void berth_http_server_close(struct berth_http_server *server);

struct berth_http_stats {
    int64_t connections, streams; /* now */
    int64_t requests;             /* since the server was opened */
    int64_t bodies_bytes;         /* memory of the bodies that are collected now */
    int64_t answers_bytes;        /* memory of the answers that wait to be sent */
};
struct berth_http_stats berth_http_server_stats(struct berth_http_server *server);

/* Return parts of the request, borrowed until it is answered. The body is the collected one. */
const struct berth_http_head *berth_http_exchange_head(const struct berth_http_exchange *x);
const char *berth_http_exchange_body(const struct berth_http_exchange *x, size_t *len);
const struct berth_peer *berth_http_exchange_peer(const struct berth_http_exchange *x);
const char *berth_http_exchange_id(const struct berth_http_exchange *x); /* a name for logs */
bool berth_http_exchange_secure(const struct berth_http_exchange *x);    /* came by TLS */
/* Returns a descriptor that becomes readable when the client leaves, or -1 when none could be made.
 * From any thread; the exchange owns it. A client that closes its sending side may have left, so
 * that counts as leaving, too; an answer is sent to it all the same, but a stream is not. */
int berth_http_exchange_left_fd(struct berth_http_exchange *x);
/* Has on_left called on the loop thread when the client leaves, or at once when it has left. NULL:
 * not any more. On the loop thread. */
void berth_http_exchange_on_left(struct berth_http_exchange *x, void (*on_left)(void *ctx),
                                 void *ctx);

/* Says that the client has shown that it may use the server. When connections_max is reached, a
 * connection by TCP whose last request was not trusted is closed, and the new one is taken. The
 * memory of body and answer is charged to `owner`, an id; NULL: to no owner. From any thread,
 * before the body is read and before the answer. */
void berth_http_exchange_trust(struct berth_http_exchange *x, const char *owner);
/* Refuses a request that has not been answered: its client gets the status and the text, its
 * connection ends, and its handler learns that the client has left. The answer that still has to be
 * made is dropped. Not for a stream. On the loop thread. */
void berth_http_exchange_refuse(struct berth_http_exchange *x, int status, const char *why);

/* --- bodies ---
 *
 * A body is read when the handler asks for it, so that a client can be refused before it costs
 * memory. A client that expects 100-continue is told to send it then. An answer that comes before
 * the end of the body ends the connection. */

/* Returns whether the whole body is at hand: the request has none, a short one came with the head,
 * or it was collected. */
bool berth_http_body_is_whole(const struct berth_http_exchange *x);
/* How a body is read. All are called on the loop thread. Nothing is called after on_end or on_gone,
 * nor after berth_http_answer was called on the loop thread. */
struct berth_http_body_handlers {
    /* Takes bytes of the body, borrowed for the call. Returns how many it took; the rest and all
     * that follow wait, for the most part in the client, until berth_http_body_read_on. NULL: the
     * body is collected in memory, where berth_http_exchange_body finds it. */
    size_t (*on_bytes)(void *ctx, const char *bytes, size_t len);
    void (*on_end)(void *ctx); /* the body is complete */
    /* The rest of the body does not come: the client has left, or was told why its body is refused
     * (413, 408, 400; 503 when all bodies together are too much to be collected). The exchange
     * still has to be answered; the answer is dropped. While bytes wait, this is not noticed. */
    void (*on_gone)(void *ctx);
    void *ctx;
};
/* Reads the body, of at most `max` bytes. Once, on the loop thread. May call the handlers before it
 * returns, and does so when the body is at hand. */
void berth_http_body_read(struct berth_http_exchange *x, int64_t max,
                          const struct berth_http_body_handlers *handlers);
/* Goes on after on_bytes did not take all. On the loop thread, and not within on_bytes. Does
 * nothing when no bytes wait. */
void berth_http_body_read_on(struct berth_http_exchange *x);

/* --- answers --- */

/* Lets a page of another origin read the answer (CORS). On the loop thread, before the answer. */
void berth_http_exchange_share(struct berth_http_exchange *x);

#define BERTH_HTTP_MORE_MAX 4
struct berth_http_answer {
    int status;
    const char *type; /* of the body */
    /* More headers, up to the first without a name. Names are sent as written here. */
    struct berth_http_header more[BERTH_HTTP_MORE_MAX];
    struct berth_buf body; /* taken over */
    /* Sent instead of the body when memory for the body ran out: the request was carried out, and
     * must not be sent again. Borrowed for the call. NULL: such an answer becomes a 503. */
    const char *brief;
    bool framed; /* of a stream: its client has to see whether it is complete, also by a connection
                    that ends */
    const char *fixed; /* instead of `body`: bytes that never change and are not copied; or NULL */
    size_t fixed_len;
};
/* Answers and frees the exchange. From any thread, once. Texts are borrowed for the call. */
void berth_http_answer(struct berth_http_exchange *x, struct berth_http_answer *answer);

/* An answer that goes on, such as events or logs; used instead of berth_http_answer, and only on
 * the loop thread. The writer looks at berth_http_stream_queued, since a client may read slowly. */
struct berth_http_stream_handlers {
    void (*on_room)(void *ctx); /* all that was written has been sent; or NULL */
    /* The client has left, and what is written from now on is dropped. End the stream. */
    void (*on_gone)(void *ctx);
    /* Takes bytes of a connection that changed its protocol (101), beginning with those behind the
     * request. Returns how many it took; the rest and all that follow wait until
     * berth_http_stream_read_on. NULL: the protocol stays HTTP. */
    size_t (*on_bytes)(void *ctx, const char *bytes, size_t len);
    void (*on_drain)(void *ctx); /* the server is about to end; or NULL */
    void *ctx;
};
void berth_http_stream_begin(struct berth_http_exchange *x, const struct berth_http_answer *head,
                             const struct berth_http_stream_handlers *handlers);
void berth_http_stream_write(struct berth_http_exchange *x, const char *bytes, size_t len);
size_t berth_http_stream_queued(const struct berth_http_exchange *x); /* bytes not sent yet */
/* Calls on_bytes with the bytes that wait, and reads on. */
void berth_http_stream_read_on(struct berth_http_exchange *x);
uint64_t berth_http_stream_sent(const struct berth_http_exchange *x); /* bytes sent so far */
/* Ends the answer and frees the exchange. */
void berth_http_stream_end(struct berth_http_exchange *x);
/* Does the same without the end of the answer, so that the client sees that it is incomplete. */
void berth_http_stream_abort(struct berth_http_exchange *x);

/* Returns the reason phrase of a status, such as "Not Found". */
const char *berth_http_reason(int status);
#endif
