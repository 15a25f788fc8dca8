/* SPDX-License-Identifier: Apache-2.0
 * src/cli/connect.h - finds the daemon or opens the runtime, and finds the company. */
#ifndef BERTH_CLI_CONNECT_H
#define BERTH_CLI_CONNECT_H

#include "cli/arguments.h"

/* Finds the address of the store and sets cli->store. */
int cli_find_store(struct cli *cli);
/* Opens the runtime, or finds the daemon, and finds the company. The error is in cli->err. */
int cli_try_connect(struct cli *cli);
/* As cli_try_connect, but always opens the runtime in this process. */
int cli_try_connect_here(struct cli *cli);
/* As cli_try_connect, and prints the error. Returns CLI_OK or CLI_FAILED. */
int cli_connect(struct cli *cli);
/* As cli_connect. A runtime in this process also sweeps without calling providers, and says what is
 * still to be cleaned up. */
int cli_open(struct cli *cli);
/* cli_parse and then cli_open, for commands that check nothing in between. */
int cli_start(struct cli *cli, int argc, char **argv, const struct cli_option *options, int min,
              int max);
void cli_disconnect(struct cli *cli);

/* Returns whether BERTH_ALLOW_UNCONFINED_PLUGINS is 1. */
bool cli_allows_unconfined(void);
/* Returns the URL that --url or BERTH_URL gives, or NULL. */
const char *cli_named_daemon(const struct cli *cli);
/* Sets cli->daemon to the daemon that is named or that serves the store; NULL: none does. */
int cli_find_daemon(struct cli *cli);
#endif
