/* SPDX-License-Identifier: Apache-2.0
 * src/cli/supervise.c - see supervise.h. berth run --detach starts berth supervise RUN, which
 * performs the run. The request comes on its standard input, as fields "name=value" that each end
 * with a NUL, so that other users see it neither in the arguments nor in the environment. It
 * answers on its standard output: "started" when the run's row exists, or an error. */
#include "cli/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/exit_status.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/run_socket.h"
#include "cli/sync.h"
#include "core/run/run.h"
#include "core/workspace/workspace.h"
#include "os/fs.h"
#include "os/spawn.h"

#define REQUEST_BYTES_MAX (8 * 1024 * 1024)
#define REPORT_BYTES_MAX 4096
#define STARTED "started"

/* --- berth run --detach --- */

static void put_field(struct berth_buf *buf, const char *name, const char *value)
{
    if (!value)
        return;
    berth_buf_puts(buf, name);
    berth_buf_append(buf, "=", 1);
    berth_buf_append(buf, value, strlen(value) + 1);
}

static void put_number(struct berth_buf *buf, const char *name, int64_t number)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%lld", (long long)number);
    put_field(buf, name, text);
}

static void write_sync(const struct berth_run_sync *sync, struct berth_buf *buf)
{
    const struct berth_workspace_setup *setup = &sync->setup;
    put_field(buf, "sync", sync->path);
    put_field(buf, "branch", sync->branch);
    put_field(buf, "on-conflict",
              sync->path ? berth_merge_policies.names[sync->on_conflict] : NULL);
    put_number(buf, "no-restore", sync->no_restore);
    put_number(buf, "mass-deletion", sync->mass_deletion);
    for (const char *const *rule = sync->exclude; rule && *rule; rule++)
        put_field(buf, "exclude", *rule);
    put_field(buf, "adapter", setup->adapter);
    put_field(buf, "install", setup->install_command);
    put_field(buf, "detect", setup->detect_command);
    for (int i = 0; i < setup->asset_count; i++) {
        put_number(buf, "follow-links", setup->assets[i].follow_links);
        berth_buf_puts(buf, "asset=");
        put_field(buf, setup->assets[i].key, setup->assets[i].path);
    }
}

static int write_request(const struct berth_run_request *r, bool keep_stdin, struct berth_buf *buf,
                         struct berth_error *err)
{
    put_field(buf, "company", r->company_id);
    put_field(buf, "environment", r->environment_id);
    put_field(buf, "provision", r->provision_command);
    put_field(buf, "cwd", r->command.cwd);
    put_field(buf, "workspace", r->workspace);
    put_number(buf, "in-place", r->in_place);
    write_sync(&r->sync, buf);
    put_number(buf, "ttl", r->ttl_ms);
    put_number(buf, "timeout", r->command.timeout_ms);
    put_number(buf, "stdin", keep_stdin);
    for (int i = 0; i < r->secret_count; i++) {
        berth_buf_puts(buf, "secret=");
        put_field(buf, r->secrets[i].variable, r->secrets[i].secret_id);
    }
    for (const char *const *word = r->command.env; word && *word; word++)
        put_field(buf, "env", *word);
    for (const char *const *word = r->command.argv; *word; word++)
        put_field(buf, "arg", *word);
    return berth_buf_check(buf, "The command", err);
}

/* Makes the process use the store, the company and the key that this one found. */
static int set_environment(const struct cli *cli, struct berth_error *err)
{
    if (setenv("BERTH_STORE", cli->store, 1) < 0 ||
        setenv("BERTH_COMPANY", cli->company_id, 1) < 0 ||
        (cli->key_file && setenv("BERTH_KEY_FILE", cli->key_file, 1) < 0))
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.");
    return BERTH_OK;
}

static int spawn_supervisor(struct cli *cli, const char *run_id, int in, int out)
{
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len < 0)
        return berth_fail_errno(&cli->err, "Cannot find the program itself");
    self[len] = '\0';
    const char *const argv[] = {self, "supervise", run_id, NULL};
    struct berth_spawn what = {
        .argv = argv, .env = (const char *const *)(void *)environ, .fds = {in, out, -1}};
    struct berth_child child;
    int rc = berth_spawn(&what, &child, &cli->err);
    if (rc == BERTH_OK)
        (void)close(child.pidfd); /* it is not waited for */
    return rc;
}

/* Reads what the process reports: the run's row exists, or an error. */
static int read_start_report(struct cli *cli, int fd)
{
    auto_buf said = BERTH_BUF_INIT(REPORT_BYTES_MAX);
    struct berth_error ignored;
    (void)berth_fs_read_all(fd, &said, &ignored);
    const char *text = berth_buf_str(&said);
    if (text && strcmp(text, STARTED) == 0)
        return BERTH_OK;
    return berth_fail(&cli->err, BERTH_E_UNAVAILABLE, "The run did not begin: %s",
                      text && *text ? text : "its process ended.");
}

