/* SPDX-License-Identifier: Apache-2.0
 * src/os/spawn_child.h - what spawn.c and cage.c do in a child before it runs its program. These
 * functions make only system calls, and return false with errno set on failure. */
#ifndef BERTH_OS_SPAWN_CHILD_H
#define BERTH_OS_SPAWN_CHILD_H

#include "os/program.h"

/* Makes the descriptors 0, 1 and 2; where one is -1, it becomes /dev/null. */
bool berth_child_arrange_fds(const int given[3]);
/* Takes the user, groups and rights that `c` says, and its Landlock rules, if it has any. */
bool berth_child_give_up_rights(const struct berth_confinement *c);
/* Installs the filter of system calls, or does nothing when that is NULL. */
bool berth_child_filter(const struct sock_fprog *filter);
/* Restores the limit of descriptors, signal handlers and the signal mask. */
bool berth_child_arrange_limits(void);
bool berth_child_arrange_signals(void);
#endif
