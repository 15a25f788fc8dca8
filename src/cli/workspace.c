/* SPDX-License-Identifier: Apache-2.0
 * src/cli/workspace.c - berth workspace: sends a directory to the place of a lease, shows what
 * changed there, brings the changes home, and opens a place that was kept. */
#include <string.h>

#include "base/auto.h"
#include "base/limits.h"
#include "cli/arguments.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/far_site.h"
#include "cli/far_workspace.h"
#include "cli/interrupt.h"
#include "cli/lookup.h"
#include "cli/print.h"
#include "cli/sync.h"
#include "cli/table.h"
#include "core/workspace/workspace.h"

static int push_from_here(struct cli *cli, const char *lease_id, const struct berth_run_sync *sync,
                          const struct cli_cell *lines)
{
    auto_json *json = NULL;
    struct cli_answer report = {0};
    int rc = cli_far_push(cli, lease_id, sync, &report.text);
    if (rc == BERTH_OK)
        rc = berth_json_parse(report.text, strlen(report.text), BERTH_JSON_OURS, &json, &cli->err);
    report.json = json;
    if (rc < 0)
        return cli_fail(cli);
    cli_sync_say_findings(cli, stderr, report.json);
    return cli_print_one(cli, &report, lease_id, lines);
}

static int workspace_push(struct cli *cli, int argc, char **argv)
{
    static const struct cli_cell lines[] = {{"directory", "cwd"},
                                            {"files", "files", CLI_NUMBER},
                                            {"bytes", "bytes", CLI_NUMBER},
                                            {"note", "note"},
                                            {0}};
    struct cli_sync o = {0};
    struct berth_run_sync sync = {0};
    const struct cli_option options[] = {CLI_SYNC_OPTIONS(&o), {0}};
    auto_buf body = CLI_BODY_INIT;
    struct berth_json_writer w = {.buf = &body};
    struct cli_answer report;
    const char *id;
    if (cli_parse(cli, argc, argv, options, 2, 2) < 0)
        return CLI_USAGE;
    o.path = argv[1];
    if (cli_sync_read(cli, &o, &sync) != CLI_OK)
        return CLI_USAGE;
    cli->cancel_fd = cli_cancel_fd();
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    if (cli_find_id(cli, "lease", argv[0], &id) < 0)
        return cli_fail(cli);
    if (cli_is_far(cli))
        return push_from_here(cli, id, &sync, lines);
    berth_json_open(&w, '{');
    cli_sync_put(cli, &w, NULL, &sync);
    berth_json_close(&w, '}');
    if (cli_call(cli, &report, "POST", &body, "/api/environment-leases/%s/workspace/push", id) < 0)
        return cli_fail(cli);
    cli_sync_say_findings(cli, stderr, report.json);
    return cli_print_one(cli, &report, id, lines);
}

static int pull_to_here(struct cli *cli, const char *lease_id, const char *on_conflict,
                        bool mass_deletion, bool dry_run)
{
    struct berth_workspace_pull wanted = BERTH_WORKSPACE_PULL_INIT;
    struct berth_workspace_report report;
    (void)cli_choice(cli, "on-conflict", on_conflict, &berth_merge_policies, &wanted.on_conflict);
    wanted.cancel_fd = cli->cancel_fd;
    wanted.lease_id = lease_id;
    wanted.mass_deletion = mass_deletion;
    wanted.dry_run = dry_run;
    wanted.diff_max = dry_run ? BERTH_WORKSPACE_DIFF_BYTES_MAX : 0;
    if (cli_far_pull(cli, &wanted, &report) < 0)
        return cli_fail(cli);
    cli_far_site_tidy(cli, lease_id);
    if (cli->json)
        return cli_print_text(cli, report.json_with_diff);
    cli_sync_say(cli, stdout, report.json_with_diff);
    return CLI_OK;
}

static int pull(struct cli *cli, const char *lease, const char *on_conflict, bool mass_deletion,
                bool dry_run)
{
    auto_buf body = CLI_BODY_INIT;
    struct berth_json_writer w = {.buf = &body};
    struct cli_answer report;
    const char *id;
    cli->cancel_fd = cli_cancel_fd(); /* nothing has changed here after an interrupt */
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    if (cli_find_id(cli, "lease", lease, &id) < 0)
        return cli_fail(cli);
    if (cli_is_far(cli))
        return pull_to_here(cli, id, on_conflict, mass_deletion, dry_run);
    berth_json_open(&w, '{');
    cli_put(cli, &w, "onConflict", on_conflict);
    berth_json_put_bool(&w, "massDeletion", mass_deletion);
    berth_json_put_bool(&w, "dryRun", dry_run);
    berth_json_put_bool(&w, "diff", dry_run);
    berth_json_close(&w, '}');
    if (cli_call(cli, &report, "POST", &body, "/api/environment-leases/%s/workspace/pull", id) < 0)
        return cli_fail(cli);
    if (cli->json)
        return cli_print_text(cli, report.text);
    cli_sync_say_object(cli, stdout, report.json);
    return CLI_OK;
}

static int workspace_pull(struct cli *cli, int argc, char **argv)
{
    const char *on_conflict = NULL;
    bool mass_deletion = false;
    int ignored;
    const struct cli_option options[] = {
        {"on-conflict", &on_conflict}, {"mass-deletion", .flag = &mass_deletion}, {0}};
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0 ||
        cli_choice(cli, "on-conflict", on_conflict, &berth_merge_policies, &ignored) != CLI_OK)
        return CLI_USAGE;
    return pull(cli, argv[0], on_conflict, mass_deletion, false);
}

static int workspace_diff(struct cli *cli, int argc, char **argv)
{
    const struct cli_option options[] = {{0}};
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0)
        return CLI_USAGE;
    return pull(cli, argv[0], NULL, true, true);
}

static int workspace_open(struct cli *cli, int argc, char **argv)
{
    static const struct cli_cell lines[] = {{"status", "status"}, {"until", "expiresAt"}, {0}};
    const struct cli_option options[] = {{0}};
    auto_buf body = CLI_BODY_INIT;
    struct berth_json_writer w = {.buf = &body};
    struct cli_answer done, lease;
    const char *id;
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0)
        return CLI_USAGE;
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "state", "reopen");
    berth_json_close(&w, '}');
    if (cli_find_id(cli, "lease", argv[0], &id) < 0 ||
        cli_call(cli, &done, "POST", &body, "/api/environment-leases/%s/workspace/work", id) < 0 ||
        cli_call(cli, &lease, "GET", NULL, "/api/environment-leases/%s", id) < 0)
        return cli_fail(cli);
    return cli_print_one(cli, &lease, id, lines);
}

const struct cli_command cli_workspace_commands[] = {
    {"workspace", "push", "LEASE DIR " CLI_SYNC_USAGE, "send a directory to the place of a lease",
     workspace_push},
    {"workspace", "pull", "LEASE [--on-conflict keep-both|remote|local|fail] [--mass-deletion]",
     "bring the changes home, also from a place that was kept", workspace_pull},
    {"workspace", "diff", "LEASE", "show what a pull would change", workspace_diff},
    {"workspace", "open", "LEASE", "use a place that was kept with work for an hour",
     workspace_open},
    {0},
};
