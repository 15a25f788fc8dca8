/* SPDX-License-Identifier: Apache-2.0
 * sdk/berth_plugin_run.c - commands of a worker on this machine: berth_plugin_run and
 * berth_plugin_execute of berth_plugin.h. The thread of the request waits for the command. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/time.h"
#include "berth_plugin.h"

#define PATH_DEFAULT "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
#define TIMEOUT_MS_DEFAULT 300000
#define GRACE_MS 250   /* between SIGTERM and SIGKILL */
#define LINGER_MS 1000 /* for output of background processes after the command has exited */
#define READ_BYTES (64 * 1024)

extern char **environ;

/* A command that runs. Descriptors are -1 when they are closed. */
struct running {
    const struct berth_plugin_call *call;
    const struct berth_plugin_command *command;
    struct berth_plugin_result *result;
    pid_t pid;
    int pidfd, input, outputs[2];
    size_t written;      /* bytes of the input */
    size_t streamed[2];  /* bytes of the output that the host has */
    int64_t deadline_ms; /* of the next step, monotonic */
    bool exited, killed;
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

/* --- starting --- */

/* Runs in the child: only async-signal-safe calls. Does not return. */
static void become_command(const struct berth_plugin_command *c, const int fds[3], int trouble)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)setsid();                         /* a process group of its own, which ends as one */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a command ends with its worker */
    for (int i = 0; i < 3; i++)
        if (dup2(fds[i], i) < 0)
            goto fail;
    if (c->cwd && chdir(c->cwd) < 0)
        goto fail;
    if (c->env)
        environ = (char **)(uintptr_t)c->env;
    (void)execvp(c->argv[0], (char *const *)(uintptr_t)c->argv);
fail:;
    int why = errno;
    (void)!write(trouble, &why, sizeof why);
    _exit(127);
}

/* Keeps descriptors away from 0, 1 and 2, which the child replaces. */
static int move_up(int fd)
{
    int moved = fd >= 0 && fd < 3 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : fd;
    if (moved != fd)
        (void)close(fd);
    return moved;
}

static int make_pipe(int ends[2], struct berth_error *err)
{
    if (pipe2(ends, O_CLOEXEC) < 0)
        return berth_fail_errno(err, "Cannot make a pipe");
    ends[0] = move_up(ends[0]);
    ends[1] = move_up(ends[1]);
    return ends[0] >= 0 && ends[1] >= 0 ? BERTH_OK : berth_fail_errno(err, "Cannot make a pipe");
}

/* Says why a program could not be started, in the words that hosts know: "spawn NAME ENOENT". */
static int fail_spawn(const struct berth_plugin_command *c, int why, struct berth_error *err)
{
    const char *name = strerrorname_np(why);
    return berth_fail(err, BERTH_E_UNPROCESSABLE, "spawn %.200s %s", c->argv[0],
                      name ? name : "failed");
}

/* Forks, and waits until the child runs its program. `theirs` are the child's 0, 1 and 2. */
static int fork_command(struct running *r, const int theirs[3], struct berth_error *err)
{
    int trouble[2] = {-1, -1}, why = 0;
    int rc = make_pipe(trouble, err);
    if (rc < 0)
        return rc;
    r->pid = fork();
    if (r->pid == 0)
        become_command(r->command, theirs, trouble[1]);
    int failure = errno;
    close_fd(&trouble[1]);
    ssize_t got = r->pid < 0 ? 0 : read(trouble[0], &why, sizeof why);
    close_fd(&trouble[0]);
    if (r->pid < 0)
        return fail_spawn(r->command, failure, err);
    if (got == (ssize_t)sizeof why) {
        (void)waitpid(r->pid, NULL, 0);
        return fail_spawn(r->command, why, err);
    }
    r->pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
    if (r->pidfd >= 0)
        return BERTH_OK;
    rc = berth_fail_errno(err, "Cannot watch the command");
    (void)kill(-r->pid, SIGKILL);
    (void)waitpid(r->pid, NULL, 0);
    return rc;
}

static int start_command(struct running *r, struct berth_error *err)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, errors[2] = {-1, -1};
    int rc = BERTH_OK;
    if (r->command->input)
        rc = make_pipe(in, err);
    else if ((in[0] = move_up(open("/dev/null", O_RDONLY | O_CLOEXEC))) < 0)
        rc = berth_fail_errno(err, "Cannot open /dev/null");
    if (rc == BERTH_OK)
        rc = make_pipe(out, err);
    if (rc == BERTH_OK)
        rc = make_pipe(errors, err);
    if (rc == BERTH_OK)
        rc = fork_command(r, (const int[]){in[0], out[1], errors[1]}, err);
    close_fd(&in[0]);
    close_fd(&out[1]);
    close_fd(&errors[1]);
    r->input = in[1];
    r->outputs[0] = out[0];
    r->outputs[1] = errors[0];
    int ends[] = {in[1], out[0], errors[0]};
    for (int i = 0; i < 3; i++)
        if (ends[i] >= 0)
            (void)fcntl(ends[i], F_SETFL, O_NONBLOCK);
    return rc;
}

