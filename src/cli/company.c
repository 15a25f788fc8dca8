/* SPDX-License-Identifier: Apache-2.0
 * src/cli/company.c - berth company ... */
#include "core/company.h"

#include "cli/cli.h"

static void json(struct berth_json_writer *w, const void *item)
{
    berth_company_json(w, item);
}

static void people(struct cli *cli, struct berth_buf *buf, const void *item)
{
    const struct berth_company *c = item;
    cli_field(cli, buf, "id", c->id);
    cli_field(cli, buf, "name", c->name);
    cli_field(cli, buf, "created", cli_when(cli, c->created_at_ms));
}

static void row(struct cli *cli, const void *item, const char **cells)
{
    const struct berth_company *c = item;
    cells[0] = c->id;
    cells[1] = c->name;
    cells[2] = cli_when(cli, c->created_at_ms);
}

static const struct cli_column columns[] = {{"ID", CLI_ID}, {"NAME", 0}, {"CREATED", 0}, {0}};
static const struct cli_view view = {columns, row, json};

static int create(struct cli *cli, int argc, char **argv)
{
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    if (status != CLI_OK)
        return status;
    struct berth_company *c;
    if (berth_company_create(cli->b, &cli->arena, argv[0], &cli->actor, &c, &cli->err) < 0)
        return cli_fail(cli);
    return cli_print_one(cli, c->id, c, json, people);
}

static int list(struct cli *cli, int argc, char **argv)
{
    int status = cli_start(cli, argc, argv, NULL, 0, 0);
    if (status != CLI_OK)
        return status;
    struct berth_list found;
    if (berth_company_list(cli->b, &cli->arena, &found, &cli->err) < 0)
        return cli_fail(cli);
    return cli_print_list(cli, &found, &view);
}

static int show(struct cli *cli, int argc, char **argv)
{
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    if (status != CLI_OK)
        return status;
    const char *id;
    struct berth_company *c;
    if (cli_find_company(cli, argv[0], &id) < 0 ||
        berth_company_get(cli->b, &cli->arena, id, &c, &cli->err) < 0)
        return cli_fail(cli);
    return cli_print_one(cli, c->id, c, json, people);
}

const struct cli_command cli_company_commands[] = {
    {"company", "create", "NAME", "make a company; environments, runs and secrets belong to one",
     create},
    {"company", "list", "", "the companies", list},
    {"company", "show", "NAME|ID", "one company", show},
    {0},
};