int cli_detach(struct cli *cli, const struct berth_run_request *request, bool keep_stdin)
{
    auto_buf buf = BERTH_BUF_INIT(REQUEST_BYTES_MAX);
    int to[2], from[2];
    buf.secret = true; /* variables of the command may hold secrets */
    int rc = write_request(request, keep_stdin, &buf, &cli->err);
    if (rc == BERTH_OK)
        rc = set_environment(cli, &cli->err);
    if (rc == BERTH_OK && pipe2(to, O_CLOEXEC) < 0)
        rc = berth_fail_errno(&cli->err, "Cannot make a pipe");
    if (rc < 0)
        return cli_run_failed(cli);
    if (pipe2(from, O_CLOEXEC) < 0) {
        (void)close(to[0]);
        (void)close(to[1]);
        (void)berth_fail_errno(&cli->err, "Cannot make a pipe");
        return cli_run_failed(cli);
    }
    (void)signal(SIGPIPE,
                 SIG_IGN); /* a process that died early is noticed when its report is missing */
    rc = spawn_supervisor(cli, request->run_id, to[0], from[1]);
    (void)close(to[0]);
    (void)close(from[1]);
    struct berth_error unread;
    if (rc == BERTH_OK)
        (void)berth_fs_write_all(to[1], buf.data, buf.len, &unread);
    (void)close(to[1]);
    if (rc == BERTH_OK)
        rc = read_start_report(cli, from[0]);
    (void)close(from[0]);
    struct berth_run *run;
    if (rc == BERTH_OK && cli->json)
        rc = berth_run_get(cli->b, &cli->arena, request->run_id, &run, &cli->err);
    if (rc < 0)
        return cli_run_failed(cli);
    if (!cli->json)
        return puts(request->run_id) < 0 ? CLI_FAILED : CLI_OK;
    auto_buf json = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    berth_run_json(&(struct berth_json_writer){.buf = &json}, run);
    return cli_print(cli, &json);
}

/* --- berth supervise --- */

struct supervision {
    struct cli *cli;
    struct berth_list argv, env, secrets;
    struct cli_sync sync;
    struct cli_run_socket *control;
    bool told, keep_stdin;
};

/* Stores one field; `value` lives as long as the request's text. */
static void take_field(struct supervision *s, struct berth_run_request *r, const char *name,
                       char *value)
{
    struct berth_arena *arena = &s->cli->arena;
    const struct {
        const char *name, **text;
        int64_t *number;
        struct berth_list *list;
    } fields[] = {{"company", .text = &r->company_id},
                  {"environment", .text = &r->environment_id},
                  {"provision", .text = &r->provision_command},
                  {"cwd", .text = &r->command.cwd},
                  {"workspace", .text = &r->workspace},
                  {"sync", .text = &s->sync.path},
                  {"branch", .text = &s->sync.branch},
                  {"on-conflict", .text = &s->sync.on_conflict},
                  {"exclude", .list = &s->sync.exclude},
                  {"adapter", .text = &s->sync.adapter},
                  {"install", .text = &s->sync.install},
                  {"detect", .text = &s->sync.detect},
                  {"asset", .list = &s->sync.assets},
                  {"ttl", .number = &r->ttl_ms},
                  {"timeout", .number = &r->command.timeout_ms},
                  {"secret", .list = &s->secrets},
                  {"env", .list = &s->env},
                  {"arg", .list = &s->argv}};
    if (strcmp(name, "stdin") == 0)
        s->keep_stdin = *value == '1';
    if (strcmp(name, "in-place") == 0)
        r->in_place = *value == '1';
    if (strcmp(name, "no-restore") == 0)
        r->sync.no_restore = *value == '1';
    if (strcmp(name, "mass-deletion") == 0)
        r->sync.mass_deletion = *value == '1';
    if (strcmp(name, "follow-links") == 0)
        s->sync.follow_links = *value == '1';
    for (unsigned i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strcmp(name, fields[i].name) != 0)
            continue;
        if (fields[i].text)
            *fields[i].text = value;
        else if (fields[i].number)
            *fields[i].number = strtoll(value, NULL, 10);
        else
            (void)berth_list_add(fields[i].list, arena, value);
    }
}

static int take_secrets(struct supervision *s, struct berth_run_request *r)
{
    struct berth_run_secret *all =
        berth_arena_alloc(&s->cli->arena, ((size_t)s->secrets.count + 1) * sizeof *all);
    for (int i = 0; all && i < s->secrets.count; i++) {
        char *pair = s->secrets.items[i], *equals = strchr(pair, '=');
        if (!equals)
            return berth_fail(&s->cli->err, BERTH_E_INVALID, "A secret has no name.");
        *equals = '\0';
        all[i] = (struct berth_run_secret){.variable = pair, .secret_id = equals + 1};
    }
    r->secrets = all;
    r->secret_count = s->secrets.count;
    return berth_arena_check(&s->cli->arena, &s->cli->err);
}

