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
/* The end of the name of a file that is going to replace a journal. */
#define NEXT_SUFFIX ".next"

struct berth_journal {
    char *path, *next_path;
    int fd;
    off_t size;
    bool broken; /* half a line is at its end */
};

int berth_journal_open(const char *directory, const char *name, struct berth_journal **out,
                       struct berth_error *err)
{
    struct berth_journal *j = calloc(1, sizeof *j);
    if (!j)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: journal.");
    j->fd = -1;
    int rc = BERTH_OK;
    if (asprintf(&j->path, "%s/%s", directory, name) < 0 ||
        asprintf(&j->next_path, "%s" NEXT_SUFFIX, j->path) < 0)
        rc = berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: journal.");
    if (rc == BERTH_OK)
        rc = j->fd = berth_lockfile_make(j->path, err);
    if (rc < 0 && err->os_errno == ENOENT) { /* only the first time is the directory missing */
        rc = berth_fs_mkdirs(directory, 0700, err);
        if (rc == BERTH_OK)
            rc = j->fd = berth_lockfile_make(j->path, err);
    }
    if (rc >= 0) {
        *out = j;
        return BERTH_OK;
    }
    berth_journal_close(j, false);
    if (rc != BERTH_E_NO_MEMORY)
        rc = err->code = BERTH_E_UNAVAILABLE;
    return rc;
}

int berth_journal_put(struct berth_journal *j, const char *line, size_t len,
                      struct berth_error *err)
{
    if (j->broken)
        return berth_fail(err, BERTH_E_UNAVAILABLE, "The journal cannot be written any more.");
    if (berth_fs_write_all(j->fd, line, len, err) == BERTH_OK) {
        j->size += (off_t)len;
        return BERTH_OK;
    }
    int number = err->os_errno;
    /* Without this the next line would follow half of this one. */
    j->broken = ftruncate(j->fd, j->size) < 0;
    (void)berth_fail(err, BERTH_E_UNAVAILABLE, "The journal cannot be written: %s.",
                     strerror(number));
    return berth_wrap(err, "%s", j->path);
}

bool berth_journal_is_empty(const struct berth_journal *j)
{
    return j->size == 0;
}

bool berth_journal_is_long(const struct berth_journal *j)
{
    return j->size > LONG_BYTES;
}

/* Writes the text to a new locked file and renames it over the journal. */
static int journal_rename(struct berth_journal *j, const char *text, size_t len,
                          struct berth_error *err)
{
    auto_close int fd = berth_lockfile_make(j->next_path, err);
    int rc = fd < 0 ? fd : berth_fs_write_all(fd, text, len, err);
    if (rc == BERTH_OK && rename(j->next_path, j->path) < 0)
        rc = berth_fail_errno(err, "Cannot replace %s", j->path);
    if (rc < 0) {
        if (fd >= 0)
            (void)unlink(j->next_path);
        return rc;
    }
    (void)close(j->fd);
    j->fd = fd;
    fd = -1;
    return BERTH_OK;
}

int berth_journal_replace(struct berth_journal *j, const char *text, size_t len,
                          struct berth_error *err)
{
    int rc = BERTH_OK;
    if (len)
        rc = journal_rename(j, text, len, err);
    else if (ftruncate(j->fd, 0) < 0)
        rc = berth_fail_errno(err, "Cannot empty %s", j->path);
    if (rc < 0)
        return rc;
    j->size = (off_t)len;
    j->broken = false;
    return BERTH_OK;
}

void berth_journal_close(struct berth_journal *j, bool keep)
{
    if (!j)
        return;
    if (j->fd >= 0 && !keep)
        (void)unlink(j->path);
    if (j->fd >= 0)
        (void)close(j->fd);
    free(j->path);
    free(j->next_path);
    free(j);
}

/* --- journals of dead processes --- */

static bool is_next(const char *path)
{
    size_t len = strlen(path), end = strlen(NEXT_SUFFIX);
    return len > end && strcmp(path + len - end, NEXT_SUFFIX) == 0;
}

static int recover_file(const char *path, berth_journal_fn *fn, void *ctx, struct berth_error *err)
{
    enum berth_lockfile state;
    auto_close int fd = -1;
    auto_buf text = BERTH_BUF_INIT(FILE_BYTES_MAX);
    int rc = berth_lockfile_look(path, &state, &fd, err);
    if (rc < 0 || state != BERTH_LOCKFILE_DEAD)
        return rc;
    if (is_next(path)) { /* never renamed: the journal itself has all lines */
        (void)unlink(path);
        return BERTH_OK;
    }
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
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    return access(path, F_OK) == 0;
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
        rc = one < 0 ? one : rc; /* go on with the others */
    }
    return rc;
}
