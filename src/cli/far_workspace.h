/* SPDX-License-Identifier: Apache-2.0
 * src/cli/far_workspace.h - berth workspace and berth run --workspace with a daemon on another
 * machine: the directory is on this one. */
#ifndef BERTH_CLI_FAR_WORKSPACE_H
#define BERTH_CLI_FAR_WORKSPACE_H

#include <berth/run.h>

#include "cli/cli.h"

/* Returns whether the daemon is on another machine, and cannot see our directories. */
bool cli_is_far(const struct cli *cli);

/* Send a directory to the place of a lease, and bring its changes home. The result is in *json, as
 * the API has it. The error is in cli->err. */
int cli_far_push(struct cli *cli, const char *lease_id, const struct berth_run_sync *sync,
                 const char **json);
int cli_far_pull(struct cli *cli, const struct berth_workspace_pull *pull,
                 struct berth_workspace_report *report);
/* Prints what a push would send. Uses no lease and no daemon. Returns the exit status. */
int cli_measure_workspace(struct cli *cli, const struct berth_run_sync *sync);
/* Performs a run whose workspace is here. Returns the exit status. */
int cli_far_run(struct cli *cli, struct berth_run_request *request);
#endif
