/* SPDX-License-Identifier: Apache-2.0
 * src/os/proc_stat.c - see proc_stat.h. */
#include "os/proc_stat.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"

bool berth_proc_stat_read(pid_t pid, struct berth_proc_stat *out)
{
    char path[64], text[1024], state;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (len <= 0)
        return false;
    text[len] = '\0';
    *out = (struct berth_proc_stat){0};
    const char *name_end = strrchr(text, ')'); /* a name may contain anything */
    if (!name_end || sscanf(name_end + 1,
                            " %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
                            " %*s %*s %llu",
                            &state, &out->parent, &out->start) != 3)
        return false;
    out->ended = state == 'Z' || state == 'X';
    return true;
}
