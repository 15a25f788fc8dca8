/* SPDX-License-Identifier: Apache-2.0
 * src/os/orphan_inits.c - see orphan_inits.h. An init is a child subreaper also while it is
 * stopped, so its tree stays below it until it is killed itself. */
#include "os/orphan_inits.h"

#include <errno.h>
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
#include "os/init_protocol.h"
#include "os/owner_group.h"
#include "os/proc_stat.h"

#define ROUNDS 50           /* a tree that forks as fast as we kill does not get away for long */
#define KILLED_WAIT_MS 1000 /* for one that the kernel holds */

struct process {
    pid_t pid;
    struct berth_proc_stat stat;
    bool init;  /* orphaned */
    bool below; /* is a descendant of one */
};

struct processes {
    struct process *items; /* by pid, ascending */
    int count, cap;
};

static bool is_ours(pid_t pid)
{
    char path[64], line[256];
    unsigned uid = 0;
    bool found = false;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *status = fopen(path, "re");
    while (status && !found && fgets(line, sizeof line, status))
        found = sscanf(line, "Uid: %u", &uid) == 1;
    if (status)
        (void)fclose(status);
    return found && uid == getuid();
}

bool berth_init_owner(pid_t pid, char out[BERTH_OWNER_NAME_SIZE])
{
    char path[64], line[sizeof BERTH_INIT_NAME + BERTH_OWNER_NAME_SIZE];
    (void)snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    if (len <= (ssize_t)sizeof BERTH_INIT_NAME ||
        memcmp(line, BERTH_INIT_NAME, sizeof BERTH_INIT_NAME) != 0)
        return false;
    line[len] = '\0';
    memcpy(out, line + sizeof BERTH_INIT_NAME, (size_t)len + 1 - sizeof BERTH_INIT_NAME);
    return true;
}

static bool is_orphaned_init(pid_t pid)
{
    char owner[BERTH_OWNER_NAME_SIZE];
    return berth_init_owner(pid, owner) && berth_owner_group_state(owner) == BERTH_OWNER_DEAD &&
           is_ours(pid);
}

static int compare_pids(const void *a, const void *b)
{
    pid_t left = ((const struct process *)a)->pid, right = ((const struct process *)b)->pid;
    return (left > right) - (left < right);
}

/* Returns false when the list lacks a process that is there. */
static bool add_process(struct processes *all, pid_t pid)
{
    struct process p = {.pid = pid};
    if (!berth_proc_stat_read(pid, &p.stat))
        return kill(pid, 0) < 0 && errno == ESRCH; /* it has ended meanwhile */
    if (all->count == all->cap) {
        int cap = all->cap ? all->cap * 2 : 512;
        struct process *grown = realloc(all->items, (size_t)cap * sizeof *grown);
        if (!grown)
            return false;
        all->items = grown;
        all->cap = cap;
    }
    p.init = !p.stat.ended && is_orphaned_init(pid);
    all->items[all->count++] = p;
    return true;
}

/* Returns false when the list is not complete. */
static bool read_processes(struct processes *all)
{
    all->count = 0;
    auto_dir *dir = opendir("/proc");
    bool complete = dir;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        pid_t pid = (pid_t)atoi(entry->d_name); /* 0: the entry is not a process */
        if (pid > 0 && !add_process(all, pid))
            complete = false;
    }
    if (all->count)
        qsort(all->items, (size_t)all->count, sizeof *all->items, compare_pids);
    return complete;
}

/* Marks the descendants of orphaned inits. A child usually has a larger number than its parent, so
 * few passes suffice. */
static void mark_descendants(struct processes *all)
{
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < all->count; i++) {
            struct process *p = &all->items[i], key = {.pid = p->stat.parent};
            const struct process *parent =
                p->below ? NULL
                         : bsearch(&key, all->items, (size_t)all->count, sizeof key, compare_pids);
            if (parent && (parent->init || parent->below))
                more = p->below = true;
        }
    }
}

/* Kills through a descriptor, after a second look: another process may have got the number. */
static bool kill_process(const struct process *p)
{
    struct berth_proc_stat now;
    auto_close int fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    if (fd < 0 || !berth_proc_stat_read(p->pid, &now) || now.start != p->stat.start ||
        syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) < 0)
        return false;
    (void)poll(&ended, 1, KILLED_WAIT_MS);
    return true;
}

/* Kills the processes that are below an init, or else the inits. *found counts them. */
static int kill_some(const struct processes *all, bool inits, int *found)
{
    int killed = 0;
    *found = 0;
    for (int i = 0; i < all->count; i++) {
        const struct process *p = &all->items[i];
        if (p->stat.ended || !(inits ? p->init : p->below && !p->init))
            continue;
        killed += kill_process(p);
        ++*found;
    }
    return killed;
}

/* An init stays until nothing is below it: what is left of its tree could not be found without it.
 */
int berth_orphan_inits_end(void)
{
    struct processes all = {0};
    bool empty = false;
    int total = 0, found, killed = 1;
    for (int round = 0; round < ROUNDS && killed; round++) {
        bool complete = read_processes(&all);
        mark_descendants(&all);
        killed = kill_some(&all, false, &found);
        empty = complete && !found;
        total += killed;
    }
    if (empty)
        total += kill_some(&all, true, &found);
    free(all.items);
    return total;
}
