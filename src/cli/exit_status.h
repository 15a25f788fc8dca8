/* SPDX-License-Identifier: Apache-2.0
 * src/cli/exit_status.h - the exit statuses of berth run and berth exec, and the line on stderr
 * that explains each one that is not the command's own. */
#ifndef BERTH_CLI_EXIT_STATUS_H
#define BERTH_CLI_EXIT_STATUS_H

#include <berth/exec.h>

#include "cli/cli.h"

/* Prints cli->err. Returns CLI_BERTH_FAILED. */
int cli_run_failed(struct cli *cli);
/* Prints cli->err for a command that could not be started. Returns the exit status that a shell
 * has for `code`, a run's errorCode. */
int cli_not_started(struct cli *cli, const char *code);
/* Returns the exit status of a command that has ended, after a warning where one is due.
 * `truncated`: its log does not hold all output. */
int cli_exit_status(const struct cli *cli, const struct berth_exec_end *end, bool truncated);

/* Warns that the last output of the command is missing. */
void cli_say_held(const struct cli *cli);
/* Warns that the log does not hold all output. */
void cli_say_log_cut(const struct cli *cli);
/* Prints why the run ended before its command did, if it did: `code` and `error` are those of the
 * run, or NULL. */
void cli_say_lease_ended(struct cli *cli, const char *code, const char *error);
/* Prints why a command of the lease was ended that this process did not cancel: the lease expired,
 * or was released. Prints nothing when the lease is still good. */
void cli_say_lease_over(struct cli *cli, const char *lease_id);
/* Warns that the place may still exist. */
void cli_say_owed(const struct cli *cli);
int cli_say_timed_out(const struct cli *cli); /* returns CLI_TIMED_OUT */
int cli_say_lost(void);                       /* returns CLI_BERTH_FAILED */
#endif
