/* SPDX-License-Identifier: Apache-2.0
 * src/cli/lease.c - berth lease ... */
#include <string.h>

#include "base/map.h"
#include "base/time.h"
#include "cli/cli.h"
#include "core/lease.h"

static void json(struct berth_json_writer *w, const void *item)
{
    berth_lease_json(w, item);
}

static void people(struct cli *cli, struct berth_buf *buf, const void *item)
{
    const struct berth_lease *l = item;
    const char *place = berth_lease_places.names[l->place];
    const char *cleanup = l->cleanup ? berth_lease_cleanups.names[l->cleanup] : NULL;
    if (l->provider_lease_id)
        place = berth_arena_printf(&cli->arena, "%s %s", place, l->provider_lease_id);
    if (l->cleanup_error)
        cleanup = berth_arena_printf(&cli->arena, "%s: %s", cleanup, l->cleanup_error);
    cli_field(cli, buf, "id", l->id);
    cli_field(cli, buf, "environment", l->environment_id);
    cli_field_status(cli, buf, "status", berth_lease_statuses.names[l->status]);
    cli_field(cli, buf, "place", place);
    cli_field(cli, buf, "policy", berth_lease_policies.names[l->policy]);
    cli_field(cli, buf, "provider", l->provider ? l->provider : "-");
    cli_field(cli, buf, "acquired", cli_when(cli, l->acquired_at_ms));
    cli_field(cli, buf, "expires", cli_when(cli, l->expires_at_ms));
    cli_field(cli, buf, "run", l->heartbeat_run_id);
    cli_field(cli, buf, "released", l->released_at_ms ? cli_when(cli, l->released_at_ms) : NULL);
    cli_field(cli, buf, "reason", l->failure_reason);
    cli_field(cli, buf, "clean-up", cleanup);
}

static int show(struct cli *cli, const struct berth_lease *l)
{
    return cli_print_one(cli, l->id, l, json, people);
}

/* The whole id of the lease that is named. */
static int find(struct cli *cli, const char *text, const char **id)
{
    return cli_find_id(cli, BERTH_KIND_LEASE, text, id);
}

static int acquire(struct cli *cli, int argc, char **argv)
{
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    const char *ttl = NULL, *timeout = NULL;
    const struct cli_option options[] = {
        {"run", &request.run_id},
        {"issue", &request.issue_id},
        {"workspace", &request.execution_workspace_id},
        {"mode", &request.workspace_mode},
        {"ttl", &ttl},
        {"timeout", &timeout},
        {"retain-on-failure", .flag = &request.retain_on_failure},
        {0},
    };
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0)
        return CLI_USAGE;
    if (ttl && !berth_time_parse_duration(ttl, &request.ttl_ms))
        return cli_usage(cli, "--ttl \"%s\" is no time: write 90s, 15m, 1h or 2d", ttl);
    if (timeout && !berth_time_parse_duration(timeout, &request.timeout_ms))
        return cli_usage(cli, "--timeout \"%s\" is no time: write 90s, 15m or 1h", timeout);
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    struct berth_environment *e;
    struct berth_lease *l;
    request.actor = &cli->actor;
    if (cli_find_environment(cli, argv[0], &e) < 0 ||
        (request.run_id && cli_find_id(cli, BERTH_KIND_RUN, request.run_id, &request.run_id) < 0))
        return cli_fail(cli);
    request.environment_id = e->id;
    if (berth_lease_acquire(cli->b, &cli->arena, &request, &l, &cli->err) < 0)
        return cli_fail(cli);
    return show(cli, l);
}

static int release(struct cli *cli, int argc, char **argv)
{
    struct berth_release_request request = {.status = BERTH_LEASE_RELEASED};
    const char *as = NULL;
    const struct cli_option options[] = {{"status", &as}, {"reason", &request.reason}, {0}};
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0)
        return CLI_USAGE;
    if (as && strcmp(as, "failed") == 0)
        request.status = BERTH_LEASE_FAILED;
    else if (as && strcmp(as, "released") != 0)
        return cli_usage(cli, "--status is released or failed");
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    request.actor = &cli->actor;
    struct berth_lease *l;
    if (find(cli, argv[0], &request.lease_id) < 0 ||
        berth_lease_release(cli->b, &cli->arena, &request, &l, &cli->err) < 0)
        return cli_fail(cli);
    return show(cli, l);
}

static int on_one(struct cli *cli, int argc, char **argv,
                  int (*act)(struct cli *cli, const char *id, struct berth_lease **out))
{
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    if (status != CLI_OK)
        return status;
    const char *id;
    struct berth_lease *l;
    if (find(cli, argv[0], &id) < 0 || act(cli, id, &l) < 0)
        return cli_fail(cli);
    return show(cli, l);
}

static int act_get(struct cli *cli, const char *id, struct berth_lease **out)
{
    return berth_lease_get(cli->b, &cli->arena, id, out, &cli->err);
}

