/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/stage.c - see stage.h. Nothing here follows a link: the worker may have put anything
 * in the place of its directories. */
#include "plugin/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "os/fs.h"

#define STAGE_PREFIX "berth-sync-"
#define LEFT_AFTER_S (24 * 60 * 60) /* no transfer takes that long */

/* Removes files that are so old that the process which made them was killed. */
static void remove_left_files(int directory_fd)
{
    int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_dir *dir = fd < 0 ? NULL : fdopendir(fd);
    struct stat st;
    struct berth_error ignored;
    if (!dir && fd >= 0)
        (void)close(fd);
    time_t now = time(NULL);
    for (const struct dirent *e; dir && (e = readdir(dir));)
        if (strncmp(e->d_name, STAGE_PREFIX, sizeof STAGE_PREFIX - 1) == 0 &&
            fstatat(directory_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            st.st_ctime + LEFT_AFTER_S < now)
            (void)berth_fs_remove_tree_at(directory_fd, e->d_name, &ignored);
}

int berth_plugin_stage_make(const char *state, uid_t uid, struct berth_arena *arena,
                            struct berth_worker_stage *out, struct berth_error *err)
{
    struct berth_id id = berth_id_new_random();
    out->directory_fd = -1;
    out->name = berth_arena_printf(arena, STAGE_PREFIX "%s", id.text);
    out->path = berth_arena_printf(arena, "%s/tmp/%s", state, out->name);
    int rc = berth_arena_check(arena, err);
    if (rc < 0)
        return rc;
    auto_close int state_fd = berth_fs_open_real(AT_FDCWD, state, O_RDONLY | O_DIRECTORY);
    if (state_fd < 0)
        return berth_fail_errno(err, "Cannot open %s", state);
    auto_close int directory =
        openat(state_fd, "tmp", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory < 0)
        return berth_fail_errno(err, "Cannot open %s/tmp", state);
    remove_left_files(directory);
    auto_close int fd =
        openat(directory, out->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot make a file in %s/tmp", state);
    if (uid && fchown(fd, uid, (gid_t)uid) < 0) {
        rc = berth_fail_errno(err, "Cannot give %s to its worker", out->path);
        (void)unlinkat(directory, out->name, 0);
        return rc;
    }
    out->directory_fd = directory;
    directory = -1;
    return BERTH_OK;
}
