/* SPDX-License-Identifier: Apache-2.0
 * src/cli/lease.c - berth lease ... */
#include <string.h>

#include "base/id.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "core/lease.h"

static int show(struct cli *cli, const struct berth_lease *l)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    if (cli->quiet) {
        berth_buf_puts(&buf, l->id);
    } else if (cli->json) {
        berth_lease_json(&w, l);
    } else {
        berth_buf_printf(&buf,
                         "id           %s\nenvironment  %s\nstatus       %s\nplace        %s%s%s\n"
                         "policy       %s\nprovider     %s\nacquired     %s\nexpires      %s",
                         l->id, l->environment_id, berth_lease_statuses.names[l->status],
                         berth_lease_places.names[l->place], l->provider_lease_id ? " " : "",
                         l->provider_lease_id ? l->provider_lease_id : "",
                         berth_lease_policies.names[l->policy], l->provider ? l->provider : "-",
                         cli_when(cli, l->acquired_at_ms), cli_when(cli, l->expires_at_ms));
        if (l->heartbeat_run_id)
            berth_buf_printf(&buf, "\nrun          %s", l->heartbeat_run_id);
        if (l->released_at_ms)
            berth_buf_printf(&buf, "\nreleased     %s", cli_when(cli, l->released_at_ms));
        if (l->failure_reason)
            berth_buf_printf(&buf, "\nreason       %s", l->failure_reason);
        if (l->cleanup)
            berth_buf_printf(&buf, "\nclean-up     %s%s%s", berth_lease_cleanups.names[l->cleanup],
                             l->cleanup_error ? ": " : "",
                             l->cleanup_error ? l->cleanup_error : "");
    }
    return cli_print(cli, &buf);
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
    if (ttl && !cli_duration(ttl, &request.ttl_ms))
        return cli_usage(cli, "--ttl \"%s\" is no time: write 90s, 15m, 1h or 2d", ttl);
    if (timeout && !cli_duration(timeout, &request.timeout_ms))
        return cli_usage(cli, "--timeout \"%s\" is no time: write 90s, 15m or 1h", timeout);
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    struct berth_environment *e;
    struct berth_lease *l;
    request.actor = &cli->actor;
    if (cli_find_environment(cli, argv[0], &e) < 0)
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
    request.lease_id = argv[0];
    request.actor = &cli->actor;
    struct berth_lease *l;
    if (berth_lease_release(cli->b, &cli->arena, &request, &l, &cli->err) < 0)
        return cli_fail(cli);
    return show(cli, l);
}

static int on_one(struct cli *cli, int argc, char **argv,
                  int (*act)(struct cli *cli, const char *id, struct berth_lease **out))
{
    if (cli_parse(cli, argc, argv, NULL, 1, 1) < 0)
        return CLI_USAGE;
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    struct berth_lease *l;
    if (act(cli, argv[0], &l) < 0)
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

static int print_json_list(struct cli *cli, const struct berth_list *list)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    berth_json_open(&w, '[');
    for (int i = 0; i < list->count; i++)
        berth_lease_json(&w, list->items[i]);
    berth_json_close(&w, ']');
    return cli_print(cli, &buf);
}

static int print_table(struct cli *cli, const struct berth_list *list)
{
    static const char *const heading[] = {"ID",       "ENVIRONMENT", "STATUS", "PLACE",
                                          "CLEAN-UP", "USED",        "EXPIRES"};
    struct berth_list rows = {0};
    for (int i = 0; i < list->count; i++) {
        const struct berth_lease *l = list->items[i];
        const char **row = berth_arena_alloc(&cli->arena, sizeof heading);
        if (!row || !berth_list_add(&rows, &cli->arena, row))
            break;
        row[0] = l->id;
        row[1] = l->environment_id;
        row[2] = berth_lease_statuses.names[l->status];
        row[3] = berth_lease_places.names[l->place];
        row[4] = l->cleanup ? berth_lease_cleanups.names[l->cleanup] : "-";
        row[5] = cli_when(cli, l->last_used_at_ms);
        row[6] = l->due_at_ms ? cli_when(cli, l->expires_at_ms) : "-";
    }
    if (berth_arena_check(&cli->arena, &cli->err) < 0)
        return cli_fail(cli);
    return cli_table(cli, heading, cli->quiet ? 1 : 7, &rows);
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
    int64_t rows = BERTH_LIST_ROWS_DEFAULT;
    if (limit && !cli_number(limit, 1, BERTH_LIST_ROWS_MAX, &rows))
        return cli_usage(cli, "--limit is a number from 1 to %d", BERTH_LIST_ROWS_MAX);
    if (as && (filter.status = berth_enum_find(&berth_lease_statuses, as)) < 0)
        return cli_usage(cli, "--status \"%s\" is none a lease can have", as);
    if (run && !berth_id_valid(run))
        return cli_usage(cli, "--run \"%s\" is no id", run);
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    struct berth_environment *e = NULL;
    if (environment && cli_find_environment(cli, environment, &e) < 0)
        return cli_fail(cli);
    filter.environment_id = e ? e->id : NULL;
    filter.run_id = run;
    filter.limit = (int)rows;
    filter.standing_only = !all && !as;
    struct berth_list found;
    if (berth_lease_list(cli->b, &cli->arena, &filter, &found, &cli->err) < 0)
        return cli_fail(cli);
    cli_say_cut(cli, found.count, filter.limit);
    return cli->json ? print_json_list(cli, &found) : print_table(cli, &found);
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
