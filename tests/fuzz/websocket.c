/* SPDX-License-Identifier: Apache-2.0
 * tests/fuzz/websocket.c - a client's bytes behind the handshake, cut anywhere and held up now and
 * then: the messages do not depend on the cuts, none is longer than the limit or (of text) not
 * UTF-8, and nothing is said behind the last word. The connection is played by this file. */
#include "http/websocket.h"

#include <string.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "fuzz.h"

#define STREAM_BYTES_MAX (256 * 1024)

/* --- the connection --- */

struct berth_http_exchange {
    struct berth_http_stream_handlers on;
    bool ended, reading;
    const char *waiting;
    size_t waiting_len;
    struct berth_buf said; /* by the server */
};

void berth_http_stream_begin(struct berth_http_exchange *x, const struct berth_http_answer *head,
                             const struct berth_http_stream_handlers *handlers)
{
    CHECK(head->status == 101);
    x->on = *handlers;
}

void berth_http_stream_write(struct berth_http_exchange *x, const char *bytes, size_t len)
{
    CHECK(!x->ended);
    berth_buf_append(&x->said, bytes, len);
}

size_t berth_http_stream_queued(const struct berth_http_exchange *x)
{
    (void)x;
    return 0;
}

/* As much as is taken now. */
void berth_http_stream_read_on(struct berth_http_exchange *x)
{
    if (x->ended || x->reading || !x->waiting_len)
        return;
    x->reading = true;
    size_t taken = x->on.on_bytes(x->on.ctx, x->waiting, x->waiting_len);
    x->reading = false;
    CHECK(taken <= x->waiting_len);
    x->waiting += taken;
    x->waiting_len -= taken;
}

void berth_http_stream_end(struct berth_http_exchange *x)
{
    CHECK(!x->ended);
    x->ended = true;
}

/* --- its user --- */

struct user {
    struct berth_http_websocket *ws;
    struct berth_buf heard;
    bool holds; /* after each message, until it is let go on */
    bool gone;
};

static void on_message(void *ctx, bool text, const char *bytes, size_t len)
{
    struct user *u = ctx;
    CHECK(!u->gone && len <= BERTH_WEBSOCKET_MESSAGE_BYTES_MAX && bytes[len] == '\0');
    CHECK(!text || berth_utf8_valid_bytes(bytes, len));
    berth_buf_printf(&u->heard, "%c%zu:", text ? 't' : 'b', len);
    berth_buf_append(&u->heard, bytes, len);
    if (u->holds)
        berth_http_websocket_hold(u->ws, true);
}

static void on_gone(void *ctx)
{
    struct user *u = ctx;
    CHECK(!u->gone);
    u->gone = true;
    berth_http_websocket_end(u->ws, BERTH_HTTP_CLOSE_NORMAL);
}

/* Whole frames without masks, of which a close is the last. */
static void check_said(const struct berth_buf *said)
{
    const unsigned char *at = (const unsigned char *)said->data;
    for (size_t left = said->len; left;) {
        CHECK(left >= 2 && at[1] <= 125 && left >= 2U + at[1]);
        CHECK(at[0] == 0x8a || (at[0] == 0x88 && left == 2U + at[1]));
        size_t step = 2U + at[1];
        at += step;
        left -= step;
    }
}

static void play(const uint8_t *pieces, size_t piece_count, const uint8_t *stream, size_t len,
                 bool holds, struct user *u)
{
    struct berth_http_exchange x = {.said = BERTH_BUF_INIT(4 * STREAM_BYTES_MAX)};
    struct berth_http_websocket_handlers handlers = {
        .on_message = on_message, .on_gone = on_gone, .ctx = u};
    struct berth_error err;
    *u = (struct user){.heard = BERTH_BUF_INIT(8 * STREAM_BYTES_MAX), .holds = holds};
    CHECK(berth_http_websocket_new("", NULL, &u->ws, &err) == BERTH_OK);
    berth_http_websocket_begin(u->ws, &x, &handlers);
    for (size_t at = 0, turn = 0; at < len && !u->gone;) {
        size_t here = len - at;
        if (piece_count && here > pieces[turn % piece_count] + 1U)
            here = pieces[turn % piece_count] + 1U;
        turn++;
        x.waiting = (const char *)stream + at;
        x.waiting_len = here;
        at += here;
        berth_http_stream_read_on(&x);
        while (x.waiting_len && !u->gone)
            berth_http_websocket_hold(u->ws, false);
    }
    if (!u->gone)
        on_gone(u);
    CHECK(x.ended);
    check_said(&x.said);
    berth_buf_clear(&x.said);
}

/* The input: a byte for the number of cuts, that many lengths of pieces, and the stream. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > STREAM_BYTES_MAX || size < 1U + data[0] % 8)
        return 0;
    size_t cuts = data[0] % 8;
    const uint8_t *stream = data + 1 + cuts;
    size_t len = size - 1 - cuts;
    struct user whole, cut;
    play(NULL, 0, stream, len, false, &whole);
    play(data + 1, cuts, stream, len, true, &cut);
    CHECK(whole.heard.len == cut.heard.len &&
          memcmp(berth_buf_str(&whole.heard), berth_buf_str(&cut.heard), cut.heard.len) == 0);
    berth_buf_clear(&whole.heard);
    berth_buf_clear(&cut.heard);
    return 0;
}
