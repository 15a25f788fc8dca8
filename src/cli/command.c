/* SPDX-License-Identifier: Apache-2.0
 * src/cli/command.c - berth run and berth exec: a command in a place, with its streams as if it ran
 * here. */
#include "cli/command.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "cli/run_socket.h"
#include "cli/session.h"
#include "core/run/exec.h"
#include "core/run/exec_result.h"

/* --- what both commands share --- */

struct form {
    const char *cwd, *timeout;
    bool terminal;
    struct berth_list env, secrets; /* "NAME=value"; "NAME=secret" */
};

/* NAME=value is given, NAME alone takes ours. */
static int add_env(struct cli *cli, struct berth_list *out, const char *text)
{
    const char *value = strchr(text, '=') ? NULL : getenv(text);
    if (!strchr(text, '=') && !value)
        return cli_usage(cli, "--env %s: there is no such variable here", text);
    const char *pair = value ? berth_arena_printf(&cli->arena, "%s=%s", text, value) : text;
    (void)berth_list_add(out, &cli->arena, (char *)(uintptr_t)pair);
    return CLI_OK;
}

static int make_command(struct cli *cli, struct form *form, char **argv,
                        struct berth_exec_request *out)
{
    struct berth_list env = {0};
    int status = CLI_OK;
    for (int i = 0; status == CLI_OK && i < form->env.count; i++)
        status = add_env(cli, &env, form->env.items[i]);
    (void)berth_list_add(&env, &cli->arena, NULL);
    if (status == CLI_OK && form->timeout &&
        !berth_time_parse_duration(form->timeout, &out->timeout_ms))
        status = cli_usage(cli, "--timeout \"%s\" is no time: write 90s, 15m or 1h", form->timeout);
    out->argv = (const char *const *)argv;
    out->env = (const char *const *)(void *)env.items;
    out->cwd = form->cwd;
    out->with_stdin = true;
    out->typed_stdin = isatty(STDIN_FILENO);
    out->terminal = form->terminal;
    if (status == CLI_OK && berth_arena_check(&cli->arena, &cli->err) < 0)
        status = cli_fail(cli);
    return status;
}

void cli_say_held(const struct cli *cli)
{
    if (!cli->quiet)
        (void)fputs("berth: something that the command left behind still held its output when it "
                    "had ended: what came of that is cut\n",
                    stderr);
}

int cli_say_timed_out(const struct cli *cli)
{
    if (!cli->quiet)
        (void)fputs("berth: the command ran longer than its time-out, and was ended\n", stderr);
    return CLI_TIMED_OUT;
}

void cli_say_owed(const struct cli *cli)
{
    if (!cli->quiet)
        (void)fputs("berth: the place is not confirmed to be gone: run \"berth sweep\"\n", stderr);
}

int cli_say_lost(void)
{
    (void)fputs("berth: how the command ended is not known\n", stderr);
    return CLI_BERTH_FAILED;
}

static int exit_status(const struct cli_session *s, const struct berth_exec_end *end)
{
    if (end->cut[0] || end->cut[1])
        cli_say_held(s->cli);
    if (end->cause == BERTH_END_TIMEOUT)
        return cli_say_timed_out(s->cli);
    if (end->cause == BERTH_END_LOST)
        return cli_say_lost();
    return end->signal ? CLI_BY_SIGNAL + end->signal : end->exit_code;
}

int cli_run_failed(struct cli *cli)
{
    (void)cli_fail(cli);
    return CLI_BERTH_FAILED;
}

int cli_not_started(struct cli *cli, const char *why)
{
    (void)cli_fail(cli);
    return strcmp(why, "command_not_found") == 0        ? CLI_NOT_FOUND
           : strcmp(why, "command_not_executable") == 0 ? CLI_NOT_EXECUTABLE
                                                        : CLI_BERTH_FAILED;
}

/* --- a command that we run --- */

static void on_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    cli_session_output(ctx, stream == BERTH_STDOUT ? STDOUT_FILENO : STDERR_FILENO, bytes, len);
}

static void on_stdin_room(void *ctx)
{
    struct cli_session *s = ctx;
    (void)sem_post(&s->room);
}

static void on_started(void *ctx, struct berth_exec *exec)
{
    struct cli_session *s = ctx;
    pthread_mutex_lock(&s->lock);
    s->exec = exec;
    pthread_mutex_unlock(&s->lock);
    cli_session_start_input(s);
    cli_run_socket_serve(s->control, exec);
}

static void on_end(void *ctx, const struct berth_exec_end *end)
{
    (void)end;
    struct cli_session *s = ctx;
    (void)eventfd_write(s->stop_fd, 1);
    (void)sem_post(&s->room);
}

