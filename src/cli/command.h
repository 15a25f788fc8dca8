/* SPDX-License-Identifier: Apache-2.0
 * src/cli/command.h - what berth run and berth supervise share. */
#ifndef BERTH_CLI_COMMAND_H
#define BERTH_CLI_COMMAND_H

#include "cli/cli.h"
#include "core/run.h"

/* Exit statuses beside the command's own, as other tools have them. */
enum {
    CLI_TIMED_OUT = 124,
    CLI_BERTH_FAILED = 125,
    CLI_NOT_EXECUTABLE = 126,
    CLI_NOT_FOUND = 127,
    CLI_BY_SIGNAL = 128, /* and its number */
};

/* Starts a process of its own that performs the run, and says which; its own exit status. */
int cli_detach(struct cli *cli, const struct berth_run_request *request, bool keep_stdin);
/* SIGINT, SIGTERM and SIGHUP make it readable; the second does no more than the first. -1: there is
 * no descriptor left. */
int cli_cancel_fd(void);
int cli_run_failed(struct cli *cli); /* tells cli->err; an exit status */
#endif
