/* SPDX-License-Identifier: Apache-2.0
 * src/os/cage.h - starts a program with a root directory, a pid namespace and an IPC namespace of
 * its own. Everything that the program starts ends with it.
 *
 * The child is a copy of this process (not vfork as in spawn.c), because it makes some hundred
 * system calls before it runs its program. It allocates no memory meanwhile. A program of ours
 * (src/init/reaper.c) is the first process of the namespace: the first process gets no default
 * signal handling and has to collect orphans, for which Node.js and others are not made. */
#ifndef BERTH_OS_CAGE_H
#define BERTH_OS_CAGE_H

#include "os/root.h"
#include "os/program.h"

struct berth_cage {
    struct berth_root root;
    const char *const *writable; /* paths in the root, for Landlock; closed by NULL */
};

/* Returns whether this machine lets us build cages. UNSUPPORTED: it does not, and the message says
 * why. `own_proc`: the processes of this machine are not in the cage's /proc. The first call tries
 * it in a child, later ones return the same. */
int berth_cage_check(bool *own_proc, struct berth_error *err);

/* Starts the program for berth_spawn, in the cage of its confinement. Returns 0, or the errno with
 * which running the file failed. When the cage could not be built, failure->what says what failed.
 * After a failure, a child that was killed may still be there: out->pid, or -1. */
int berth_cage_clone(const struct berth_spawn *what, const char *file, struct berth_child *out,
                     struct berth_root_failure *failure);

/* Returns the signal that ended the program in a cage, by the exit code of its first process; or 0.
 */
int berth_cage_signal(int exit_code);
#endif
