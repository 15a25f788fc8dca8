/* SPDX-License-Identifier: Apache-2.0
 * src/os/orphan_inits.h - inits (src/init/) whose owner is dead. Such an init ends its tree by
 * itself, unless its command keeps it from that, for example by stopping it again and again. */
#ifndef BERTH_OS_ORPHAN_INITS_H
#define BERTH_OS_ORPHAN_INITS_H

#include <stdbool.h>
#include <sys/types.h>

#include "os/owner_group.h"

/* Writes the name of the owner of an init, which its command line has. Returns false for a process
 * that is not an init. */
bool berth_init_owner(pid_t pid, char out[BERTH_OWNER_NAME_SIZE]);

/* Kills everything below the orphaned inits of this user, then the inits. Returns how many
 * processes were killed. Reads all of /proc: do not call it on the loop. */
int berth_orphan_inits_end(void);
#endif
