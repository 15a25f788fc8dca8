/* SPDX-License-Identifier: Apache-2.0
 * src/cli/commands.h - the commands that the program has. */
#ifndef BERTH_CLI_COMMANDS_H
#define BERTH_CLI_COMMANDS_H

#include "cli/cli.h"

struct cli_command {
    const char *noun, *verb; /* verb NULL: the noun alone is the command */
    const char *arguments;   /* "NAME [--driver DRIVER]", for the usage */
    const char *summary;
    int (*run)(struct cli *cli, int argc, char **argv); /* argv[0] is the command's own name */
};

/* All of them, closed by NULL. Each table is that of one file, and ends with a NULL noun. */
extern const struct cli_command *const cli_commands[];
extern const struct cli_command cli_activity_commands[], cli_cancel_commands[],
    cli_company_commands[], cli_completion_commands[], cli_cp_commands[], cli_doctor_commands[],
    cli_env_commands[], cli_exec_commands[], cli_lease_commands[], cli_logs_commands[],
    cli_plugin_commands[], cli_ps_commands[], cli_run_commands[], cli_secret_commands[],
    cli_serve_commands[], cli_supervise_commands[], cli_sweep_commands[], cli_token_commands[],
    cli_version_commands[], cli_workspace_commands[];

/* Writes "env create" to `out`, and returns it. */
#define CLI_COMMAND_NAME_SIZE 64
const char *cli_command_name(const struct cli_command *command, char out[CLI_COMMAND_NAME_SIZE]);

/* berth plugin check, whose file is not that of berth plugin. */
int cli_plugin_check(struct cli *cli, int argc, char **argv);
/* Prints what could follow the words, one a line; the last word is the one being written. The
 * scripts of berth completion call it as "berth __complete". */
int cli_complete(struct cli *cli, int argc, char **argv);
#endif
