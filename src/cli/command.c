/* SPDX-License-Identifier: Apache-2.0
 * src/cli/command.c - berth run and berth exec: a command in a place, with its streams as if
 * it ran here. Its output is queued on the engine's thread and written by a thread that may wait.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/control.h"
#include "core/exec.h"
#include "core/lease.h"
#include "core/run.h"

struct piece {
    struct piece *next;
    int fd;
    size_t len;
    char bytes[];
};

/* One command in the foreground. */
struct session {
    struct cli *cli;
    bool gives_terminal; /* the command has one of its own */
    bool on_terminal;    /* and ours passes every key on */
    struct termios before;
    int stop_fd; /* readable when the command has ended: stdin is not read any more */
    pthread_t reader, writer;
    bool reads;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct berth_exec *exec;
    struct piece *head, **tail;
    size_t queued;
    bool over, closed; /* nobody reads our output any more */
    sem_t room;        /* in the command's stdin */
    struct cli_control *control;

    bool has_status;             /* there is somebody to see it */
    pthread_mutex_t status_lock; /* held while output is written, too */
    bool status_shown, at_line_start;
};

static int cancel_fd = -1; /* written to by the signal handlers */
static int window_fd = -1;

/* --- output --- */

static void on_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    struct session *s = ctx;
    struct piece *piece = malloc(sizeof *piece + len);
    if (!piece)
        return; /* the log has it */
    *piece =
        (struct piece){.fd = stream == BERTH_STDOUT ? STDOUT_FILENO : STDERR_FILENO, .len = len};
    memcpy(piece->bytes, bytes, len);
    pthread_mutex_lock(&s->lock);
    *s->tail = piece;
    s->tail = &piece->next;
    s->queued += len;
    if (s->queued > BERTH_PIPE_QUEUE_BYTES_MAX && s->exec)
        berth_exec_pause(s->exec, true);
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static bool write_all(int fd, const char *bytes, size_t len)
{
    while (len) {
        ssize_t done = write(fd, bytes, len);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        bytes += done;
        len -= (size_t)done;
    }
    return true;
}

/* Lock held. */
static void erase_status(struct session *s)
{
    if (s->status_shown) {
        (void)fputs("\r\033[K", stderr);
        (void)fflush(stderr);
    }
    s->status_shown = false;
}

/* The status line goes before it, and none comes until it is out. */
static bool write_piece(struct session *s, const struct piece *piece)
{
    pthread_mutex_lock(&s->status_lock);
    erase_status(s);
    bool written = write_all(piece->fd, piece->bytes, piece->len);
    if (s->has_status && isatty(piece->fd))
        s->at_line_start = piece->bytes[piece->len - 1] == '\n';
    pthread_mutex_unlock(&s->status_lock);
    return written;
}

/* Writes what is queued until the command is over and all of it is out. */
static void *write_output(void *ctx)
{
    struct session *s = ctx;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->head && !s->over)
            pthread_cond_wait(&s->changed, &s->lock);
        struct piece *piece = s->head;
        if (!piece)
            break;
        s->head = piece->next;
        if (!s->head)
            s->tail = &s->head;
        pthread_mutex_unlock(&s->lock);
        bool written = s->closed || write_piece(s, piece);
        pthread_mutex_lock(&s->lock);
        if (!written && !s->closed) { /* as a pipe would tell it */
            s->closed = true;
            if (s->exec)
                berth_exec_cancel(s->exec);
        }
        s->queued -= piece->len;
        if (s->queued < BERTH_PIPE_QUEUE_BYTES_MAX / 2 && s->exec)
            berth_exec_pause(s->exec, false);
        free(piece);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* --- input --- */

static void on_stdin_room(void *ctx)
{
    struct session *s = ctx;
    (void)sem_post(&s->room);
}

static void send(struct session *s, const char *bytes, size_t len)
{
    struct berth_error err;
    int rc;
    while ((rc = berth_exec_write(s->exec, bytes, len, &err)) == BERTH_E_UNAVAILABLE)
        while (sem_wait(&s->room) < 0 && errno == EINTR)
            ;
}