/* Nobody uses the exec when this returns. */
static void on_stopped(void *ctx)
{
    struct cli_session *s = ctx;
    cli_run_socket_serve(s->control, NULL);
    cli_session_stop_input(s);
    pthread_mutex_lock(&s->lock);
    s->exec = NULL;
    pthread_mutex_unlock(&s->lock);
}

static void say_phase(void *ctx, enum berth_run_phase phase)
{
    static const char *const words[] = {[BERTH_PHASE_ACQUIRING] = "acquiring",
                                        [BERTH_PHASE_REALIZING] = "acquiring",
                                        [BERTH_PHASE_PROVISIONING] = "provisioning",
                                        [BERTH_PHASE_RUNNING] = "running",
                                        [BERTH_PHASE_RELEASING] = "releasing"};
    cli_session_say(ctx, words[phase]);
}

static struct berth_exec_handlers handlers_of(struct cli_session *s)
{
    return (struct berth_exec_handlers){
        .on_output = s->cli->json ? NULL : on_output, /* then it is in the answer */
        .on_stdin_room = on_stdin_room,
        .on_end = on_end,
        .ctx = s};
}

/* The words up to "--" are ours, the rest is the command. */
static int split(struct cli *cli, int argc, char **argv, int *ours)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--") == 0 && i + 1 < argc) {
            *ours = i;
            return CLI_OK;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            *ours = argc;
            return CLI_OK;
        }
    return cli_usage(cli, "the command comes after \"--\"");
}

/* The short options that people know, as the long ones that they stand for. */
static void write_out(int argc, char **argv)
{
    static char environment[] = "--environment", cwd[] = "--cwd", tty[] = "--tty",
                detach[] = "--detach";
    for (int i = 1; i < argc; i++)
        argv[i] = strcmp(argv[i], "-e") == 0   ? environment
                  : strcmp(argv[i], "-C") == 0 ? cwd
                  : strcmp(argv[i], "-t") == 0 ? tty
                  : strcmp(argv[i], "-d") == 0 ? detach
                                               : argv[i];
}

/* The log has what the command wrote. */
static int print_result(struct cli *cli, const struct berth_run *run, const char *exec_id,
                        const char *log, const struct berth_exec_end *end, bool truncated)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX),
             result = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf}, inner = {.buf = &result};
    if (log && berth_exec_result_json(&inner, log, exec_id, end, truncated, &cli->err) < 0)
        return cli_run_failed(cli);
    if (!run)
        return cli_print(cli, &result);
    auto_buf row = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    berth_run_json(&(struct berth_json_writer){.buf = &row}, run);
    berth_json_open(&w, '{');
    berth_json_put_raw(&w, "run", berth_buf_str(&row));
    berth_json_put_raw(&w, "result", log ? berth_buf_str(&result) : NULL);
    berth_json_close(&w, '}');
    return cli_print(cli, &buf);
}

/* --- berth run --- */

/* NAME=SECRET: a variable, and the secret that is its value. */
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

static int run_here(struct cli *cli, struct berth_run_request *request)
{
    struct cli_session s;
    struct berth_run_result result;
    struct berth_error unheard;
    int status = cli_session_open(&s, cli);
    if (status != CLI_OK)
        return status;
    /* Without a socket the run cannot be cancelled by others; it runs all the same. */
    if (cli_run_socket_open(request->run_id, s.cancel_fd, &s.control, &unheard) < 0)
        s.control = NULL;
    if (request->command.terminal)
        cli_session_copy_terminal(&s, &request->command);
    request->cancel_fd = s.cancel_fd;
    request->handlers = handlers_of(&s);
    request->on_started = on_started;
    request->on_stopped = on_stopped;
    request->on_phase = say_phase;
    int rc = berth_run_perform(cli->b, &cli->arena, request, &result, &cli->err);
    cli_session_close(&s);
    if (cli->json && result.run &&
        (status = print_result(cli, result.run, result.exec_id, result.started ? result.log : NULL,
                               &result.end, result.truncated)) != CLI_OK)
        return status;
    if (rc < 0 && result.run && result.run->error_code)
        return cli_not_started(cli, result.run->error_code);
    if (result.owed)
        cli_say_owed(cli);
    return rc < 0 ? cli_run_failed(cli) : exit_status(&s, &result.end);
}

