/* SPDX-License-Identifier: Apache-2.0
 * bench/bare.c - see bare.h. */
#include "bare.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reads both pipes to their end, as anybody has to. */
static void drain(int out, int err)
{
    struct pollfd fds[] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
    char bytes[4096];
    for (int open = 2; open;) {
        if (poll(fds, 2, -1) < 0)
            continue;
        for (int i = 0; i < 2; i++)
            if (fds[i].fd >= 0 && fds[i].revents && read(fds[i].fd, bytes, sizeof bytes) <= 0) {
                fds[i].fd = -1;
                open--;
            }
    }
}

int run_bare(const char *file, const char *const *argv, struct berth_error *err)
{
    int out[2], errs[2];
    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(errs, O_CLOEXEC) < 0)
        return berth_fail_errno(err, "pipe");
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    (void)posix_spawn_file_actions_adddup2(&actions, errs[1], 2);
    static char path[] = "PATH=/usr/bin:/bin";
    char *env[] = {path, NULL};
    pid_t pid;
    int number = posix_spawn(&pid, file, &actions, NULL, (char *const *)(uintptr_t)argv, env);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(out[1]);
    (void)close(errs[1]);
    if (number == 0) {
        drain(out[0], errs[0]);
        (void)waitpid(pid, NULL, 0);
    }
    (void)close(out[0]);
    (void)close(errs[0]);
    errno = number;
    return number ? berth_fail_errno(err, "posix_spawn") : BERTH_OK;
}
