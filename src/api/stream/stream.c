/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/stream.c - see stream.h. */
#include "api/stream/stream.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/call.h"
#include "api/state.h"
#include "base/container.h"

#define BEAT_MS 10000
#define BEAT ":\n\n" /* a comment: readers pass over it */

static struct berth_api_stream *of_beat(struct berth_timer *timer)
{
    return berth_container_of(timer, struct berth_api_stream, beat);
}

/* Sends a sign of life. Returns false when the client of a WebSocket did not answer the last one.
 */
static bool beat(struct berth_api_stream *s)
{
    if (s->ws)
        return berth_http_websocket_beat(s->ws);
    if (s->events)
        berth_api_stream_put(s, BEAT, strlen(BEAT));
    return true;
}

/* Ends a stream before its time. */
static void stream_give_up(struct berth_api_stream *s)
{
    if (s->aborts && s->x)
        berth_api_stream_abort(s);
    else
        berth_api_stream_end(s);
}

static void on_beat(struct berth_timer *timer)
{
    struct berth_api_stream *s = of_beat(timer);
    bool full = berth_api_stream_full(s);
    if (!s->x) {
        s->on_gone(s);
        return;
    }
    uint64_t sent = berth_http_stream_sent(s->x);
    bool moved = sent != s->sent; /* something has gone since the last beat */
    s->sent = sent;
    berth_timer_set(s->engine, &s->beat, BEAT_MS); /* before a put, which may end the stream */
    if (full ? moved : beat(s))
        return;
    if (s->on_stalled)
        s->on_stalled(s);
    stream_give_up(s);
    s->on_gone(s);
}

static void on_room(void *ctx)
{
    struct berth_api_stream *s = ctx;
    if (s->on_room)
        s->on_room(s);
}

static void on_message(void *ctx, bool text, const char *bytes, size_t len)
{
    struct berth_api_stream *s = ctx;
    if (s->on_message)
        s->on_message(s, text, bytes, len);
}

static void on_gone(void *ctx)
{
    struct berth_api_stream *s = ctx;
    berth_api_stream_end(s);
    berth_timer_set(s->engine, &s->beat, 0); /* on_gone comes later, never within a put */
}

static void on_drain(void *ctx)
{
    struct berth_api_stream *s = ctx;
    if (s->on_drain)
        s->on_drain(s);
}

static void on_token_dead(struct berth_api_guarded *guarded)
{
    struct berth_api_stream *s = berth_container_of(guarded, struct berth_api_stream, guarded);
    s->code = BERTH_HTTP_CLOSE_POLICY;
    stream_give_up(s);
    s->on_gone(s);
}

static void begin_messages(struct berth_api_stream *s)
{
    struct berth_http_websocket_handlers handlers = {.on_message = on_message,
                                                     .on_room = on_room,
                                                     .on_gone = on_gone,
                                                     .on_drain = on_drain,
                                                     .ctx = s};
    berth_http_websocket_begin(s->ws, s->x, &handlers);
}

void berth_api_stream_let_in(struct berth_api_stream *s, const struct berth_api_call *c)
{
    s->guard = c->api->guard;
    if (c->caller.token_id)
        (void)snprintf(s->guarded.token_id, sizeof s->guarded.token_id, "%s", c->caller.token_id);
}

void berth_api_stream_begin(struct berth_api_stream *s, const char *type)
{
    struct berth_http_answer head = {.status = s->status ? s->status : 200,
                                     .type = type,
                                     .framed = s->aborts,
                                     .more = {{"X-Accel-Buffering", "no"}}};
    for (int i = 1; i < BERTH_HTTP_MORE_MAX && s->more && s->more[i - 1].name; i++)
        head.more[i] = s->more[i - 1];
    struct berth_http_stream_handlers handlers = {
        .on_room = on_room, .on_gone = on_gone, .on_drain = on_drain, .ctx = s};
    s->beat.run = on_beat;
    s->guarded.end = on_token_dead;
    if (s->guarded.token_id[0])
        berth_api_guard_add(s->guard, &s->guarded);
    berth_timer_set(s->engine, &s->beat, BEAT_MS);
    if (s->ws) {
        begin_messages(s);
        return;
    }
    bool head_alone = berth_http_exchange_head(s->x)->method == BERTH_HTTP_HEAD;
    berth_http_stream_begin(s->x, &head, &handlers);
    if (head_alone && s->x)
        on_gone(s);
}

void berth_api_stream_put(struct berth_api_stream *s, const char *bytes, size_t len)
{
    if (s->ws)
        berth_http_websocket_write(s->ws, bytes, len);
    else if (s->x)
        berth_http_stream_write(s->x, bytes, len);
}

bool berth_api_stream_full(const struct berth_api_stream *s)
{
    return s->x && berth_http_stream_queued(s->x) > 0;
}

void berth_api_stream_end(struct berth_api_stream *s)
{
    struct berth_http_exchange *x = s->x;
    struct berth_http_websocket *ws = s->ws;
    s->x = NULL;
    s->ws = NULL;
    berth_api_guard_remove(&s->guarded);
    berth_timer_clear(s->engine, &s->beat);
    if (ws)
        berth_http_websocket_end(ws, s->code ? s->code : BERTH_HTTP_CLOSE_NORMAL);
    else if (x)
        berth_http_stream_end(x);
}

void berth_api_stream_abort(struct berth_api_stream *s)
{
    struct berth_http_exchange *x = s->x;
    s->x = NULL;
    berth_api_guard_remove(&s->guarded);
    berth_timer_clear(s->engine, &s->beat);
    if (x)
        berth_http_stream_abort(x);
}