int cli_run(struct cli *cli, int argc, char **argv)
{
    const char *environment = NULL, *ttl = NULL, *provision = NULL;
    bool detach = false, keep_stdin = false;
    struct form form = {0};
    const struct cli_option options[] = {{"environment", &environment},
                                         {"cwd", &form.cwd},
                                         {"env", .texts = &form.env},
                                         {"env-from-secret", .texts = &form.secrets},
                                         {"timeout", &form.timeout},
                                         {"ttl", &ttl},
                                         {"provision", &provision},
                                         {"tty", .flag = &form.terminal},
                                         {"detach", .flag = &detach},
                                         {"stdin", .flag = &keep_stdin},
                                         {0}};
    int ours;
    if (split(cli, argc, argv, &ours) != CLI_OK)
        return CLI_USAGE;
    write_out(ours, argv);
    if (cli_parse(cli, ours, argv, options, 0, 0) < 0)
        return CLI_USAGE;
    if (detach && form.terminal)
        return cli_usage(cli, "--tty is for a command in the foreground, --detach for one that is "
                              "not");
    if (keep_stdin && !detach)
        return cli_usage(cli, "--stdin belongs to --detach; in the foreground stdin is passed on");
    struct berth_run_request request = BERTH_RUN_REQUEST_INIT;
    int status = make_command(cli, &form, argv + ours + 1, &request.command);
    if (status == CLI_OK && ttl && !berth_time_parse_duration(ttl, &request.ttl_ms))
        status = cli_usage(cli, "--ttl \"%s\" is no time: write 90s, 15m, 1h or 2d", ttl);
    if (status == CLI_OK)
        status = cli_open(cli);
    if (status != CLI_OK)
        return status == CLI_USAGE ? status : CLI_BERTH_FAILED;
    const struct berth_json *e = NULL;
    if (environment && cli_find_environment(cli, environment, &e) < 0)
        return cli_run_failed(cli);
    status = add_secrets(cli, &form.secrets, &request);
    if (status != CLI_OK)
        return status;
    struct berth_id id = berth_id_new();
    request.run_id = id.text;
    request.company_id = cli->company_id;
    request.environment_id = e ? cli_text(e, "id") : NULL;
    request.provision_command = provision;
    request.actor = &cli->actor;
    if (cli->daemon) {
        request.command.with_stdin = !detach || keep_stdin;
        if (!e || cli_is(e, "driver", "local"))
            request.provision_command = NULL; /* which has none */
        return cli_remote_run(cli, &request, detach);
    }
    return detach ? cli_detach(cli, &request, keep_stdin) : run_here(cli, &request);
}

/* --- berth exec --- */

static int exec_here(struct cli *cli, struct berth_exec_request *request)
{
    struct cli_session s;
    struct berth_exec *x;
    struct berth_exec_end end;
    int status = cli_session_open(&s, cli);
    if (status != CLI_OK)
        return status;
    if (request->terminal)
        cli_session_copy_terminal(&s, request);
    struct berth_exec_handlers handlers = handlers_of(&s);
    int rc = berth_exec_start(cli->b, request, &handlers, &x, &cli->err);
    if (rc == BERTH_OK) {
        on_started(&s, x);
        struct pollfd fds[] = {{.fd = s.cancel_fd, .events = POLLIN},
                               {.fd = s.stop_fd, .events = POLLIN}};
        while (!fds[1].revents)
            if (poll(fds, 2, -1) > 0 && fds[0].revents) {
                berth_exec_cancel(x);
                fds[0].fd = -1;
            }
        on_stopped(&s);
        berth_exec_wait(x, &end);
        if (cli->json)
            status = print_result(cli, NULL, berth_exec_id(x), berth_exec_log(x), &end,
                                  berth_exec_truncated(x));
        berth_exec_free(x);
    }
    cli_session_close(&s);
    if (rc < 0)
        return cli_not_started(cli, rc == BERTH_E_NOT_FOUND ? "command_not_found"
                                    : rc == BERTH_E_DENIED  ? "command_not_executable"
                                                            : "");
    return status == CLI_OK ? exit_status(&s, &end) : status;
}

int cli_exec(struct cli *cli, int argc, char **argv)
{
    struct form form = {0};
    const struct cli_option options[] = {{"cwd", &form.cwd},
                                         {"env", .texts = &form.env},
                                         {"timeout", &form.timeout},
                                         {"tty", .flag = &form.terminal},
                                         {0}};
    int ours;
    if (split(cli, argc, argv, &ours) != CLI_OK)
        return CLI_USAGE;
    char **command = argv + ours + 1;
    write_out(ours, argv);
    if (cli_parse(cli, ours, argv, options, 1, 1) < 0)
        return CLI_USAGE;
    struct berth_exec_request request = BERTH_EXEC_REQUEST_INIT;
    int status = make_command(cli, &form, command, &request);
    if (status == CLI_OK)
        status = cli_open(cli);
    if (status != CLI_OK)
        return status == CLI_USAGE ? status : CLI_BERTH_FAILED;
    if (cli_find_id(cli, "lease", argv[0], &request.lease_id) < 0)
        return cli_run_failed(cli);
    return cli->daemon ? cli_remote_exec(cli, &request) : exec_here(cli, &request);
}
