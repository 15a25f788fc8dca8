/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/package_tree.c - see package_tree.h. */
#include "plugin/package_tree.h"

#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"

#define WALK_FDS 16
#define SHOWN_MAX 600 /* bytes of a path in an error */

/* nftw() has no context. */
static _Thread_local struct {
    const char *top; /* the real path of the directory */
    struct berth_error *err;
} walk;

/* Returns whether the link leads to a file below the top. */
static bool link_stays(const char *path)
{
    char real[PATH_MAX];
    size_t len = strlen(walk.top);
    return realpath(path, real) && strncmp(real, walk.top, len) == 0 && real[len] == '/';
}

/* Returns the mode that a file or directory gets: workers may be another user. Only the directory
 * above `plugins` keeps other users out. */
static mode_t tree_mode(const struct stat *st, int level)
{
    if (S_ISDIR(st->st_mode))
        return level == 0 && geteuid() != 0 ? 0700 : 0755;
    return st->st_mode & S_IXUSR ? 0755 : 0644;
}

static int take_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    const char *name = path + strlen(walk.top);
    if (type == FTW_NS || type == FTW_DNR)
        return berth_fail_errno(walk.err, "Cannot read %.*s", SHOWN_MAX, path);
    if (S_ISLNK(st->st_mode) && !link_stays(path))
        return berth_fail(walk.err, BERTH_E_UNPROCESSABLE,
                          "The package is refused: its link %.*s leads out of it.", SHOWN_MAX,
                          name);
    if (!S_ISLNK(st->st_mode) && !S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode))
        return berth_fail(walk.err, BERTH_E_UNPROCESSABLE,
                          "The package is refused: %.*s is not a file, directory or link.",
                          SHOWN_MAX, name);
    if (geteuid() == 0 && lchown(path, 0, 0) < 0)
        return berth_fail_errno(walk.err, "Cannot take over %.*s", SHOWN_MAX, path);
    if (!S_ISLNK(st->st_mode) && chmod(path, tree_mode(st, ftw->level)) < 0)
        return berth_fail_errno(walk.err, "Cannot change the mode of %.*s", SHOWN_MAX, path);
    return 0;
}

int berth_package_take_over(const char *directory, struct berth_error *err)
{
    auto_free char *top = realpath(directory, NULL);
    if (!top)
        return berth_fail_errno(err, "Cannot open %s", directory);
    walk.top = top;
    walk.err = err;
    err->code = BERTH_OK;
    int rc = nftw(top, take_one, WALK_FDS, FTW_PHYS);
    return rc == 0 || err->code < 0 ? rc : berth_fail_errno(err, "Cannot read %s", directory);
}
