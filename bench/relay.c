/* SPDX-License-Identifier: Apache-2.0
 * bench/relay.c - see relay.h. A package contains this program under the name of the worker, the
 * worker under another name, and the delay. The worker inherits standard output, so that answers
 * are not touched. The count is the length of the file STATE/calls. */
#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "os/fs.h"
#include "samples.h"

#define WORKER "berth-worker-fake"
#define BEHIND "worker-behind"
#define CALLS "calls"
#define EXECUTE "\"environmentExecute\""
#define PROGRAM_BYTES_MAX ((size_t)64 << 20)

static char beside[PATH_MAX]; /* the directory of this program, with a slash */

/* --- the package --- */

static int copy_into(const char *from, const char *directory, const char *name, mode_t mode,
                     struct berth_error *err)
{
    char to[PATH_MAX];
    auto_buf bytes = BERTH_BUF_INIT(PROGRAM_BYTES_MAX);
    (void)snprintf(to, sizeof to, "%s/%s", directory, name);
    auto_close int in = open(from, O_RDONLY | O_CLOEXEC);
    auto_close int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (in < 0 || out < 0)
        return berth_fail_errno(err, "Cannot copy %s to %s", from, to);
    int rc = berth_fs_read_all(in, &bytes, err);
    return rc < 0 ? rc : berth_fs_write_all(out, bytes.data, bytes.len, err);
}

static int write_delay(const char *directory, int delay_ms, struct berth_error *err)
{
    char path[PATH_MAX], text[16];
    (void)snprintf(path, sizeof path, "%s/delay", directory);
    int len = snprintf(text, sizeof text, "%d", delay_ms);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return fd < 0 ? berth_fail_errno(err, "Cannot write %s", path)
                  : berth_fs_write_all(fd, text, (size_t)len, err);
}

int relay_package(const char *worker_package, const char *to, int delay_ms, struct berth_error *err)
{
    char worker[PATH_MAX], manifest[PATH_MAX];
    (void)snprintf(worker, sizeof worker, "%s/" WORKER, worker_package);
    (void)snprintf(manifest, sizeof manifest, "%s/manifest.json", worker_package);
    int rc = mkdir(to, 0755) < 0 ? berth_fail_errno(err, "Cannot make %s", to) : BERTH_OK;
    if (rc == BERTH_OK)
        rc = copy_into("/proc/self/exe", to, WORKER, 0755, err);
    if (rc == BERTH_OK)
        rc = copy_into(worker, to, BEHIND, 0755, err);
    if (rc == BERTH_OK)
        rc = copy_into(manifest, to, "manifest.json", 0644, err);
    return rc < 0 ? rc : write_delay(to, delay_ms, err);
}

long relay_count(const char *state)
{
    char path[PATH_MAX];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/" CALLS, state);
    return stat(path, &st) < 0 ? 0 : (long)st.st_size;
}

/* --- the worker --- */

bool relay_wanted(void)
{
    ssize_t len = readlink("/proc/self/exe", beside, sizeof beside - 1);
    beside[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(beside, '/');
    bool wanted = slash && strcmp(slash + 1, WORKER) == 0;
    if (slash)
        slash[1] = '\0';
    return wanted;
}

static int64_t read_delay_ns(void)
{
    char path[PATH_MAX + 8], text[16] = "";
    (void)snprintf(path, sizeof path, "%sdelay", beside);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    text[len > 0 ? len : 0] = '\0';
    return strtol(text, NULL, 10) * INT64_C(1000000);
}

/* Starts the worker. Returns the descriptor of its standard input, or -1. */
static int start_behind(pid_t *pid)
{
    extern char **environ;
    char path[PATH_MAX + 16];
    int in[2];
    (void)snprintf(path, sizeof path, "%s" BEHIND, beside);
    char *const argv[] = {path, NULL};
    if (pipe2(in, O_CLOEXEC) < 0)
        return -1;
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    int failed = posix_spawn(pid, path, &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(in[0]);
    if (failed)
        (void)close(in[1]);
    return failed ? -1 : in[1];
}

static void relay_lines(int to, int64_t delay_ns)
{
    char path[PATH_MAX];
    auto_free char *line = NULL;
    struct berth_error err;
    size_t size = 0;
    const char *state = getenv("BERTH_PLUGIN_STATE");
    (void)snprintf(path, sizeof path, "%s/" CALLS, state ? state : ".");
    auto_close int calls = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    for (ssize_t len; (len = getline(&line, &size, stdin)) > 0;) {
        if (memmem(line, (size_t)len, EXECUTE, sizeof EXECUTE - 1)) {
            (void)!write(calls, ".", 1);
            sleep_ns(delay_ns);
        }
        if (berth_fs_write_all(to, line, (size_t)len, &err) < 0)
            return;
    }
}

int relay_main(void)
{
    pid_t pid;
    int to = start_behind(&pid), status = 0;
    if (to < 0) {
        perror("bench-sync: the worker does not start");
        return 1;
    }
    relay_lines(to, read_delay_ns());
    (void)close(to);
    (void)waitpid(pid, &status, 0);
    return status != 0;
}
