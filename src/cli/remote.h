/* SPDX-License-Identifier: Apache-2.0
 * src/cli/remote.h - berth run and berth exec when a daemon runs the command. */
#ifndef BERTH_CLI_REMOTE_H
#define BERTH_CLI_REMOTE_H

#include <berth/run.h>

#include "cli/cli.h"

/* Both return the exit status. `detach`: prints the run's id, and does not follow it. */
int cli_remote_run(struct cli *cli, struct berth_run_request *request, bool detach);
int cli_remote_exec(struct cli *cli, struct berth_exec_request *request);
#endif
