/* SPDX-License-Identifier: Apache-2.0
 * src/cli/follow.h - what a daemon tells bit by bit, and what is sent to a command that it runs. */
#ifndef BERTH_CLI_FOLLOW_H
#define BERTH_CLI_FOLLOW_H

#include "cli/cli.h"

struct cli_follow {
    const char *method, *target;  /* of the first request */
    const struct berth_buf *body; /* or NULL */
    const char *header;           /* one more, or NULL */
    uint64_t offset;              /* that the target asks for; afterwards, how far it came */
    /* Where to come back to when the line breaks, but for the offset; NULL: nowhere yet. May be set
     * by on_event. */
    const char *again;
    /* "exec", "output", "cut", "exit", "end", "idle". false: nobody wants to hear more. */
    bool (*on_event)(void *ctx, const char *name, const struct berth_json *data);
    /* cli->cancel_fd is readable: to be made unreadable, and told; it is listened on. false: not
     * any more. Or NULL. */
    bool (*on_cancel)(void *ctx);
    void *ctx;
};
/* Until "end" or "idle", also when the line breaks meanwhile. The error is in cli->err. */
int cli_follow(struct cli *cli, struct cli_follow *follow);
/* What the command wrote, in the data of an "output"; its length in *len. NULL: nothing, or no
 * memory. */
char *cli_output_of(const struct berth_json *data, size_t *len);

/* From any thread. All of it has been taken; `last`: nothing more comes. CONFLICT: the command does
 * not read any more. CANCELLED: stop_fd was readable first. */
int cli_send_stdin(const struct cli *cli, const char *exec_id, const char *bytes, size_t len,
                   bool last, int stop_fd, struct berth_error *err);
/* Nobody is told when it fails: the command may just have ended. Given up when stop_fd is readable.
 */
void cli_send_size(const struct cli *cli, const char *exec_id, int rows, int columns, int stop_fd);
void cli_send_cancel(const struct cli *cli, const char *kind, const char *id, /* "execs", "runs" */
                     int stop_fd);
#endif
