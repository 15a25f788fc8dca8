/* SPDX-License-Identifier: Apache-2.0
 * src/cli/remote.c - see remote.h. The output of the command comes as an event stream, and our
 * input is sent in requests. */
#include "cli/remote.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/limits.h"
#include "cli/client.h"
#include "cli/exit_status.h"
#include "cli/follow.h"
#include "cli/print.h"
#include "cli/session.h"
#include "cli/sync.h"
#include "cli/table.h"

#define RESULT_STEP_MS 100 /* between two looks for the end of a command */
#define RESULT_STEPS_MAX 50

struct remote {
    struct cli *cli;
    struct cli_session s;
    struct cli_follow follow;
    char again[CLI_TARGET_SIZE];
    const char *run_id;           /* NULL: berth exec, without a run */
    bool provisions;              /* the run has a provision command, which runs first */
    char before[BERTH_ID_SIZE];   /* the exec id of the provision command */
    struct berth_json *result;    /* of our command; NULL: it has not ended */
    struct berth_json *run;       /* the row of the run after its end */
    bool cancelled;               /* a cancel has been sent */
    const char *lease_id;         /* of berth exec */
    struct cli_progress progress; /* of the workspace of the run */
    bool log_cut;                 /* the log was cut, which also sets "truncated" of the result */
};

/* --- requests --- */

static void put_texts(struct cli *cli, struct berth_json_writer *w, const char *key,
                      const char *const *texts)
{
    berth_json_open_in(w, key, '[');
    for (; *texts; texts++)
        cli_put(cli, w, NULL, *texts);
    berth_json_close(w, ']');
}

static void put_env(struct cli *cli, struct berth_json_writer *w, const char *const *pairs)
{
    berth_json_open_in(w, "env", '{');
    for (; pairs && *pairs; pairs++) {
        const char *equals = strchr(*pairs, '=');
        const char *name = berth_arena_copy(&cli->arena, *pairs, (size_t)(equals - *pairs));
        if (name)
            cli_put(cli, w, name, equals + 1);
    }
    berth_json_close(w, '}');
}

/* Writes the members of a command. */
static void put_command(struct cli *cli, struct berth_json_writer *w,
                        const struct berth_exec_request *r)
{
    cli_put(cli, w, "command", r->argv[0]);
    put_texts(cli, w, "args", r->argv + 1);
    cli_put(cli, w, "cwd", r->cwd);
    put_env(cli, w, r->env);
    berth_json_put_bool(w, "keepStdin", r->with_stdin);
    berth_json_put_bool(w, "typedStdin", r->typed_stdin);
    berth_json_put_bool(w, "terminal", r->terminal);
    berth_json_put_int(w, "rows", r->rows);
    berth_json_put_int(w, "columns", r->columns);
    berth_json_put_int(w, "timeoutMs", r->timeout_ms);
}

/* --- events --- */

static void begin_command(struct remote *r, const char *exec_id)
{
    if (!exec_id || r->s.exec_id[0])
        return;
    if (r->provisions && !r->before[0])
        (void)snprintf(r->before, sizeof r->before, "%s", exec_id);
    if (strcmp(exec_id, r->before) == 0)
        return;
    (void)snprintf(r->s.exec_id, sizeof r->s.exec_id, "%s", exec_id);
    if (!r->run_id)
        (void)snprintf(r->again, sizeof r->again, "/api/execs/%s/log", exec_id);
    cli_session_say(&r->s, "running");
    r->follow.again = r->again;
    cli_session_start_input(&r->s);
}

static void end_command(struct remote *r, const struct berth_json *data)
{
    const char *exec_id = cli_text(data, "execId");
    if (!exec_id || strcmp(exec_id, r->s.exec_id) != 0 || r->result)
        return;
    r->result = berth_json_copy(berth_json_get(data, "result"));
    (void)eventfd_write(r->s.stop_fd, 1);
    cli_session_stop_input(&r->s);
    if (r->run_id)
        cli_session_say(&r->s, "releasing");
}

static void remote_cancel(struct remote *r)
{
    cli_send_cancel(r->cli, r->run_id ? "runs" : "execs", r->run_id ? r->run_id : r->s.exec_id,
                    r->s.cancel_fd);
}

