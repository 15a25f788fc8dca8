/* SPDX-License-Identifier: Apache-2.0
 * src/http/websocket.c - see websocket.h. wslay reads the frames and answers those of control. A
 * message is joined here: wslay keeps each fragment by itself, so that a message of many small ones
 * would take a hundred times its length. */
#include "http/websocket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wslay/wslay.h>

#include "base/base64.h"
#include "base/limits.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#define KEY_BYTES 16
#define ACCEPT_SIZE 32
#define FIN 0x80
#define LENGTH_IN_2_BYTES 126 /* lengths below stand in the head itself */
#define LENGTH_IN_8_BYTES 127
/* When more bytes than this wait for a client that does not read, no more is read from the client.
 * One round of a command's output is smaller, with the heads of its frames, so that a client that
 * cannot follow the output can still cancel the command. */
#define QUEUED_BYTES_MAX (2 * BERTH_FAN_BYTES_MAX)

struct berth_http_websocket {
    wslay_event_context_ptr wslay;
    struct berth_http_exchange *x; /* once it is begun */
    struct berth_http_websocket_handlers handlers;
    char accept[ACCEPT_SIZE];
    const char *protocol;
    const char *in; /* that wslay has not had yet */
    size_t in_len;
    struct berth_buf message, out; /* as far as it came; what wslay wants to be sent */
    bool control;                  /* the frame that is read is none of a message */
    enum berth_http_close refused; /* why no more is read; 0: it is */
    bool held;
    bool heard, asked; /* since the last beat, at it */
    bool closed;       /* the last word was said */
    bool over;         /* its owner has ended it */
    int depth;         /* calls that are at work: it is freed by the last */
};

/* --- the handshake --- */

static bool websocket_is_key(const char *key)
{
    unsigned char bytes[KEY_BYTES + 2];
    size_t len = key ? strlen(key) : 0, count;
    return len == BERTH_BASE64_SIZE(KEY_BYTES) - 1 && berth_base64_length(key, len, &count) &&
           count == KEY_BYTES && berth_base64_decode(key, len, bytes);
}

static bool offers(const struct berth_http_head *head, const char *protocol)
{
    for (int i = 0; i < head->header_count; i++)
        if (strcmp(head->headers[i].name, "sec-websocket-protocol") == 0 &&
            berth_http_has_word(head->headers[i].value, protocol))
            return true;
    return false;
}

void berth_http_handshake_read(const struct berth_http_head *head, const char *protocol,
                               struct berth_http_handshake *out)
{
    const char *key = berth_http_header(head, "sec-websocket-key");
    const char *version = berth_http_header(head, "sec-websocket-version");
    *out = (struct berth_http_handshake){.status = 426};
    if (head->method != BERTH_HTTP_GET || !berth_http_has_word(head->upgrade, "websocket")) {
        out->why = "This is for a WebSocket: ask for it by Connection and Upgrade.";
    } else if (!version || strcmp(version, "13") != 0) {
        out->why = "Sec-WebSocket-Version must be 13.";
    } else if (!websocket_is_key(key)) {
        out->status = 400;
        out->why = "Sec-WebSocket-Key must be 16 bytes as base64.";
    } else {
        out->status = 101;
        out->named = offers(head, protocol);
        memcpy(out->challenge, key, strlen(key));
        memcpy(out->challenge + strlen(key), GUID, sizeof GUID);
    }
}

/* --- out --- */

static void websocket_put_frame(struct berth_buf *out, unsigned char opcode, size_t len)
{
    unsigned char head[10] = {FIN | opcode};
    int more = len < LENGTH_IN_2_BYTES ? 0 : len <= UINT16_MAX ? 2 : 8;
    head[1] = (unsigned char)(more == 0 ? len : more == 2 ? LENGTH_IN_2_BYTES : LENGTH_IN_8_BYTES);
    for (int i = 0; i < more; i++)
        head[1 + more - i] = (unsigned char)((uint64_t)len >> (8 * i));
    berth_buf_append(out, head, 2 + (size_t)more);
}

void berth_http_websocket_frame(struct berth_buf *out, bool text, size_t len)
{
    websocket_put_frame(out, text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME, len);
}

void berth_http_websocket_write(struct berth_http_websocket *ws, const char *frames, size_t len)
{
    if (!ws->closed)
        berth_http_stream_write(ws->x, frames, len);
}

/* The last word. */
static void hang_up(struct berth_http_websocket *ws, enum berth_http_close code)
{
    unsigned char number[2] = {(unsigned char)(code >> 8), (unsigned char)(code & 0xff)};
    struct berth_buf out = BERTH_BUF_INIT(16);
    websocket_put_frame(&out, WSLAY_CONNECTION_CLOSE, sizeof number);
    berth_buf_append(&out, number, sizeof number);
    if (!out.failed)
        berth_http_websocket_write(ws, out.data, out.len);
    ws->closed = true;
    berth_buf_clear(&out);
}