static int act_destroy(struct cli *cli, const char *id, struct berth_lease **out)
{
    return berth_lease_destroy(cli->b, &cli->arena, id, &cli->actor, out, &cli->err);
}

static int act_acknowledge(struct cli *cli, const char *id, struct berth_lease **out)
{
    return berth_lease_acknowledge(cli->b, &cli->arena, id, &cli->actor, out, &cli->err);
}

static int show_one(struct cli *cli, int argc, char **argv)
{
    return on_one(cli, argc, argv, act_get);
}

static int destroy(struct cli *cli, int argc, char **argv)
{
    return on_one(cli, argc, argv, act_destroy);
}

static int acknowledge(struct cli *cli, int argc, char **argv)
{
    return on_one(cli, argc, argv, act_acknowledge);
}

/* --- lists --- */

/* People know environments by name; one that is gone has only its id. */
static struct berth_map names;

static int load_names(struct cli *cli)
{
    struct berth_environment_filter all = BERTH_ENVIRONMENT_FILTER_INIT;
    struct berth_list list;
    all.company_id = cli->company_id;
    int rc = berth_environment_list(cli->b, &cli->arena, &all, &list, &cli->err);
    for (int i = 0; rc == BERTH_OK && i < list.count; i++) {
        struct berth_environment *e = list.items[i];
        (void)berth_map_put(&names, e->id, e); /* without memory the id serves */
    }
    return rc;
}

static void row(struct cli *cli, const void *item, const char **cells)
{
    const struct berth_lease *l = item;
    const struct berth_environment *e = berth_map_get(&names, l->environment_id);
    cells[0] = l->id;
    cells[1] = e ? e->name : l->environment_id;
    cells[2] = berth_lease_statuses.names[l->status];
    cells[3] = berth_lease_places.names[l->place];
    cells[4] = l->cleanup ? berth_lease_cleanups.names[l->cleanup] : NULL;
    cells[5] = cli_when(cli, l->last_used_at_ms);
    cells[6] = l->due_at_ms ? cli_when(cli, l->expires_at_ms) : NULL;
}

static int print_list(struct cli *cli, const struct berth_list *found)
{
    static const struct cli_column columns[] = {
        {"ID", CLI_ID},           {"ENVIRONMENT", 0}, {"STATUS", CLI_STATUS}, {"PLACE", 0},
        {"CLEAN-UP", CLI_STATUS}, {"USED", 0},        {"EXPIRES", 0},         {0}};
    static const struct cli_view view = {columns, row, json};
    int status = load_names(cli) < 0 ? cli_fail(cli) : cli_print_list(cli, found, &view);
    berth_map_clear(&names);
    return status;
}

static int list(struct cli *cli, int argc, char **argv)
{
    const char *environment = NULL, *run = NULL, *as = NULL, *limit = NULL;
    bool all = false;
    const struct cli_option options[] = {{"env", &environment}, {"run", &run},
                                         {"status", &as},       {"limit", &limit},
                                         {"all", .flag = &all}, {0}};
    if (cli_parse(cli, argc, argv, options, 0, 0) < 0)
        return CLI_USAGE;
    struct berth_lease_filter filter = BERTH_LEASE_FILTER_INIT;
    if (cli_choice(cli, "status", as, &berth_lease_statuses, &filter.status) != CLI_OK ||
        cli_limit(cli, limit, &filter.limit) != CLI_OK)
        return CLI_USAGE;
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    struct berth_environment *e = NULL;
    if ((environment && cli_find_environment(cli, environment, &e) < 0) ||
        (run && cli_find_id(cli, BERTH_KIND_RUN, run, &filter.run_id) < 0))
        return cli_fail(cli);
    filter.company_id = cli->company_id;
    filter.environment_id = e ? e->id : NULL;
    filter.standing_only = !all && !as;
    struct berth_list found;
    if (berth_lease_list(cli->b, &cli->arena, &filter, &found, &cli->err) < 0)
        return cli_fail(cli);
    cli_say_cut(cli, found.count, filter.limit);
    return print_list(cli, &found);
}

const struct cli_command cli_lease_commands[] = {
    {"lease", "acquire",
     "ENVIRONMENT [--ttl 1h] [--run ID] [--issue ID] [--workspace ID] [--mode TEXT] [--timeout 5m]"
     " [--retain-on-failure]",
     "take a lease on an environment", acquire},
    {"lease", "list", "[--env NAME|ID] [--run ID] [--status STATUS] [--all] [--limit N]",
     "leases that are open, parked or owe clean-up; --all shows past ones too", list},
    {"lease", "show", "ID", "one lease", show_one},
    {"lease", "release", "ID [--status released|failed] [--reason TEXT]",
     "give the place back; twice is fine", release},
    {"lease", "destroy", "ID", "end the place, parked or not", destroy},
    {"lease", "acknowledge", "ID",
     "you have looked after a place whose provider cannot be asked: nothing is owed", acknowledge},
    {0},
};
