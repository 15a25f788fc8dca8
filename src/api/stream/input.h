/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/input.h - what the client of a WebSocket says to a running command: bytes for its
 * standard input, as fast as it takes them, and wishes. All on the loop's thread. */
#ifndef BERTH_API_STREAM_INPUT_H
#define BERTH_API_STREAM_INPUT_H

#include "api/stream/live.h"
#include "api/stream/stream.h"

struct berth_api_input {
    struct berth_api *api;
    struct berth_api_stream *s;
    char exec_id[BERTH_ID_SIZE];
    struct berth_buf bytes; /* that the command has not taken yet, from `at` on */
    size_t at;
    bool closing; /* nothing more comes behind them */
    struct berth_api_waiter waiter;
};

void berth_api_input_init(struct berth_api_input *in, struct berth_api *api, const char *exec_id,
                          struct berth_api_stream *s);
void berth_api_input_clear(struct berth_api_input *in); /* what was not taken is lost */
/* A message. What is wrong with it is told to the client, who may go on. */
void berth_api_input_hear(struct berth_api_input *in, bool text, const char *bytes, size_t len);
#endif
