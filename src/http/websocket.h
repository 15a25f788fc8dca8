/* SPDX-License-Identifier: Apache-2.0
 * src/http/websocket.h - messages both ways (RFC 6455) over a connection that was a request's. All
 * of it on the loop's thread, unless it is said otherwise. */
#ifndef BERTH_HTTP_WEBSOCKET_H
#define BERTH_HTTP_WEBSOCKET_H

#include "http/http.h"

struct berth_http_websocket;

/* What is asked for, as the request says it. */
struct berth_http_handshake {
    int status;      /* 101; or what is to be answered instead, */
    const char *why; /* and why */
    bool named;      /* our protocol is among those that are offered */
    /* Its SHA-1, as base64, goes back to the client. */
    char challenge[24 + 36 + 1];
};
/* From any thread. */
void berth_http_handshake_read(const struct berth_http_head *head, const char *protocol,
                               struct berth_http_handshake *out);

enum berth_http_close {
    BERTH_HTTP_CLOSE_NORMAL = 1000,
    BERTH_HTTP_CLOSE_GOING = 1001,    /* we are about to end */
    BERTH_HTTP_CLOSE_PROTOCOL = 1002, /* these are no frames */
    BERTH_HTTP_CLOSE_POLICY = 1008,   /* that is not how we talk */
    BERTH_HTTP_CLOSE_TOO_BIG = 1009,
    BERTH_HTTP_CLOSE_TROUBLE = 1011, /* of ours */
};

struct berth_http_websocket_handlers {
    /* A whole one; of text it is known that it is UTF-8. A NUL is behind it. */
    void (*on_message)(void *ctx, bool text, const char *bytes, size_t len);
    void (*on_room)(void *ctx);  /* all that was written has gone */
    void (*on_gone)(void *ctx);  /* nobody is there any more, or we hung up: end it */
    void (*on_drain)(void *ctx); /* before we hang up, since the server is about to end; or NULL */
    void *ctx;
};
/* From any thread. `accept` is what the challenge became; `protocol` is a constant, or NULL. */
int berth_http_websocket_new(const char *accept, const char *protocol,
                             struct berth_http_websocket **out, struct berth_error *err);
void berth_http_websocket_free(
    struct berth_http_websocket *ws); /* one that was not begun; or NULL */
/* Answers x, which is a stream from now on; berth_http_stream_queued and _sent tell of it. */
void berth_http_websocket_begin(struct berth_http_websocket *ws, struct berth_http_exchange *x,
                                const struct berth_http_websocket_handlers *handlers);
/* The beginning of a message: exactly so many bytes are to be appended behind it. From any thread.
 */
void berth_http_websocket_frame(struct berth_buf *out, bool text, size_t len);
/* Whole messages, one or many. */
void berth_http_websocket_write(struct berth_http_websocket *ws, const char *frames, size_t len);
/* Held: nothing more is read from the client, but for some KB that were. */
void berth_http_websocket_hold(struct berth_http_websocket *ws, bool held);
/* Asks whether the client is there. False: the last time nobody answered. */
bool berth_http_websocket_beat(struct berth_http_websocket *ws);
/* Says goodbye, if that was not done yet. It and its exchange are gone afterwards, without on_gone.
 */
void berth_http_websocket_end(struct berth_http_websocket *ws, enum berth_http_close code);
#endif
