/* SPDX-License-Identifier: Apache-2.0
 * src/cli/far_workspace.c - see far_workspace.h. The client performs the run: it creates the run
 * and its lease, sends the directory, has the command run, fetches the changes, and finishes the
 * run, which releases the lease. Work that is not home keeps the place. */
#include "cli/far_workspace.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/id.h"
#include "base/json.h"
#include "base/limits.h"
#include "cli/client.h"
#include "cli/exit_status.h"
#include "cli/far_site.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "cli/sync.h"
#include "core/run/run_workspace.h"
#include "core/workspace/workspace.h"

bool cli_is_far(const struct cli *cli)
{
    return cli->daemon && !cli->daemon->socket;
}

/* --- both ways --- */

/* Draws a line on the terminal, over the last one. */
static void draw_progress(void *ctx, const struct berth_workspace_progress *now)
{
    char text[CLI_PROGRESS_SIZE];
    cli_progress_text(ctx, now, text);
    (void)fprintf(stderr, "\r\033[K%s", text);
}

/* Returns what shows a transfer; NULL: stderr is not a terminal. */
static berth_workspace_progress_fn *progress_of(const struct cli *cli)
{
    return isatty(STDERR_FILENO) && !cli->quiet && !cli->json ? draw_progress : NULL;
}

static void erase_progress(berth_workspace_progress_fn *drawn)
{
    if (drawn)
        (void)fputs("\r\033[K", stderr);
}

static int push_into(struct cli *cli, const char *lease_id, const struct berth_run_sync *sync,
                     const char *label, const char *directory, struct berth_workspace_report *out)
{
    auto_far_site site = {0};
    struct cli_progress progress = {0};
    struct berth_workspace_push push = BERTH_WORKSPACE_PUSH_INIT;
    push.lease_id = lease_id;
    push.path = sync->path;
    push.exclude = sync->exclude;
    push.on_conflict = sync->on_conflict;
    push.branch = sync->branch;
    push.setup = sync->setup;
    push.label = label;
    push.cancel_fd = cli->cancel_fd;
    push.on_progress = progress_of(cli);
    push.ctx = &progress;
    int rc = cli_far_site_open(cli, &site);
    if (rc == BERTH_OK)
        rc = berth_workspace_site_push(&site.base, &cli->arena, &push, directory, out, &cli->err);
    erase_progress(push.on_progress);
    return rc;
}

int cli_far_push(struct cli *cli, const char *lease_id, const struct berth_run_sync *sync,
                 const char **json)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    struct berth_workspace_report report;
    const char *directory = cli_far_directory(cli, lease_id);
    int rc = directory ? push_into(cli, lease_id, sync, NULL, directory, &report) : cli->err.code;
    if (rc < 0)
        return rc;
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "cwd", report.cwd);
    berth_json_put_int(&w, "files", (int64_t)report.files);
    berth_json_put_int(&w, "bytes", report.bytes);
    berth_json_put_str(&w, "note", report.note);
    berth_workspace_put_findings(&w, &report);
    berth_json_close(&w, '}');
    rc = berth_buf_check(&buf, "The report", &cli->err);
    if (rc == BERTH_OK)
        *json = berth_arena_strdup(&cli->arena, berth_buf_str(&buf));
    return rc < 0 ? rc : berth_arena_check(&cli->arena, &cli->err);
}

int cli_far_pull(struct cli *cli, const struct berth_workspace_pull *pull,
                 struct berth_workspace_report *report)
{
    auto_far_site site = {0};
    struct cli_progress progress = {0};
    struct berth_workspace_pull watched = *pull;
    watched.on_progress = progress_of(cli);
    watched.ctx = &progress;
    int rc = cli_far_site_open(cli, &site);
    if (rc == BERTH_OK)
        rc = berth_workspace_site_pull(&site.base, &cli->arena, &watched, report, &cli->err);
    erase_progress(watched.on_progress);
    return rc;
}

