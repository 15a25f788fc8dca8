/* SPDX-License-Identifier: Apache-2.0
 * src/os/children.c - see children.h. */
#include "os/children.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/buf.h"
#include "os/fs.h"

#define CHILDREN_BYTES_MAX (64 * 1024 * 1024) /* more than there can be process ids */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool inherits;
static int births; /* under way: their children may exist and not be in the table */

struct known {
    pid_t pid;
    bool abandoned;
};
static struct known *known;
static int known_count, known_cap;

/* Lock held. Without memory for the child, nothing is called inherited any more. */
static void note_child(pid_t pid)
{
    if (known_count == known_cap) {
        int cap = known_cap ? known_cap * 2 : 32;
        struct known *grown = realloc(known, (size_t)cap * sizeof *grown);
        if (!grown) {
            inherits = false;
            return;
        }
        known = grown;
        known_cap = cap;
    }
    known[known_count++] = (struct known){.pid = pid};
}

static struct known *find_child(pid_t pid)
{
    for (int i = 0; i < known_count; i++)
        if (known[i].pid == pid)
            return &known[i];
    return NULL;
}

static void reap_abandoned(void)
{
    for (int i = 0; i < known_count;)
        if (known[i].abandoned && waitpid(known[i].pid, NULL, WNOHANG) != 0)
            known[i] = known[--known_count];
        else
            i++;
}

void berth_children_begin_birth(void)
{
    pthread_mutex_lock(&lock);
    births++;
    pthread_mutex_unlock(&lock);
}

void berth_children_end_birth(pid_t pid)
{
    pthread_mutex_lock(&lock);
    births--;
    reap_abandoned();
    if (pid > 0)
        note_child(pid);
    pthread_mutex_unlock(&lock);
}

void berth_children_forget(pid_t pid)
{
    pthread_mutex_lock(&lock);
    struct known *child = find_child(pid);
    if (child)
        *child = known[--known_count];
    pthread_mutex_unlock(&lock);
}

void berth_children_abandon(pid_t pid)
{
    pthread_mutex_lock(&lock);
    struct known *child = find_child(pid);
    if (child)
        child->abandoned = true;
    reap_abandoned();
    pthread_mutex_unlock(&lock);
}

/* Reads a file of /proc whole: the list in it loses entries while they are reaped. */
static void read_children(const char *thread, struct berth_buf *out)
{
    char path[64];
    struct berth_error ignored;
    (void)snprintf(path, sizeof path, "/proc/self/task/%.20s/children", thread);
    auto_close int fd = *thread == '.' ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    out->len = 0;
    if (fd >= 0)
        (void)berth_fs_read_all(fd, out, &ignored);
}

/* Lock held. Calls `each` for the children that are not in the table. Returns how many it saw. */
static int each_stranger(void (*each)(pid_t pid))
{
    int strangers = 0;
    auto_buf list = BERTH_BUF_INIT(CHILDREN_BYTES_MAX);
    auto_dir *threads = opendir("/proc/self/task");
    for (struct dirent *entry; threads && (entry = readdir(threads));) {
        read_children(entry->d_name, &list);
        char *at = list.len ? list.data : NULL, *end;
        for (long pid; at && (pid = strtol(at, &end, 10)) > 0; at = end)
            if (!find_child((pid_t)pid)) {
                each((pid_t)pid);
                strangers++;
            }
    }
    return strangers;
}

static void reap_stranger(pid_t pid)
{
    (void)waitpid(pid, NULL, WNOHANG | __WALL);
}

static void kill_stranger(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    reap_stranger(pid);
}

void berth_children_inherit(void)
{
    pthread_mutex_lock(&lock);
    (void)each_stranger(note_child); /* of the program that this process ran before ours */
    inherits = prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
    pthread_mutex_unlock(&lock);
}

/* When a stranger ends, its own children become ours after the list was read: so all that were seen
 * count. During a birth nothing can be said: that counts as one. */
static int end_strangers(void (*each)(pid_t pid))
{
    pthread_mutex_lock(&lock);
    int strangers = !inherits ? 0 : births ? 1 : each_stranger(each);
    reap_abandoned();
    pthread_mutex_unlock(&lock);
    return strangers;
}

int berth_children_end_inherited(void)
{
    return end_strangers(kill_stranger);
}

void berth_children_reap_inherited(void)
{
    (void)end_strangers(reap_stranger);
}
