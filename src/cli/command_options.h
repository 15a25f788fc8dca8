/* SPDX-License-Identifier: Apache-2.0
 * src/cli/command_options.h - the part of the command line that berth run and berth exec share: the
 * options of the command, and the command itself after "--". */
#ifndef BERTH_CLI_COMMAND_OPTIONS_H
#define BERTH_CLI_COMMAND_OPTIONS_H

#include <berth/exec.h>

#include "cli/cli.h"

/* The options as they were given. */
struct cli_command_options {
    const char *cwd, *timeout;
    bool terminal;
    struct berth_list env; /* "NAME=value", or "NAME" for a variable of this process */
};

/* Finds the "--" and writes its index to *end: the words before it are options of berth, those
 * after it the command. Short options before it become long ones. Returns CLI_OK or CLI_USAGE. */
int cli_command_split(struct cli *cli, int argc, char **argv, int *end);
/* Fills the request with the options and the command. Returns CLI_OK, or the exit status after the
 * error has been printed. */
int cli_command_request(struct cli *cli, const struct cli_command_options *options, char **argv,
                        struct berth_exec_request *out);
#endif
