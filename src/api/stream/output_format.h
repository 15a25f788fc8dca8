/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/output_format.h - how the output of a command is written to a client: as bare
 * bytes, as server-sent events, or as messages of a WebSocket. */
#ifndef BERTH_API_STREAM_OUTPUT_FORMAT_H
#define BERTH_API_STREAM_OUTPUT_FORMAT_H

#include <berth/exec.h>

#include "base/buf.h"

#define BERTH_API_EVENTS_BYTES_MAX ((size_t)1024 * 1024) /* of a buffer with events */

extern const char *const berth_api_stream_names[2]; /* "stdout" and "stderr" */

/* Output of one stream. */
struct berth_api_piece {
    uint64_t id; /* the client's offset after the piece */
    enum berth_stream stream;
    uint64_t offset; /* in its stream */
    int64_t at_ms;   /* when it was written, by the wall clock */
    const char *bytes;
    size_t len; /* as berth_api_piece_len says */
};
/* Returns how many of the bytes fit into one event. Does not split a character if it can. */
size_t berth_api_piece_len(const char *bytes, size_t len);

struct berth_api_output_format {
    const char *type; /* content type of the answer; NULL for a WebSocket */
    void (*output)(struct berth_buf *out, const struct berth_api_piece *piece);
    /* Writes an event whose data are the members of an object. NULL: only output is sent. */
    void (*event)(struct berth_buf *out, const char *name, uint64_t id,
                  const struct berth_buf *members);
};
extern const struct berth_api_output_format berth_api_format_bytes, berth_api_format_events,
    berth_api_format_messages;

/* Writes an event if the format has events. */
void berth_api_put_event(const struct berth_api_output_format *format, struct berth_buf *out,
                         const char *name, uint64_t id, const struct berth_buf *members);
#endif
