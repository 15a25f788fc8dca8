/* SPDX-License-Identifier: Apache-2.0
 * src/cli/follow.h - what a daemon tells bit by bit, and what is sent to a command that it runs. */
#ifndef BERTH_CLI_FOLLOW_H
#define BERTH_CLI_FOLLOW_H

#include "cli/cli.h"

struct cli_follow {
    const char *method, *target;  /* of the first request */
    const struct berth_buf *body; /* or NULL */
    /* Where to come back to when the line breaks, but for the offset; NULL: when it ends, that is
     * the end. May be set by on_event. */
    const char *again;
    /* "exec", "output", "cut", "exit", "end". false: nobody wants to hear more. */
    bool (*on_event)(void *ctx, const char *name, const struct berth_json *data);
    /* cli->cancel_fd is readable: to be made unreadable, and told. It is listened on. Or NULL. */
    void (*on_cancel)(void *ctx);
    void *ctx;
};
/* Until "end", also when the line breaks meanwhile. The error is in cli->err. */
int cli_follow(struct cli *cli, struct cli_follow *follow);
/* What the command wrote, in the data of an "output"; its length in *len. NULL: no memory. */
char *cli_output_of(const struct berth_json *data, size_t *len);

/* From any thread; nobody is told when it fails: the command may just have ended. */
void cli_send_stdin(const struct cli *cli, const char *exec_id, const char *bytes, size_t len,
                    bool last);
void cli_send_size(const struct cli *cli, const char *exec_id, int rows, int columns);
void cli_send_cancel(const struct cli *cli, const char *kind, const char *id); /* "execs", "runs" */
#endif
