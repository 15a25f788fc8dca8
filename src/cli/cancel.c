/* SPDX-License-Identifier: Apache-2.0
 * src/cli/cancel.c - berth cancel: ends a run and releases its leases. */
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/lookup.h"
#include "cli/print.h"
#include "cli/table.h"

static int cancel_main(struct cli *cli, int argc, char **argv)
{
    struct cli_answer run;
    const char *id;
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    if (status != CLI_OK)
        return status;
    if (cli_find_id(cli, "run", argv[0], &id) < 0 ||
        cli_call(cli, &run, "POST", NULL, "/api/runs/%s/cancel", id) < 0)
        return cli_fail(cli);
    if (cli->json || cli->quiet)
        return cli_print_text(cli, cli->json ? run.text : id);
    const char *status_text = cli_text(run.json, "status");
    return cli_print_text(
        cli, status_text ? berth_arena_printf(&cli->arena, "%s %s", id, cli_clean(cli, status_text))
                         : NULL);
}

const struct cli_command cli_cancel_commands[] = {
    {"cancel", NULL, "RUN", "end a run's command and give its places back", cancel_main},
    {0},
};