static int read_request(struct supervision *s, struct berth_buf *buf, struct berth_run_request *r)
{
    struct cli *cli = s->cli;
    int rc = berth_fs_read_all(STDIN_FILENO, buf, &cli->err);
    for (char *at = buf->data; rc == BERTH_OK && at && at < buf->data + buf->len;) {
        size_t len = strlen(at);
        char *equals = strchr(at, '=');
        if (equals) {
            *equals = '\0';
            take_field(s, r, at, equals + 1);
        }
        at += len + 1;
    }
    (void)berth_list_add(&s->env, &cli->arena, NULL);
    (void)berth_list_add(&s->argv, &cli->arena, NULL);
    if (rc == BERTH_OK)
        rc = take_secrets(s, r);
    if (rc == BERTH_OK && cli_sync_read(cli, &s->sync, &r->sync) != CLI_OK)
        rc = berth_fail(&cli->err, BERTH_E_INVALID, "The workspace of the run cannot be read.");
    if (rc == BERTH_OK && s->argv.count < 2)
        rc = berth_fail(&cli->err, BERTH_E_INVALID,
                        "berth run --detach starts this; there is no command to run.");
    r->command.argv = (const char *const *)(void *)s->argv.items;
    r->command.env = (const char *const *)(void *)s->env.items;
    r->command.with_stdin = s->keep_stdin;
    return rc;
}

/* Reports to the process that started us, once, and closes the pipes to it. */
static void report_start(struct supervision *s, const char *text)
{
    struct berth_error unheard;
    if (s->told)
        return;
    s->told = true;
    (void)berth_fs_write_all(STDOUT_FILENO, text, strlen(text), &unheard);
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; nowhere >= 0 && fd < 2; fd++)
        (void)dup2(nowhere, fd);
    if (nowhere >= 0)
        (void)close(nowhere);
}

static void supervise_on_phase(void *ctx, enum berth_run_phase phase)
{
    if (phase != BERTH_PHASE_RELEASING) /* a run that failed to begin goes there at once */
        report_start(ctx, STARTED);
}

static void supervise_on_started(void *ctx, struct berth_exec *exec)
{
    struct supervision *s = ctx;
    cli_run_socket_serve(s->control, exec);
}

static void supervise_on_stdin_room(void *ctx)
{
    const struct supervision *s = ctx;
    cli_run_socket_room(s->control);
}

static void supervise_on_stopped(void *ctx)
{
    struct supervision *s = ctx;
    cli_run_socket_serve(s->control, NULL);
}

static int supervise_run(struct supervision *s, const char *run_id, struct berth_run_request *r)
{
    struct cli *cli = s->cli;
    struct berth_run_result result;
    struct berth_run *other; /* its process has the socket of that name */
    if (berth_run_get(cli->b, &cli->arena, run_id, &other, &cli->err) == BERTH_OK)
        return berth_fail(&cli->err, BERTH_E_CONFLICT, "There is a run %s already.", run_id);
    r->run_id = run_id;
    r->cancel_fd = cli_cancel_fd();
    r->actor = &cli->actor;
    r->on_phase = supervise_on_phase;
    r->on_started = supervise_on_started;
    r->on_stopped = supervise_on_stopped;
    r->handlers.on_stdin_room = supervise_on_stdin_room;
    r->handlers.ctx = s;
    int rc = cli_run_socket_open(run_id, r->cancel_fd, &s->control, &cli->err);
    if (rc == BERTH_OK)
        rc = berth_run_perform(cli->b, &cli->arena, r, &result, &cli->err);
    cli_run_socket_close(s->control);
    return rc;
}

static int supervise_main(struct cli *cli, int argc, char **argv)
{
    auto_buf buf = BERTH_BUF_INIT(REQUEST_BYTES_MAX);
    struct supervision s = {.cli = cli};
    buf.secret = true;
    struct berth_run_request request = BERTH_RUN_REQUEST_INIT;
    if (cli_parse(cli, argc, argv, NULL, 1, 1) < 0)
        return CLI_USAGE;
    int rc = read_request(&s, &buf, &request);
    if (rc == BERTH_OK)
        rc = cli_try_connect_here(cli);
    if (rc == BERTH_OK)
        rc = supervise_run(&s, argv[0], &request);
    if (rc < 0)
        report_start(&s, cli->err.message);
    return rc < 0 ? CLI_FAILED : CLI_OK;
}

const struct cli_command cli_supervise_commands[] = {
    {"supervise", NULL, "RUN", "perform a detached run; berth run --detach starts it",
     supervise_main},
    {0},
};
