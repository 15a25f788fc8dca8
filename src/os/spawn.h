/* SPDX-License-Identifier: Apache-2.0
 * src/os/spawn.h - the only way berth starts a program: never by forking a large parent, with
 * nothing of ours but what is named. */
#ifndef BERTH_OS_SPAWN_H
#define BERTH_OS_SPAWN_H

#include "os/program.h"

/* As many descriptors as this process may have; for programs, before their first thread. What is
 * started afterwards gets the limit from before. */
void berth_spawn_raise_file_limit(void);

/* For programs that handle no signals, and ignore from now on those that they ignore now: children
 * are spared to set back all of them. */
void berth_spawn_note_signals(void);

/* Every other descriptor is closed in the child, signals are as a fresh program expects them.
 * NOT_FOUND: there is no such program (127 in a shell). DENIED: it may not be run (126).
 * UNPROCESSABLE: the directory is not there. UNAVAILABLE: no processes, descriptors or memory. */
int berth_spawn(const struct berth_spawn *what, struct berth_child *out, struct berth_error *err);

/* For other ways to start a program. Checks the directory, and looks for the program: its path is
 * in `file` (PATH_MAX bytes). Errors as above. */
int berth_spawn_prepare(const struct berth_spawn *what, char *file, struct berth_error *err);
/* Fails with the error that fits the errno of an execve. */
int berth_spawn_fail(struct berth_error *err, int number, const char *name);

/* The file that a name stands for, by a PATH; in `out`. NOT_FOUND and DENIED as above. */
int berth_spawn_find(const char *name, const char *path, char *out, size_t size,
                     struct berth_error *err);
/* The value of a variable in an environment, or NULL. */
const char *berth_env_get(const char *const *env, const char *name);
#endif
