/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/input.h - handles the messages of a WebSocket client to a running command: bytes
 * for its standard input, as fast as the command takes them, and requests. All on the loop's
 * thread. */
#ifndef BERTH_API_STREAM_INPUT_H
#define BERTH_API_STREAM_INPUT_H

#include "api/stream/live.h"
#include "api/stream/stream.h"

struct berth_api_input {
    struct berth_api *api;
    struct berth_api_stream *s;
    char exec_id[BERTH_ID_SIZE];
    struct berth_buf bytes; /* from `at` on: not taken by the command yet */
    size_t at;
    bool closing; /* close standard input after these bytes */
    struct berth_api_waiter waiter;
};

void berth_api_input_init(struct berth_api_input *in, struct berth_api *api, const char *exec_id,
                          struct berth_api_stream *s);
void berth_api_input_clear(struct berth_api_input *in); /* bytes that were not taken are lost */
/* Handles a message. The client is told of a faulty message and may go on. */
void berth_api_input_hear(struct berth_api_input *in, bool text, const char *bytes, size_t len);
#endif
