/* SPDX-License-Identifier: Apache-2.0
 * src/cli/lease.c - berth lease: acquires, lists, releases and destroys leases. */
#include <string.h>

#include "base/time.h"
#include "cli/arguments.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/lookup.h"
#include "cli/print.h"
#include "cli/table.h"
#include "core/lease/lease.h"

static const char *place_of(struct cli *cli, const struct berth_json *lease)
{
    const char *place = cli_text(lease, "place"), *id = cli_text(lease, "providerLeaseId");
    return place && id ? berth_arena_printf(&cli->arena, "%s %s", place, id) : place;
}

static const char *cleanup_of(struct cli *cli, const struct berth_json *lease)
{
    const char *cleanup = cli_text(lease, "cleanupStatus"), *why = cli_text(lease, "cleanupError");
    return cleanup && why ? berth_arena_printf(&cli->arena, "%s: %s", cleanup, why) : cleanup;
}

static int lease_print(struct cli *cli, const struct cli_answer *lease)
{
    static const struct cli_cell lines[] = {{"id", "id"},
                                            {"environment", "environmentId"},
                                            {"status", "status", CLI_STATUS},
                                            {"place", .text = place_of},
                                            {"policy", "leasePolicy"},
                                            {"provider", "provider", .otherwise = "-"},
                                            {"acquired", "acquiredAt", CLI_WHEN, "-"},
                                            {"expires", "expiresAt", CLI_WHEN, "-"},
                                            {"run", "heartbeatRunId"},
                                            {"released", "releasedAt", CLI_WHEN},
                                            {"reason", "failureReason"},
                                            {"clean-up", .text = cleanup_of},
                                            {0}};
    return cli_print_one(cli, lease, cli_text(lease->json, "id"), lines);
}

static int lease_acquire(struct cli *cli, int argc, char **argv)
{
    const char *run = NULL, *issue = NULL, *workspace = NULL, *mode = NULL;
    const char *ttl = NULL, *timeout = NULL;
    int64_t ttl_ms = 0, timeout_ms = 0;
    bool retain = false;
    const struct cli_option options[] = {
        {"run", &run},
        {"issue", &issue},
        {"workspace", &workspace},
        {"mode", &mode},
        {"ttl", &ttl},
        {"timeout", &timeout},
        {"retain-on-failure", .flag = &retain},
        {0},
    };
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0)
        return CLI_USAGE;
    if (ttl && !berth_time_parse_duration(ttl, &ttl_ms))
        return cli_usage(cli, "--ttl \"%s\" is not a duration: write 90s, 15m, 1h or 2d", ttl);
    if (timeout && !berth_time_parse_duration(timeout, &timeout_ms))
        return cli_usage(cli, "--timeout \"%s\" is not a duration: write 90s, 15m or 1h", timeout);
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    auto_buf body = CLI_BODY_INIT;
    struct berth_json_writer w = {.buf = &body};
    const struct berth_json *environment;
    struct cli_answer lease;
    if (cli_find_environment(cli, argv[0], &environment) < 0 ||
        (run && cli_find_id(cli, "run", run, &run) < 0))
        return cli_fail(cli);
    berth_json_open(&w, '{');
    cli_put(cli, &w, "heartbeatRunId", run);
    cli_put(cli, &w, "issueId", issue);
    cli_put(cli, &w, "executionWorkspaceId", workspace);
    cli_put(cli, &w, "executionWorkspaceMode", mode);
    berth_json_put_int(&w, "ttlMs", ttl_ms);
    if (timeout)
        berth_json_put_int(&w, "timeoutMs", timeout_ms);
    berth_json_put_bool(&w, "retainOnFailure", retain);
    berth_json_close(&w, '}');
    if (cli_call(cli, &lease, "POST", &body, "/api/environments/%s/leases",
                 cli_text(environment, "id")) < 0)
        return cli_fail(cli);
    return lease_print(cli, &lease);
}

static int lease_release(struct cli *cli, int argc, char **argv)
{
    const char *as = NULL, *reason = NULL, *id;
    bool discard = false;
    const struct cli_option options[] = {
        {"status", &as}, {"reason", &reason}, {"discard-work", .flag = &discard}, {0}};
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0)
        return CLI_USAGE;
    if (as && strcmp(as, "failed") != 0 && strcmp(as, "released") != 0)
        return cli_usage(cli, "--status is released or failed");
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    auto_buf body = CLI_BODY_INIT;
    struct berth_json_writer w = {.buf = &body};
    struct cli_answer lease;
    berth_json_open(&w, '{');
    cli_put(cli, &w, "status", as);
    cli_put(cli, &w, "failureReason", reason);
    if (discard)
        berth_json_put_bool(&w, "discardWork", true);
    berth_json_close(&w, '}');
    if (cli_find_id(cli, "lease", argv[0], &id) < 0 ||
        cli_call(cli, &lease, "POST", &body, "/api/environment-leases/%s/release", id) < 0)
        return cli_fail(cli);
    return lease_print(cli, &lease);
}