/* What wslay has to say of itself. */
static void websocket_flush(struct berth_http_websocket *ws)
{
    struct berth_buf *out = &ws->out;
    bool failed = wslay_event_send(ws->wslay) < 0 || out->failed;
    if (!failed && out->len)
        berth_http_websocket_write(ws, out->data, out->len);
    if (failed)
        hang_up(ws, BERTH_HTTP_CLOSE_TROUBLE);
    ws->closed |= wslay_event_get_close_sent(ws->wslay);
    berth_buf_clear(out);
    *out = (struct berth_buf)BERTH_BUF_INIT(BERTH_WEBSOCKET_MESSAGE_BYTES_MAX);
}

/* --- for wslay --- */

static bool is_held(const struct berth_http_websocket *ws)
{
    return ws->held || berth_http_stream_queued(ws->x) > QUEUED_BYTES_MAX;
}

static ssize_t on_recv(wslay_event_context_ptr wslay, uint8_t *buf, size_t len, int flags,
                       void *ctx)
{
    struct berth_http_websocket *ws = ctx;
    size_t here = len < ws->in_len ? len : ws->in_len;
    (void)flags;
    if (here == 0 || ws->over || is_held(ws)) {
        wslay_event_set_error(wslay, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    memcpy(buf, ws->in, here);
    ws->in += here;
    ws->in_len -= here;
    return (ssize_t)here;
}

static ssize_t on_send(wslay_event_context_ptr wslay, const uint8_t *data, size_t len, int flags,
                       void *ctx)
{
    struct berth_http_websocket *ws = ctx;
    (void)wslay, (void)flags;
    berth_buf_append(&ws->out, data, len);
    return (ssize_t)len;
}

/* Refuses a message that is too long when it is announced, and a close with half a code, which
 * wslay takes for one without a code. */
static void on_frame(wslay_event_context_ptr wslay,
                     const struct wslay_event_on_frame_recv_start_arg *frame, void *ctx)
{
    struct berth_http_websocket *ws = ctx;
    ws->control = wslay_is_ctrl_frame(frame->opcode);
    if (frame->opcode == WSLAY_CONNECTION_CLOSE && frame->payload_length == 1)
        ws->refused = BERTH_HTTP_CLOSE_PROTOCOL;
    else if (!ws->control && frame->payload_length > ws->message.max - ws->message.len)
        ws->refused = BERTH_HTTP_CLOSE_TOO_BIG;
    if (ws->refused)
        wslay_event_shutdown_read(wslay);
}

static void on_piece(wslay_event_context_ptr wslay,
                     const struct wslay_event_on_frame_recv_chunk_arg *piece, void *ctx)
{
    struct berth_http_websocket *ws = ctx;
    (void)wslay;
    if (!ws->control && !ws->refused)
        berth_buf_append(&ws->message, piece->data, piece->data_length);
}

static void on_whole(wslay_event_context_ptr wslay, const struct wslay_event_on_msg_recv_arg *what,
                     void *ctx)
{
    struct berth_http_websocket *ws = ctx;
    (void)wslay;
    if (wslay_is_ctrl_frame(what->opcode) || ws->refused || ws->message.failed || ws->over)
        return;
    struct berth_buf message = ws->message;
    ws->message =
        (struct berth_buf){.max = BERTH_WEBSOCKET_MESSAGE_BYTES_MAX, .secret = message.secret};
    ws->handlers.on_message(ws->handlers.ctx, what->opcode == WSLAY_TEXT_FRAME,
                            berth_buf_str(&message), message.len);
    berth_buf_clear(&message);
}

/* --- in --- */

static void websocket_destroy(struct berth_http_websocket *ws)
{
    wslay_event_context_free(ws->wslay);
    berth_buf_clear(&ws->message);
    berth_buf_clear(&ws->out);
    free(ws);
}

static void websocket_leave(struct berth_http_websocket *ws)
{
    if (--ws->depth == 0 && ws->over)
        websocket_destroy(ws);
}

static void on_websocket_gone(void *ctx)
{
    struct berth_http_websocket *ws = ctx;
    ws->closed = true;
    if (!ws->over)
        ws->handlers.on_gone(ws->handlers.ctx);
}

/* As far as it goes. */
static int read_frames(struct berth_http_websocket *ws)
{
    int rc = 0;
    for (size_t before = 0; rc == 0 && ws->in_len && ws->in_len != before;) {
        before = ws->in_len;
        rc = wslay_event_recv(ws->wslay);
    }
    return rc;
}

static size_t on_websocket_bytes(void *ctx, const char *bytes, size_t len)
{
    struct berth_http_websocket *ws = ctx;
    if (ws->closed)
        return len;
    ws->in = bytes;
    ws->in_len = len;
    ws->heard = true;
    ws->depth++;
    int rc = read_frames(ws);
    size_t taken = len - ws->in_len;
    if (!ws->over) {
        if (rc == WSLAY_ERR_NOMEM || ws->message.failed)
            hang_up(ws, BERTH_HTTP_CLOSE_TROUBLE);
        else if (rc < 0) /* it would close without saying why */
            hang_up(ws, BERTH_HTTP_CLOSE_PROTOCOL);
        else if (ws->refused)
            hang_up(ws, ws->refused);
        else
            websocket_flush(ws);
    }
    if (ws->closed && !ws->over)
        on_websocket_gone(ws);
    websocket_leave(ws);
    return taken;
}

static void on_websocket_room(void *ctx)
{
    struct berth_http_websocket *ws = ctx;
    ws->depth++;
    if (!ws->held)
        berth_http_stream_read_on(ws->x);
    if (!ws->over && ws->handlers.on_room)
        ws->handlers.on_room(ws->handlers.ctx);
    websocket_leave(ws);
}

static void on_websocket_drain(void *ctx)
{
    struct berth_http_websocket *ws = ctx;
    ws->depth++;
    if (ws->handlers.on_drain)
        ws->handlers.on_drain(ws->handlers.ctx);
    hang_up(ws, BERTH_HTTP_CLOSE_GOING);
    on_websocket_gone(ws);
    websocket_leave(ws);
}

/* --- for its owner --- */

int berth_http_websocket_new(const char *accept, const char *protocol,
                             struct berth_http_websocket **out, struct berth_error *err)
{
    static const struct wslay_event_callbacks callbacks = {.recv_callback = on_recv,
                                                           .send_callback = on_send,
                                                           .on_frame_recv_start_callback = on_frame,
                                                           .on_frame_recv_chunk_callback = on_piece,
                                                           .on_msg_recv_callback = on_whole};
    struct berth_http_websocket *ws = calloc(1, sizeof *ws);
    if (!ws || wslay_event_context_server_init(&ws->wslay, &callbacks, ws) != 0) {
        free(ws);
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: WebSocket.");
    }
    wslay_event_config_set_no_buffering(ws->wslay, 1);
    ws->message = (struct berth_buf){.max = BERTH_WEBSOCKET_MESSAGE_BYTES_MAX, .secret = true};
    ws->out = (struct berth_buf)BERTH_BUF_INIT(BERTH_WEBSOCKET_MESSAGE_BYTES_MAX);
    (void)snprintf(ws->accept, sizeof ws->accept, "%s", accept);
    ws->protocol = protocol;
    *out = ws;
    return BERTH_OK;
}

void berth_http_websocket_free(struct berth_http_websocket *ws)
{
    if (ws)
        websocket_destroy(ws);
}

void berth_http_websocket_begin(struct berth_http_websocket *ws, struct berth_http_exchange *x,
                                const struct berth_http_websocket_handlers *handlers)
{
    struct berth_http_answer head = {
        .status = 101,
        .more = {{"Upgrade", "websocket"},
                 {"Sec-WebSocket-Accept", ws->accept},
                 {ws->protocol ? "Sec-WebSocket-Protocol" : NULL, ws->protocol}}};
    struct berth_http_stream_handlers ours = {.on_room = on_websocket_room,
                                              .on_gone = on_websocket_gone,
                                              .on_bytes = on_websocket_bytes,
                                              .on_drain = on_websocket_drain,
                                              .ctx = ws};
    ws->x = x;
    ws->handlers = *handlers;
    ws->depth++;
    berth_http_stream_begin(x, &head, &ours);
    websocket_leave(ws);
}

void berth_http_websocket_hold(struct berth_http_websocket *ws, bool held)
{
    ws->held = held;
    if (held || ws->depth > 0) /* the read in progress goes on by itself */
        return;
    ws->depth++;
    berth_http_stream_read_on(ws->x);
    websocket_leave(ws);
}

bool berth_http_websocket_beat(struct berth_http_websocket *ws)
{
    static const struct wslay_event_msg ping = {.opcode = WSLAY_PING};
    bool alive = !ws->asked || ws->heard || is_held(ws); /* held: the pong may be unread here */
    ws->heard = false;
    ws->asked = true;
    ws->depth++;
    if (alive && wslay_event_queue_msg(ws->wslay, &ping) == 0)
        websocket_flush(ws);
    websocket_leave(ws);
    return alive;
}

void berth_http_websocket_end(struct berth_http_websocket *ws, enum berth_http_close code)
{
    ws->over = true;
    ws->depth++;
    hang_up(ws, code);
    berth_http_stream_end(ws->x);
    websocket_leave(ws);
}
