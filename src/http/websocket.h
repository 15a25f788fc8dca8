/* SPDX-License-Identifier: Apache-2.0
 * src/http/websocket.h - WebSocket messages (RFC 6455) over the connection of a request. Everything
 * runs on the loop's thread, unless a comment says otherwise. */
#ifndef BERTH_HTTP_WEBSOCKET_H
#define BERTH_HTTP_WEBSOCKET_H

#include "http/http.h"

struct berth_http_websocket;

/* The client's handshake, as read from the request. */
struct berth_http_handshake {
    int status;      /* 101, or the status of an error to answer */
    const char *why; /* the error's text */
    bool named;      /* the client offers our protocol */
    /* The answer to the client contains its SHA-1 as base64. */
    char challenge[24 + 36 + 1];
};
/* Reads the handshake from a request. From any thread. */
void berth_http_handshake_read(const struct berth_http_head *head, const char *protocol,
                               struct berth_http_handshake *out);

enum berth_http_close {
    BERTH_HTTP_CLOSE_NORMAL = 1000,
    BERTH_HTTP_CLOSE_GOING = 1001,    /* the daemon is about to end */
    BERTH_HTTP_CLOSE_PROTOCOL = 1002, /* the bytes are not valid frames */
    BERTH_HTTP_CLOSE_POLICY = 1008,   /* the client stalled, or its token became invalid */
    BERTH_HTTP_CLOSE_TOO_BIG = 1009,
    BERTH_HTTP_CLOSE_TROUBLE = 1011, /* an error on our side */
};

struct berth_http_websocket_handlers {
    /* Called for each whole message, which a NUL follows. Text is valid UTF-8. */
    void (*on_message)(void *ctx, bool text, const char *bytes, size_t len);
    void (*on_room)(void *ctx);  /* everything written has been sent */
    void (*on_gone)(void *ctx);  /* the client left, or we closed: call _end */
    void (*on_drain)(void *ctx); /* before we close because the server ends; or NULL */
    void *ctx;
};
/* Makes a WebSocket that is not begun yet. `accept` is the answer to the client's challenge;
 * `protocol` is a constant, or NULL. From any thread. */
int berth_http_websocket_new(const char *accept, const char *protocol,
                             struct berth_http_websocket **out, struct berth_error *err);
void berth_http_websocket_free(
    struct berth_http_websocket *ws); /* only before begin; NULL is fine */
/* Answers x, which becomes a stream; berth_http_stream_queued and _sent apply to it. */
void berth_http_websocket_begin(struct berth_http_websocket *ws, struct berth_http_exchange *x,
                                const struct berth_http_websocket_handlers *handlers);
/* Writes the head of a message. The caller appends exactly `len` bytes behind it. From any thread.
 */
void berth_http_websocket_frame(struct berth_buf *out, bool text, size_t len);
/* Writes one or more whole messages. */
void berth_http_websocket_write(struct berth_http_websocket *ws, const char *frames, size_t len);
/* Stops or resumes reading from the client. A few KB that were already received may remain. */
void berth_http_websocket_hold(struct berth_http_websocket *ws, bool held);
/* Sends a ping. Returns false when the client did not answer the previous one. */
bool berth_http_websocket_beat(struct berth_http_websocket *ws);
/* Sends a close frame unless one was sent, then frees the WebSocket and ends its exchange. on_gone
 * is not called. */
void berth_http_websocket_end(struct berth_http_websocket *ws, enum berth_http_close code);
#endif