/* Gets a lease, or calls an action on it, and prints it. */
static int lease_call(struct cli *cli, int argc, char **argv, const char *method, const char *what)
{
    const char *id;
    struct cli_answer lease;
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    if (status != CLI_OK)
        return status;
    if (cli_find_id(cli, "lease", argv[0], &id) < 0 ||
        cli_call(cli, &lease, method, NULL, "/api/environment-leases/%s%s", id, what) < 0)
        return cli_fail(cli);
    return lease_print(cli, &lease);
}

static int lease_show(struct cli *cli, int argc, char **argv)
{
    return lease_call(cli, argc, argv, "GET", "");
}

static int lease_destroy(struct cli *cli, int argc, char **argv)
{
    bool discard = false;
    const struct cli_option options[] = {{"discard-work", .flag = &discard}, {0}};
    auto_buf body = CLI_BODY_INIT;
    const char *id;
    struct cli_answer lease;
    int status = cli_start(cli, argc, argv, options, 1, 1);
    if (status != CLI_OK)
        return status;
    berth_buf_puts(&body, discard ? "{\"discardWork\":true}" : "{}");
    if (cli_find_id(cli, "lease", argv[0], &id) < 0 ||
        cli_call(cli, &lease, "POST", &body, "/api/environment-leases/%s/destroy", id) < 0)
        return cli_fail(cli);
    return lease_print(cli, &lease);
}

static int lease_acknowledge(struct cli *cli, int argc, char **argv)
{
    return lease_call(cli, argc, argv, "POST", "/acknowledge");
}

/* --- lists --- */

static struct cli_answer environments; /* of the company, for their names */

/* Returns the name of the lease's environment, or the id of a deleted one. */
static const char *lease_environment_name(struct cli *cli, const struct berth_json *lease)
{
    const char *id = cli_text(lease, "environmentId");
    (void)cli;
    for (size_t i = 0; id && i < berth_json_count(environments.json); i++) {
        const struct berth_json *e = berth_json_at(environments.json, i);
        if (cli_is(e, "id", id))
            return cli_text(e, "name");
    }
    return id;
}

static const char *expires_of(struct cli *cli, const struct berth_json *lease)
{
    return cli_text(lease, "dueAt") ? cli_when(cli, cli_time(lease, "expiresAt")) : NULL;
}

static const char *work_of(struct cli *cli, const struct berth_json *lease)
{
    (void)cli;
    return cli_text(lease, "workAt") ? "not home" : NULL;
}

static int lease_list(struct cli *cli, int argc, char **argv)
{
    static const struct cli_cell columns[] = {{"ID", "id", CLI_ID},
                                              {"ENVIRONMENT", .text = lease_environment_name},
                                              {"STATUS", "status", CLI_STATUS},
                                              {"PLACE", "place"},
                                              {"CLEAN-UP", "cleanupStatus", CLI_STATUS},
                                              {"WORK", .text = work_of},
                                              {"USED", "lastUsedAt", CLI_WHEN},
                                              {"EXPIRES", .text = expires_of},
                                              {0}};
    const char *name = NULL, *run = NULL, *as = NULL, *limit = NULL;
    bool all = false;
    int rows, ignored;
    const struct cli_option options[] = {{"env", &name},    {"run", &run},         {"status", &as},
                                         {"limit", &limit}, {"all", .flag = &all}, {0}};
    if (cli_parse(cli, argc, argv, options, 0, 0) < 0 ||
        cli_choice(cli, "status", as, &berth_lease_statuses, &ignored) != CLI_OK ||
        cli_limit(cli, limit, &rows) != CLI_OK)
        return CLI_USAGE;
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    const struct berth_json *environment = NULL;
    struct cli_answer found;
    if ((name && cli_find_environment(cli, name, &environment) < 0) ||
        (run && cli_find_id(cli, "run", run, &run) < 0) ||
        cli_get(cli, &environments, "/api/companies/%s/environments", cli->company_id) < 0 ||
        cli_get(cli, &found, "/api/companies/%s/leases?limit=%d&standing=%s%s%s%s%s%s%s",
                cli->company_id, rows, all || as ? "false" : "true", as ? "&status=" : "",
                as ? as : "", run ? "&runId=" : "", run ? run : "",
                environment ? "&environmentId=" : "",
                environment ? cli_text(environment, "id") : "") < 0)
        return cli_fail(cli);
    cli_say_cut(cli, &found, rows);
    return cli_print_list(cli, &found, columns);
}

const struct cli_command cli_lease_commands[] = {
    {"lease", "acquire",
     "ENVIRONMENT [--ttl 1h] [--run ID] [--issue ID] [--workspace ID] [--mode TEXT] [--timeout 5m]"
     " [--retain-on-failure]",
     "take a lease on an environment", lease_acquire},
    {"lease", "list", "[--env NAME|ID] [--run ID] [--status STATUS] [--all] [--limit N]",
     "leases that are open, parked or owe clean-up; --all shows past ones too", lease_list},
    {"lease", "show", "ID", "one lease", lease_show},
    {"lease", "release", "ID [--status released|failed] [--reason TEXT] [--discard-work]",
     "give the place back; twice is fine", lease_release},
    {"lease", "destroy", "ID [--discard-work]", "end the place, parked or not", lease_destroy},
    {"lease", "acknowledge", "ID",
     "you have looked after a place whose provider cannot be asked: nothing is owed",
     lease_acknowledge},
    {0},
};
