/* SPDX-License-Identifier: Apache-2.0
 * src/cli/supervise.h - starts berth supervise, the process that performs a detached run. */
#ifndef BERTH_CLI_SUPERVISE_H
#define BERTH_CLI_SUPERVISE_H

#include <berth/run.h>

#include "cli/cli.h"

/* Starts the process, waits until the run's row exists, and prints the run's id. Returns the exit
 * status. */
int cli_detach(struct cli *cli, const struct berth_run_request *request, bool keep_stdin);
#endif
