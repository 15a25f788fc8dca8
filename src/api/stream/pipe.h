/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/pipe.h - bytes between the loop and a handler that blocks on a thread of its own:
 * the body of a request as it arrives, and an answer that is sent while it is made. Both hold at
 * most a few pieces in memory; the slower side decides the speed. */
#ifndef BERTH_API_STREAM_PIPE_H
#define BERTH_API_STREAM_PIPE_H

#include "api/call.h"
#include "sync/pack.h"

/* A request that is answered by a thread that blocks. */
struct berth_api_pipe;

/* Begins to watch the client of a call. With `reads_body` the body is read, up to `body_max` bytes;
 * the route has `streams` set. From a thread that may block, which then calls
 * berth_api_pipe_close. */
int berth_api_pipe_open(struct berth_api_call *c, bool reads_body, int64_t body_max,
                        struct berth_api_pipe **out, struct berth_error *err);
/* Returns a descriptor that becomes readable when the client has left, or its token is not good any
 * more. */
int berth_api_pipe_left_fd(const struct berth_api_pipe *p);

/* Waits for bytes of the body. Returns their number, and they are valid until the next call; 0: the
 * body is complete. `sink` is where they go, or NULL: the wait ends when it takes no more.
 * CANCELLED: the client has left, or the daemon stops. */
ssize_t berth_api_pipe_get(struct berth_api_pipe *p, const struct berth_pack_sink *sink,
                           const void **bytes, struct berth_error *err);

/* Begins the answer: a status, a content type, and more headers. */
void berth_api_pipe_begin(struct berth_api_pipe *p, int status, const char *type,
                          const struct berth_http_header more[BERTH_HTTP_MORE_MAX]);
/* Sends a piece of the answer; waits while the client does not read. `pipe` is a berth_api_pipe.
 * CANCELLED: the client has left. */
int berth_api_pipe_put(void *pipe, const void *bytes, size_t len, struct berth_error *err);

/* Ends the call, and frees the pipe. If the answer has begun, it ends here; rc < 0: the client sees
 * that it is not whole. If it has not begun, the call or the error is the answer. Returns what the
 * handler returns. */
int berth_api_pipe_close(struct berth_api_pipe *p, int rc, const struct berth_error *err);
#endif
