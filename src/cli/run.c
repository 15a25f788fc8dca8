/* SPDX-License-Identifier: Apache-2.0
 * src/cli/run.c - berth run: takes a lease, runs a command in its place with its streams as if it
 * ran here, and gives the place back. berth run list and show print the rows of runs. */
#include "core/run/run.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "cli/arguments.h"
#include "cli/client.h"
#include "cli/command_options.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/exit_status.h"
#include "cli/far_workspace.h"
#include "cli/lookup.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "cli/run_socket.h"
#include "cli/session.h"
#include "cli/supervise.h"
#include "cli/sync.h"
#include "cli/table.h"
#include "core/run/exec.h"
#include "core/run/exec_result.h"

/* --- berth run list, berth run show --- */

static int run_list(struct cli *cli, int argc, char **argv)
{
    static const struct cli_cell columns[] = {{"ID", "id", CLI_ID},
                                              {"STATUS", "status", CLI_STATUS},
                                              {"STARTED", "startedAt", CLI_WHEN},
                                              {"FINISHED", "finishedAt", CLI_WHEN},
                                              {"ERROR", "error"},
                                              {0}};
    const char *as = NULL, *limit = NULL;
    const struct cli_option options[] = {{"status", &as}, {"limit", &limit}, {0}};
    struct cli_answer found;
    int rows, ignored;
    if (cli_parse(cli, argc, argv, options, 0, 0) < 0 ||
        cli_choice(cli, "status", as, &berth_run_statuses, &ignored) != CLI_OK ||
        cli_limit(cli, limit, &rows) != CLI_OK)
        return CLI_USAGE;
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    if (cli_get(cli, &found, "/api/companies/%s/runs?limit=%d%s%s", cli->company_id, rows,
                as ? "&status=" : "", as ? as : "") < 0)
        return cli_fail(cli);
    cli_say_cut(cli, &found, rows);
    return cli_print_list(cli, &found, columns);
}

static int run_show(struct cli *cli, int argc, char **argv)
{
    static const struct cli_cell lines[] = {{"id", "id"},
                                            {"status", "status", CLI_STATUS},
                                            {"environment", "environmentId"},
                                            {"error", "error"},
                                            {"code", "errorCode"},
                                            {"started", "startedAt", CLI_WHEN, "-"},
                                            {"finished", "finishedAt", CLI_WHEN, "-"},
                                            {0}};
    struct cli_answer run;
    const char *id;
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    if (status != CLI_OK)
        return status;
    if (cli_find_id(cli, "run", argv[0], &id) < 0 || cli_get(cli, &run, "/api/runs/%s", id) < 0)
        return cli_fail(cli);
    status = cli_print_one(cli, &run, id, lines);
    if (status == CLI_OK && !cli->json && !cli->quiet)
        cli_sync_say_run(cli, run.json);
    return status;
}

/* --- berth run --- */

/* Reads "NAME=SECRET": a variable, and the name or id of the secret whose value it gets. */
static int add_secret(struct cli *cli, const char *text, struct berth_run_secret *out)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    size_t len = strspn(text, letters);
    const struct berth_json *secret;
    if (!len || (*text >= '0' && *text <= '9') || text[len] != '=' || !text[len + 1])
        return cli_usage(cli,
                         "--env-from-secret %s: write NAME=SECRET, NAME with letters, digits "
                         "and _",
                         text);
    if (cli_find_secret(cli, text + len + 1, &secret) < 0)
        return cli_run_failed(cli);
    out->variable = berth_arena_copy(&cli->arena, text, len);
    out->secret_id = cli_text(secret, "id");
    return out->variable ? CLI_OK : cli_fail(cli);
}

static int add_secrets(struct cli *cli, const struct berth_list *texts,
                       struct berth_run_request *request)
{
    struct berth_run_secret *all =
        berth_arena_alloc(&cli->arena, ((size_t)texts->count + 1) * sizeof *all);
    int status = all ? CLI_OK : cli_fail(cli);
    for (int i = 0; status == CLI_OK && i < texts->count; i++) {
        status = add_secret(cli, texts->items[i], &all[i]);
        for (int j = 0; status == CLI_OK && j < i; j++)
            if (strcmp(all[j].variable, all[i].variable) == 0)
                status = cli_usage(cli, "--env-from-secret gives %s twice", all[i].variable);
    }
    request->secrets = all;
    request->secret_count = texts->count;
    return status;
}

static void say_phase(void *ctx, enum berth_run_phase phase)
{
    static const char *const words[] = {[BERTH_PHASE_ACQUIRING] = "acquiring",
                                        [BERTH_PHASE_REALIZING] = "acquiring",
                                        [BERTH_PHASE_SENDING] = "sending the workspace",
                                        [BERTH_PHASE_PROVISIONING] = "provisioning",
                                        [BERTH_PHASE_RUNNING] = "running",
                                        [BERTH_PHASE_RETURNING] = "bringing the work home",
                                        [BERTH_PHASE_RELEASING] = "releasing"};
    cli_session_say(ctx, words[phase]);
}

