/* SPDX-License-Identifier: Apache-2.0
 * src/os/lockfile.c - see lockfile.h. */
#include "os/lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/auto.h"

int berth_lockfile_make(const char *path, struct berth_error *err)
{
    struct stat st = {0};
    int fd = -1;
    while (st.st_nlink == 0) { /* another process removed it as a dead one's before we locked it */
        if (fd >= 0)
            (void)close(fd);
        fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return berth_fail_errno(err, "Cannot make %s", path);
        if (flock(fd, LOCK_EX) < 0 || fstat(fd, &st) < 0) {
            int rc = berth_fail_errno(err, "Cannot lock %s", path);
            (void)close(fd);
            return rc;
        }
    }
    return fd;
}

int berth_lockfile_look(const char *path, enum berth_lockfile *out, int *fd,
                        struct berth_error *err)
{
    struct stat st;
    auto_close int own = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    *out = BERTH_LOCKFILE_NONE;
    if (own < 0)
        return errno == ENOENT ? BERTH_OK : berth_fail_errno(err, "Cannot open %s", path);
    *out = BERTH_LOCKFILE_HELD;
    if (flock(own, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? BERTH_OK : berth_fail_errno(err, "Cannot lock %s", path);
    if (fstat(own, &st) < 0)
        return berth_fail_errno(err, "Cannot look at %s", path);
    if (st.st_nlink == 0)
        return BERTH_OK; /* its owner may have made another by now: the next look tells */
    *out = BERTH_LOCKFILE_DEAD;
    *fd = own;
    own = -1;
    return BERTH_OK;
}
