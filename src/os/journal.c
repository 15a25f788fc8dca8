/* SPDX-License-Identifier: Apache-2.0
 * src/os/journal.c - see journal.h. */
#include "os/journal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "os/fs.h"
#include "os/lockfile.h"

#define LONG_BYTES (1024 * 1024)
#define FILE_BYTES_MAX ((size_t)256 * 1024 * 1024)

struct berth_journal {
    char *paths[2];
    int fds[2]; /* -1: not made yet */
    off_t sizes[2];
    int at;      /* the one that is written to */
    bool broken; /* half a line is in it */
};

static int make_file(struct berth_journal *j, int which, struct berth_error *err)
{
    if (j->fds[which] < 0)
        j->fds[which] = berth_lockfile_make(j->paths[which], err);
    return j->fds[which] < 0 ? j->fds[which] : BERTH_OK;
}

int berth_journal_open(const char *directory, const char *name, struct berth_journal **out,
                       struct berth_error *err)
{
    struct berth_journal *j = calloc(1, sizeof *j);
    if (!j)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: journal.");
    j->fds[0] = j->fds[1] = -1;
    int rc = BERTH_OK;
    for (int i = 0; i < 2 && rc == BERTH_OK; i++)
        if (asprintf(&j->paths[i], "%s/%s.%d", directory, name, i) < 0) {
            j->paths[i] = NULL;
            rc = berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: journal.");
        }
    if (rc == BERTH_OK)
        rc = make_file(j, 0, err);
    if (rc < 0 && err->os_errno == ENOENT) { /* but for the first time the directory is there */
        rc = berth_fs_mkdirs(directory, 0700, err);
        if (rc == BERTH_OK)
            rc = make_file(j, 0, err);
    }
    if (rc == BERTH_OK)
        *out = j;
    else
        berth_journal_close(j, false);
    if (rc < 0 && rc != BERTH_E_NO_MEMORY)
        rc = err->code = BERTH_E_UNAVAILABLE;
    return rc;
}

static int put(struct berth_journal *j, int which, const char *line, size_t len,
               struct berth_error *err)
{
    if (j->broken)
        return berth_fail(err, BERTH_E_UNAVAILABLE, "The journal cannot be written any more.");
    if (berth_fs_write_all(j->fds[which], line, len, err) == BERTH_OK) {
        j->sizes[which] += (off_t)len;
        return BERTH_OK;
    }
    int number = err->os_errno;
    /* Else the next line would go on behind half of this. */
    j->broken = ftruncate(j->fds[which], j->sizes[which]) < 0;
    return berth_fail(err, BERTH_E_UNAVAILABLE, "The journal %s cannot be written: %s.",
                      j->paths[which], strerror(number));
}

int berth_journal_put(struct berth_journal *j, const char *line, size_t len,
                      struct berth_error *err)
{
    return put(j, j->at, line, len, err);
}

int berth_journal_put_to_both(struct berth_journal *j, const char *line, size_t len,
                              struct berth_error *err)
{
    int rc = j->sizes[!j->at] ? put(j, !j->at, line, len, err) : BERTH_OK;
    return rc < 0 ? rc : put(j, j->at, line, len, err);
}

bool berth_journal_is_long(const struct berth_journal *j)
{
    return j->sizes[j->at] > LONG_BYTES;
}

bool berth_journal_turn(struct berth_journal *j)
{
    struct berth_error none;
    int other = !j->at;
    if (j->sizes[other] || make_file(j, other, &none) < 0)
        return false;
    j->at = other;
    return true;
}

bool berth_journal_owes(const struct berth_journal *j)
{
    return j->sizes[!j->at] > 0;
}

void berth_journal_clear(struct berth_journal *j)
{
    int other = !j->at;
    if (j->sizes[other] && ftruncate(j->fds[other], 0) == 0)
        j->sizes[other] = 0;
}

void berth_journal_close(struct berth_journal *j, bool keep)
{
    if (!j)
        return;
    for (int i = 0; i < 2; i++) {
        if (j->fds[i] >= 0 && !keep)
            (void)unlink(j->paths[i]);
        if (j->fds[i] >= 0)
            (void)close(j->fds[i]);
        free(j->paths[i]);
    }
    free(j);
}

/* --- those of the dead --- */

static int recover_file(const char *path, berth_journal_fn *fn, void *ctx, struct berth_error *err)
{
    enum berth_lockfile state;
    auto_close int fd = -1;
    auto_buf text = BERTH_BUF_INIT(FILE_BYTES_MAX);
    int rc = berth_lockfile_look(path, &state, &fd, err);
    if (rc < 0 || state != BERTH_LOCKFILE_DEAD)
        return rc;
    rc = berth_fs_read_all(fd, &text, err);
    while (text.len && text.data[text.len - 1] != '\n')
        berth_buf_truncate(&text, text.len - 1);
    if (rc == BERTH_OK && text.len)
        rc = fn(ctx, text.data, text.len, err);
    if (rc == BERTH_OK)
        (void)unlink(path);
    return rc;
}

bool berth_journal_is_left(const char *directory, const char *name)
{
    bool left = false;
    for (int i = 0; i < 2; i++) {
        char path[PATH_MAX];
        (void)snprintf(path, sizeof path, "%s/%s.%d", directory, name, i);
        left |= access(path, F_OK) == 0;
    }
    return left;
}

int berth_journal_recover(const char *directory, const char *prefix, berth_journal_fn *fn,
                          void *ctx, struct berth_error *err)
{
    auto_dir *dir = opendir(directory);
    int rc = BERTH_OK;
    if (!dir)
        return errno == ENOENT ? BERTH_OK : berth_fail_errno(err, "Cannot read %s", directory);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        char path[PATH_MAX];
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        int one = recover_file(path, fn, ctx, err);
        rc = one < 0 ? one : rc; /* the others do not wait for it */
    }
    return rc;
}
