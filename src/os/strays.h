/* SPDX-License-Identifier: Apache-2.0
 * src/os/strays.h - finds processes by a variable in their environment, also when they have left
 * their process group. */
#ifndef BERTH_OS_STRAYS_H
#define BERTH_OS_STRAYS_H

/* Kills all processes with one of the variables ("NAME=value", closed by NULL) in their environment
 * and returns their number. Reads all of /proc: do not call it on the loop. */
int berth_strays_end(const char *const *labels);
/* The same for commands whose owner is said to be dead: leaves alone what is below an init with a
 * living owner, who looks after it. */
int berth_strays_end_orphaned(const char *const *labels);
#endif
