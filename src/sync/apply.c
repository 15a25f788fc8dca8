/* SPDX-License-Identifier: Apache-2.0
 * src/sync/apply.c - see apply.h. ROOT/.berth/merge-ID holds two directories of numbered files,
 * with the number of the step: new/ what is to be put, old/ what was removed. A local file that is
 * replaced changes places with its successor, so that its path always has one of them where the
 * file system can exchange names. The journal is JOURNALS/ID.INODE, with the inode number of the
 * root. It is empty while there is nothing to carry out: before the new files are complete, and
 * after the last step. */
#include "sync/apply.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/failpoint.h"
#include "base/id.h"
#include "base/time.h"
#include "os/fs.h"
#include "sync/apply_steps.h"
#include "sync/tree.h"

#define PERMISSIONS 0777
#define WORK_PREFIX "merge-"
#define JOURNAL_NAME_SIZE (BERTH_ID_SIZE + 18)
#define JOURNAL_BYTES_MAX ((size_t)1 << 30)
#define SYNC_EACH_MAX 64 /* more new files are made durable together with the file system */
#define NUMBER_SIZE 24

struct apply {
    int root_fd, work_fd, new_fd, old_fd, journals_fd;
    char work[sizeof WORK_PREFIX + BERTH_ID_SIZE]; /* its name in .berth */
    char journal[JOURNAL_NAME_SIZE];
    struct berth_steps steps;
    struct berth_apply_report *report;
    bool killed;                               /* a test stopped it, as a kill would */
    int above_fd;                              /* the directory `above`; -1: none is open */
    char above[BERTH_TREE_PATH_BYTES_MAX + 1]; /* "": the root */
};

#define APPLY_INIT(root, to)                                                                       \
    {                                                                                              \
        .root_fd = (root)->fd, .work_fd = -1, .new_fd = -1, .old_fd = -1, .journals_fd = -1,       \
        .above_fd = -1, .report = (to)                                                             \
    }

/* How a local path compares with the manifest. */
enum look { SAME, CHANGED, GONE };

static void apply_close(struct apply *a)
{
    int fds[] = {a->work_fd, a->new_fd, a->old_fd, a->journals_fd, a->above_fd};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
    berth_steps_clear(&a->steps);
}
#define auto_apply __attribute__((cleanup(apply_close))) struct apply

void berth_apply_report_clear(struct berth_apply_report *report)
{
    free(report->conflicts);
    berth_arena_clear(&report->arena);
    *report = (struct berth_apply_report){0};
}

static int report_conflict(struct apply *a, enum berth_conflict_kind kind, const char *path,
                           const char *beside, struct berth_error *err)
{
    struct berth_apply_report *report = a->report;
    if (!berth_array_grow(&report->conflicts, &report->conflict_cap, report->conflict_count,
                          sizeof *report->conflicts))
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: merge.");
    report->conflicts[report->conflict_count++] = (struct berth_conflict){
        .kind = kind,
        .path = berth_arena_strdup(&report->arena, path),
        .beside = beside ? berth_arena_strdup(&report->arena, beside) : NULL};
    return berth_arena_check(&report->arena, err);
}

/* Returns whether a test wants the process to be killed here. */
static bool is_killed(struct apply *a)
{
    a->killed = a->killed || berth_failpoint_step_stops();
    return a->killed;
}

static int fail_killed(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_CANCELLED, "A test stopped the merge.");
}

static const char *number_of(const struct apply *a, const struct berth_step *step,
                             char out[NUMBER_SIZE])
{
    (void)snprintf(out, NUMBER_SIZE, "%zu", (size_t)(step - a->steps.items));
    return out;
}

/* --- paths --- */

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Opens the directory that a path is in. It stays open until another one is asked for. Returns -1
 * and sets errno when it is not there, or not a directory, or a link. */
static int open_above(struct apply *a, const char *path)
{
    size_t len = (size_t)(name_of(path) - path);
    struct berth_error err;
    len -= len ? 1 : 0;
    if (!len)
        return a->root_fd;
    if (a->above_fd >= 0 && strlen(a->above) == len && memcmp(a->above, path, len) == 0)
        return a->above_fd;
    if (a->above_fd >= 0)
        (void)close(a->above_fd);
    memcpy(a->above, path, len);
    a->above[len] = '\0';
    a->above_fd = berth_fs_open_beneath(a->root_fd, a->above, O_PATH | O_DIRECTORY, 0, &err);
    if (a->above_fd < 0) {
        errno = err.os_errno;
        a->above_fd = -1;
    }
    return a->above_fd;
}

/* Forgets the directory that is open, since it may have been removed. */
static void forget_above(struct apply *a)
{
    if (a->above_fd >= 0)
        (void)close(a->above_fd);
    a->above_fd = -1;
}

