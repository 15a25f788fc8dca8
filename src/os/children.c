/* SPDX-License-Identifier: Apache-2.0
 * src/os/children.c - see children.h. */
#include "os/children.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "os/fs.h"

/* Held over a birth: a child that exists is in the table once the lock is free. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool inherits;

struct known {
    pid_t pid;
    bool abandoned;
};
static struct known *known;
static int known_count, known_cap;

/* Lock held. Without memory the child is not noted; it is then not told from an inherited one. */
static void note_child(pid_t pid)
{
    if (known_count == known_cap) {
        int cap = known_cap ? known_cap * 2 : 32;
        struct known *grown = realloc(known, (size_t)cap * sizeof *grown);
        if (!grown)
            return;
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
}

void berth_children_end_birth(pid_t pid)
{
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

void berth_children_inherit(void)
{
    inherits = prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

/* Lock held. Reaps the children of one thread that this process did not start. Returns how many it
 * saw: when one of them ends, its own children become ours after the list was read. */
static int reap_strangers(const char *thread, bool kills)
{
    char path[64];
    int pid, strangers = 0;
    (void)snprintf(path, sizeof path, "/proc/self/task/%.20s/children", thread);
    FILE *children = fopen(path, "re");
    while (children && fscanf(children, "%d", &pid) == 1)
        if (!find_child(pid)) {
            if (kills)
                (void)kill(pid, SIGKILL);
            (void)waitpid(pid, NULL, WNOHANG | __WALL);
            strangers++;
        }
    if (children)
        (void)fclose(children);
    return strangers;
}

static int reap_inherited(bool kills)
{
    int strangers = 0;
    auto_dir *threads = inherits ? opendir("/proc/self/task") : NULL;
    pthread_mutex_lock(&lock);
    for (struct dirent *entry; threads && (entry = readdir(threads));)
        if (*entry->d_name != '.')
            strangers += reap_strangers(entry->d_name, kills);
    reap_abandoned();
    pthread_mutex_unlock(&lock);
    return strangers;
}

int berth_children_end_inherited(void)
{
    return reap_inherited(true);
}

void berth_children_reap_inherited(void)
{
    (void)reap_inherited(false);
}
