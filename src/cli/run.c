/* SPDX-License-Identifier: Apache-2.0
 * src/cli/run.c - berth run ...: runs as rows. */
#include "core/run/run.h"

#include "cli/cli.h"

static int list(struct cli *cli, int argc, char **argv)
{
    static const struct cli_cell columns[] = {{"ID", "id", CLI_ID},
                                              {"STATUS", "status", CLI_STATUS},
                                              {"STARTED", "startedAt", CLI_WHEN},
                                              {"FINISHED", "finishedAt", CLI_WHEN},
                                              {"ERROR", "error"},
                                              {0}};
    const char *as = NULL, *limit = NULL;
    const struct cli_option options[] = {{"status", &as}, {"limit", &limit}, {0}};
    struct cli_answer found;
    int rows, ignored;
    if (cli_parse(cli, argc, argv, options, 0, 0) < 0 ||
        cli_choice(cli, "status", as, &berth_run_statuses, &ignored) != CLI_OK ||
        cli_limit(cli, limit, &rows) != CLI_OK)
        return CLI_USAGE;
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    if (cli_get(cli, &found, "/api/companies/%s/runs?limit=%d%s%s", cli->company_id, rows,
                as ? "&status=" : "", as ? as : "") < 0)
        return cli_fail(cli);
    cli_say_cut(cli, &found, rows);
    return cli_print_list(cli, &found, columns);
}

static int show(struct cli *cli, int argc, char **argv)
{
    static const struct cli_cell lines[] = {{"id", "id"},
                                            {"status", "status", CLI_STATUS},
                                            {"environment", "environmentId"},
                                            {"error", "error"},
                                            {"code", "errorCode"},
                                            {"started", "startedAt", CLI_WHEN, "-"},
                                            {"finished", "finishedAt", CLI_WHEN, "-"},
                                            {0}};
    struct cli_answer run;
    const char *id;
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    if (status != CLI_OK)
        return status;
    if (cli_find_id(cli, "run", argv[0], &id) < 0 || cli_get(cli, &run, "/api/runs/%s", id) < 0)
        return cli_fail(cli);
    return cli_print_one(cli, &run, id, lines);
}

const struct cli_command cli_run_commands[] = {
    {"run", "list", "[--status STATUS] [--limit N]", "runs, newest first", list},
    {"run", "show", "ID", "one run", show},
    {"run", NULL,
     "[-e|--environment ENVIRONMENT] [-C|--cwd DIR] [--env NAME[=VALUE]]..."
     " [--env-from-secret NAME=SECRET]... [--timeout 15m] [--ttl 1h] [--provision COMMAND]"
     " [-t|--tty] [-d|--detach [--stdin]] -- COMMAND [ARGUMENT]...",
     "take a lease, run the command in the place, and give the place back", cli_run},
    {0},
};
