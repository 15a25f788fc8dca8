/* SPDX-License-Identifier: Apache-2.0
 * src/cli/company.c - berth company: creates, lists and shows companies. */
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/lookup.h"
#include "cli/print.h"
#include "cli/table.h"

static const struct cli_cell lines[] = {
    {"id", "id"}, {"name", "name"}, {"created", "createdAt", CLI_WHEN}, {0}};

static int company_create(struct cli *cli, int argc, char **argv)
{
    auto_buf body = CLI_BODY_INIT;
    struct berth_json_writer w = {.buf = &body};
    struct cli_answer made;
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    if (status != CLI_OK)
        return status;
    berth_json_open(&w, '{');
    cli_put(cli, &w, "name", argv[0]);
    berth_json_close(&w, '}');
    if (cli_call(cli, &made, "POST", &body, "/api/companies") < 0)
        return cli_fail(cli);
    return cli_print_one(cli, &made, cli_text(made.json, "id"), lines);
}

static int company_list(struct cli *cli, int argc, char **argv)
{
    static const struct cli_cell columns[] = {
        {"ID", "id", CLI_ID}, {"NAME", "name"}, {"CREATED", "createdAt", CLI_WHEN}, {0}};
    struct cli_answer found;
    int status = cli_start(cli, argc, argv, NULL, 0, 0);
    if (status != CLI_OK)
        return status;
    return cli_get(cli, &found, "/api/companies") < 0 ? cli_fail(cli)
                                                      : cli_print_list(cli, &found, columns);
}

static int company_show(struct cli *cli, int argc, char **argv)
{
    const struct berth_json *company;
    struct cli_answer found;
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    if (status != CLI_OK)
        return status;
    if (cli_find_company(cli, argv[0], &company) < 0 ||
        cli_get(cli, &found, "/api/companies/%s", cli_text(company, "id")) < 0)
        return cli_fail(cli);
    return cli_print_one(cli, &found, cli_text(found.json, "id"), lines);
}

const struct cli_command cli_company_commands[] = {
    {"company", "create", "NAME", "make a company; environments, runs and secrets belong to one",
     company_create},
    {"company", "list", "", "the companies", company_list},
    {"company", "show", "NAME|ID", "one company", company_show},
    {0},
};
