/* SPDX-License-Identifier: Apache-2.0
 * tests/support/wsclient.c - see wsclient.h. */
#include "wsclient.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"

#define PATIENCE_MS 120000
#define TAKING_MS 300
#define BYTES_MAX ((size_t)64 * 1024 * 1024)

/* False: it is the end. */
static bool read_more(struct ws *ws)
{
    struct pollfd in = {.fd = ws->fd, .events = POLLIN};
    char chunk[65536];
    if (poll(&in, 1, PATIENCE_MS) != 1)
        fail_msg("nothing came");
    ssize_t got = recv(ws->fd, chunk, sizeof chunk, 0);
    if (got > 0)
        berth_buf_append(&ws->in, chunk, (size_t)got);
    return got > 0;
}

static void drop(struct ws *ws, size_t len)
{
    memmove(ws->in.data, ws->in.data + len, ws->in.len - len);
    berth_buf_truncate(&ws->in, ws->in.len - len);
}

static void set_data(struct ws *ws, const char *bytes, size_t len)
{
    berth_buf_truncate(&ws->data, 0);
    berth_buf_append(&ws->data, bytes, len);
}

int ws_open(struct ws *ws, int fd, const char *path, const char *headers)
{
    return ws_open_saying(ws, fd, path, headers, NULL);
}

int ws_open_saying(struct ws *ws, int fd, const char *path, const char *headers, const char *text)
{
    auto_buf request = BERTH_BUF_INIT(4000);
    int status = 0;
    *ws = (struct ws){.fd = fd, .in = BERTH_BUF_INIT(BYTES_MAX), .data = BERTH_BUF_INIT(BYTES_MAX)};
    berth_buf_printf(&request, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, headers);
    if (text)
        ws_frame(&request, 0x80 | WS_TEXT, text, strlen(text));
    assert_int_equal(send(fd, request.data, request.len, MSG_NOSIGNAL), (ssize_t)request.len);
    char *gap = NULL;
    while (!(ws->in.len && (gap = strstr(ws->in.data, "\r\n\r\n"))))
        if (!read_more(ws))
            fail_msg("no answer: %s", berth_buf_str(&ws->in));
    size_t head = (size_t)(gap - ws->in.data) + 4;
    set_data(ws, ws->in.data, head);
    drop(ws, head);
    assert_int_equal(sscanf(ws->data.data, "HTTP/1.1 %d ", &status), 1);
    return status;
}

void ws_close(struct ws *ws)
{
    (void)close(ws->fd);
    ws->fd = -1;
    berth_buf_clear(&ws->in);
    berth_buf_clear(&ws->data);
}

void ws_frame(struct berth_buf *out, int first, const void *bytes, size_t len)
{
    static const unsigned char mask[4] = {0x12, 0x34, 0x56, 0x78};
    unsigned char head[10] = {(unsigned char)first};
    int more = len < 126 ? 0 : len <= UINT16_MAX ? 2 : 8;
    head[1] = (unsigned char)(0x80 | (more == 0 ? len : more == 2 ? 126 : 127));
    for (int i = 0; i < more; i++)
        head[1 + more - i] = (unsigned char)((uint64_t)len >> (8 * i));
    berth_buf_append(out, head, 2 + (size_t)more);
    berth_buf_append(out, mask, sizeof mask);
    size_t at = out->len;
    berth_buf_append(out, bytes, len);
    for (size_t i = 0; i < len; i++)
        out->data[at + i] = (char)(out->data[at + i] ^ mask[i % 4]);
}

void ws_send(struct ws *ws, int opcode, const void *bytes, size_t len)
{
    auto_buf out = BERTH_BUF_INIT(len + 64);
    ws_frame(&out, 0x80 | opcode, bytes, len);
    for (size_t at = 0; at < out.len;) {
        ssize_t sent = send(ws->fd, out.data + at, out.len - at, MSG_NOSIGNAL);
        assert_true(sent > 0);
        at += (size_t)sent;
    }
}

size_t ws_push(struct ws *ws, const char *bytes, size_t len, size_t max)
{
    size_t sent = 0;
    while (sent < max) {
        struct pollfd out = {.fd = ws->fd, .events = POLLOUT};
        if (poll(&out, 1, TAKING_MS) != 1)
            break;
        ssize_t got =
            send(ws->fd, bytes + sent % len, len - sent % len, MSG_DONTWAIT | MSG_NOSIGNAL);
        assert_true(got > 0 || errno == EAGAIN);
        sent += got > 0 ? (size_t)got : 0;
    }
    return sent;
}

static char *quoted(const char *text)
{
    char *copy = strdup(text);
    for (char *c = copy; *c; c++)
        if (*c == '\'')
            *c = '"';
    return copy;
}

void ws_say(struct ws *ws, const char *json)
{
    auto_free char *text = quoted(json);
    ws_send(ws, WS_TEXT, text, strlen(text));
}

/* The length of the frame that begins what came, and of its head; false: it is not all there. */
static bool measure(const struct ws *ws, size_t *head, size_t *len)
{
    const unsigned char *at = (const unsigned char *)ws->in.data;
    if (ws->in.len < 2)
        return false;
    assert_int_equal(at[1] & 0x80, 0); /* a server masks nothing */
    assert_int_equal(at[0] & 0x70, 0);
    int more = at[1] < 126 ? 0 : at[1] == 126 ? 2 : 8;
    *head = 2 + (size_t)more;
    *len = at[1];
    if (ws->in.len < *head)
        return false;
    if (more)
        *len = 0;
    for (int i = 0; i < more; i++)
        *len = *len << 8 | at[2 + i];
    return ws->in.len >= *head + *len;
}

bool ws_next(struct ws *ws)
{
    size_t head, len;
    while (!measure(ws, &head, &len))
        if (!read_more(ws)) {
            assert_int_equal(ws->in.len, 0); /* no half of a frame */
            return false;
        }
    ws->opcode = (unsigned char)ws->in.data[0] & 0x0f;
    assert_true((unsigned char)ws->in.data[0] & 0x80);
    set_data(ws, ws->in.data + head, len);
    drop(ws, head + len);
    return true;
}

void ws_expect(struct ws *ws, int opcode, const char *text)
{
    auto_free char *wanted = quoted(text);
    do
        assert_true(ws_next(ws));
    while (ws->opcode == WS_PING);
    if (ws->opcode != opcode || ws->data.len != strlen(wanted) ||
        memcmp(berth_buf_str(&ws->data), wanted, ws->data.len) != 0)
        fail_msg("opcode %d, %zu bytes: %s", ws->opcode, ws->data.len, berth_buf_str(&ws->data));
}

int ws_code(const struct ws *ws)
{
    const unsigned char *at = (const unsigned char *)ws->data.data;
    return ws->opcode == WS_CLOSE && ws->data.len >= 2 ? at[0] << 8 | at[1] : 0;
}

int ws_await_close(struct ws *ws)
{
    do
        if (!ws_next(ws))
            fail_msg("it ended without a word");
    while (ws->opcode != WS_CLOSE);
    int code = ws_code(ws);
    assert_false(ws_next(ws));
    return code;
}
