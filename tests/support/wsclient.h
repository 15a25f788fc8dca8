/* SPDX-License-Identifier: Apache-2.0
 * tests/support/wsclient.h - the client's side of a WebSocket, frame by frame, for tests. Each
 * fails the test when nothing comes for a while. */
#ifndef BERTH_TESTS_WSCLIENT_H
#define BERTH_TESTS_WSCLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define WS_KEY "dGhlIHNhbXBsZSBub25jZQ=="
#define WS_ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
#define WS_HANDSHAKE                                                                               \
    "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n"       \
    "Sec-WebSocket-Key: " WS_KEY "\r\n"

enum { WS_MORE = 0, WS_TEXT = 1, WS_BINARY = 2, WS_CLOSE = 8, WS_PING = 9, WS_PONG = 10 };

struct ws {
    int fd;
    struct berth_buf in; /* came, and was not looked at */
    int opcode;          /* of the last frame */
    struct berth_buf data;
};

/* Asks for a WebSocket by a connection, which is closed with it; its answer's status. The head is
 * left in ws->data. */
int ws_open(struct ws *ws, int fd, const char *path, const char *headers);
/* The same, with a text message right behind the request. */
int ws_open_saying(struct ws *ws, int fd, const char *path, const char *headers, const char *text);
void ws_close(struct ws *ws); /* without a word */

/* A masked frame as bytes, so that it can be cut or spoilt; `first` has FIN, RSV and the opcode. */
void ws_frame(struct berth_buf *out, int first, const void *bytes, size_t len);
void ws_send(struct ws *ws, int opcode, const void *bytes, size_t len);
/* The bytes over and over, up to `max`, until no more are taken; how many were. */
size_t ws_push(struct ws *ws, const char *bytes, size_t len, size_t max);
void ws_say(struct ws *ws, const char *json); /* text; ' stands for " */

/* The next frame; false: the other side has closed the connection. */
bool ws_next(struct ws *ws);
/* Reads the next message that is not a ping, and checks its kind and text (' stands for "). */
void ws_expect(struct ws *ws, int opcode, const char *text);
int ws_code(const struct ws *ws); /* of the WS_CLOSE that came; 0: there was none in it */
/* Passes over all until WS_CLOSE, and the end behind it; its code. */
int ws_await_close(struct ws *ws);
#endif
