/* SPDX-License-Identifier: Apache-2.0
 * src/cli/commands.c - the table of all commands, in the order of "berth help". A new command is a
 * file with its own table, and a line here. */
#include "cli/commands.h"

#include <stdio.h>

const struct cli_command *const cli_commands[] = {
    cli_env_commands,        cli_lease_commands,     cli_run_commands,
    cli_workspace_commands,  cli_logs_commands,      cli_ps_commands,
    cli_cancel_commands,     cli_supervise_commands, cli_secret_commands,
    cli_plugin_commands,     cli_token_commands,     cli_company_commands,
    cli_activity_commands,   cli_sweep_commands,     cli_exec_commands,
    cli_cp_commands,         cli_serve_commands,     cli_doctor_commands,
    cli_completion_commands, cli_version_commands,   NULL,
};

const char *cli_command_name(const struct cli_command *c, char out[CLI_COMMAND_NAME_SIZE])
{
    (void)snprintf(out, CLI_COMMAND_NAME_SIZE, "%s%s%s", c->noun, c->verb ? " " : "",
                   c->verb ? c->verb : "");
    return out;
}
