/* SPDX-License-Identifier: Apache-2.0
 * src/os/proc_stat.h - what /proc/PID/stat says of a process. */
#ifndef BERTH_OS_PROC_STAT_H
#define BERTH_OS_PROC_STAT_H

#include <stdbool.h>
#include <sys/types.h>

struct berth_proc_stat {
    pid_t parent;
    bool ended;               /* a zombie, or no longer there */
    unsigned long long start; /* in ticks since the machine was started */
};

/* Returns false when there is no such process. */
bool berth_proc_stat_read(pid_t pid, struct berth_proc_stat *out);
#endif