/* Cancels the command. The second signal also stops waiting for its end. */
static bool remote_on_cancel(void *ctx)
{
    struct remote *r = ctx;
    eventfd_t told;
    (void)eventfd_read(r->s.cancel_fd, &told);
    if (r->cancelled)
        return false;
    r->cancelled = true;
    remote_cancel(r);
    return true;
}

static void put_output(struct remote *r, const struct berth_json *data)
{
    size_t len;
    const char *stream = cli_text(data, "stream");
    auto_free char *bytes = cli_output_of(data, &len);
    bool errors = stream && strcmp(stream, "stderr") == 0;
    if (!r->s.exec_id[0] || r->result || r->s.closed || r->cli->json || !bytes || !len)
        return;
    if (!cli_session_write(&r->s, errors ? STDERR_FILENO : STDOUT_FILENO, bytes, len)) {
        r->s.closed = true;
        if (r->cli->unwritten == EPIPE) /* as SIGPIPE would end it */
            remote_cancel(r);
    }
}

static void say_progress(struct remote *r, const struct berth_json *data)
{
    char text[CLI_PROGRESS_SIZE];
    struct berth_workspace_progress now = {
        .returning = cli_is(data, "phase", "returning"),
        .files = (size_t)berth_json_int(berth_json_get(data, "files")),
        .files_total = (size_t)berth_json_int(berth_json_get(data, "filesTotal")),
        .bytes = berth_json_int(berth_json_get(data, "bytes")),
        .bytes_total = berth_json_int(berth_json_get(data, "bytesTotal"))};
    cli_progress_text(&r->progress, &now, text);
    cli_session_say(&r->s, text);
}

static bool remote_on_event(void *ctx, const char *name, const struct berth_json *data)
{
    struct remote *r = ctx;
    bool end = strcmp(name, "end") == 0;
    if (strcmp(name, "exec") == 0)
        begin_command(r, cli_text(data, "execId"));
    else if (strcmp(name, "output") == 0)
        put_output(r, data);
    else if (strcmp(name, "progress") == 0)
        say_progress(r, data);
    else if (strcmp(name, "cut") == 0)
        r->log_cut |= r->s.exec_id[0] && !r->result;
    else if (strcmp(name, "exit") == 0 || (end && !r->run_id))
        end_command(r, data);
    else if (end && !r->run)
        r->run = berth_json_copy(berth_json_get(data, "result"));
    return true;
}

/* --- the end --- */

static int signal_of(const char *name)
{
    for (int i = 1; i < NSIG; i++) {
        const char *known = sigabbrev_np(i);
        if (known && strcmp(known, name) == 0)
            return i;
    }
    return 0;
}

/* Output that the daemon's log does not hold was not sent either. Returns an exit status other than
 * 0, so that a caller does not take what it has got for the whole. */
static int say_output_missing(const struct remote *r, int status)
{
    if (!r->log_cut)
        return status;
    cli_say_log_cut(r->cli);
    if (status != CLI_OK || r->cli->json)
        return status;
    (void)fputs(
        "berth: part of the output is missing here. The exit status of the command was 0.\n",
        stderr);
    return CLI_BERTH_FAILED;
}

static int remote_exit_status(const struct remote *r)
{
    const char *by = cli_text(r->result, "signal"), *cause = cli_text(r->result, "cause");
    const struct berth_json *code = berth_json_get(r->result, "exitCode");
    if (!r->log_cut && berth_json_true(berth_json_get(r->result, "truncated")))
        cli_say_held(r->cli);
    if (r->lease_id && !r->cancelled && cause && strcmp(cause, "cancelled") == 0)
        cli_say_lease_over(r->cli, r->lease_id);
    if (berth_json_true(berth_json_get(r->result, "timedOut")))
        return say_output_missing(r, cli_say_timed_out(r->cli));
    if ((cause && strcmp(cause, "lost") == 0) || (!by && !berth_json_is(code, BERTH_JSON_INT)))
        return cli_say_lost();
    return say_output_missing(r, by ? CLI_BY_SIGNAL + signal_of(by) : (int)berth_json_int(code));
}

