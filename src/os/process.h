/* SPDX-License-Identifier: Apache-2.0
 * src/os/process.h - programs that an engine waits for: started, written to, listened to, ended
 * with their tree. */
#ifndef BERTH_OS_PROCESS_H
#define BERTH_OS_PROCESS_H

#include <berth/exec.h>

#include "os/engine.h"

struct berth_confinement;

struct berth_process_options {
    const char *const *argv, *const *env; /* as in spawn.h */
    const char *cwd;
    bool with_stdin; /* else /dev/null */
    bool terminal;   /* a PTY: one stream, and stdin */
    unsigned short rows, columns;
    /* Runs the program below an init of this user (inits.h): nothing that it starts outlives it,
     * and all of it ends with us. NULL: without an init. */
    const char *init_user;
    int64_t timeout_ms; /* 0: none */
    int64_t grace_ms;   /* between SIGTERM and SIGKILL */
    int64_t linger_ms;  /* after its end, for what still holds its pipes */
    /* Or NULL; not below an init. One that dies with its owner is started on the engine's thread.
     */
    const struct berth_confinement *confinement;
};
#define BERTH_PROCESS_OPTIONS_INIT                                                                 \
    {                                                                                              \
        .rows = 24, .columns = 80, .grace_ms = 5000, .linger_ms = 1000                             \
    }

struct berth_process;

/* The program runs when this returns; no handler is called if it fails. All handlers run on the
 * engine's thread. Without on_output what comes is counted and dropped. The process may be freed
 * from its on_end on. */
int berth_process_start(struct berth_engine *engine, const struct berth_process_options *options,
                        const struct berth_exec_handlers *handlers, struct berth_process **out,
                        struct berth_error *err);
/* The same for what runs elsewhere, behind descriptors: they are taken over in any case. What ends
 * it is that they are closed. */
struct berth_adoption {
    int fds[3];  /* we write to the first and read the others; -1: none */
    int exit_fd; /* a socket; readable when there is something to be said about the end */
    /* On the engine's thread. True: it is over; *exit_code stays -1 when nobody said how. */
    bool (*read_exit)(void *ctx, int exit_fd, int *exit_code);
    void (*free)(void *ctx); /* after its end; or NULL */
    void *ctx;
};
int berth_process_adopt(struct berth_engine *engine, const struct berth_adoption *what,
                        const struct berth_process_options *options,
                        const struct berth_exec_handlers *handlers, struct berth_process **out,
                        struct berth_error *err);
/* After on_end, or before: it is then ended, and freed when that is done. NULL is fine. */
void berth_process_free(struct berth_process *p);

/* These may be called from any thread, at any moment; on a process that has ended they do nothing.
 */
void berth_process_cancel(struct berth_process *p); /* SIGTERM, the grace, SIGKILL, to the tree */
void berth_process_kill(struct berth_process *p);   /* at once; only on the engine's thread */
/* The bytes are copied. UNAVAILABLE: too much is waiting; on_stdin_room says when to try again.
 * CONFLICT: stdin is closed. */
int berth_process_write(struct berth_process *p, const void *bytes, size_t len,
                        struct berth_error *err);
void berth_process_close_stdin(struct berth_process *p); /* when all that was written has gone */
/* Stops and goes on reading: the child waits when its pipe is full. */
void berth_process_pause(struct berth_process *p, bool paused);
void berth_process_resize(struct berth_process *p, unsigned short rows, unsigned short columns);
/* A reader that has paused it is not waited for any more when it has ended; cancel says so, too. */
void berth_process_hurry(struct berth_process *p);
/* Its time-out, counted from now on; 0: none. Without memory the wish is lost. */
void berth_process_limit(struct berth_process *p, int64_t timeout_ms);
int berth_process_pid(const struct berth_process *p);
#endif