/* The session is the context of all callbacks of a run, and one run is performed at a time. */
static void say_progress(void *ctx, const struct berth_workspace_progress *now)
{
    static struct cli_progress progress;
    char text[CLI_PROGRESS_SIZE];
    cli_progress_text(&progress, now, text);
    cli_session_say(ctx, text);
}

/* Prints the run, and the result of its command if that was started. */
static int run_print_json(struct cli *cli, const struct berth_run_result *r)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX), row = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX),
             result = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    if (r->started && berth_exec_result_json(&(struct berth_json_writer){.buf = &result}, r->log,
                                             r->exec_id, &r->end, r->truncated, &cli->err) < 0)
        return cli_run_failed(cli);
    berth_run_json_with_diff(&(struct berth_json_writer){.buf = &row}, r->run);
    berth_json_open(&w, '{');
    berth_json_put_raw(&w, "run", berth_buf_str(&row));
    berth_json_put_raw(&w, "result", r->started ? berth_buf_str(&result) : NULL);
    berth_json_close(&w, '}');
    return cli_print(cli, &buf);
}

/* Compares the end of the command with that of its run in the ledger. While this process was
 * suspended, another one may have ended the run and given its place to others. */
static int run_exit_status(struct cli *cli, const struct berth_run_result *r)
{
    int status = cli_exit_status(cli, &r->end, r->truncated);
    const char *code = r->run->error_code;
    if (!code || strcmp(code, "process_lost") != 0 || r->end.cause == BERTH_END_LOST)
        return status;
    (void)fprintf(stderr,
                  "berth: another process has ended this run and released its place, because this "
                  "one did not answer: %s The exit status of the command was %d.\n",
                  cli_clean(cli, r->run->error), status);
    return status == CLI_OK ? CLI_BERTH_FAILED : status;
}

static int run_here(struct cli *cli, struct berth_run_request *request)
{
    struct cli_session s;
    struct berth_run_result result;
    struct berth_error unheard;
    int status = cli_session_open(&s, cli);
    if (status != CLI_OK)
        return status;
    /* Without a socket other processes cannot cancel the run; that does not stop it. */
    if (cli_run_socket_open(request->run_id, s.cancel_fd, &s.control, &unheard) < 0)
        s.control = NULL;
    if (request->command.terminal)
        cli_session_copy_terminal(&s, &request->command);
    request->cancel_fd = s.cancel_fd;
    request->handlers = cli_session_handlers(&s);
    request->on_started = cli_session_start;
    request->on_stopped = cli_session_stop;
    request->on_phase = say_phase;
    request->on_progress = say_progress;
    int rc = berth_run_perform(cli->b, &cli->arena, request, &result, &cli->err);
    cli_session_close(&s);
    cli->run_id = result.run ? result.run->id : NULL;
    if (cli->json && result.run && (status = run_print_json(cli, &result)) != CLI_OK &&
        !cli->unwritten)
        return status;
    if (rc < 0 && result.run && result.run->error_code)
        return cli_not_started(cli, result.run->error_code);
    if (result.owed)
        cli_say_owed(cli);
    cli_sync_say(cli, stderr, result.workspace_json);
    if (result.run)
        cli_say_lease_ended(cli, result.run->error_code, result.run->error);
    if (rc < 0)
        return cli_run_failed(cli);
    status = run_exit_status(cli, &result);
    return status == CLI_OK && result.kept && !request->sync.no_restore ? CLI_BERTH_FAILED : status;
}

/* The options as they were given. */
struct run_options {
    struct cli_command_options command;
    const char *environment, *ttl, *provision;
    struct berth_list secrets; /* "NAME=SECRET" */
    bool detach, keep_stdin, in_place;
    struct cli_sync sync;
    bool no_restore, mass_deletion, dry_run;
};

/* Reads the words of the command line. Returns CLI_OK, or the exit status after the error has been
 * printed. */
