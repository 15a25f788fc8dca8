/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/stream.h - an answer without a fixed end. The stream sends regular signs of life,
 * and ends when the client does not read. Everything runs on the loop's thread. */
#ifndef BERTH_API_STREAM_STREAM_H
#define BERTH_API_STREAM_STREAM_H

#include "api/guard.h"
#include "http/websocket.h"
#include "os/engine.h"

struct berth_api_stream {
    struct berth_http_exchange *x; /* NULL: the stream has ended */
    struct berth_engine *engine;
    bool events;                     /* server-sent events, else plain bytes */
    struct berth_http_websocket *ws; /* set for a WebSocket, else NULL */
    bool aborts; /* the client sees a broken answer when the stream is ended early, as by its token
                  */
    int status;  /* of the answer; 0: 200 */
    const struct berth_http_header *more; /* headers up to one without a name; or NULL */
    enum berth_http_close code;           /* close code of a WebSocket; 0: a normal end */
    struct berth_api_guard *guard;        /* ends the stream when its token becomes invalid */
    struct berth_api_guarded guarded;
    uint64_t sent; /* bytes that had been sent at the last beat */
    struct berth_timer beat;
    /* Callbacks. Each may be NULL, except on_gone. */
    void (*on_message)(struct berth_api_stream *s, bool text, const char *bytes, size_t len);
    void (*on_room)(struct berth_api_stream *s);    /* everything written has been sent */
    void (*on_stalled)(struct berth_api_stream *s); /* may put a last message; it ends then */
    /* Called when the daemon is about to end and waits for streams to finish. A WebSocket ends by
     * itself afterwards. The callback must not end the stream before it returns. */
    void (*on_drain)(struct berth_api_stream *s);
    /* Called when the stream has ended: the client left or stalled, or its token became invalid.
     * Never called from within a put. */
    void (*on_gone)(struct berth_api_stream *s);
};

struct berth_api_call;
/* Sets the guard, and the token of the call, before the stream begins. From any thread. */
void berth_api_stream_let_in(struct berth_api_stream *s, const struct berth_api_call *c);
/* Begins the answer. x, engine, events or ws, guard, guarded and the callbacks must be set. `type`
 * is the content type; a WebSocket does not use it. */
void berth_api_stream_begin(struct berth_api_stream *s, const char *type);
/* Writes bytes; to a WebSocket, whole frames. */
void berth_api_stream_put(struct berth_api_stream *s, const char *bytes, size_t len);
bool berth_api_stream_full(const struct berth_api_stream *s); /* some bytes are not sent yet */
void berth_api_stream_end(struct berth_api_stream *s);        /* on_gone does not follow */
void berth_api_stream_abort(
    struct berth_api_stream *s); /* the same, but the client sees a broken connection */
#endif