static int remote_print_json(struct remote *r)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    struct cli_answer result = {0}, run; /* the stream has the run without its difference */
    if (r->result && cli_get(r->cli, &result, "/api/execs/%s/result", r->s.exec_id) < 0)
        return cli_run_failed(r->cli);
    if (!r->run_id)
        return cli_print_text(r->cli, result.text);
    if (cli_get(r->cli, &run, "/api/runs/%s", r->run_id) < 0)
        return cli_run_failed(r->cli);
    berth_json_open(&w, '{');
    berth_json_put_raw(&w, "run", run.text);
    berth_json_put_raw(&w, "result", result.text);
    berth_json_close(&w, '}');
    return cli_print(r->cli, &buf);
}

/* Warns when a lease of the run still owes clean-up. Ignores errors: the daemon cleans up anyway.
 */
static void say_whether_owed(struct remote *r)
{
    struct cli_answer leases;
    if (r->cli->quiet || cli_get(r->cli, &leases, "/api/companies/%s/leases?runId=%s",
                                 r->cli->company_id, r->run_id) < 0)
        return;
    bool owed = false;
    for (size_t i = 0; i < berth_json_count(leases.json); i++)
        owed |= cli_is(berth_json_at(leases.json, i), "cleanupStatus", "failed");
    if (owed)
        cli_say_owed(r->cli);
}

/* Asks for the end of the run's command when the stream did not have it: with a full disk, the
 * stream has no log to follow, and the row of the command is written later. `error` is that of the
 * run. It speaks of the command only when the command has run; a provision script is no command. */
static void find_result(struct remote *r, const char *error)
{
    static const char ended[] = "The command ";
    const struct timespec pause = {.tv_nsec = RESULT_STEP_MS * 1000000};
    bool ran = error && strncmp(error, ended, sizeof ended - 1) == 0;
    for (int i = 0; ran && !r->result && i < RESULT_STEPS_MAX; i++) {
        struct cli_answer execs;
        if (cli_get(r->cli, &execs, "/api/runs/%s/execs?limit=1", r->run_id) < 0)
            return;
        const struct berth_json *last = berth_json_at(execs.json, 0);
        if (cli_text(last, "cause")) {
            r->result = berth_json_copy(last);
            r->log_cut = berth_json_true(berth_json_get(last, "truncated"));
        } else {
            (void)nanosleep(&pause, NULL);
        }
    }
}

/* Returns the exit status of the run; without a result, prints why its command did not run. */
static int remote_run_status(struct remote *r)
{
    const char *error = cli_text(r->run, "error"), *code = cli_text(r->run, "errorCode");
    find_result(r, error);
    if (r->result) {
        say_whether_owed(r);
        cli_sync_say_object(r->cli, stderr, berth_json_get(r->run, "workspace"));
        cli_say_lease_ended(r->cli, code, error);
        int status = remote_exit_status(r);
        bool homeless = code && strcmp(code, "workspace_not_home") == 0;
        return status == CLI_OK && homeless ? CLI_BERTH_FAILED : status;
    }
    (void)berth_fail(&r->cli->err, BERTH_E_UNAVAILABLE, "%s",
                     error ? error : "The run has ended without its command.");
    return cli_not_started(r->cli, code ? code : "");
}

/* Follows the command to its end, closes the session, and returns the exit status. */
static int remote_follow(struct remote *r)
{
    struct cli *cli = r->cli;
    r->follow.on_event = remote_on_event;
    r->follow.on_cancel = remote_on_cancel;
    r->follow.ctx = r;
    cli->cancel_fd = r->s.cancel_fd;
    int rc = cli_follow(cli, &r->follow);
    (void)eventfd_write(r->s.stop_fd, 1);
    cli_session_stop_input(&r->s);
    cli->cancel_fd = -1;
    cli_session_close(&r->s);
    int status = CLI_OK;
    if (rc < 0 && r->s.exec_id[0] == '\0' && !r->run_id && cli->issues.list.count)
        status = cli_not_started(cli, ((struct berth_issue *)cli->issues.list.items[0])->message);
    else if (rc < 0)
        status = cli_run_failed(cli);
    else if (cli->json)
        status = remote_print_json(r);
    if (status == CLI_OK || (rc == BERTH_OK && cli->unwritten))
        status = r->run_id ? remote_run_status(r) : remote_exit_status(r);
    if (r->s.unsent.code) {
        (void)fprintf(stderr, "berth: input did not reach the command: %s\n",
                      cli_clean(cli, r->s.unsent.message));
        status = CLI_BERTH_FAILED;
    }
    berth_json_free(r->result);
    berth_json_free(r->run);
    return status;
}