static int read_options(struct cli *cli, int argc, char **argv, struct run_options *o,
                        struct berth_run_request *request)
{
    const struct cli_option options[] = {{"environment", &o->environment},
                                         {"cwd", &o->command.cwd},
                                         {"env", .texts = &o->command.env},
                                         {"env-from-secret", .texts = &o->secrets},
                                         {"timeout", &o->command.timeout},
                                         {"ttl", &o->ttl},
                                         {"provision", &o->provision},
                                         {"tty", .flag = &o->command.terminal},
                                         {"detach", .flag = &o->detach},
                                         {"stdin", .flag = &o->keep_stdin},
                                         {"in-place", .flag = &o->in_place},
                                         {"workspace", &o->sync.path},
                                         CLI_SYNC_OPTIONS(&o->sync),
                                         {"no-restore", .flag = &o->no_restore},
                                         {"mass-deletion", .flag = &o->mass_deletion},
                                         {"dry-run", .flag = &o->dry_run},
                                         {0}};
    int end;
    if (cli_command_split(cli, argc, argv, &end) != CLI_OK ||
        cli_parse(cli, end, argv, options, 0, 0) < 0)
        return CLI_USAGE;
    if (o->detach && o->command.terminal)
        return cli_usage(cli, "--tty is for a command in the foreground, --detach for one that is "
                              "not");
    if (o->keep_stdin && !o->detach)
        return cli_usage(cli, "--stdin belongs to --detach; in the foreground stdin is passed on");
    if (o->in_place && o->sync.path)
        return cli_usage(cli, "--workspace sends a directory, --in-place works in it: give one");
    if (o->dry_run && !o->sync.path)
        return cli_usage(cli, "--dry-run belongs to --workspace");
    if (o->dry_run && o->sync.branch)
        return cli_usage(cli, "--dry-run counts the files of a directory, not of a branch");
    int status = cli_command_request(cli, &o->command, argv + end + 1, &request->command);
    if (status == CLI_OK)
        status = cli_sync_read(cli, &o->sync, &request->sync);
    request->sync.no_restore = o->no_restore;
    request->sync.mass_deletion = o->mass_deletion;
    if (status == CLI_OK && o->ttl && !berth_time_parse_duration(o->ttl, &request->ttl_ms))
        status = cli_usage(cli, "--ttl \"%s\" is not a duration: write 90s, 15m, 1h or 2d", o->ttl);
    return status;
}

static int run_there(struct cli *cli, struct berth_run_request *request,
                     const struct run_options *o)
{
    request->command.with_stdin = !o->detach || o->keep_stdin;
    return cli_remote_run(cli, request, o->detach);
}

/* Makes the run work in the directory itself: in the current one where the environment is this
 * machine, else in the one that its config names. */
static int work_in_place(struct cli *cli, const struct berth_json *environment,
                         struct berth_run_request *request)
{
    const char *local = berth_environment_drivers.names[BERTH_DRIVER_DEFAULT];
    request->in_place = true;
    if (environment && !cli_is(environment, "driver", local))
        return CLI_OK;
    if (cli->daemon && !cli->daemon->socket) {
        (void)berth_fail(&cli->err, BERTH_E_UNPROCESSABLE,
                         "--in-place needs a daemon on this machine: %s cannot see this directory.",
                         cli->daemon->where);
        return cli_run_failed(cli);
    }
    auto_free char *here = getcwd(NULL, 0);
    request->workspace = here ? berth_arena_strdup(&cli->arena, here) : NULL;
    if (request->workspace)
        return CLI_OK;
    (void)berth_fail_errno(&cli->err, "Cannot read the current directory");
    return cli_run_failed(cli);
}

static int run_main(struct cli *cli, int argc, char **argv)
{
    struct run_options o = {0};
    struct berth_run_request request = BERTH_RUN_REQUEST_INIT;
    const struct berth_json *e = NULL;
    int status = read_options(cli, argc, argv, &o, &request);
    if (status == CLI_OK && o.dry_run)
        return cli_measure_workspace(cli, &request.sync);
    if (status == CLI_OK)
        status = cli_open(cli);
    if (status != CLI_OK)
        return status == CLI_USAGE ? status : CLI_BERTH_FAILED;
    if (o.environment && cli_find_environment(cli, o.environment, &e) < 0)
        return cli_run_failed(cli);
    status = add_secrets(cli, &o.secrets, &request);
    if (status != CLI_OK)
        return status;
    struct berth_id id = berth_id_new_random();
    request.run_id = id.text;
    request.company_id = cli->company_id;
    request.environment_id = e ? cli_text(e, "id") : NULL;
    request.provision_command = o.provision;
    request.actor = &cli->actor;
    if (request.sync.path && cli_is_far(cli)) {
        if (!o.detach)
            return cli_far_run(cli, &request);
        (void)berth_fail(&cli->err, BERTH_E_UNSUPPORTED,
                         "--detach does not work with --workspace while the daemon is on another "
                         "machine: this process sends the directory and fetches the changes.");
        return cli_run_failed(cli);
    }
    if (o.in_place && work_in_place(cli, e, &request) != CLI_OK)
        return CLI_BERTH_FAILED;
    if (cli->daemon)
        return run_there(cli, &request, &o);
    return o.detach ? cli_detach(cli, &request, o.keep_stdin) : run_here(cli, &request);
}

const struct cli_command cli_run_commands[] = {
    {"run", "list", "[--status STATUS] [--limit N]", "runs, newest first", run_list},
    {"run", "show", "ID", "one run", run_show},
    {"run", NULL,
     "[-e|--environment ENVIRONMENT] [-C|--cwd DIR] [--env NAME[=VALUE]]..."
     " [--env-from-secret NAME=SECRET]... [--timeout 15m] [--ttl 1h] [--provision COMMAND]"
     " [-w|--workspace DIR " CLI_SYNC_USAGE
     " [--no-restore] [--mass-deletion] [--dry-run]] [--in-place] [-t|--tty] [-d|--detach "
     "[--stdin]] -- "
     "COMMAND [ARGUMENT]...",
     "take a lease, run the command in the place, and give the place back", run_main},
    {0},
};
