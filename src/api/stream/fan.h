/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/fan.h - output of a command for its watches. It is collected while it comes, and
 * handed out in rounds: each watch gets all of a round in one write. When a round takes longer than
 * the command needs to fill the next, output is left out, and watches that miss it read the log. On
 * the loop's thread. */
#ifndef BERTH_API_STREAM_FAN_H
#define BERTH_API_STREAM_FAN_H

#include "api/stream/log_cursor.h"
#include "api/stream/output_format.h"

#define BERTH_API_FAN_TEXTS 8 /* that are kept during a round */

/* Output that was collected. */
struct berth_api_fan_batch {
    struct berth_api_piece *pieces; /* in the order of `bytes`; their ids are not used */
    size_t count, cap;
    struct berth_buf bytes;
    uint64_t until[2]; /* the offset, in each stream, after all output so far */
};

/* A round as it is written for all watches with the same format and position. */
struct berth_api_fan_text {
    const struct berth_api_output_format *format;
    int stream;
    uint64_t before, from[2]; /* as in the cursor */
    uint64_t to[2];           /* seen afterwards */
    struct berth_buf text;
};

struct berth_api_fan {
    struct berth_api_fan_batch next, now; /* `now` is being handed out */
    bool handing;                         /* a round has begun */
    struct berth_api_fan_text texts[BERTH_API_FAN_TEXTS];
    size_t text_count; /* made in this round */
};

/* Collects output that begins at that offset of its stream. */
void berth_api_fan_add(struct berth_api_fan *fan, enum berth_stream stream, uint64_t offset,
                       const char *bytes, size_t len);
/* Begins a round with what was collected. Returns false when there is nothing. */
bool berth_api_fan_begin(struct berth_api_fan *fan);
/* Returns what a watch with this cursor gets in this round, and moves the cursor. Returns NULL when
 * the watch has to read the log; the cursor is not moved then. */
const struct berth_buf *berth_api_fan_give(struct berth_api_fan *fan,
                                           struct berth_api_log_cursor *cursor);
void berth_api_fan_end(struct berth_api_fan *fan); /* of the round */
void berth_api_fan_clear(struct berth_api_fan *fan);
#endif
