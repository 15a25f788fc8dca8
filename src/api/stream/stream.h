/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/stream.h - an answer that goes on, with a reader who is told that we live and who
 * is let go when he does not read. All on the loop's thread. */
#ifndef BERTH_API_STREAM_STREAM_H
#define BERTH_API_STREAM_STREAM_H

#include "api/stream/guard.h"
#include "http/websocket.h"
#include "os/engine.h"

struct berth_api_stream {
    struct berth_http_exchange *x; /* NULL: it is over */
    struct berth_engine *engine;
    bool events;                     /* server-sent events, else plain bytes */
    struct berth_http_websocket *ws; /* messages, instead of both; or NULL */
    enum berth_http_close code;      /* that its end is told by; 0: a normal one */
    struct berth_api_guard *guard;   /* ends it with the token that let its reader in */
    struct berth_api_guarded guarded;
    uint64_t sent; /* bytes that had gone at the last beat */
    struct berth_timer beat;
    /* Each may be NULL, but for on_gone. */
    void (*on_message)(struct berth_api_stream *s, bool text, const char *bytes, size_t len);
    void (*on_room)(struct berth_api_stream *s);    /* all that was written has gone */
    void (*on_stalled)(struct berth_api_stream *s); /* to say the last words; it ends then */
    /* The daemon is about to end, and waits for what ends by itself. A WebSocket is over then. Must
     * not end it at once. */
    void (*on_drain)(struct berth_api_stream *s);
    /* It is over: the reader left, or was let go. Never from within a put. */
    void (*on_gone)(struct berth_api_stream *s);
};

struct berth_api_call;
/* Who has asked: its guard, and by which token he came. Before it begins; from any thread. */
void berth_api_stream_let_in(struct berth_api_stream *s, const struct berth_api_call *c);
/* x, engine, events or ws, guard, guarded and handlers are set. The type is of no WebSocket.
 */
void berth_api_stream_begin(struct berth_api_stream *s, const char *type);
/* Of a WebSocket: whole frames. */
void berth_api_stream_put(struct berth_api_stream *s, const char *bytes, size_t len);
bool berth_api_stream_full(const struct berth_api_stream *s); /* not all has gone */
void berth_api_stream_end(struct berth_api_stream *s);        /* on_gone does not follow */
void berth_api_stream_abort(
    struct berth_api_stream *s); /* the same; the reader sees a broken line */
#endif
