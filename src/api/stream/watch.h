/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/watch.h - streams the output of one command, or of all commands of a run, to a
 * client. A watch reads the log at the client's pace and holds no thread, file or buffer in
 * between. When it has read the whole log, it receives the output from the command itself. It
 * returns to the log when the client is too slow. */
#ifndef BERTH_API_STREAM_WATCH_H
#define BERTH_API_STREAM_WATCH_H

#include <berth/exec.h>

#include "api/stream/live.h"
#include "http/websocket.h"

struct berth_api_watch_options {
    const char *exec_id, *run_id; /* one of the two */
    int stream;                   /* enum berth_stream, or -1: both */
    uint64_t offset;              /* bytes of the selected output to skip */
    bool events;                  /* server-sent events, else bytes */
    /* Carries output and the client's messages; taken over. Or NULL. */
    struct berth_http_websocket *websocket;
    bool follow;   /* until the command ends, including later output */
    bool announce; /* the first event names the exec */
    bool cancel;   /* the command ends when the reader leaves */
};
struct berth_api_call;
/* Answers the exchange of the call, later; from any thread. On failure nothing is taken over. */
int berth_api_watch_start(const struct berth_api_call *c,
                          const struct berth_api_watch_options *options, struct berth_error *err);

/* Reads ?stream=stdout&offset=12&follow=true and Last-Event-ID. */
int berth_api_watch_query(struct berth_api_call *c, struct berth_api_watch_options *out,
                          struct berth_error *err);
#endif
