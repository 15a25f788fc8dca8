/* SPDX-License-Identifier: Apache-2.0
 * src/cli/activity.c - berth activity: lists what happened, newest first. */
#include "base/id.h"

#include "cli/arguments.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/lookup.h"
#include "cli/print.h"
#include "cli/table.h"

static const char *actor_of(struct cli *cli, const struct berth_json *entry)
{
    const char *id = cli_text(entry, "actorId");
    (void)cli;
    return id ? id : cli_text(entry, "actorType");
}

/* Finds the id of any object that has a history, by id or by name. */
static int find_entity(struct cli *cli, const char *text, const char **id)
{
    static const char *const kinds[] = {"lease", "environment", "secret", "run", "company"};
    static int (*const by_name[])(struct cli *, const char *, const struct berth_json **) = {
        cli_find_environment, cli_find_secret, cli_find_company};
    const struct berth_json *found;
    *id = text;
    if (berth_id_valid(text))
        return BERTH_OK; /* it may be deleted: its history is still there */
    int rc = BERTH_E_NOT_FOUND;
    for (size_t i = 0; rc == BERTH_E_NOT_FOUND && i < sizeof kinds / sizeof kinds[0]; i++)
        rc = cli_find_id(cli, kinds[i], text, id);
    for (size_t i = 0; rc == BERTH_E_NOT_FOUND && i < sizeof by_name / sizeof by_name[0]; i++)
        if ((rc = by_name[i](cli, text, &found)) == BERTH_OK)
            *id = cli_text(found, "id");
    return rc == BERTH_E_NOT_FOUND
               ? berth_fail(&cli->err, rc, "Nothing is called \"%.200s\".", text)
               : rc;
}

static int activity_main(struct cli *cli, int argc, char **argv)
{
    static const struct cli_cell columns[] = {
        {"ID", "id", CLI_NUMBER}, {"WHEN", "createdAt", CLI_WHEN}, {"ACTOR", .text = actor_of},
        {"ACTION", "action"},     {"ENTITY", "entityId", CLI_ID},  {0}};
    const char *entity = NULL, *limit = NULL, *before = NULL;
    const struct cli_option options[] = {
        {"entity", &entity}, {"limit", &limit}, {"before", &before}, {0}};
    struct cli_answer found;
    int64_t ignored;
    int rows;
    if (cli_parse(cli, argc, argv, options, 0, 0) < 0 || cli_limit(cli, limit, &rows) != CLI_OK)
        return CLI_USAGE;
    if (before && !cli_number(before, 1, INT64_MAX, &ignored))
        return cli_usage(cli, "--before is the id of an entry");
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    if ((entity && find_entity(cli, entity, &entity) < 0) ||
        cli_get(cli, &found, "/api/companies/%s/activity?limit=%d%s%s%s%s", cli->company_id, rows,
                entity ? "&entityId=" : "", entity ? entity : "", before ? "&before=" : "",
                before ? before : "") < 0)
        return cli_fail(cli);
    cli_say_cut(cli, &found, rows);
    return cli_print_list(cli, &found, columns);
}

const struct cli_command cli_activity_commands[] = {
    {"activity", NULL, "[--entity NAME|ID] [--limit N] [--before ID]",
     "what happened, newest first", activity_main},
    {0},
};