int cli_measure_workspace(struct cli *cli, const struct berth_run_sync *sync)
{
    auto_far_site site = {0};
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    struct berth_id id = berth_id_new_random(); /* no lease: a name for scratch files */
    struct berth_workspace_push push = BERTH_WORKSPACE_PUSH_INIT;
    struct berth_workspace_report report;
    push.lease_id = id.text;
    push.path = sync->path;
    push.exclude = sync->exclude;
    push.dry_run = true;
    int rc = cli_far_site_open(cli, &site);
    if (rc == BERTH_OK)
        rc = berth_workspace_site_push(&site.base, &cli->arena, &push, "", &report, &cli->err);
    if (rc < 0)
        return cli_run_failed(cli);
    if (!cli->json) {
        berth_buf_printf(&buf, "%zu files with %lld bytes would be sent; nothing was run",
                         report.files, (long long)report.bytes);
        return cli_print(cli, &buf);
    }
    berth_json_open(&w, '{');
    berth_json_put_int(&w, "files", (int64_t)report.files);
    berth_json_put_int(&w, "bytes", report.bytes);
    berth_json_put_int(&w, "skipped", (int64_t)report.skipped);
    berth_json_put_str(&w, "note", report.note);
    berth_json_close(&w, '}');
    return cli_print(cli, &buf);
}

/* --- a run --- */

/* A run that this client performs. */
struct far_run {
    struct cli *cli;
    struct berth_run_request *request;
    const char *run_id, *lease_id, *directory;
    const char *report;     /* what became of the workspace, as JSON; or NULL */
    const char *diff;       /* what changed here; or NULL */
    const char *warning;    /* of the workspace that was sent; or NULL */
    struct berth_error err; /* why it failed before or after its command; code 0: it did not */
    const char *code;       /* its errorCode */
};

static int far_run_fail(struct far_run *r, const char *code)
{
    r->err = r->cli->err;
    r->code = r->err.code == BERTH_E_CANCELLED ? "cancelled" : code;
    return r->err.code;
}

/* Returns the id of the environment: the one that was named, or the company's local one. */
static const char *environment_of(struct far_run *r)
{
    struct cli_answer all;
    if (r->request->environment_id)
        return r->request->environment_id;
    if (cli_get(r->cli, &all, "/api/companies/%s/environments", r->cli->company_id) < 0)
        return NULL;
    for (size_t i = 0; i < berth_json_count(all.json); i++)
        if (cli_is(berth_json_at(all.json, i), "driver", "local"))
            return cli_text(berth_json_at(all.json, i), "id");
    (void)berth_fail(&r->cli->err, BERTH_E_NOT_FOUND,
                     "The company has no environment \"Local\". Name one with --environment.");
    return NULL;
}

/* Creates something whose id is in the answer. */
static const char *far_create(struct far_run *r, const struct berth_buf *body, const char *target)
{
    struct cli_answer made;
    if (cli_call(r->cli, &made, "POST", body, "%s", target) < 0)
        return NULL;
    const char *id = cli_text(made.json, "id");
    if (!id)
        (void)cli_not_understood(r->cli);
    return id;
}

static int far_run_begin(struct far_run *r)
{
    struct cli *cli = r->cli;
    auto_buf body = CLI_BODY_INIT;
    struct berth_json_writer w = {.buf = &body};
    const char *environment = environment_of(r);
    if (environment)
        r->run_id = far_create(
            r, NULL, berth_arena_printf(&cli->arena, "/api/companies/%s/runs", cli->company_id));
    if (!r->run_id)
        return far_run_fail(r, NULL);
    cli->run_id = r->run_id;
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "heartbeatRunId", r->run_id);
    if (r->request->ttl_ms)
        berth_json_put_int(&w, "ttlMs", r->request->ttl_ms);
    berth_json_close(&w, '}');
    r->lease_id = far_create(
        r, &body, berth_arena_printf(&cli->arena, "/api/environments/%s/leases", environment));
    return r->lease_id ? BERTH_OK : far_run_fail(r, "lease_acquire_failed");
}

static int far_run_send(struct far_run *r)
{
    struct berth_workspace_report report;
    r->directory = cli_far_directory(r->cli, r->lease_id);
    int rc = r->directory ? push_into(r->cli, r->lease_id, &r->request->sync, r->run_id,
                                      r->directory, &report)
                          : r->cli->err.code;
    r->warning = rc == BERTH_OK ? report.warning : NULL;
    return rc < 0 ? far_run_fail(r, "workspace_realization_failed") : rc;
}

