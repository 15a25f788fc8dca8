/* SPDX-License-Identifier: Apache-2.0
 * src/os/owner_group.c - see owner_group.h. A group is called berth.NAMESPACE.PID.START: the pid
 * namespace, because a number means nothing in another one, and when the process was started,
 * because a number is used again. */
#include "os/owner_group.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "os/fs.h"
#include "os/proc_stat.h"

#define PREFIX "berth."

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int procs_fd = -1; /* of the group of this process */
static int holders;

/* Writes the directory in which this process may make groups: its own one. Returns false without
 * cgroup v2. */
static bool find_parent(char out[PATH_MAX])
{
    int end = 0;
    char line[PATH_MAX], mount[PATH_MAX] = "", own[PATH_MAX] = "";
    FILE *mounts = fopen("/proc/self/mounts", "re"), *groups = fopen("/proc/self/cgroup", "re");
    while (mounts && !*mount && fgets(line, sizeof line, mounts))
        if (!strstr(line, " cgroup2 ") || sscanf(line, "%*s %4095s", mount) != 1)
            *mount = '\0';
    while (groups && fgets(line, sizeof line, groups))
        if (strncmp(line, "0::", 3) == 0)
            (void)sscanf(line + 3, "%4095[^\n]", own);
    if (mounts)
        (void)fclose(mounts);
    if (groups)
        (void)fclose(groups);
    /* Started below the group of another process, as a command is: groups are made beside it. */
    for (char *at = strchr(own, '/'); at; end = 0, at = strchr(at + 1, '/'))
        if (sscanf(at, "/" PREFIX "%*u.%*d.%*u%n", &end) == 0 && end &&
            (!at[end] || at[end] == '/')) {
            *at = '\0';
            break;
        }
    return *mount && snprintf(out, PATH_MAX, "%s%s", mount, own) < PATH_MAX;
}

static unsigned long long pid_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (unsigned long long)st.st_ino : 0;
}

/* Returns when the process was started, in ticks since the machine was, or 0 for a dead one. */
static unsigned long long start_of(int pid)
{
    struct berth_proc_stat stat;
    return berth_proc_stat_read(pid, &stat) && !stat.ended ? stat.start : 0;
}

void berth_owner_group_name(char out[BERTH_OWNER_NAME_SIZE])
{
    (void)snprintf(out, BERTH_OWNER_NAME_SIZE, PREFIX "%llu.%d.%llu", pid_namespace(),
                   (int)getpid(), start_of((int)getpid()));
}

int berth_owner_group_fd(void)
{
    char parent[PATH_MAX], name[BERTH_OWNER_NAME_SIZE], path[PATH_MAX + BERTH_OWNER_NAME_SIZE + 16];
    pthread_mutex_lock(&lock);
    if (procs_fd < 0 && find_parent(parent)) {
        berth_owner_group_name(name);
        (void)snprintf(path, sizeof path, "%s/%s", parent, name);
        (void)mkdir(path, 0755); /* it may be there from an earlier use */
        (void)snprintf(path, sizeof path, "%s/%s/cgroup.procs", parent, name);
        procs_fd = open(path, O_WRONLY | O_CLOEXEC);
    }
    int fd = procs_fd;
    pthread_mutex_unlock(&lock);
    return fd;
}

void berth_owner_group_hold(void)
{
    pthread_mutex_lock(&lock);
    holders++;
    pthread_mutex_unlock(&lock);
}

void berth_owner_group_leave(void)
{
    char parent[PATH_MAX], name[BERTH_OWNER_NAME_SIZE], path[PATH_MAX + BERTH_OWNER_NAME_SIZE];
    pthread_mutex_lock(&lock);
    if (--holders == 0 && procs_fd >= 0) {
        (void)close(procs_fd);
        procs_fd = -1;
        berth_owner_group_name(name);
        if (find_parent(parent) &&
            snprintf(path, sizeof path, "%s/%s", parent, name) < (int)sizeof path)
            (void)rmdir(path);
    }
    pthread_mutex_unlock(&lock);
}

bool berth_owner_group_is_dead(const char *name)
{
    unsigned long long namespace, start;
    int pid, len = 0;
    if (sscanf(name, PREFIX "%llu.%d.%llu%n", &namespace, &pid, &start, &len) != 3 || name[len])
        return false;
    return namespace && namespace == pid_namespace() && start_of(pid) != start;
}

int berth_owner_group_end_dead(void)
{
    char parent[PATH_MAX];
    int ended = 0;
    auto_dir *dir = find_parent(parent) ? opendir(parent) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[PATH_MAX + BERTH_OWNER_NAME_SIZE + 16];
        if (strlen(entry->d_name) >= BERTH_OWNER_NAME_SIZE ||
            !berth_owner_group_is_dead(entry->d_name))
            continue;
        (void)snprintf(path, sizeof path, "%s/%s/cgroup.kill", parent, entry->d_name);
        auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);
        ended += fd >= 0 && write(fd, "1", 1) == 1;
        (void)snprintf(path, sizeof path, "%s/%s", parent, entry->d_name);
        (void)rmdir(path); /* when its processes are gone; else the next call does it */
    }
    return ended;
}
