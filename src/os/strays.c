/* SPDX-License-Identifier: Apache-2.0
 * src/os/strays.c - see strays.h. */
#include "os/strays.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "os/fs.h"
#include "os/orphan_inits.h"
#include "os/owner_group.h"
#include "os/proc_stat.h"

#define ANCESTORS_MAX 10000 /* of a chain that the kernel would not make longer */
#define ROUNDS 20           /* a tree that forks as fast as we kill does not get away for long */
#define KILLED_WAIT_MS 1000 /* for one that the kernel holds */
#define ENVIRON_BYTES_MAX (256 * 1024)

/* Returns whether the process is below an init whose owner lives, and so is not left over. Its row
 * then comes from a copy of the store that the owner uses. */
static bool is_looked_after(pid_t pid)
{
    struct berth_proc_stat stat;
    for (int i = 0; i < ANCESTORS_MAX && berth_proc_stat_read(pid, &stat); i++) {
        pid = stat.parent;
        if (pid <= 1)
            return false;
        char owner[BERTH_OWNER_NAME_SIZE];
        if (berth_init_owner(pid, owner))
            return berth_owner_group_state(owner) == BERTH_OWNER_LIVES;
    }
    return false;
}

/* Is one of the texts among the variables of the process? */
static bool carries(pid_t pid, const char *const *labels, char *text)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    for (ssize_t got; fd >= 0 && len < ENVIRON_BYTES_MAX &&
                      (got = read(fd, text + len, ENVIRON_BYTES_MAX - len)) > 0;)
        len += (size_t)got;
    text[len] = '\0';
    for (size_t at = 0; at < len; at += strlen(text + at) + 1)
        for (const char *const *label = labels; *label; label++)
            if (strcmp(text + at, *label) == 0)
                return true;
    return false;
}

/* Kills through a descriptor, after a second look: another process may have got the number. Waits
 * until the process has ended, so that it is not counted again. */
static bool kill_carrier(pid_t pid, const char *const *labels, bool orphaned, char *text)
{
    auto_close int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    if (fd < 0 || !carries(pid, labels, text) || (orphaned && is_looked_after(pid)) ||
        syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) < 0)
        return false;
    (void)poll(&ended, 1, KILLED_WAIT_MS);
    return true;
}

static int kill_once(const char *const *labels, bool orphaned, char *text)
{
    auto_dir *dir = opendir("/proc");
    int killed = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        pid_t pid = (pid_t)atoi(entry->d_name); /* 0: the entry is not a process */
        if (pid > 0 && pid != getpid() && carries(pid, labels, text) &&
            kill_carrier(pid, labels, orphaned, text))
            killed++;
    }
    return killed;
}

static int end_strays(const char *const *labels, bool orphaned)
{
    auto_free char *text = malloc(ENVIRON_BYTES_MAX + 1);
    int all = 0;
    for (int round = 0; text && round < ROUNDS; round++) {
        int killed = kill_once(labels, orphaned, text);
        all += killed;
        if (!killed)
            break;
        (void)usleep(1000);
    }
    return all;
}

int berth_strays_end(const char *const *labels)
{
    return end_strays(labels, false);
}

int berth_strays_end_orphaned(const char *const *labels)
{
    return end_strays(labels, true);
}
