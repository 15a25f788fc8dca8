/* SPDX-License-Identifier: Apache-2.0
 * src/os/capture.h - runs a program to its end and keeps its output. For threads that may wait. */
#ifndef BERTH_OS_CAPTURE_H
#define BERTH_OS_CAPTURE_H

#include "base/buf.h"
#include "os/process.h"

struct berth_capture {
    struct berth_process_options options; /* argv, env, cwd */
    /* Starts the program. NULL: berth_process_start does. */
    int (*start)(void *ctx, struct berth_engine *engine,
                 const struct berth_process_options *options,
                 const struct berth_exec_handlers *handlers, struct berth_process **out,
                 struct berth_error *err);
    void *ctx;
    const char *name;  /* for error texts */
    const void *input; /* its standard input; NULL: empty */
    size_t input_len;
    int64_t deadline_ms; /* by base/time's monotonic clock; INT64_MAX: none */
    int cancel_fd;       /* becomes readable when the caller gives up; -1: never */
    int64_t grace_ms;    /* between SIGTERM and SIGKILL; 0: half a second */
    /* The result. Output beyond the limits of the buffers is dropped. */
    struct berth_buf streams[2];
    struct berth_exec_end end;
};
#define BERTH_CAPTURE_INIT(limit)                                                                  \
    {                                                                                              \
        .options = BERTH_PROCESS_OPTIONS_INIT, .deadline_ms = INT64_MAX, .cancel_fd = -1,          \
        .streams = {                                                                               \
            BERTH_BUF_INIT(limit),                                                                 \
            BERTH_BUF_INIT(limit)                                                                  \
        }                                                                                          \
    }

/* Runs the program and waits for its end; not on the engine's thread. Returns OK whatever its exit
 * status is, TIMEOUT or CANCELLED when it was ended for that reason, or an error of the start. */
int berth_capture_run(struct berth_engine *engine, struct berth_capture *c,
                      struct berth_error *err);
void berth_capture_clear(struct berth_capture *c);
#define auto_capture __attribute__((cleanup(berth_capture_clear))) struct berth_capture
#endif