/* Its terminal is to be as large as ours. */
static void follow_window(struct session *s)
{
    struct winsize size;
    eventfd_t told;
    (void)eventfd_read(window_fd, &told);
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
        berth_exec_resize(s->exec, size.ws_row, size.ws_col);
}

static void *read_input(void *ctx)
{
    struct session *s = ctx;
    static char bytes[64 * 1024];
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = s->stop_fd, .events = POLLIN},
                           {.fd = window_fd, .events = POLLIN}};
    for (;;) {
        if (poll(fds, 3, -1) < 0 && errno == EINTR)
            continue;
        if (fds[1].revents)
            return NULL;
        if (fds[2].revents)
            follow_window(s);
        if (!fds[0].revents)
            continue;
        ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        send(s, bytes, (size_t)got);
    }
    if (s->gives_terminal)
        send(s, "\004", 1); /* how a terminal says that there is no more */
    berth_exec_close_stdin(s->exec);
    return NULL;
}

/* --- the terminal --- */

static void on_window(int number)
{
    int saved = errno;
    (void)number;
    (void)eventfd_write(window_fd, 1);
    errno = saved;
}

/* The command is to have one as large as ours. */
static void copy_terminal(struct session *s, struct berth_exec_request *command)
{
    struct winsize size;
    s->gives_terminal = true;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col) {
        command->rows = size.ws_row;
        command->columns = size.ws_col;
    }
}

/* While the command runs, ours passes every key on, and its own makes sense of them. Before and
 * after that Ctrl-C is for us. */
static void enter_terminal(struct session *s)
{
    s->on_terminal =
        s->gives_terminal && isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &s->before) == 0;
    if (!s->on_terminal)
        return;
    struct sigaction action = {.sa_handler = on_window, .sa_flags = SA_RESTART};
    window_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)sigaction(SIGWINCH, &action, NULL);
    (void)eventfd_write(window_fd, 1); /* it may have changed since it was copied */
    struct termios raw = s->before;
    cfmakeraw(&raw);
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

static void leave_terminal(struct session *s)
{
    if (s->on_terminal)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &s->before);
    s->on_terminal = false;
}

static void on_started(void *ctx, struct berth_exec *exec)
{
    struct session *s = ctx;
    pthread_mutex_lock(&s->lock);
    s->exec = exec;
    pthread_mutex_unlock(&s->lock);
    enter_terminal(s);
    s->reads = pthread_create(&s->reader, NULL, read_input, s) == 0;
    if (!s->reads)
        berth_exec_close_stdin(exec);
    cli_control_serve(s->control, exec);
}

static void on_end(void *ctx, const struct berth_exec_end *end)
{
    (void)end;
    struct session *s = ctx;
    (void)eventfd_write(s->stop_fd, 1);
    (void)sem_post(&s->room);
}

/* Nobody uses the exec when this returns. */
static void on_stopped(void *ctx)
{
    struct session *s = ctx;
    cli_control_serve(s->control, NULL);
    if (s->reads)
        (void)pthread_join(s->reader, NULL);
    s->reads = false;
    leave_terminal(s);
    pthread_mutex_lock(&s->lock);
    s->exec = NULL;
    pthread_mutex_unlock(&s->lock);
}

/* --- signals and the terminal --- */

static void on_signal(int number)
{
    int saved = errno;
    (void)number;
    (void)eventfd_write(cancel_fd, 1);
    errno = saved;
}

int cli_cancel_fd(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN); /* the place is given back first */
    return cancel_fd;
}

/* --- the status line --- */

/* One line on a terminal, for as long as nothing else stands there. A terminal that is stopped, or
 * busy with output, goes without: the run does not wait for it. */
