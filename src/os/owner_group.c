/* SPDX-License-Identifier: Apache-2.0
 * src/os/owner_group.c - see owner_group.h. A group is called berth.PIDS.TIMES.PID.START: the pid
 * namespace, because a number means nothing in another one, the time namespace, because a start has
 * another time in another one, and when the process was started, because a number is used again. */
#include "os/owner_group.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
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
#define DEPTH_MAX 16 /* of groups in groups */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int procs_fd = -1; /* of the group of this process */
static int holders;

/* Writes where the hierarchy of cgroup v2 is mounted. Returns false without one. */
static bool find_mount(char out[PATH_MAX])
{
    char line[PATH_MAX];
    bool found = false;
    FILE *mounts = fopen("/proc/self/mounts", "re");
    while (mounts && !found && fgets(line, sizeof line, mounts))
        found = strstr(line, " cgroup2 ") && sscanf(line, "%*s %4095s", out) == 1;
    if (mounts)
        (void)fclose(mounts);
    return found;
}

/* Writes the directory in which this process may make groups: its own one. Returns false without
 * cgroup v2. */
static bool find_parent(char out[PATH_MAX])
{
    int end = 0;
    char line[PATH_MAX], mount[PATH_MAX], own[PATH_MAX] = "";
    FILE *groups = fopen("/proc/self/cgroup", "re");
    while (groups && fgets(line, sizeof line, groups))
        if (strncmp(line, "0::", 3) == 0)
            (void)sscanf(line + 3, "%4095[^\n]", own);
    if (groups)
        (void)fclose(groups);
    /* Started below the group of another process, as a command is: groups are made beside it. */
    for (char *at = strchr(own, '/'); at; end = 0, at = strchr(at + 1, '/'))
        if (sscanf(at, "/" PREFIX "%*u.%*u.%*d.%*u%n", &end) == 0 && end &&
            (!at[end] || at[end] == '/')) {
            *at = '\0';
            break;
        }
    return find_mount(mount) && snprintf(out, PATH_MAX, "%s%s", mount, own) < PATH_MAX;
}

/* Returns the number of a namespace of this process, or 0 when it is not known. */
static unsigned long long own_namespace(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (unsigned long long)st.st_ino : 0;
}

static unsigned long long pid_namespace(void)
{
    return own_namespace("/proc/self/ns/pid");
}

static unsigned long long time_namespace(void)
{
    return own_namespace("/proc/self/ns/time");
}

void berth_owner_group_name(char out[BERTH_OWNER_NAME_SIZE])
{
    struct berth_proc_stat stat;
    bool known = berth_proc_stat_read(getpid(), &stat);
    (void)snprintf(out, BERTH_OWNER_NAME_SIZE, PREFIX "%llu.%llu.%d.%llu", pid_namespace(),
                   time_namespace(), (int)getpid(), known ? stat.start : 0);
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

enum berth_owner_state berth_owner_group_state(const char *name)
{
    unsigned long long pids, times, start;
    struct berth_proc_stat stat;
    int pid, len = 0;
    if (sscanf(name, PREFIX "%llu.%llu.%d.%llu%n", &pids, &times, &pid, &start, &len) != 4 ||
        name[len] || pid <= 0 || !pids || pids != pid_namespace() || times != time_namespace())
        return BERTH_OWNER_UNKNOWN;
    if (kill(pid, 0) < 0 && errno == ESRCH)
        return BERTH_OWNER_DEAD;
    /* There is a process. /proc may hide it, or there may be no descriptor to read about it. */
    if (!berth_proc_stat_read(pid, &stat) || !start)
        return BERTH_OWNER_LIVES;
    return stat.ended || stat.start != start ? BERTH_OWNER_DEAD : BERTH_OWNER_LIVES;
}

/* Kills what is in a group, and removes it when that has ended; else the next call does. */
static bool end_group(const char *path)
{
    char file[PATH_MAX];
    if (snprintf(file, sizeof file, "%s/cgroup.kill", path) >= (int)sizeof file)
        return false;
    auto_close int fd = open(file, O_WRONLY | O_CLOEXEC);
    bool ended = fd >= 0 && write(fd, "1", 1) == 1;
    (void)rmdir(path);
    return ended;
}

/* Ends the groups of dead processes in a directory of groups, and in those below it. */
static int end_dead_below(const char *path, int depth)
{
    int ended = 0;
    auto_dir *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char below[PATH_MAX];
        if (entry->d_type != DT_DIR || *entry->d_name == '.' ||
            snprintf(below, sizeof below, "%s/%s", path, entry->d_name) >= (int)sizeof below)
            continue;
        if (berth_owner_group_state(entry->d_name) == BERTH_OWNER_DEAD)
            ended += end_group(below);
        else if (depth < DEPTH_MAX)
            ended += end_dead_below(below, depth + 1);
    }
    return ended;
}

int berth_owner_group_end_dead(void)
{
    char mount[PATH_MAX];
    return pid_namespace() && find_mount(mount) ? end_dead_below(mount, 0) : 0;
}