/* --- berth exec and berth run --- */

int cli_remote_exec(struct cli *cli, struct berth_exec_request *request)
{
    struct remote r = {.cli = cli, .lease_id = request->lease_id};
    struct berth_id key = berth_id_new();
    char header[64];
    auto_buf body = CLI_BODY_INIT;
    struct berth_json_writer w = {.buf = &body};
    char target[CLI_TARGET_SIZE];
    int status = cli_session_open(&r.s, cli);
    if (status != CLI_OK)
        return status;
    if (request->terminal)
        cli_session_copy_terminal(&r.s, request);
    berth_json_open(&w, '{');
    put_command(cli, &w, request);
    berth_json_close(&w, '}');
    /* With a key the command outlives a broken connection. A Unix socket breaks only when this
     * process ends, and then the command is to end too. */
    (void)snprintf(header, sizeof header, "Idempotency-Key: %s", key.text);
    (void)snprintf(target, sizeof target, "/api/environment-leases/%s/exec", request->lease_id);
    r.follow = (struct cli_follow){.method = "POST",
                                   .target = target,
                                   .body = &body,
                                   .header = cli->daemon->socket ? NULL : header};
    return remote_follow(&r);
}

static void write_run(struct cli *cli, const struct berth_run_request *r, struct berth_buf *body)
{
    struct berth_json_writer w = {.buf = body};
    berth_json_open(&w, '{');
    put_command(cli, &w, &r->command);
    berth_json_put_str(&w, "environmentId", r->environment_id);
    cli_put(cli, &w, "workspacePath", r->workspace);
    if (r->in_place)
        berth_json_put_bool(&w, "inPlace", true);
    cli_sync_put(cli, &w, "workspace", &r->sync);
    cli_put(cli, &w, "provisionCommand", r->provision_command);
    berth_json_put_int(&w, "ttlMs", r->ttl_ms);
    berth_json_open_in(&w, "secrets", '{');
    for (int i = 0; i < r->secret_count; i++)
        berth_json_put_str(&w, r->secrets[i].variable, r->secrets[i].secret_id);
    berth_json_close(&w, '}');
    berth_json_close(&w, '}');
}

int cli_remote_run(struct cli *cli, struct berth_run_request *request, bool detach)
{
    struct remote r = {.cli = cli, .provisions = request->provision_command != NULL};
    auto_buf body = CLI_BODY_INIT;
    struct cli_answer run;
    int status = detach ? CLI_OK : cli_session_open(&r.s, cli);
    if (status != CLI_OK)
        return status;
    if (request->command.terminal)
        cli_session_copy_terminal(&r.s, &request->command);
    write_run(cli, request, &body);
    cli->cancel_fd = detach ? -1 : r.s.cancel_fd;
    int rc = cli_call(cli, &run, "POST", &body, "/api/companies/%s/runs", cli->company_id);
    cli->cancel_fd = -1;
    r.run_id = cli_text(run.json, "id");
    if (rc == BERTH_OK && !r.run_id)
        rc = cli_not_understood(cli);
    if (rc < 0 && !detach)
        cli_session_close(&r.s);
    if (rc == BERTH_E_CANCELLED)
        (void)berth_fail(&cli->err, rc,
                         "%s has not answered; the run may have begun: \"berth ps\" shows it.",
                         cli->daemon->where);
    if (rc < 0)
        return cli_run_failed(cli);
    if (detach)
        return cli_print_text(cli, cli->json ? run.text : r.run_id);
    cli->run_id = r.run_id;
    (void)snprintf(r.again, sizeof r.again, "/api/runs/%s/log", r.run_id);
    r.follow = (struct cli_follow){.method = "GET", .target = r.again, .again = r.again};
    cli_session_say(&r.s, "acquiring");
    return remote_follow(&r);
}
