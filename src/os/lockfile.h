/* SPDX-License-Identifier: Apache-2.0
 * src/os/lockfile.h - a file that its process holds locked while it lives: whoever can lock it
 * knows that it is dead. */
#ifndef BERTH_OS_LOCKFILE_H
#define BERTH_OS_LOCKFILE_H

#include <berth/error.h>

enum berth_lockfile {
    BERTH_LOCKFILE_NONE, /* nobody made it, or it is removed */
    BERTH_LOCKFILE_HELD, /* by one who lives, or just now by one who looks */
    BERTH_LOCKFILE_DEAD,
};

/* Makes the file (0600), opened to append, and locks it. The descriptor, or < 0. */
int berth_lockfile_make(const char *path, struct berth_error *err);
/* Of a dead one *fd is the caller's, and the lock with it: he removes the file before he lets go.
 */
int berth_lockfile_look(const char *path, enum berth_lockfile *out, int *fd,
                        struct berth_error *err);
#endif
