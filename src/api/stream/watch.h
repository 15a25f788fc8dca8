/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/watch.h - somebody who reads what commands write: those of a run, or one. A watch
 * reads the log at its reader's pace and holds no thread, file or buffer in between; one that has
 * read all of it hears the command itself, and goes back to the log when its reader cannot follow.
 */
#ifndef BERTH_API_STREAM_WATCH_H
#define BERTH_API_STREAM_WATCH_H

#include <berth/exec.h>

#include "api/stream/live.h"
#include "http/websocket.h"

struct berth_api_watch_options {
    const char *exec_id, *run_id; /* one of the two */
    int stream;                   /* enum berth_stream, or -1: both */
    uint64_t offset;              /* bytes of what is wanted that are not wanted any more */
    bool events;                  /* server-sent events, else bytes */
    /* Messages, and those of the client are heard, too; taken over. Or NULL. */
    struct berth_http_websocket *websocket;
    bool follow;   /* to its end, also what is still to be written */
    bool announce; /* an event says first which exec it is */
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
