/* SPDX-License-Identifier: Apache-2.0
 * src/cli/follow.h - reads an event stream of the daemon, and sends input to its commands. */
#ifndef BERTH_CLI_FOLLOW_H
#define BERTH_CLI_FOLLOW_H

#include "cli/cli.h"

struct cli_follow {
    const char *method, *target;  /* of the first request */
    const struct berth_buf *body; /* or NULL */
    const char *header;           /* one more header of the first request, or NULL */
    uint64_t offset; /* where the target starts in the log; afterwards, where it ended */
    /* The target to resume at when the connection breaks, without the offset; NULL: the stream
     * cannot be resumed yet. May be set by on_event. */
    const char *again;
    /* Called for "exec", "output", "cut", "exit", "end" and "idle". Returns false to stop. */
    bool (*on_event)(void *ctx, const char *name, const struct berth_json *data);
    /* Called when cli->cancel_fd is readable; clears it and sends the cancel. Returns false to stop
     * reading. NULL: the stream just stops. */
    bool (*on_cancel)(void *ctx);
    void *ctx;
};
/* Reads until "end" or "idle", and resumes when the connection breaks. The error is in cli->err. */
int cli_follow(struct cli *cli, struct cli_follow *follow);
/* Returns the bytes of an "output" event; the caller frees them. NULL: none, or no memory. */
char *cli_output_of(const struct berth_json *data, size_t *len);

/* Sends input and waits until the command has taken all of it; `last` closes it. May be called on
 * any thread. CONFLICT: the command does not read any more. CANCELLED: stop_fd became readable. */
int cli_send_stdin(const struct cli *cli, const char *exec_id, const char *bytes, size_t len,
                   bool last, int stop_fd, struct berth_error *err);
/* Both ignore errors: the command may just have ended. They give up when stop_fd is readable. */
void cli_send_size(const struct cli *cli, const char *exec_id, int rows, int columns, int stop_fd);
void cli_send_cancel(const struct cli *cli, const char *kind, const char *id, /* "execs", "runs" */
                     int stop_fd);
#endif
