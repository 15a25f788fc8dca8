/* SPDX-License-Identifier: Apache-2.0
 * src/os/strays.h - processes by a variable in their environment: what left its process group is
 * still found by it. */
#ifndef BERTH_OS_STRAYS_H
#define BERTH_OS_STRAYS_H

/* Kills whatever carries one of the variables ("NAME=value", closed by NULL) in its environment,
 * here and now. Reads all of /proc, so it does not
 * belong on the loop. How many there were. */
int berth_strays_end(const char *const *labels);
#endif