/* --- while it runs --- */

static void write_input(struct running *r)
{
    const struct berth_plugin_command *c = r->command;
    ssize_t wrote = write(r->input, c->input + r->written, c->input_len - r->written);
    if (wrote > 0)
        r->written += (size_t)wrote;
    if (r->written == c->input_len || (wrote < 0 && errno != EAGAIN && errno != EINTR))
        close_fd(&r->input); /* all is written, or the command does not read it */
}

/* Reads what there is of a stream, keeps it, and sends it to the host. */
static void read_output(struct running *r, int i)
{
    static const char *const names[] = {"stdout", "stderr"};
    struct berth_buf *kept = &r->result->streams[i];
    char bytes[READ_BYTES];
    ssize_t got = read(r->outputs[i], bytes, sizeof bytes);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        close_fd(&r->outputs[i]);
        return;
    }
    size_t room = kept->max - kept->len - 1;
    r->result->truncated |= (size_t)got > room;
    berth_buf_append(kept, bytes, (size_t)got < room ? (size_t)got : room);
    const char *text = berth_buf_str(kept);
    if (text)
        r->streamed[i] += berth_plugin_output(r->call, names[i], text + r->streamed[i],
                                              kept->len - r->streamed[i]);
}

static void reap(struct running *r)
{
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)r->pid, &info, WEXITED | WNOWAIT) < 0)
        return;
    r->exited = true;
    bool by_signal = info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED;
    r->result->exit_code = by_signal ? -1 : info.si_status;
    r->result->signal = by_signal ? info.si_status : 0;
    close_fd(&r->input);
    close_fd(&r->pidfd);
    r->deadline_ms = berth_time_mono_ms() + LINGER_MS;
}

/* The time is over: of the command, of its grace, or of what it left behind. */
static void on_deadline(struct running *r)
{
    int64_t now_ms = berth_time_mono_ms();
    if (r->exited) {
        close_fd(&r->outputs[0]);
        close_fd(&r->outputs[1]);
    } else if (!r->result->timed_out) {
        r->result->timed_out = true;
        (void)kill(-r->pid, SIGTERM);
        r->deadline_ms = now_ms + GRACE_MS;
    } else {
        (void)kill(-r->pid, SIGKILL);
        r->deadline_ms = INT64_MAX;
    }
}

