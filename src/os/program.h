/* SPDX-License-Identifier: Apache-2.0
 * src/os/program.h - a program to start, and the process that it becomes. */
#ifndef BERTH_OS_PROGRAM_H
#define BERTH_OS_PROGRAM_H

#include <stdbool.h>
#include <sys/types.h>

#include <berth/error.h>

struct berth_cage;
struct sock_fprog;

/* What a program that is not trusted may do; the rest of it is in confine.h. */
struct berth_confinement {
    const struct berth_cage *cage;   /* what it sees of this machine (cage.h); NULL: all */
    const struct sock_fprog *filter; /* of system calls (syscall_filter.h); NULL: none */
    int ruleset_fd;                  /* of Landlock, outside of a cage; -1: none */
    uid_t uid;                       /* to run as, with the group of that number; 0: as we do */
    const gid_t *groups;             /* further groups that it has with `uid` */
    size_t group_count;
    bool unix_sockets; /* the filter allows them */
    bool powerless;    /* without capabilities, and it gains none */
    bool dies_first;   /* when the thread that started it ends, it is killed */
};

struct berth_spawn {
    const char *const *argv; /* argv[0] is looked for in the PATH of `env`; closed by NULL */
    const char *const *env;  /* the whole environment, "NAME=value"; closed by NULL */
    const char *cwd;         /* NULL: ours */
    int fds[3];              /* what becomes 0, 1 and 2; -1: /dev/null */
    const char *terminal;    /* instead: the controlling terminal behind all three; or NULL */
    const struct berth_confinement *confinement; /* or NULL; not with a terminal */
    int program_fd; /* run this open file instead of what argv[0] names; 0: none */
};

struct berth_child {
    /* Leads a session and a process group of its own. In a cage it is the first process there,
     * which passes signals on to the program and ends with it. */
    pid_t pid;
    int pidfd; /* readable when it has ended; the caller's */
};
#endif
