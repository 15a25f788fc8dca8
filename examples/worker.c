/* SPDX-License-Identifier: Apache-2.0
 * examples/worker.c - a plugin worker whose places are directories. See docs/plugin-protocol.md. */
#define _GNU_SOURCE 1
#include <berth_plugin.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ASKED                                                                                      \
    const struct berth_plugin_call *call, struct berth_json_writer *answer, struct berth_error *err
#define STREAM memfd_create("stream", MFD_CLOEXEC)

static int acquire(ASKED) /* the name is the label: mkdir creates both in one step */
{
    auto_buf id = BERTH_BUF_INIT(255);
    berth_buf_printf(&id, "%s.%s", call->environment_id, call->lease_id);
    berth_json_put_str(answer, "providerLeaseId", berth_buf_str(&id));
    bool there = mkdir(berth_buf_str(&id), 0700) == 0 || access(berth_buf_str(&id), F_OK) == 0;
    return there ? BERTH_OK : berth_fail_errno(err, "Cannot create the place");
}

static int find(ASKED)
{
    DIR *state = opendir(".");
    size_t len = strlen(call->environment_id);
    for (const struct dirent *e; state && (e = readdir(state));)
        if (strncmp(e->d_name, call->environment_id, len) == 0 && e->d_name[len] == '.')
            berth_plugin_put_found(answer, e->d_name + len + 1, e->d_name);
    return state && closedir(state) == 0 ? BERTH_OK : berth_fail_errno(err, "Cannot list places");
}

static int realize(ASKED)
{
    char path[4096], *cwd = realpath(call->provider_lease_id, path);
    berth_json_put_str(answer, "cwd", cwd);
    return cwd ? BERTH_OK : berth_fail_errno(err, "Cannot find the place");
}

static int destroy(ASKED) /* succeeds also if the place no longer exists */
{
    const char *id = strchr(call->provider_lease_id, '/') ? "" : call->provider_lease_id;
    int status = -1, pid = fork();
    (void)answer;
    if (pid == 0)
        _exit(execlp("rm", "rm", "-rf", "--", id, NULL));
    bool gone = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
    return gone ? BERTH_OK : berth_fail(err, BERTH_E_INTERNAL, "Cannot remove the place");
}

static int execute(ASKED)
{
    const struct berth_json *p = call->params, *in = berth_json_get(p, "stdin");
    const struct berth_json *env = berth_json_get(p, "env"), *args = berth_json_get(p, "args");
    auto_buf words = BERTH_BUF_INIT(1 << 27); /* the argv, separated by NULs */
    const char *cwd = berth_json_str(berth_json_get(p, "cwd"));
    berth_buf_printf(&words, "setsid%csetpriv%c--pdeathsig%cKILL%cenv%c-C%c%s", 0, 0, 0, 0, 0, 0,
                     cwd ? cwd : call->provider_lease_id); /* dies if the worker is killed */
    berth_json_each (env, iter)
        berth_buf_printf(&words, "%c%s=%s", 0, berth_json_iter_key(iter),
                         berth_json_str(berth_json_iter_value(iter)));
    berth_buf_printf(&words, "%c%s", 0, berth_json_str(berth_json_get(p, "command")));
    for (size_t i = 0; i < berth_json_count(args); i++)
        berth_buf_printf(&words, "%c%s", 0, berth_json_str(berth_json_at(args, i)));
    char **argv = calloc(berth_json_count(env) + berth_json_count(args) + 9, sizeof *argv);
    int status = 0, n = 0, fds[] = {STREAM, STREAM, STREAM};
    for (char *at = words.data; !words.failed && at <= words.data + words.len; at += strlen(at) + 1)
        argv[n++] = at;
    pid_t pid = pwrite(fds[0], berth_json_str(in), berth_json_str_len(in), 0) < 0 ? -1 : fork();
    if (pid == 0)
        _exit(dup2(fds[0], 0) + dup2(fds[1], 1) + dup2(fds[2], 2) == 3 ? execvp(*argv, argv) : 1);
    int64_t left_ms = berth_plugin_int(p, "timeoutMs", 300000);
    for (; pid > 0 && waitpid(pid, &status, WNOHANG) == 0; (void)usleep(5000))
        if ((left_ms -= 5) < 0) /* timed out: kill it and its children */
            (void)kill(-pid, SIGKILL);
    berth_json_put_bool(answer, "timedOut", left_ms < 0);
    status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    berth_json_put_int(answer, "exitCode", status);
    for (int i = 0; i < 3; (void)close(fds[i++])) {
        size_t len = (size_t)lseek(fds[i], 0, SEEK_END);
        char *bytes = calloc(1, len + 1);
        pid = bytes && pread(fds[i], bytes, len, 0) == (ssize_t)len ? pid : -1; /* -1: read error */
        if (i > 0 && pid > 0)
            berth_json_put_bytes(answer, i == 1 ? "stdout" : "stderr", bytes, len);
        free(bytes);
    }
    free(argv);
    return pid > 0 ? BERTH_OK : berth_fail(err, BERTH_E_INTERNAL, "Cannot run the command");
}

int main(void)
{
    struct berth_plugin p = {.name = "Example", .acquire = acquire, .find = find};
    p.realize = realize, p.execute = execute, p.release = p.destroy = destroy;
    return berth_plugin_main(&p);
}