static void draw_status(struct session *s, const char *word)
{
    struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (pthread_mutex_trylock(&s->status_lock) != 0)
        return;
    if (s->at_line_start && poll(&room, 1, 0) > 0 && room.revents == POLLOUT) {
        (void)fprintf(stderr, "\r\033[Kberth: %s ...", word);
        (void)fflush(stderr);
        s->status_shown = true;
    }
    pthread_mutex_unlock(&s->status_lock);
}

/* Where output ends is known when it is out. That takes a moment; a terminal that is stopped takes
 * longer, and goes without. */
static bool is_written(struct session *s)
{
    for (int i = 0; i < 30; i++) {
        pthread_mutex_lock(&s->lock);
        bool busy = s->queued > 0;
        pthread_mutex_unlock(&s->lock);
        if (!busy)
            return true;
        (void)usleep(10000);
    }
    return false;
}

static void say_phase(void *ctx, enum berth_run_phase phase)
{
    struct session *s = ctx;
    static const char *const words[] = {[BERTH_PHASE_ACQUIRING] = "acquiring",
                                        [BERTH_PHASE_REALIZING] = "acquiring",
                                        [BERTH_PHASE_PROVISIONING] = "provisioning",
                                        [BERTH_PHASE_RUNNING] = "running",
                                        [BERTH_PHASE_RELEASING] = "releasing"};
    if (s->has_status && is_written(s))
        draw_status(s, words[phase]);
}

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

static int exit_status(const struct session *s, const struct berth_exec_end *end)
{
    if ((end->cut[0] || end->cut[1]) && !s->cli->quiet)
        (void)fputs("berth: something that the command left behind still held its output when it "
                    "had ended: what came of that is cut\n",
                    stderr);
    if (end->cause == BERTH_END_TIMEOUT) {
        if (!s->cli->quiet)
            (void)fputs("berth: the command ran longer than its time-out, and was ended\n", stderr);
        return CLI_TIMED_OUT;
    }
    if (end->cause == BERTH_END_LOST) {
        (void)fputs("berth: how the command ended is not known\n", stderr);
        return CLI_BERTH_FAILED;
    }
    return end->signal ? CLI_BY_SIGNAL + end->signal : end->exit_code;
}

int cli_run_failed(struct cli *cli)
{
    (void)cli_fail(cli);
    return CLI_BERTH_FAILED;
}

/* The command itself could not be started, as a shell says it. */
static int not_started(struct cli *cli)
{
    int code = cli->err.code;
    (void)cli_fail(cli);
    return code == BERTH_E_NOT_FOUND ? CLI_NOT_FOUND
           : code == BERTH_E_DENIED  ? CLI_NOT_EXECUTABLE
                                     : CLI_BERTH_FAILED;
}

static int open_session(struct session *s, struct cli *cli)
{
    *s = (struct session){.cli = cli, .stop_fd = eventfd(0, EFD_CLOEXEC)};
    s->tail = &s->head;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    (void)sem_init(&s->room, 0, 0);
    s->at_line_start = true;
    const char *term = getenv("TERM");
    s->has_status = !cli->quiet && !cli->json && isatty(STDERR_FILENO) &&
                    !(term && strcmp(term, "dumb") == 0); /* which cannot erase */
    pthread_mutex_init(&s->status_lock, NULL);
    if (s->stop_fd >= 0 && cli_cancel_fd() >= 0 &&
        pthread_create(&s->writer, NULL, write_output, s) == 0)
        return CLI_OK;
    (void)berth_fail(&cli->err, BERTH_E_UNAVAILABLE,
                     "No descriptor or thread is left to run a command with.");
    return cli_run_failed(cli);
}

/* All output is out when this returns. */
static void close_session(struct session *s)
{
    pthread_mutex_lock(&s->lock);
    s->over = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    (void)pthread_join(s->writer, NULL);
    erase_status(s); /* nobody else is left to hold the lock */
    cli_control_close(s->control);
    pthread_mutex_destroy(&s->status_lock);
    (void)close(s->stop_fd);
    (void)sem_destroy(&s->room);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
}

