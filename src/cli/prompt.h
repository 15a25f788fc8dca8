/* SPDX-License-Identifier: Apache-2.0
 * src/cli/prompt.h - asks the person at the terminal. */
#ifndef BERTH_CLI_PROMPT_H
#define BERTH_CLI_PROMPT_H

#include "cli/cli.h"
#include "crypto/locked.h"

/* Says whether there is a terminal to ask at. */
bool cli_can_ask(void);
/* Reads one line into the arena. CANCELLED: the input ended. */
int cli_ask(struct cli *cli, const char *label, const char **out);
/* Reads one line without echo, twice when `again`. The caller clears *out. */
int cli_ask_secret(struct cli *cli, const char *label, bool again, struct berth_locked *out);
/* Reads a value from a file, from standard input ("-"), or by asking (NULL). Values never come from
 * the arguments, which other users can see. The caller clears *out. */
int cli_read_secret(struct cli *cli, const char *path, const char *label, struct berth_locked *out);
#endif
