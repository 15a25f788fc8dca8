/* SPDX-License-Identifier: Apache-2.0
 * src/cli/ps.c - berth ps: lists the running runs with their newest command. */
#include "base/auto.h"
#include "base/limits.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/table.h"

static const char *run_id_of(struct cli *cli, const struct berth_json *row)
{
    (void)cli;
    return cli_text(berth_json_get(row, "run"), "id");
}

/* Returns the name of the run's environment, or the id of a deleted one. */
static const char *run_environment_name(struct cli *cli, const struct berth_json *row)
{
    struct cli_answer environment;
    const char *id = cli_text(berth_json_get(row, "run"), "environmentId");
    return id && cli_get(cli, &environment, "/api/environments/%s", id) == BERTH_OK
               ? cli_text(environment.json, "name")
               : id;
}

static const char *started_of(struct cli *cli, const struct berth_json *row)
{
    return cli_when(cli, cli_time(berth_json_get(row, "run"), "startedAt"));
}

static const char *command_of(struct cli *cli, const struct berth_json *row)
{
    (void)cli;
    return cli_text(berth_json_get(row, "exec"), "command");
}

/* Adds {"run": run, "exec": its newest command, or null}. */
static int add_row(struct cli *cli, const struct berth_json *run, struct berth_json *rows)
{
    struct cli_answer execs;
    struct berth_json *row = berth_json_new_object();
    const char *id = cli_text(run, "id");
    int rc = id ? cli_get(cli, &execs, "/api/runs/%s/execs?limit=1", id) : cli_not_understood(cli);
    size_t count = rc == BERTH_OK ? berth_json_count(execs.json) : 0;
    bool made = berth_json_set(row, "run", berth_json_copy(run)) &&
                berth_json_set(row, "exec",
                               count ? berth_json_copy(berth_json_at(execs.json, 0))
                                     : berth_json_new_null());
    if (!made)
        berth_json_free(row);
    if (rc == BERTH_OK && (!made || !berth_json_add(rows, row)))
        rc = berth_fail(&cli->err, BERTH_E_NO_MEMORY, "Out of memory: list.");
    else if (rc < 0 && made)
        berth_json_free(row);
    return rc;
}

static int ps_main(struct cli *cli, int argc, char **argv)
{
    static const struct cli_cell columns[] = {{"RUN", NULL, CLI_ID, .text = run_id_of},
                                              {"ENVIRONMENT", .text = run_environment_name},
                                              {"STARTED", .text = started_of},
                                              {"COMMAND", .text = command_of},
                                              {0}};
    auto_json *rows = berth_json_new_array();
    struct cli_answer runs;
    int status = cli_start(cli, argc, argv, NULL, 0, 0);
    if (status != CLI_OK)
        return status;
    int rc = cli_get(cli, &runs, "/api/companies/%s/runs?status=running&limit=%d", cli->company_id,
                     BERTH_LIST_ROWS_MAX);
    for (size_t i = 0; rc == BERTH_OK && i < berth_json_count(runs.json); i++)
        rc = add_row(cli, berth_json_at(runs.json, i), rows);
    if (rc < 0)
        return cli_fail(cli);
    struct cli_answer shown = {.json = rows, .text = berth_json_text_in(&cli->arena, rows)};
    return cli_print_list(cli, &shown, columns);
}

const struct cli_command cli_ps_commands[] = {
    {"ps", NULL, "", "the runs at work, and their commands", ps_main},
    {0},
};
