/* SPDX-License-Identifier: Apache-2.0
 * src/os/lockfile.h - a file that its process holds locked while it lives. A process that can lock
 * the file knows that the other is dead. */
#ifndef BERTH_OS_LOCKFILE_H
#define BERTH_OS_LOCKFILE_H

#include <berth/error.h>

enum berth_lockfile {
    BERTH_LOCKFILE_NONE, /* the file does not exist */
    BERTH_LOCKFILE_HELD, /* its process lives, or another process is looking at it */
    BERTH_LOCKFILE_DEAD, /* its process is dead */
};

/* Makes the file (0600), opened to append, and locks it. Returns the descriptor, or < 0. */
int berth_lockfile_make(const char *path, struct berth_error *err);
/* Looks at the lock. DEAD: the caller owns *fd and the lock, and removes the file before it closes
 * *fd. */
int berth_lockfile_look(const char *path, enum berth_lockfile *out, int *fd,
                        struct berth_error *err);
#endif
