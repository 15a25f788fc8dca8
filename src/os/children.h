/* SPDX-License-Identifier: Apache-2.0
 * src/os/children.h - the children of this process: those that berth started, and, in our own
 * programs, those that it inherited because the init above them was killed. */
#ifndef BERTH_OS_CHILDREN_H
#define BERTH_OS_CHILDREN_H

#include <sys/types.h>

/* A birth happens between these two, so that no child is taken for an inherited one. pid 0: the
 * child could not be made. */
void berth_children_begin_birth(void);
void berth_children_end_birth(pid_t pid);
void berth_children_forget(pid_t pid);  /* its status has been read */
void berth_children_abandon(pid_t pid); /* the caller does not wait for it: it is reaped here */

/* For programs, before their first thread: orphans of our children become children of this process.
 * Children that the process has already are not taken for inherited ones. A library must not do
 * this to its host program. */
void berth_children_inherit(void);
/* Kills and reaps the inherited children. Returns how many it found: to be called until it finds
 * none. Always 0 in a process that does not inherit. Reads /proc. */
int berth_children_end_inherited(void);
/* Reaps those that have ended by themselves, for example what a plugin's worker left. */
void berth_children_reap_inherited(void);
#endif
