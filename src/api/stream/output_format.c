/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/output_format.c - see output_format.h. */
#include "api/stream/output_format.h"

#include <string.h>

#include "base/base64.h"
#include "base/json.h"
#include "base/utf8.h"
#include "http/websocket.h"

#define PIECE_BYTES_MAX ((size_t)8 * 1024) /* of output, in one event */

const char *const berth_api_stream_names[2] = {"stdout", "stderr"};

size_t berth_api_piece_len(const char *bytes, size_t len)
{
    size_t piece = len < PIECE_BYTES_MAX ? len : PIECE_BYTES_MAX;
    size_t whole = piece < len ? berth_utf8_whole(bytes, piece) : piece;
    return whole ? whole : piece;
}

static void put_bytes(struct berth_buf *out, const struct berth_api_piece *p)
{
    berth_buf_append(out, p->bytes, p->len);
}

static void put_sse(struct berth_buf *out, const char *name, uint64_t id,
                    const struct berth_buf *members)
{
    berth_buf_printf(out, "id: %llu\nevent: %s\ndata: {", (unsigned long long)id, name);
    berth_buf_append(out, members->data, members->len);
    berth_buf_puts(out, "}\n\n");
}

/* Writes bytes that are not valid UTF-8 as base64. */
static void put_sse_output(struct berth_buf *out, const struct berth_api_piece *p)
{
    auto_buf members = BERTH_BUF_INIT(BERTH_API_EVENTS_BYTES_MAX);
    struct berth_json_writer w = {.buf = &members};
    char copy[PIECE_BYTES_MAX + 1], text[BERTH_BASE64_SIZE(PIECE_BYTES_MAX)];
    memcpy(copy, p->bytes, p->len);
    copy[p->len] = '\0';
    berth_json_put_str(&w, "stream", berth_api_stream_names[p->stream]);
    berth_json_put_int(&w, "offset", (int64_t)p->offset);
    berth_json_put_time(&w, "at", p->at_ms);
    if (berth_utf8_valid_bytes(copy, p->len)) {
        berth_json_put_bytes(&w, "data", copy, p->len);
    } else {
        berth_base64_encode(copy, p->len, text);
        berth_json_put_str(&w, "base64", text);
    }
    put_sse(out, "output", p->id, &members);
    out->failed |= members.failed;
}

static void put_message(struct berth_buf *out, const char *name, uint64_t id,
                        const struct berth_buf *members)
{
    static const char type[] = "{\"type\":\"", next[] = "\",", end[] = "}";
    (void)id; /* WebSocket clients count the bytes themselves */
    berth_http_websocket_frame(out, true,
                               sizeof type - 1 + strlen(name) + sizeof next - 1 + members->len +
                                   sizeof end - 1);
    berth_buf_printf(out, "%s%s%s", type, name, next);
    berth_buf_append(out, members->data, members->len);
    berth_buf_puts(out, end);
}

/* Writes a binary message: one byte for the stream, then the output. */
static void put_message_output(struct berth_buf *out, const struct berth_api_piece *p)
{
    char stream = p->stream == BERTH_STDERR ? 2 : 1;
    berth_http_websocket_frame(out, false, 1 + p->len);
    berth_buf_append(out, &stream, 1);
    berth_buf_append(out, p->bytes, p->len);
}

const struct berth_api_output_format berth_api_format_bytes = {"application/octet-stream",
                                                               put_bytes, NULL},
                                     berth_api_format_events = {"text/event-stream", put_sse_output,
                                                                put_sse},
                                     berth_api_format_messages = {NULL, put_message_output,
                                                                  put_message};

void berth_api_put_event(const struct berth_api_output_format *format, struct berth_buf *out,
                         const char *name, uint64_t id, const struct berth_buf *members)
{
    if (!format->event)
        return;
    format->event(out, name, id, members);
    out->failed |= members->failed;
}