/* Fetches the changes. What does not come home stays in the place, and the report says so. */
static void far_run_return(struct far_run *r)
{
    struct berth_workspace_pull pull = BERTH_WORKSPACE_PULL_INIT;
    const struct berth_run_sync *sync = &r->request->sync;
    struct berth_workspace_report report;
    pull.lease_id = r->lease_id;
    pull.mass_deletion = sync->mass_deletion;
    pull.diff_max = BERTH_RUN_DIFF_BYTES_MAX;
    pull.cancel_fd = r->cli->cancel_fd;
    if (!sync->no_restore && cli_far_pull(r->cli, &pull, &report) == BERTH_OK) {
        r->report = report.json;
        r->diff = report.diff && *report.diff ? report.diff : NULL;
        return;
    }
    if (!sync->no_restore)
        (void)far_run_fail(r, "workspace_not_home");
    r->report = berth_run_workspace_kept(&r->cli->arena, NULL, r->lease_id, sync->path,
                                         sync->no_restore ? NULL : r->err.message, r->warning);
}

/* Ends the run by the exit status of its command, or by the error before it. */
static int far_run_finish(struct far_run *r, int status)
{
    struct cli *cli = r->cli;
    auto_buf body = CLI_BODY_INIT;
    struct berth_json_writer w = {.buf = &body};
    struct cli_answer run;
    char words[64];
    (void)snprintf(words, sizeof words, "The command ended with status %d.", status);
    bool cancelled = r->code && strcmp(r->code, "cancelled") == 0;
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "status",
                       cancelled                 ? "cancelled"
                       : r->code                 ? "failed"
                       : status == CLI_TIMED_OUT ? "timed_out"
                       : status == CLI_OK        ? "succeeded"
                                                 : "failed");
    berth_json_put_str(&w, "error", r->code ? r->err.message : status ? words : NULL);
    berth_json_put_str(&w, "errorCode", r->code ? r->code : status ? "adapter_failed" : NULL);
    berth_json_put_raw(&w, "workspace", r->report);
    berth_json_put_foreign(&w, "workspaceDiff", r->diff);
    berth_json_close(&w, '}');
    cli->cancel_fd = -1;
    return cli_call(cli, &run, "POST", &body, "/api/runs/%s/finish", r->run_id);
}

/* Returns why the options do not work with a directory here, or NULL. */
static const char *find_misfit(const struct cli *cli, const struct berth_run_request *request)
{
    return request->secret_count        ? "--env-from-secret"
           : request->provision_command ? "--provision"
           : cli->json                  ? "--json"
                                        : NULL;
}

int cli_far_run(struct cli *cli, struct berth_run_request *request)
{
    struct far_run r = {.cli = cli, .request = request};
    const char *misfit = find_misfit(cli, request);
    int status = CLI_BERTH_FAILED;
    if (misfit) {
        (void)berth_fail(
            &cli->err, BERTH_E_UNSUPPORTED,
            "%s does not work with --workspace while the daemon is on another machine.", misfit);
        return cli_run_failed(cli);
    }
    cli->cancel_fd = cli_cancel_fd();
    int rc = far_run_begin(&r);
    if (rc == BERTH_OK)
        rc = far_run_send(&r);
    if (rc == BERTH_OK) {
        struct berth_exec_request *command = &request->command;
        command->lease_id = r.lease_id;
        if (!command->cwd || *command->cwd != '/')
            command->cwd = command->cwd
                               ? berth_arena_printf(&cli->arena, "%s/%s", r.directory, command->cwd)
                               : r.directory;
        status = cli_remote_exec(cli, command);
        cli->cancel_fd = cli_cancel_fd();
        far_run_return(&r);
    }
    if (r.run_id && far_run_finish(&r, status) < 0 && !r.code)
        (void)far_run_fail(&r, "adapter_failed");
    if (r.lease_id)
        cli_far_site_tidy(cli, r.lease_id);
    cli_sync_say(cli, stderr, r.report);
    if (!r.code || r.report)
        return r.code && status == CLI_OK ? CLI_BERTH_FAILED : status;
    cli->err = r.err;
    return cli_run_failed(cli);
}
