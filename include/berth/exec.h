/* SPDX-License-Identifier: Apache-2.0
 * include/berth/exec.h - runs a command in the place of a lease, with callbacks for its output and
 * end. */
#ifndef BERTH_EXEC_H
#define BERTH_EXEC_H

#include <berth/common.h>

/* The output streams of a command. */
enum berth_stream {
    BERTH_STDOUT, /* with a terminal: all output */
    BERTH_STDERR,
};

/* Why a command ended. */
enum berth_end_cause {
    BERTH_END_EXITED,
    BERTH_END_SIGNALLED, /* by a signal that this library did not send */
    BERTH_END_TIMEOUT,   /* by this library, after timeout_ms */
    BERTH_END_CANCELLED, /* by berth_exec_cancel, berth_close, or the end of its lease */
    BERTH_END_LOST,      /* unknown: the connection broke, or the exit status was not available */
};

struct berth_exec_end {
    enum berth_end_cause cause;
    int exit_code;     /* 0 to 255; -1: ended by a signal, or unknown */
    int signal;        /* the number of the signal that ended it, or 0 */
    uint64_t bytes[2]; /* output of each stream, before secrets are masked and the log is cut */
    /* Output of this stream is missing: a background process kept the stream open after the command
     * had ended, or a plugin worker did not repeat streamed output that had been skipped. */
    bool cut[2];
    int64_t started_at_ms, finished_at_ms;
};
/* Returns the name of a cause in JSON. */
BERTH_API const char *berth_end_cause_name(enum berth_end_cause cause);

/* Callbacks for a running command. Each may be NULL. on_output and on_stdin_room run on the
 * library's event thread and must not block. */
struct berth_exec_handlers {
    /* Receives output, with secrets masked. `bytes` is valid during the call. */
    void (*on_output)(void *ctx, enum berth_stream stream, const char *bytes, size_t len);
    /* Tells that input was passed on, so that berth_exec_write has room again. */
    void (*on_stdin_room)(void *ctx);
    /* Tells how the command ended, after its log is complete. It is the last callback. It runs on a
     * worker thread of the library, or on the thread that is in berth_exec_wait. */
    void (*on_end)(void *ctx, const struct berth_exec_end *end);
    /* on_end does not block. It may then also run on the event thread, which is faster. */
    bool quick_end;
    void *ctx; /* passed to each callback */
};

/* A command to run. Initialise with BERTH_EXEC_REQUEST_INIT. */
struct berth_exec_request {
    const char *lease_id;
    const char *const *argv; /* the program and its arguments, terminated by NULL */
    /* Variables for the command as "NAME=value", terminated by NULL; or NULL. Names that begin with
     * BERTH_ are refused. */
    const char *const *env;
    /* The working directory. NULL: the lease's own directory for local and ssh, and the provider's
     * choice otherwise. With local, a relative one is below the lease's own. */
    const char *cwd;
    /* The caller writes standard input; false: it is empty. The places of plugins start such a
     * command only when its input is closed. */
    bool with_stdin;
    /* A person types the input. The places of plugins then start the command at once, with empty
     * input. */
    bool typed_stdin;
    bool terminal;                /* run in a pseudo-terminal: all output is BERTH_STDOUT */
    unsigned short rows, columns; /* the size of the terminal */
    int64_t timeout_ms;           /* end the command after this time; 0: no limit */
    int64_t grace_ms;             /* time between the request to end and the forced end */
    uint64_t log_bytes_max; /* bytes of each stream to keep in the log; 0: as in the settings */
    /* Values to mask in the output, also in the log, and in the record. Values shorter than 6 bytes
     * are not masked. */
    const struct berth_locked *secrets;
    int secret_count;
};
#define BERTH_EXEC_REQUEST_INIT                                                                    \
    {                                                                                              \
        .rows = 24, .columns = 80, .grace_ms = 5000                                                \
    }

/* One command. Any thread may call the functions below until berth_exec_free. */
struct berth_exec;

/* Starts a command in the place of an active lease and returns without waiting for it. Callbacks
 * may run before this function returns. The command sees the variables of the request, PATH, HOME,
 * TERM with a terminal, and BERTH_EXEC_ID, BERTH_LEASE_ID, BERTH_ENVIRONMENT_ID, BERTH_COMPANY_ID
 * and BERTH_RUN_ID; it inherits no other variable of this process. The caller frees *out with
 * berth_exec_free.
 * NOT_FOUND: the lease or the program does not exist. DENIED: the program may not be executed.
 * Places that report this later end the command with exit code 127 or 126 instead.
 * CONFLICT: the lease is not active, or has expired. UNSUPPORTED: the driver runs no commands. */
BERTH_API int berth_exec_start(struct berth *b, const struct berth_exec_request *request,
                               const struct berth_exec_handlers *handlers, struct berth_exec **out,
                               struct berth_error *err);
/* Waits until the command has ended and its log is complete, and writes how it ended to *end. Must
 * not be called from a callback. */
BERTH_API void berth_exec_wait(struct berth_exec *x, struct berth_exec_end *end);
/* Asks the command to end, and forces it after grace_ms. Does not wait. Calling it again, or after
 * the end, is allowed. */
BERTH_API void berth_exec_cancel(struct berth_exec *x);
/* Queues a copy of the bytes for the command's standard input. UNAVAILABLE: too much input is
 * queued; try again after on_stdin_room. CONFLICT: standard input is closed. TOO_LARGE: a place of
 * a plugin, which takes its input as a whole, has no memory for it; the command does not start, and
 * ends with status 126 when its input is closed. A write of no bytes counts as input: the worker of
 * a plugin is then sent an empty input instead of none. */
BERTH_API int berth_exec_write(struct berth_exec *x, const void *bytes, size_t len,
                               struct berth_error *err);
/* Closes the command's standard input after the queued input. */
BERTH_API void berth_exec_close_stdin(struct berth_exec *x);
/* Pauses or resumes the reading of output. The command blocks when its pipes are full; a plugin
 * worker is not blocked, and returns the output at the end instead. */
BERTH_API void berth_exec_pause(struct berth_exec *x, bool paused);
/* Changes the size of the terminal. No effect without a terminal. */
BERTH_API void berth_exec_resize(struct berth_exec *x, unsigned short rows, unsigned short columns);
/* Returns the id of the command. It lives until berth_exec_free. */
BERTH_API const char *berth_exec_id(const struct berth_exec *x);
/* Returns the path of the log. The file is created with the first output. The path lives until
 * berth_exec_free. */
BERTH_API const char *berth_exec_log(const struct berth_exec *x);
/* Waits for the end of the command and frees it. Must not be called from a callback. NULL is
 * allowed. */
BERTH_API void berth_exec_free(struct berth_exec *x);
#endif
