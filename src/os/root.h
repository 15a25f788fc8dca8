/* SPDX-License-Identifier: Apache-2.0
 * src/os/root.h - builds a root directory of its own for a process: an empty file system in memory,
 * in which only the listed files and directories of this machine can be seen. */
#ifndef BERTH_OS_ROOT_H
#define BERTH_OS_ROOT_H

#include <stdbool.h>
#include <stddef.h>

enum berth_mount_kind {
    BERTH_MOUNT_READ,    /* a file or directory with everything below it, read-only */
    BERTH_MOUNT_SYSTEM,  /* the same, also behind links: for paths that only root can change */
    BERTH_MOUNT_WRITE,   /* the same, writable */
    BERTH_MOUNT_DEVICE,  /* a device file */
    BERTH_MOUNT_SCRATCH, /* an empty directory in memory that every user may write */
    BERTH_MOUNT_COVER,   /* hides what an outer mount shows at this path */
    BERTH_MOUNT_TEXT,    /* a file that contains `text`, read-only */
    BERTH_MOUNT_LINK,    /* a symbolic link to `text` */
    BERTH_MOUNT_PROC,    /* /proc of the process's own pid namespace, or else of this machine */
};

struct berth_mount {
    enum berth_mount_kind kind;
    bool optional;      /* left out when this machine does not have the source */
    const char *target; /* an absolute path without "..", and without symbolic links where an outer
                           mount has them */
    const char *source; /* NULL: the target. A real path, but for BERTH_MOUNT_SYSTEM: a path that
                           has become a symbolic link, in any part of it, is not followed */
    const char *text;
};

struct berth_root {
    const struct berth_mount *mounts; /* an outer directory comes before what is inside it */
    size_t count;                     /* at most BERTH_ROOT_MOUNTS_MAX */
};

/* Sorts mounts into the order that berth_root needs. */
void berth_root_sort(struct berth_mount *mounts, size_t count);

struct berth_root_failure {
    int number;     /* an errno */
    char what[200]; /* what failed, such as "mount /usr" */
};

/* Replaces the root directory of this process and makes "/" its working directory. The process must
 * be alone in its mount namespace, with the right to mount there. Allocates no memory, so it may be
 * called after a fork of a program with threads. Returns false and fills *failure on failure; the
 * process is then of no more use. */
bool berth_root_enter(const struct berth_root *root, struct berth_root_failure *failure);

/* What a process in new namespaces can do. */
enum berth_root_ability {
    BERTH_ROOT_NONE,     /* it cannot mount: errno says why */
    BERTH_ROOT_FOREIGN,  /* it can build a root, with this machine's /proc */
    BERTH_ROOT_COMPLETE, /* it can build a root with a /proc of its own */
};
/* Tries it. Needs the same namespaces as berth_root_enter, and leaves them changed. */
enum berth_root_ability berth_root_try(void);
#endif
