/* SPDX-License-Identifier: Apache-2.0
 * src/cli/far_site.h - workspaces of this machine in places whose leases belong to a daemon on
 * another machine. The directory, its repository and what a crash must not lose stay here; the
 * daemon runs the scripts that read and write the place. */
#ifndef BERTH_CLI_FAR_SITE_H
#define BERTH_CLI_FAR_SITE_H

#include "cli/cli.h"
#include "core/workspace/workspace_site.h"

struct cli_far_site {
    struct berth_workspace_site base;
    struct cli *cli;
    char *states;
};

/* Opens the site of the daemon that `cli` uses. */
int cli_far_site_open(struct cli *cli, struct cli_far_site *out);
void cli_far_site_close(struct cli_far_site *site);
#define auto_far_site __attribute__((cleanup(cli_far_site_close))) struct cli_far_site
/* Returns the directory of a lease in its place, or NULL with the error in cli->err. */
const char *cli_far_directory(struct cli *cli, const char *lease_id);
/* Forgets what is stored for this lease, and for others from earlier days, if they have ended. The
 * daemon tells whether they have; leases that it does not know belong to another one. */
void cli_far_site_tidy(struct cli *cli, const char *lease_id);
#endif
