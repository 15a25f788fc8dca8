/* SPDX-License-Identifier: Apache-2.0
 * src/os/strays.c - processes by a variable in their environment: what left its process group is
 * still found by it. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "os/engine.h"

#define ROUNDS 20 /* a tree that forks as fast as we kill does not get away for long */
#define ENVIRON_BYTES_MAX (256 * 1024)

static void close_dir(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir);
}

static bool carries(pid_t pid, const char *label)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    auto_free char *text = fd < 0 ? NULL : malloc(ENVIRON_BYTES_MAX);
    if (!text)
        return false;
    size_t len = 0;
    for (ssize_t got;
         len < ENVIRON_BYTES_MAX && (got = read(fd, text + len, ENVIRON_BYTES_MAX - len)) > 0;)
        len += (size_t)got;
    size_t wanted = strlen(label);
    for (size_t at = 0; at + wanted <= len;) {
        const char *end = memchr(text + at, '\0', len - at);
        size_t part = end ? (size_t)(end - text) - at : len - at;
        if (part == wanted && memcmp(text + at, label, wanted) == 0)
            return true;
        at += part + 1;
    }
    return false;
}

static int kill_once(const char *label)
{
    DIR *dir auto_clean(close_dir) = opendir("/proc");
    int killed = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        pid_t pid = (pid_t)atoi(entry->d_name); /* 0 for what is no process */
        if (pid > 0 && pid != getpid() && carries(pid, label) && kill(pid, SIGKILL) == 0)
            killed++;
    }
    return killed;
}

int berth_strays_end(const char *label)
{
    int all = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int killed = kill_once(label);
        all += killed;
        if (!killed)
            break;
        (void)usleep(1000);
    }
    return all;
}
