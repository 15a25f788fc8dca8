/* SPDX-License-Identifier: Apache-2.0
 * src/cli/run.c - berth run ...: runs as rows. */
#include "core/run.h"

#include "cli/cli.h"

static void json(struct berth_json_writer *w, const void *item)
{
    berth_run_json(w, item);
}

static void people(struct cli *cli, struct berth_buf *buf, const void *item)
{
    const struct berth_run *r = item;
    cli_field(cli, buf, "id", r->id);
    cli_field_status(cli, buf, "status", berth_run_statuses.names[r->status]);
    cli_field(cli, buf, "environment", r->environment_id);
    cli_field(cli, buf, "error", r->error);
    cli_field(cli, buf, "code", r->error_code);
    cli_field(cli, buf, "started", cli_when(cli, r->started_at_ms));
    cli_field(cli, buf, "finished", cli_when(cli, r->finished_at_ms));
}

static void row(struct cli *cli, const void *item, const char **cells)
{
    const struct berth_run *r = item;
    cells[0] = r->id;
    cells[1] = berth_run_statuses.names[r->status];
    cells[2] = cli_when(cli, r->started_at_ms);
    cells[3] = cli_when(cli, r->finished_at_ms);
    cells[4] = r->error;
}

static const struct cli_column columns[] = {{"ID", CLI_ID},  {"STATUS", CLI_STATUS}, {"STARTED", 0},
                                            {"FINISHED", 0}, {"ERROR", 0},           {0}};
static const struct cli_view view = {columns, row, json};

static int list(struct cli *cli, int argc, char **argv)
{
    const char *as = NULL, *limit = NULL;
    const struct cli_option options[] = {{"status", &as}, {"limit", &limit}, {0}};
    if (cli_parse(cli, argc, argv, options, 0, 0) < 0)
        return CLI_USAGE;
    struct berth_run_filter filter = BERTH_RUN_FILTER_INIT;
    if (cli_choice(cli, "status", as, &berth_run_statuses, &filter.status) != CLI_OK ||
        cli_limit(cli, limit, &filter.limit) != CLI_OK)
        return CLI_USAGE;
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    struct berth_list found;
    filter.company_id = cli->company_id;
    if (berth_run_list(cli->b, &cli->arena, &filter, &found, &cli->err) < 0)
        return cli_fail(cli);
    cli_say_cut(cli, found.count, filter.limit);
    return cli_print_list(cli, &found, &view);
}

static int show(struct cli *cli, int argc, char **argv)
{
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    if (status != CLI_OK)
        return status;
    const char *id;
    struct berth_run *r;
    if (cli_find_id(cli, BERTH_KIND_RUN, argv[0], &id) < 0 ||
        berth_run_get(cli->b, &cli->arena, id, &r, &cli->err) < 0)
        return cli_fail(cli);
    return cli_print_one(cli, r->id, r, json, people);
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
