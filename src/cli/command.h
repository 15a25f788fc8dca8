/* SPDX-License-Identifier: Apache-2.0
 * src/cli/command.h - what berth run and berth supervise share. */
#ifndef BERTH_CLI_COMMAND_H
#define BERTH_CLI_COMMAND_H

#include "cli/cli.h"
#include "core/run/run.h"

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
/* The same of a command that could not even be started, as a shell says it; `why` is the code. */
int cli_not_started(struct cli *cli, const char *why);
/* That not all of the output came. */
void cli_say_held(const struct cli *cli);
int cli_say_timed_out(const struct cli *cli); /* an exit status */
int cli_say_lost(void);
void cli_say_owed(const struct cli *cli); /* that the place may be there still */

/* In a daemon (remote.c); an exit status. */
int cli_remote_run(struct cli *cli, struct berth_run_request *request, bool detach);
int cli_remote_exec(struct cli *cli, struct berth_exec_request *request);
#endif