static struct berth_exec_handlers handlers_of(struct session *s)
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
static int print_result(struct cli *cli, const struct berth_run *run, const char *log,
                        const struct berth_exec_end *end, bool truncated)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX),
             result = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf}, inner = {.buf = &result};
    if (log && berth_exec_result_json(&inner, log, NULL, end, truncated, &cli->err) < 0)
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
    struct berth_secret *secret;
    if (!len || (*text >= '0' && *text <= '9') || text[len] != '=' || !text[len + 1])
        return cli_usage(cli,
                         "--env-from-secret %s: write NAME=SECRET, NAME with letters, digits "
                         "and _",
                         text);
    if (cli_find_secret(cli, text + len + 1, &secret) < 0)
        return cli_run_failed(cli);
    out->variable = berth_arena_copy(&cli->arena, text, len);
    out->secret_id = berth_secret_id(secret);
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
    struct session s;
    struct berth_run_result result;
    struct berth_error unheard;
    int status = open_session(&s, cli);
    if (status != CLI_OK)
        return status;
    /* Without a socket the run cannot be cancelled by others; it runs all the same. */
    if (cli_control_open(request->run_id, cancel_fd, &s.control, &unheard) < 0)
        s.control = NULL;
    if (request->command.terminal)
        copy_terminal(&s, &request->command);
    request->cancel_fd = cancel_fd;
    request->handlers = handlers_of(&s);
    request->on_started = on_started;
    request->on_stopped = on_stopped;
    request->on_phase = say_phase;
    int rc = berth_run_perform(cli->b, &cli->arena, request, &result, &cli->err);
    close_session(&s);
    if (cli->json && result.run &&
        (status = print_result(cli, result.run, result.started ? result.log : NULL, &result.end,
                               result.truncated)) != CLI_OK)
        return status;
    if (rc < 0 && result.run && result.run->error_code &&
        strcmp(result.run->error_code, "adapter_failed") == 0)
        return not_started(cli);
    if (result.owed && !cli->quiet)
        (void)fputs("berth: the place is not confirmed to be gone: run \"berth sweep\"\n", stderr);
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
    struct berth_environment *e = NULL;
    if (environment && cli_find_environment(cli, environment, &e) < 0)
        return cli_run_failed(cli);
    status = add_secrets(cli, &form.secrets, &request);
    if (status != CLI_OK)
        return status;
    struct berth_id id = berth_id_new();
    request.run_id = id.text;
    request.company_id = cli->company_id;
    request.environment_id = e ? e->id : NULL;
    request.provision_command = provision;
    request.actor = &cli->actor;
    return detach ? cli_detach(cli, &request, keep_stdin) : run_here(cli, &request);
}

/* --- berth exec --- */

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
    if (cli_find_id(cli, BERTH_KIND_LEASE, argv[0], &request.lease_id) < 0)
        return cli_run_failed(cli);
    struct session s;
    struct berth_exec *x;
    struct berth_exec_end end;
    status = open_session(&s, cli);
    if (status != CLI_OK)
        return status;
    if (form.terminal)
        copy_terminal(&s, &request);
    struct berth_exec_handlers handlers = handlers_of(&s);
    int rc = berth_exec_start(cli->b, &request, &handlers, &x, &cli->err);
    if (rc == BERTH_OK) {
        on_started(&s, x);
        struct pollfd fds[] = {{.fd = cancel_fd, .events = POLLIN},
                               {.fd = s.stop_fd, .events = POLLIN}};
        while (!fds[1].revents)
            if (poll(fds, 2, -1) > 0 && fds[0].revents) {
                berth_exec_cancel(x);
                fds[0].fd = -1;
            }
        on_stopped(&s);
        berth_exec_wait(x, &end);
        if (cli->json)
            status = print_result(cli, NULL, berth_exec_log(x), &end, berth_exec_truncated(x));
        berth_exec_free(x);
    }
    close_session(&s);
    if (rc < 0)
        return not_started(cli);
    return status == CLI_OK ? exit_status(&s, &end) : status;
}