static bool is_directory_at(struct apply *a, const char *path)
{
    struct stat st;
    int above = open_above(a, path);
    return above >= 0 && fstatat(above, name_of(path), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(st.st_mode);
}

/* Makes the directory at `path`, unless it is there. Where a file or link is in its place, makes
 * one beside that, and changes `path`. */
static int make_directory(struct apply *a, char path[BERTH_TREE_PATH_BYTES_MAX + 1], mode_t mode,
                          struct berth_error *err)
{
    char first[BERTH_TREE_PATH_BYTES_MAX + 1];
    memcpy(first, path, strlen(path) + 1);
    for (unsigned nth = 0;; nth++) {
        if (nth && !berth_merge_beside(first, a->steps.label, nth, path))
            return berth_fail(err, BERTH_E_TOO_LARGE, "A path is too long: %.400s", path);
        int above = open_above(a, path);
        if (above >= 0 && mkdirat(above, name_of(path), mode) == 0)
            return BERTH_OK;
        if (above < 0 || errno != EEXIST)
            return berth_fail_errno(err, "Cannot make the directory %.400s", path);
        if (is_directory_at(a, path))
            return BERTH_OK;
    }
}

/* Makes every directory above `path` that is missing. Writes the path to `out`, which differs where
 * a file or link has taken the place of a directory. */
static int reach(struct apply *a, const char *path, char out[BERTH_TREE_PATH_BYTES_MAX + 1],
                 struct berth_error *err)
{
    size_t len = 0;
    for (const char *name = path; *name;) {
        size_t name_len = strcspn(name, "/");
        if (len + name_len + 2 > BERTH_TREE_PATH_BYTES_MAX)
            return berth_fail(err, BERTH_E_TOO_LARGE, "A path is too long: %.400s", path);
        if (len)
            out[len++] = '/';
        memcpy(out + len, name, name_len);
        out[len + name_len] = '\0';
        name += name_len;
        if (!*name++)
            return BERTH_OK;
        int rc = make_directory(a, out, S_IRWXU | S_IRWXG | S_IRWXO, err);
        if (rc < 0)
            return rc;
        len = strlen(out);
    }
    return berth_fail(err, BERTH_E_INTERNAL, "A path has no name: %.400s", path);
}

/* --- comparing --- */

static bool link_is(int above, const char *name, const char *target)
{
    char text[BERTH_TREE_PATH_BYTES_MAX + 2];
    ssize_t len = readlinkat(above, name, text, sizeof text);
    return len >= 0 && (size_t)len == strlen(target) && memcmp(text, target, (size_t)len) == 0;
}

/* Reads the hash of a file. False: it cannot be read, or it is not a regular file. */
static bool hash_at(int directory, const char *name, unsigned char hash[BERTH_SHA256_SIZE])
{
    struct berth_error err;
    auto_close int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd >= 0 && berth_tree_hash_fd(fd, hash, &err) == BERTH_OK;
}

/* Compares what is at a path with its entry in the manifest. A file is always read: a store through
 * a mapping may leave its times as they are, and what is replaced now cannot be read later. */
static enum look look_at(int above, const char *name, const struct berth_entry *old,
                         struct stat *st)
{
    unsigned char hash[BERTH_SHA256_SIZE];
    if (fstatat(above, name, st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? GONE : CHANGED;
    if (old->kind == BERTH_ENTRY_LINK)
        return S_ISLNK(st->st_mode) && link_is(above, name, old->target) ? SAME : CHANGED;
    if (!S_ISREG(st->st_mode) || (st->st_mode & PERMISSIONS) != old->mode ||
        st->st_size != old->size)
        return CHANGED;
    return hash_at(above, name, hash) && memcmp(hash, old->hash, sizeof hash) == 0 ? SAME : CHANGED;
}

/* Returns whether a name still has the file that *st describes. A rename has changed its ctime. */
static bool is_still(int directory, const char *name, const struct stat *st)
{
    struct stat now;
    return fstatat(directory, name, &now, AT_SYMLINK_NOFOLLOW) == 0 && now.st_ino == st->st_ino &&
           now.st_mode == st->st_mode && now.st_size == st->st_size &&
           berth_time_ns(&now.st_mtim) == berth_time_ns(&st->st_mtim);
}

static bool exists(int directory, const char *name)
{
    return faccessat(directory, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_inode(int directory, const char *name, uint64_t inode)
{
    struct stat st;
    return fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && (uint64_t)st.st_ino == inode;
}

/* Returns whether the local path already has what the step would put. */
static bool has_new(const struct apply *a, int above, const char *name, const char *number)
{
    struct stat here, there;
    unsigned char x[BERTH_SHA256_SIZE], y[BERTH_SHA256_SIZE];
    char target[BERTH_TREE_PATH_BYTES_MAX + 2];
    if (fstatat(above, name, &here, AT_SYMLINK_NOFOLLOW) < 0 ||
        fstatat(a->new_fd, number, &there, AT_SYMLINK_NOFOLLOW) < 0 ||
        here.st_mode != there.st_mode || here.st_size != there.st_size)
        return false;
    if (S_ISLNK(there.st_mode)) {
        ssize_t len = readlinkat(a->new_fd, number, target, sizeof target - 1);
        target[len > 0 ? len : 0] = '\0';
        return link_is(above, name, target);
    }
    return hash_at(above, name, x) && hash_at(a->new_fd, number, y) && memcmp(x, y, sizeof x) == 0;
}

static void note_new(struct berth_step *step, const struct stat *st)
{
    step->inode = (uint64_t)st->st_ino;
    step->size = st->st_size;
    step->mtime_ns = berth_time_ns(&st->st_mtim);
}

/* --- putting --- */

/* Moves a file to a path where nothing is, in a file system without flags and hard links: an empty
 * file takes the path first, and is replaced. After a kill between the two it stays, and the file
 * goes beside it. An edit may have put a directory in the place of a file. Returns 0 or an errno.
 */
static int move_over_empty(int from, const char *number, int to, const char *name)
{
    struct stat st;
    if (fstatat(from, number, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno;
    bool is_dir = S_ISDIR(st.st_mode);
    int made = is_dir ? mkdirat(to, name, S_IRWXU) : mknodat(to, name, S_IFREG | S_IRUSR, 0);
    if (made == 0 && renameat(from, number, to, name) == 0)
        return 0;
    int why = errno;
    if (made == 0)
        (void)unlinkat(to, name, is_dir ? AT_REMOVEDIR : 0);
    return why;
}

/* Moves a file to a path where nothing is. Returns 0 or an errno. */
static int move_new(int from, const char *number, int to, const char *name)
{
    if (renameat2(from, number, to, name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
    /* This file system does not support the flag. A link does not replace either. */
    if (linkat(from, number, to, name, 0) == 0)
        return unlinkat(from, number, 0) < 0 ? errno : 0;
    bool unsupported = errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS;
    return unsupported ? move_over_empty(from, number, to, name) : errno;
}

static int fail_at(struct berth_error *err, int number, const char *what, const char *path)
{
    if (number == EXDEV)
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "Cannot %s %.400s: something is mounted on its directory since the "
                          "workspace was sent. Unmount it, and fetch the work again.",
                          what, path);
    errno = number;
    return berth_fail_errno(err, "Cannot %s %.400s", what, path);
}

/* Puts the remote version beside `path`, which has changed. */
static int put_beside(struct apply *a, struct berth_step *step, enum berth_conflict_kind kind,
                      const char *path, struct berth_error *err)
{
    char number[NUMBER_SIZE], beside[BERTH_TREE_PATH_BYTES_MAX + 1];
    int why = EEXIST;
    for (unsigned nth = 1; why == EEXIST; nth++) {
        if (!berth_merge_beside(path, a->steps.label, nth, beside))
            return berth_fail(err, BERTH_E_TOO_LARGE, "A path is too long: %.400s", path);
        int above = open_above(a, beside);
        why = above < 0 ? errno
                        : move_new(a->new_fd, number_of(a, step, number), above, name_of(beside));
    }
    if (why)
        return fail_at(err, why, "put", beside);
    step->placed = berth_arena_strdup(&a->steps.arena, beside);
    step->state = BERTH_STEP_DONE;
    return report_conflict(a, kind, step->path, beside, err);
}

/* Puts a file or link at `path`, where the manifest has nothing. */
static int put_new(struct apply *a, struct berth_step *step, const char *path,
                   struct berth_error *err)
{
    char number[NUMBER_SIZE];
    int above = open_above(a, path);
    int why =
        above < 0 ? errno : move_new(a->new_fd, number_of(a, step, number), above, name_of(path));
    if (why == EEXIST && has_new(a, above, name_of(path), number))
        step->state = BERTH_STEP_SKIPPED;
    else if (why == EEXIST)
        return put_beside(a, step, BERTH_CONFLICT_CONTENT, path, err);
    if (why && why != EEXIST)
        return fail_at(err, why, "put", path);
    if (!why) {
        step->placed = berth_arena_strdup(&a->steps.arena, path);
        step->state = BERTH_STEP_DONE;
    }
    return berth_arena_check(&a->steps.arena, err);
}

/* Moves the file at a path to old/NUMBER, and new/NUMBER to the path. For a moment nothing is
 * there, unlike with RENAME_EXCHANGE. Returns as exchange() does. */
static int exchange_by_moves(struct apply *a, int above, const char *name, const char *number,
                             const struct stat *st)
{
    if (renameat(above, name, a->old_fd, number) < 0)
        return errno;
    int why = is_still(a->old_fd, number, st) ? move_new(a->new_fd, number, above, name) : EBUSY;
    if (!why)
        return 0;
    int back = move_new(a->old_fd, number, above, name);
    if (back && back != EEXIST) /* EEXIST: the user has replaced the file */
        return back;
    return why == EEXIST ? EBUSY : why;
}

/* Lets the local path and new/NUMBER change places. Returns 0, or an errno: EBUSY when the path had
 * changed in this moment. After another errno, undo_half() puts the local file back. */
static int exchange(struct apply *a, int above, const char *name, const char *number,
                    const struct stat *st)
{
    if (renameat2(a->new_fd, number, above, name, RENAME_EXCHANGE) < 0)
        return errno == EINVAL || errno == ENOSYS ? exchange_by_moves(a, above, name, number, st)
                                                  : errno;
    if (is_still(a->new_fd, number, st))
        return 0;
    return renameat2(a->new_fd, number, above, name, RENAME_EXCHANGE) < 0 ? ESTALE : EBUSY;
}

/* Gives new/NUMBER the owner of the local file, as root may, or its group, as a member may. */
static void keep_owner(struct apply *a, const char *number, const struct stat *st)
{
    const int flags = AT_SYMLINK_NOFOLLOW;
    if ((st->st_uid != geteuid() || st->st_gid != getegid()) &&
        fchownat(a->new_fd, number, st->st_uid, st->st_gid, flags) < 0)
        (void)fchownat(a->new_fd, number, (uid_t)-1, st->st_gid, flags);
}

static int put_over(struct apply *a, struct berth_step *step, struct berth_error *err)
{
    struct stat st;
    char number[NUMBER_SIZE];
    const char *name = name_of(step->path);
    int above = open_above(a, step->path);
    enum look look = look_at(above, name, &step->old, &st);
    (void)number_of(a, step, number);
    if (look == GONE && exists(a->old_fd, number)) {
        /* A process died in exchange_by_moves(), perhaps before it compared the file. */
        if (look_at(a->old_fd, number, &step->old, &st) == SAME)
            return put_new(a, step, step->path, err);
        int why = move_new(a->old_fd, number, above, name);
        if (why)
            return fail_at(err, why, "put back", step->path);
        look = CHANGED;
    }
    if (look == SAME) {
        keep_owner(a, number, &st);
        int why = exchange(a, above, name, number, &st);
        if (why == 0) {
            step->placed = step->path;
            step->state = BERTH_STEP_DONE;
            return BERTH_OK;
        }
        if (why != EBUSY && why != ENOENT)
            return fail_at(err, why, "replace", step->path);
    }
    if (look == CHANGED && has_new(a, above, name, number)) {
        step->state = BERTH_STEP_SKIPPED;
        return BERTH_OK;
    }
    return put_beside(a, step, look == GONE ? BERTH_CONFLICT_DELETED_HERE : BERTH_CONFLICT_CONTENT,
                      step->path, err);
}

/* Looks at a step whose new file is not in new/ any more: a process that died has put it at its
 * path, perhaps before it saw that the file there had changed in this moment. Such a file returns
 * to its path, and the remote version is put beside it. */
static int check_put(struct apply *a, struct berth_step *step, struct berth_error *err)
{
    struct stat st;
    char number[NUMBER_SIZE];
    const char *name = name_of(step->path);
    int above = open_above(a, step->path);
    (void)number_of(a, step, number);
    step->state = BERTH_STEP_DONE;
    if (above < 0 || !step->replaces || look_at(a->new_fd, number, &step->old, &st) != CHANGED ||
        !is_inode(above, name, step->inode))
        return BERTH_OK;
    if (renameat2(a->new_fd, number, above, name, RENAME_EXCHANGE) < 0)
        return berth_fail_errno(err, "Cannot put back %.400s", step->path);
    step->state = BERTH_STEP_OPEN;
    return put_beside(a, step, BERTH_CONFLICT_CONTENT, step->path, err);
}

static int step_put(struct apply *a, struct berth_step *step, struct berth_error *err)
{
    char number[NUMBER_SIZE], path[BERTH_TREE_PATH_BYTES_MAX + 1];
    if (!is_inode(a->new_fd, number_of(a, step, number), step->inode))
        return check_put(a, step, err);
    if (open_above(a, step->path) >= 0)
        return step->replaces ? put_over(a, step, err) : put_new(a, step, step->path, err);
    /* The directory was removed or replaced since the manifest was taken. */
    int rc = reach(a, step->path, path, err);
    if (rc == BERTH_OK)
        rc = put_new(a, step, path, err);
    if (rc == BERTH_OK && strcmp(path, step->path) != 0 && step->placed)
        rc = report_conflict(a, BERTH_CONFLICT_KIND, step->path, step->placed, err);
    return rc;
}

/* --- the other steps --- */

/* Looks at a step whose file is in old/ already: a process that died has removed it, perhaps before
 * it saw that the file had changed in this moment. Such a file returns to its path. */
static int check_remove(struct apply *a, struct berth_step *step, int above, const char *number,
                        struct berth_error *err)
{
    struct stat st;
    step->state = BERTH_STEP_DONE;
    if (above < 0 || look_at(a->old_fd, number, &step->old, &st) != CHANGED)
        return BERTH_OK;
    int why = move_new(a->old_fd, number, above, name_of(step->path));
    if (why == EEXIST)
        return BERTH_OK; /* the user has put another file there since */
    step->state = BERTH_STEP_SKIPPED;
    return why ? fail_at(err, why, "put back", step->path)
               : report_conflict(a, BERTH_CONFLICT_DELETED_THERE, step->path, NULL, err);
}

static int step_remove(struct apply *a, struct berth_step *step, struct berth_error *err)
{
    struct stat st;
    char number[NUMBER_SIZE];
    const char *name = name_of(step->path);
    int above = open_above(a, step->path);
    if (exists(a->old_fd, number_of(a, step, number)))
        return check_remove(a, step, above, number, err);
    step->state = BERTH_STEP_SKIPPED;
    enum look look = above < 0 ? GONE : look_at(above, name, &step->old, &st);
    if (look == SAME && renameat(above, name, a->old_fd, number) < 0)
        return fail_at(err, errno, "remove", step->path);
    if (look == SAME && is_still(a->old_fd, number, &st)) {
        step->state = BERTH_STEP_DONE;
        return BERTH_OK;
    }
    if (look == SAME) { /* it was replaced in this moment */
        int why = move_new(a->old_fd, number, above, name);
        if (why && why != EEXIST)
            return fail_at(err, why, "put back", step->path);
    }
    return look == GONE ? BERTH_OK
                        : report_conflict(a, BERTH_CONFLICT_DELETED_THERE, step->path, NULL, err);
}

static int step_remove_directory(struct apply *a, struct berth_step *step, struct berth_error *err)
{
    int above = open_above(a, step->path);
    step->state = BERTH_STEP_SKIPPED;
    if (above < 0)
        return BERTH_OK;
    if (unlinkat(above, name_of(step->path), AT_REMOVEDIR) == 0)
        step->state = BERTH_STEP_DONE;
    else if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT && errno != ENOTDIR)
        return berth_fail_errno(err, "Cannot remove the directory %.400s", step->path);
    forget_above(a);
    return BERTH_OK;
}

/* Sets the permissions of a file or directory. A directory keeps its set-id and sticky bits, which
 * do not travel. */
static int chmod_path(int above, const char *name, mode_t mode)
{
    char link[40];
    struct stat st;
    auto_close int fd = openat(above, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -1;
    if (S_ISDIR(st.st_mode))
        mode |= st.st_mode & (S_ISUID | S_ISGID | S_ISVTX);
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return chmod(link, mode);
}

static int step_make_directory(struct apply *a, struct berth_step *step, struct berth_error *err)
{
    char path[BERTH_TREE_PATH_BYTES_MAX + 1];
    step->state = BERTH_STEP_SKIPPED;
    if (is_directory_at(a, step->path))
        return BERTH_OK;
    int rc = reach(a, step->path, path, err);
    if (rc == BERTH_OK)
        rc = make_directory(a, path, step->mode, err);
    if (rc < 0)
        return rc;
    step->placed = berth_arena_strdup(&a->steps.arena, path);
    step->state = BERTH_STEP_DONE;
    /* The umask has taken bits away. */
    if (step->placed && chmod_path(open_above(a, path), name_of(path), step->mode) < 0)
        return berth_fail_errno(err, "Cannot set the mode of %.400s", path);
    return berth_arena_check(&a->steps.arena, err);
}

static int step_open_directory(struct apply *a, struct berth_step *step, struct berth_error *err)
{
    int above = open_above(a, step->path);
    step->state = BERTH_STEP_SKIPPED;
    if (above < 0 || !is_directory_at(a, step->path))
        return BERTH_OK;
    if (chmod_path(above, name_of(step->path), step->mode) < 0)
        return berth_fail_errno(err, "Cannot set the mode of %.400s", step->path);
    step->state = BERTH_STEP_DONE;
    return BERTH_OK;
}

/* Sets the mode of a file that has other names, which keep theirs: a copy with the new mode takes
 * its place. Returns CONFLICT when the file changes meanwhile. */
static int set_mode_of_copy(struct apply *a, struct berth_step *step, int above,
                            const struct stat *st, struct berth_error *err)
{
    struct stat copy;
    char number[NUMBER_SIZE];
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, st->st_mtim};
    (void)unlinkat(a->new_fd, number_of(a, step, number), 0); /* of a killed process */
    int rc = berth_tree_copy_file(a->root_fd, &step->old, a->new_fd, number, err);
    if (rc < 0)
        return rc;
    auto_close int fd = berth_fs_open_beneath(a->new_fd, number, O_RDONLY | O_NONBLOCK, 0, err);
    if (fd < 0)
        return fd;
    keep_owner(a, number, st);
    if (fchmod(fd, step->mode) < 0 || futimens(fd, times) < 0 || fdatasync(fd) < 0 ||
        fstat(fd, &copy) < 0)
        return berth_fail_errno(err, "Cannot write a file in the workspace");
    note_new(step, &copy);
    int why = exchange(a, above, name_of(step->path), number, st);
    if (why == EBUSY || why == ENOENT)
        return berth_fail(err, BERTH_E_CONFLICT, "%.400s changes meanwhile.", step->path);
    return why ? fail_at(err, why, "set the mode of", step->path) : BERTH_OK;
}

static int step_set_mode(struct apply *a, struct berth_step *step, struct berth_error *err)
{
    struct stat st;
    char number[NUMBER_SIZE];
    int above = open_above(a, step->path);
    const char *name = name_of(step->path);
    step->state = BERTH_STEP_SKIPPED;
    if (above >= 0 && !exists(above, name) && exists(a->old_fd, number_of(a, step, number))) {
        /* A process died in exchange_by_moves(). */
        int why = move_new(a->old_fd, number, above, name);
        if (why)
            return fail_at(err, why, "put back", step->path);
    }
    if (above < 0 || fstatat(above, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISLNK(st.st_mode) ||
        (st.st_mode & PERMISSIONS) == step->mode)
        return BERTH_OK;
    /* A step without an old entry is for a directory that the merge has made. */
    bool of_directory = !step->replaces || step->old.kind == BERTH_ENTRY_DIRECTORY;
    if (of_directory && !S_ISDIR(st.st_mode))
        return BERTH_OK; /* a file has taken its place */
    mode_t mode = st.st_mode & PERMISSIONS;
    bool opened = S_ISDIR(st.st_mode) && mode == (step->old.mode | S_IRWXU);
    if (step->replaces && mode != step->old.mode && !opened)
        return report_conflict(a, BERTH_CONFLICT_MODE, step->path, NULL, err);
    if (S_ISREG(st.st_mode) && st.st_nlink > 1 && step->replaces) {
        int rc = set_mode_of_copy(a, step, above, &st, err);
        if (rc == BERTH_E_CONFLICT)
            return report_conflict(a, BERTH_CONFLICT_MODE, step->path, NULL, err);
        if (rc < 0)
            return rc;
    } else if (chmod_path(above, name, step->mode) < 0) {
        return berth_fail_errno(err, "Cannot set the mode of %.400s", step->path);
    }
    step->state = BERTH_STEP_DONE;
    return BERTH_OK;
}

static int carry_out(struct apply *a, struct berth_step *step, struct berth_error *err)
{
    static int (*const steps[])(struct apply *, struct berth_step *, struct berth_error *) = {
        [BERTH_CHANGE_OPEN_DIRECTORY] = step_open_directory,
        [BERTH_CHANGE_REMOVE] = step_remove,
        [BERTH_CHANGE_REMOVE_DIRECTORY] = step_remove_directory,
        [BERTH_CHANGE_MAKE_DIRECTORY] = step_make_directory,
        [BERTH_CHANGE_PUT] = step_put,
        [BERTH_CHANGE_SET_MODE] = step_set_mode,
    };
    return steps[step->kind](a, step, err);
}

static int carry_out_all(struct apply *a, struct berth_error *err)
{
    int rc = BERTH_OK;
    for (size_t i = 0; rc == BERTH_OK && i < a->steps.count; i++) {
        rc = berth_failpoint_step_fails() ? fail_at(err, ENOSPC, "change", a->steps.items[i].path)
                                          : carry_out(a, &a->steps.items[i], err);
        if (rc == BERTH_OK && is_killed(a))
            rc = fail_killed(err);
    }
    return rc;
}

/* --- undoing --- */

/* Returns whether a name has the file that the step put, unchanged. */
static bool is_as_put(int directory, const char *name, const struct berth_step *step)
{
    struct stat st;
    return fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           (uint64_t)st.st_ino == step->inode && st.st_size == step->size &&
           (S_ISLNK(st.st_mode) || (st.st_mode & PERMISSIONS) == step->mode) &&
           berth_time_ns(&st.st_mtim) == step->mtime_ns;
}

static bool undo_put(struct apply *a, const struct berth_step *step, int above, const char *name)
{
    char number[NUMBER_SIZE];
    (void)number_of(a, step, number);
    if (!is_as_put(above, name, step))
        return true; /* it was changed or removed since, and is not ours any more */
    /* Where the directory above had gone, nothing was there to be replaced. */
    bool replaced = exists(a->new_fd, number) || exists(a->old_fd, number);
    bool exchanged = replaced && renameat2(a->new_fd, number, above, name, RENAME_EXCHANGE) == 0;
    if (replaced && !exchanged && errno != EINVAL && errno != ENOSYS)
        return false;
    if (!exchanged && renameat(above, name, a->new_fd, number) < 0)
        return false;
    if (is_as_put(a->new_fd, number, step))
        return !replaced || exchanged || move_new(a->old_fd, number, above, name) == 0;
    /* It was changed in this moment, and stays. */
    return exchanged ? renameat2(a->new_fd, number, above, name, RENAME_EXCHANGE) == 0
                     : move_new(a->new_fd, number, above, name) == 0;
}

/* Puts the local file back where a step failed half-way. */
static bool undo_half(struct apply *a, const struct berth_step *step)
{
    char number[NUMBER_SIZE];
    const char *name = name_of(step->path);
    int from = a->old_fd, above = open_above(a, step->path);
    (void)number_of(a, step, number);
    if (step->replaces && exists(a->new_fd, number) && !is_inode(a->new_fd, number, step->inode))
        from = a->new_fd; /* they have changed places */
    if (!exists(from, number) || is_inode(from, number, step->inode))
        return true;
    if (above >= 0 && from == a->new_fd && is_inode(above, name, step->inode)) {
        if (renameat2(from, number, above, name, RENAME_EXCHANGE) < 0)
            return false;
        if (is_as_put(from, number, step))
            return true;
        /* It was changed in this moment: the next recovery keeps both. */
        (void)renameat2(from, number, above, name, RENAME_EXCHANGE);
        return false;
    }
    int why = above < 0 ? ENOENT : move_new(from, number, above, name);
    return !why || why == EEXIST; /* the user has put another file there */
}

static bool undo(struct apply *a, const struct berth_step *step)
{
    char number[NUMBER_SIZE];
    const char *path = step->placed ? step->placed : step->path, *name = name_of(path);
    int above = open_above(a, path);
    if (above < 0)
        return false;
    switch (step->kind) {
    case BERTH_CHANGE_REMOVE:
        return move_new(a->old_fd, number_of(a, step, number), above, name) == 0;
    case BERTH_CHANGE_REMOVE_DIRECTORY:
        return mkdirat(above, name, S_IRWXU) == 0 && chmod_path(above, name, step->old.mode) == 0;
    case BERTH_CHANGE_MAKE_DIRECTORY:
        forget_above(a);
        return unlinkat(open_above(a, path), name, AT_REMOVEDIR) == 0 || errno == ENOTEMPTY;
    case BERTH_CHANGE_PUT:
        return undo_put(a, step, above, name);
    case BERTH_CHANGE_OPEN_DIRECTORY:
    case BERTH_CHANGE_SET_MODE:
        break; /* undo_all does these */
    }
    return false;
}

/* Sets the mode that a file or directory had before. */
static bool undo_mode(struct apply *a, const struct berth_step *step, mode_t more)
{
    int above = open_above(a, step->path);
    return above >= 0 && chmod_path(above, name_of(step->path), step->old.mode | more) == 0;
}

/* Modes come last again: directories stay open while their content is put back. */
static bool undo_all(struct apply *a)
{
    bool good = true;
    for (size_t i = a->steps.count; good && i-- > 0;) {
        const struct berth_step *step = &a->steps.items[i];
        bool moves = step->kind == BERTH_CHANGE_PUT || step->kind == BERTH_CHANGE_REMOVE ||
                     step->inode; /* of the copy with another mode */
        if (step->state != BERTH_STEP_DONE && moves)
            good = undo_half(a, step);
        if (step->state != BERTH_STEP_DONE || step->kind == BERTH_CHANGE_OPEN_DIRECTORY)
            continue;
        if (step->kind != BERTH_CHANGE_SET_MODE)
            good = undo(a, step);
        else if (step->replaces)
            good = undo_mode(a, step, step->old.kind == BERTH_ENTRY_DIRECTORY ? S_IRWXU : 0);
    }
    for (size_t i = 0; good && i < a->steps.count; i++)
        if (a->steps.items[i].state == BERTH_STEP_DONE && a->steps.items[i].replaces &&
            a->steps.items[i].kind == BERTH_CHANGE_SET_MODE)
            good = undo_mode(a, &a->steps.items[i], 0);
    for (size_t i = a->steps.count; good && i-- > 0;)
        if (a->steps.items[i].state == BERTH_STEP_DONE &&
            a->steps.items[i].kind == BERTH_CHANGE_OPEN_DIRECTORY)
            good = undo_mode(a, &a->steps.items[i], 0);
    return good;
}

/* --- the working directory --- */

/* Makes a directory in another one, unless it is there, and opens it. A link is not followed. */
static int open_directory(int parent, const char *name, struct berth_error *err)
{
    if (mkdirat(parent, name, S_IRWXU) < 0 && errno != EEXIST)
        return berth_fail_errno(err, "Cannot make the directory %s in the workspace", name);
    return berth_fs_open_beneath(parent, name, O_RDONLY | O_DIRECTORY, 0, err);
}

/* Opens the directory of the journals. */
static int open_journals(struct apply *a, const struct berth_apply_root *root,
                         struct berth_error *err)
{
    int rc = berth_fs_mkdirs(root->journals, S_IRWXU, err);
    if (rc < 0)
        return rc;
    a->journals_fd = open(root->journals, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return a->journals_fd < 0 ? berth_fail_errno(err, "Cannot open %s", root->journals) : BERTH_OK;
}

/* Sets the names of a merge. */
static int set_names(struct apply *a, const char *id, struct berth_error *err)
{
    struct stat st;
    if (fstat(a->root_fd, &st) < 0)
        return berth_fail_errno(err, "Cannot read the workspace");
    (void)snprintf(a->work, sizeof a->work, WORK_PREFIX "%s", id);
    (void)snprintf(a->journal, sizeof a->journal, "%s.%llx", id, (unsigned long long)st.st_ino);
    return BERTH_OK;
}

/* Opens ROOT/.berth/merge-ID and what is in it; what is missing is made. */
static int open_work(struct apply *a, struct berth_error *err)
{
    auto_close int ours = open_directory(a->root_fd, ".berth", err);
    a->work_fd = ours < 0 ? -1 : open_directory(ours, a->work, err);
    a->new_fd = a->work_fd < 0 ? -1 : open_directory(a->work_fd, "new", err);
    a->old_fd = a->new_fd < 0 ? -1 : open_directory(a->work_fd, "old", err);
    return a->old_fd < 0 ? err->code : BERTH_OK;
}

/* Makes the journal have this content. */
static int write_journal(const struct apply *a, const char *bytes, size_t len, bool durable,
                         struct berth_error *err)
{
    char fresh[JOURNAL_NAME_SIZE + 4];
    (void)snprintf(fresh, sizeof fresh, "%s.new", a->journal);
    auto_close int fd =
        openat(a->journals_fd, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot write the journal of a merge");
    int rc = berth_fs_write_all(fd, bytes, len, err);
    if (rc == BERTH_OK && ((durable && fsync(fd) < 0) ||
                           renameat(a->journals_fd, fresh, a->journals_fd, a->journal) < 0 ||
                           (durable && fsync(a->journals_fd) < 0)))
        rc = berth_fail_errno(err, "Cannot write the journal of a merge");
    return rc;
}

/* Removes ROOT/.berth/merge-ID. Nothing is carried out again from here on. */
static int remove_work(struct apply *a, struct berth_error *err)
{
    auto_close int parent =
        berth_fs_open_beneath(a->root_fd, ".berth", O_PATH | O_DIRECTORY, 0, err);
    if (parent < 0)
        return parent;
    int rc = write_journal(a, "", 0, true, err);
    if (rc < 0)
        return rc;
    if (is_killed(a))
        return fail_killed(err);
    rc = berth_fs_remove_tree_at(parent, a->work, err);
    if (rc < 0)
        return rc;
    (void)unlinkat(a->journals_fd, a->journal, 0);
    (void)unlinkat(a->root_fd, ".berth", AT_REMOVEDIR); /* unless something else is in it */
    return BERTH_OK;
}

/* Makes the new file or link of a step. */
static int stage(struct apply *a, struct berth_step *step, const struct berth_entry *remote,
                 const struct berth_apply_source *source, bool sync, struct berth_error *err)
{
    struct stat st;
    char number[NUMBER_SIZE];
    (void)number_of(a, step, number);
    if (remote->kind == BERTH_ENTRY_LINK) {
        if (symlinkat(remote->target, a->new_fd, number) < 0 ||
            fstatat(a->new_fd, number, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return berth_fail_errno(err, "Cannot make a link in the workspace");
        note_new(step, &st);
        return BERTH_OK;
    }
    int rc = source->fetch(source->ctx, remote, a->new_fd, number, err);
    if (rc < 0)
        return rc;
    auto_close int fd = berth_fs_open_beneath(a->new_fd, number, O_RDONLY | O_NONBLOCK, 0, err);
    if (fd < 0)
        return fd;
    if (fchmod(fd, step->mode) < 0 || fstat(fd, &st) < 0 || (sync && fdatasync(fd) < 0))
        return berth_fail_errno(err, "Cannot write a file in the workspace");
    note_new(step, &st);
    return BERTH_OK;
}

static int stage_all(struct apply *a, const struct berth_merge *merge,
                     const struct berth_apply_source *source, struct berth_error *err)
{
    bool each = merge->added + merge->updated <= SYNC_EACH_MAX;
    int rc = BERTH_OK;
    for (size_t i = 0; rc == BERTH_OK && i < merge->count; i++)
        if (merge->changes[i].kind == BERTH_CHANGE_PUT)
            rc = stage(a, &a->steps.items[i], merge->changes[i].remote, source, each, err);
    if (rc == BERTH_OK && !each && syncfs(a->work_fd) < 0)
        rc = berth_fail_errno(err, "Cannot write the new files of the workspace");
    return rc;
}

static int write_steps(struct apply *a, struct berth_error *err)
{
    auto_buf text = BERTH_BUF_INIT(JOURNAL_BYTES_MAX);
    berth_steps_write(&a->steps, &text);
    int rc = berth_buf_check(&text, "The journal of the merge", err);
    if (rc == BERTH_OK && fsync(a->new_fd) < 0)
        rc = berth_fail_errno(err, "Cannot write the new files of the workspace");
    return rc < 0 ? rc : write_journal(a, text.data, text.len, true, err);
}

/* --- the whole --- */

/* Makes what was done durable, and removes the working directory. */
static int finish(struct apply *a, struct berth_error *err)
{
    if (syncfs(a->work_fd) < 0)
        return berth_fail_errno(err, "Cannot write the changes of the workspace");
    return is_killed(a) ? fail_killed(err) : remove_work(a, err);
}

/* Looks for a merge whose process died. Returns 1 when there is one, and sets its names, 0 when
 * there is none, or < 0. What else is in .berth does not matter. */
static int find_work(struct apply *a, struct berth_error *err)
{
    auto_close int fd = berth_fs_open_beneath(a->root_fd, ".berth", O_RDONLY | O_DIRECTORY, 0, err);
    if (fd < 0 && err->os_errno == ENOENT)
        return 0;
    if (fd < 0 && (err->os_errno == ENOTDIR || err->os_errno == ELOOP))
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "The workspace has a file named .berth, a name that berth uses for a "
                          "directory of its own. Give the file another name.");
    if (fd < 0)
        return fd;
    auto_dir *dir = fdopendir(fd);
    if (!dir)
        return berth_fail_errno(err, "Cannot read .berth in the workspace");
    fd = -1; /* it belongs to dir */
    for (const struct dirent *entry; (entry = readdir(dir));) {
        const char *id = entry->d_name + strlen(WORK_PREFIX);
        if (strncmp(entry->d_name, WORK_PREFIX, strlen(WORK_PREFIX)) != 0 || !berth_id_valid(id))
            continue;
        int rc = set_names(a, id, err);
        if (rc < 0)
            return rc;
        if (faccessat(a->journals_fd, a->journal, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return 1;
    }
    return 0;
}

int berth_apply_recover(const struct berth_apply_root *root, struct berth_apply_report *report,
                        struct berth_error *err)
{
    auto_apply a = APPLY_INIT(root, report);
    auto_buf text = BERTH_BUF_INIT(JOURNAL_BYTES_MAX);
    int rc = open_journals(&a, root, err);
    if (rc == BERTH_OK)
        rc = find_work(&a, err);
    if (rc == 0) /* a process may have died just before it removed this */
        (void)unlinkat(root->fd, ".berth", AT_REMOVEDIR);
    if (rc <= 0)
        return rc;
    rc = open_work(&a, err);
    if (rc < 0)
        return rc;
    auto_close int fd = openat(a.journals_fd, a.journal, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot read the journal of a merge");
    rc = berth_fs_read_all(fd, &text, err);
    if (rc == BERTH_OK && !text.len) /* no step was carried out, or all were */
        return remove_work(&a, err);
    if (rc == BERTH_OK)
        rc = berth_steps_parse(berth_buf_str(&text), text.len, &a.steps, err);
    if (rc == BERTH_OK)
        rc = carry_out_all(&a, err);
    if (rc < 0)
        return rc;
    report->recovered += a.steps.count;
    return finish(&a, err);
}

int berth_apply(const struct berth_apply_root *root, const struct berth_merge *merge,
                const struct berth_apply_source *source, struct berth_apply_report *report,
                struct berth_error *err)
{
    auto_apply a = APPLY_INIT(root, report);
    struct berth_id id = berth_id_new_random();
    struct berth_error undoing;
    int rc = merge->count ? open_journals(&a, root, err) : BERTH_OK;
    if (rc == BERTH_OK && merge->count)
        rc = find_work(&a, err);
    if (rc > 0)
        return berth_fail(
            err, BERTH_E_CONFLICT,
            "An earlier merge of this workspace was not finished, or is still at work.");
    if (rc < 0 || !merge->count)
        return rc;
    rc = berth_steps_of_merge(merge, &a.steps, err);
    if (rc == BERTH_OK)
        rc = set_names(&a, id.text, err);
    if (rc == BERTH_OK)
        rc = write_journal(&a, "", 0, false, err);
    if (rc == BERTH_OK)
        rc = open_work(&a, err);
    if (rc == BERTH_OK)
        rc = stage_all(&a, merge, source, err);
    if (rc == BERTH_OK && is_killed(&a))
        return fail_killed(err);
    if (rc == BERTH_OK)
        rc = write_steps(&a, err);
    if (rc == BERTH_OK && is_killed(&a))
        return fail_killed(err);
    bool begun = rc == BERTH_OK;
    if (rc == BERTH_OK)
        rc = carry_out_all(&a, err);
    if (rc < 0 && !a.killed && (!begun || undo_all(&a)))
        (void)remove_work(&a, &undoing);
    return rc < 0 ? rc : finish(&a, err);
}
