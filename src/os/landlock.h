/* SPDX-License-Identifier: Apache-2.0
 * src/os/landlock.h - rules of Landlock: which files a process may read and write. These functions
 * make only system calls, and set errno on failure. */
#ifndef BERTH_OS_LANDLOCK_H
#define BERTH_OS_LANDLOCK_H

#include <stdbool.h>

/* Returns the version of Landlock in this kernel, or 0. */
int berth_landlock_version(void);
/* Returns a ruleset that allows nothing, or -1. From version 6 on it also forbids signals and
 * abstract sockets beyond the processes that it applies to. */
int berth_landlock_new(void);
/* Allows to read and run what is below the path, or to write it as well. A path that does not
 * exist, cannot be seen or is not a real path (berth_fs_open_real) is left out. */
bool berth_landlock_allow(int ruleset_fd, const char *path, bool write);
/* Applies the ruleset to this process and all that it starts. */
bool berth_landlock_apply(int ruleset_fd);
#endif
