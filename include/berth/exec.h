/* SPDX-License-Identifier: Apache-2.0
 * include/berth/exec.h - running a command in the place of a lease: its streams, its end. */
#ifndef BERTH_EXEC_H
#define BERTH_EXEC_H

#include <berth/common.h>

enum berth_stream {
    BERTH_STDOUT,
    BERTH_STDERR, /* none with a terminal: all is stdout there */
};

enum berth_end_cause {
    BERTH_END_EXITED,
    BERTH_END_SIGNALLED, /* by somebody else */
    BERTH_END_TIMEOUT,
    BERTH_END_CANCELLED,
    BERTH_END_LOST, /* nobody can say how: the way to it broke, or somebody took its status */
};

struct berth_exec_end {
    enum berth_end_cause cause;
    int exit_code;     /* -1: a signal ended it, or nobody knows */
    int signal;        /* or 0 */
    uint64_t bytes[2]; /* of each stream, to the byte */
    bool cut[2]; /* there was more: somebody still held the pipe when we stopped reading it, or
                  * the answer of a worker lacked what we did not hear */
    int64_t started_at_ms, finished_at_ms; /* by the wall clock */
};
BERTH_API const char *berth_end_cause_name(enum berth_end_cause cause);

/* on_output and on_stdin_room run on the engine's thread and must not block; `bytes` live for the
 * call. on_end is the last call, from a thread of the pool or of whoever waits for the exec. Each
 * may be NULL. */
struct berth_exec_handlers {
    void (*on_output)(void *ctx, enum berth_stream stream, const char *bytes, size_t len);
    void (*on_stdin_room)(void *ctx); /* what was written has gone */
    void (*on_end)(void *ctx, const struct berth_exec_end *end);
    /* on_end does not block: it may come on the engine's thread, and no other is woken for it. */
    bool quick_end;
    void *ctx;
};

struct berth_exec_request {
    const char *lease_id;
    const char *const *argv; /* the command, closed by NULL */
    const char *const *env;  /* variables for it, "NAME=value"; closed by NULL; or NULL */
    const char *cwd;         /* NULL: where realize said, else the place's own */
    bool with_stdin;         /* else it reads nothing */
    bool typed_stdin;        /* by a person: a place that must have all of it first gets none */
    bool terminal;           /* a PTY: one stream, and stdin */
    unsigned short rows, columns;
    int64_t timeout_ms;     /* 0: none */
    int64_t grace_ms;       /* between asking it to end and ending it */
    uint64_t log_bytes_max; /* kept of each stream, the rest is counted; 0: by the settings */
    /* Values that must not be seen in any copy of its output; those under 6 bytes cannot be hidden.
     */
    const struct berth_locked *secrets;
    int secret_count;
};
#define BERTH_EXEC_REQUEST_INIT                                                                    \
    {                                                                                              \
        .rows = 24, .columns = 80, .grace_ms = 5000                                                \
    }

struct berth_exec; /* one command; calls on it may come from any thread */

/* The command runs when this returns. It sees the named variables, PATH and HOME, and who it runs
 * for (BERTH_LEASE_ID, BERTH_RUN_ID, BERTH_EXEC_ID ...), and nothing else of ours.
 * NOT_FOUND: no such program (127 in a shell). DENIED: it may not be run (126). CONFLICT: the lease
 * is not active. UNSUPPORTED: its driver cannot run commands; nothing runs here instead. */
BERTH_API int berth_exec_start(struct berth *b, const struct berth_exec_request *request,
                               const struct berth_exec_handlers *handlers, struct berth_exec **out,
                               struct berth_error *err);
/* Waits for its end, and for its log to be whole. */
BERTH_API void berth_exec_wait(struct berth_exec *x, struct berth_exec_end *end);
BERTH_API void berth_exec_cancel(struct berth_exec *x); /* at any moment; twice is fine */
/* The bytes are copied. UNAVAILABLE: too much is waiting; on_stdin_room says when to try again.
 * CONFLICT: stdin is closed. */
BERTH_API int berth_exec_write(struct berth_exec *x, const void *bytes, size_t len,
                               struct berth_error *err);
BERTH_API void berth_exec_close_stdin(struct berth_exec *x);
/* Stops and goes on reading its output: it waits when its pipes are full. */
BERTH_API void berth_exec_pause(struct berth_exec *x, bool paused);
BERTH_API void berth_exec_resize(struct berth_exec *x, unsigned short rows, unsigned short columns);
BERTH_API const char *berth_exec_id(const struct berth_exec *x);
BERTH_API const char *berth_exec_log(const struct berth_exec *x); /* the file */
/* Waits for its end, so not from its on_end; NULL is fine. */
BERTH_API void berth_exec_free(struct berth_exec *x);
#endif