static int left_ms(const struct running *r)
{
    int64_t left = r->deadline_ms == INT64_MAX ? -1 : r->deadline_ms - berth_time_mono_ms();
    return r->deadline_ms == INT64_MAX ? -1 : left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

static void await_command(struct running *r)
{
    while (!r->exited || r->outputs[0] >= 0 || r->outputs[1] >= 0) {
        struct pollfd fds[] = {{.fd = r->pidfd, .events = POLLIN},
                               {.fd = r->input, .events = POLLOUT},
                               {.fd = r->outputs[0], .events = POLLIN},
                               {.fd = r->outputs[1], .events = POLLIN}};
        int ready = poll(fds, 4, left_ms(r));
        if (ready == 0 && left_ms(r) == 0)
            on_deadline(r);
        if (ready <= 0)
            continue;
        if (fds[1].revents)
            write_input(r);
        for (int i = 0; i < 2; i++)
            if (fds[2 + i].revents)
                read_output(r, i);
        if (fds[0].revents)
            reap(r);
    }
    (void)kill(-r->pid, SIGKILL); /* what the command left in its group; the pid is still ours */
    (void)waitpid(r->pid, NULL, 0);
}

int berth_plugin_run(const struct berth_plugin_call *call,
                     const struct berth_plugin_command *command, struct berth_plugin_result *out,
                     struct berth_error *err)
{
    size_t max =
        command->output_bytes_max ? command->output_bytes_max : BERTH_PLUGIN_OUTPUT_BYTES_DEFAULT;
    *out = (struct berth_plugin_result){
        .exit_code = -1, .streams = {BERTH_BUF_INIT(max + 1), BERTH_BUF_INIT(max + 1)}};
    if (!command->argv || !command->argv[0])
        return berth_fail(err, BERTH_E_INVALID, "There is no command to run.");
    struct running r = {.call = call,
                        .command = command,
                        .result = out,
                        .pidfd = -1,
                        .input = -1,
                        .outputs = {-1, -1},
                        .deadline_ms = command->timeout_ms > 0
                                           ? berth_time_mono_ms() + command->timeout_ms
                                           : INT64_MAX};
    int rc = start_command(&r, err);
    if (rc == BERTH_OK)
        await_command(&r);
    close_fd(&r.pidfd);
    close_fd(&r.input);
    close_fd(&r.outputs[0]);
    close_fd(&r.outputs[1]);
    return rc;
}

void berth_plugin_result_clear(struct berth_plugin_result *result)
{
    berth_buf_clear(&result->streams[0]);
    berth_buf_clear(&result->streams[1]);
}

void berth_plugin_put_result(struct berth_json_writer *answer,
                             const struct berth_plugin_result *result)
{
    static const char *const names[] = {"stdout", "stderr"};
    char text[24];
    const char *name = result->signal ? sigabbrev_np(result->signal) : NULL;
    (void)snprintf(text, sizeof text, "SIG%s", name ? name : "");
    if (result->exit_code >= 0 && !result->timed_out)
        berth_json_put_int(answer, "exitCode", result->exit_code);
    else
        berth_json_put_str(answer, "exitCode", NULL);
    berth_json_put_str(answer, "signal", name ? text : NULL);
    berth_json_put_bool(answer, "timedOut", result->timed_out);
    for (int i = 0; i < 2; i++) {
        const char *bytes = berth_buf_str(&result->streams[i]);
        berth_json_put_bytes(answer, names[i], bytes ? bytes : "",
                             bytes ? result->streams[i].len : 0);
    }
}

/* --- environmentExecute --- */

static void free_texts(char ***texts)
{
    for (char **at = *texts; at && *at; at++)
        free(*at);
    free(*texts);
}
#define auto_texts __attribute__((cleanup(free_texts))) char **

static bool add_text(char **texts, size_t *count, const char *text)
{
    texts[*count] = text ? strdup(text) : NULL;
    return texts[*count] && ++*count;
}

/* Returns the words of the command, closed by NULL, or NULL when memory ran out. */
static char **read_argv(const struct berth_json *params)
{
    const struct berth_json *args = berth_json_get(params, "args");
    const char *program = berth_json_str(berth_json_get(params, "command"));
    size_t count = 0;
    auto_texts argv = calloc(berth_json_count(args) + 2, sizeof *argv);
    bool ok = argv && (!program || add_text(argv, &count, program));
    for (size_t i = 0; ok && program && i < berth_json_count(args); i++) {
        const char *arg = berth_json_str(berth_json_at(args, i));
        ok = add_text(argv, &count, arg ? arg : "");
    }
    return ok ? take_ptr(argv) : NULL;
}

/* Returns the variables of the command, closed by NULL, or NULL when memory ran out. */
static char **read_env(const struct berth_json *params)
{
    const struct berth_json *given = berth_json_get(params, "env");
    size_t count = 0;
    auto_texts env = calloc(berth_json_count(given) + 2, sizeof *env);
    bool ok = env && (berth_json_get(given, "PATH") || add_text(env, &count, PATH_DEFAULT));
    berth_json_each (given, iter) {
        const char *value = berth_json_str(berth_json_iter_value(iter));
        auto_free char *pair = NULL;
        if (ok && value)
            ok = asprintf(&pair, "%s=%s", berth_json_iter_key(iter), value) >= 0 &&
                 add_text(env, &count, pair);
    }
    return ok ? take_ptr(env) : NULL;
}

int berth_plugin_execute(const struct berth_plugin_call *call, const char *cwd,
                         struct berth_json_writer *answer, struct berth_error *err)
{
    const struct berth_json *input = berth_json_get(call->params, "stdin");
    const char *wanted = berth_json_str(berth_json_get(call->params, "cwd"));
    auto_texts argv = read_argv(call->params);
    auto_texts env = read_env(call->params);
    if (!argv || !env)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: command.");
    struct berth_plugin_command command = {
        .argv = (const char *const *)argv,
        .env = (const char *const *)env,
        .cwd = wanted ? wanted : cwd,
        .input = berth_json_str(input),
        .input_len = berth_json_str_len(input),
        .timeout_ms =
            berth_plugin_int(call->params, "timeoutMs",
                             berth_plugin_int(call->config, "timeoutMs", TIMEOUT_MS_DEFAULT))};
    struct berth_plugin_result result;
    int rc = berth_plugin_run(call, &command, &result, err);
    if (rc == BERTH_OK)
        berth_plugin_put_result(answer, &result);
    berth_plugin_result_clear(&result);
    return rc;
}
