/* SPDX-License-Identifier: Apache-2.0
 * src/sync/unpack.c - see unpack.h. */
#include "sync/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/hex.h"
#include "base/limits.h"
#include "base/map.h"
#include "os/fs.h"
#include "sync/tree.h"

#define PERMISSIONS 0777
#define SECOND_NS INT64_C(1000000000)
#define TIME_S_MAX (INT64_C(1) << 33) /* in the year 2242 */
#define NEW_BLOB "new"                /* while its hash is not known */
#define ZEROS_BYTES 65536

struct unpacking {
    const struct berth_unpack_source *source;
    struct berth_ignore *ignore;
    int blobs_fd;
    struct berth_tree_manifest *out;
    struct archive *tar;
    struct berth_sha256_stream *digest;
    struct berth_map files; /* by path: the number of its entry plus one, for hard links */
    struct berth_error *err;
    bool source_failed;
};

static void unpacking_close(struct unpacking *u)
{
    (void)archive_read_free(u->tar);
    berth_sha256_stream_free(u->digest);
    berth_map_clear(&u->files);
    (void)unlinkat(u->blobs_fd, NEW_BLOB, 0);
}
#define auto_unpacking __attribute__((cleanup(unpacking_close))) struct unpacking

static ssize_t on_read(struct archive *tar, void *ctx, const void **bytes)
{
    struct unpacking *u = ctx;
    ssize_t got = u->source_failed ? -1 : u->source->get(u->source->ctx, bytes, u->err);
    if (got >= 0)
        return got;
    u->source_failed = true;
    archive_set_error(tar, EIO, "the source failed");
    return -1;
}

static int damaged(struct unpacking *u)
{
    if (u->source_failed)
        return u->err->code;
    const char *why = archive_error_string(u->tar);
    return berth_fail(u->err, BERTH_E_INVALID, "The archive of the place is damaged: %.200s.",
                      why ? why : "unknown error");
}

static int unpacking_open(struct unpacking *u)
{
    int rc = berth_sha256_stream_new(&u->digest, u->err);
    if (rc < 0)
        return rc;
    u->tar = archive_read_new();
    if (!u->tar)
        return berth_fail(u->err, BERTH_E_NO_MEMORY, "Out of memory: unpacking.");
    if (archive_read_support_format_tar(u->tar) != ARCHIVE_OK ||
        archive_read_support_format_empty(u->tar) != ARCHIVE_OK ||
        archive_read_open(u->tar, u, NULL, on_read, NULL) != ARCHIVE_OK)
        return damaged(u);
    return BERTH_OK;
}

/* --- blobs --- */

/* Counts the hole before `to` into the digest. */
static void put_zeros(struct unpacking *u, int64_t from, int64_t to)
{
    static const char zeros[ZEROS_BYTES];
    for (; from < to; from += ZEROS_BYTES) {
        int64_t left = to - from;
        berth_sha256_stream_put(u->digest, zeros,
                                (size_t)(left < ZEROS_BYTES ? left : ZEROS_BYTES));
    }
}

/* Writes the content of the entry that was read last. Holes of a sparse file stay holes. */
static int write_blob(struct unpacking *u, int fd, struct berth_entry *e)
{
    const void *bytes;
    size_t len;
    la_int64_t at;
    int64_t end = 0;
    int got;
    berth_sha256_stream_begin(u->digest);
    while ((got = archive_read_data_block(u->tar, &bytes, &len, &at)) == ARCHIVE_OK) {
        if (at < end || at > e->size || (int64_t)len > e->size - at)
            return berth_fail(u->err, BERTH_E_INVALID,
                              "The archive of the place is damaged: %.400s is longer than its head "
                              "says.",
                              e->path);
        put_zeros(u, end, at);
        berth_sha256_stream_put(u->digest, bytes, len);
        if (lseek(fd, at, SEEK_SET) < 0)
            return berth_fail_errno(u->err, "Cannot write the content of %s", e->path);
        int rc = berth_fs_write_all(fd, bytes, len, u->err);
        if (rc < 0)
            return rc;
        end = at + (int64_t)len;
        berth_progress_add(u->source->progress, (int64_t)len);
    }
    if (got != ARCHIVE_EOF)
        return damaged(u);
    put_zeros(u, end, e->size);
    berth_sha256_stream_end(u->digest, e->hash);
    e->hashed = true;
    if (end < e->size && ftruncate(fd, e->size) < 0)
        return berth_fail_errno(u->err, "Cannot write the content of %s", e->path);
    return BERTH_OK;
}

static int store_blob(struct unpacking *u, struct berth_entry *e)
{
    char name[BERTH_SHA256_HEX_SIZE];
    if (e->size > BERTH_TREE_BYTES_MAX - u->out->bytes)
        return berth_fail(u->err, BERTH_E_TOO_LARGE,
                          "The files of the place have more than %lld bytes together.",
                          (long long)BERTH_TREE_BYTES_MAX);
    auto_close int fd =
        openat(u->blobs_fd, NEW_BLOB, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return berth_fail_errno(u->err, "Cannot write the content of %s", e->path);
    int rc = write_blob(u, fd, e);
    if (rc < 0)
        return rc;
    berth_hex_write(e->hash, sizeof e->hash, name);
    if (renameat(u->blobs_fd, NEW_BLOB, u->blobs_fd, name) < 0)
        return berth_fail_errno(u->err, "Cannot write the content of %s", e->path);
    return BERTH_OK;
}

int berth_unpack_fetch(int blobs_fd, const struct berth_entry *entry, int directory_fd,
                       const char *name, struct berth_error *err)
{
    char blob[BERTH_SHA256_HEX_SIZE];
    berth_hex_write(entry->hash, sizeof entry->hash, blob);
    struct berth_entry stored = *entry;
    stored.path = blob;
    int rc = berth_tree_copy_file(blobs_fd, &stored, directory_fd, name, err);
    if (rc == BERTH_E_NOT_FOUND)
        return berth_fail(err, BERTH_E_UPSTREAM, "The place did not send %.400s.", entry->path);
    return rc;
}

/* --- entries --- */

/* Writes to `out` the path without "./" before and "/" behind it. Returns false for the root. */
static bool plain_path(const char *name, char out[BERTH_TREE_PATH_BYTES_MAX + 2])
{
    while (name[0] == '.' && name[1] == '/') {
        name += 2;
        name += strspn(name, "/");
    }
    size_t len = strnlen(name, BERTH_TREE_PATH_BYTES_MAX + 1);
    memcpy(out, name, len);
    while (len && out[len - 1] == '/')
        len--;
    out[len] = '\0';
    return len && strcmp(out, ".") != 0;
}

static int hostile_path(struct unpacking *u, const char *path)
{
    return berth_fail(u->err, BERTH_E_INVALID,
                      "The archive of the place has a path that is not below its root: %.400s",
                      path);
}

static bool is_excluded(struct unpacking *u, const char *path, bool is_directory)
{
    for (const char *name = path; *name;) {
        char one[BERTH_TREE_NAME_BYTES_MAX + 1];
        size_t len = strcspn(name, "/");
        memcpy(one, name, len);
        one[len] = '\0';
        if (berth_ignore_never_crosses(one))
            return true;
        name += len + (name[len] == '/');
    }
    return u->ignore && berth_ignore_excludes(u->ignore, path, is_directory);
}

static int add_entry(struct unpacking *u, const struct berth_entry *e)
{
    int rc = berth_tree_manifest_add(u->out, e, u->err);
    if (rc == BERTH_OK && e->kind == BERTH_ENTRY_FILE &&
        !berth_map_put(&u->files, e->path, (void *)u->out->count))
        rc = berth_fail(u->err, BERTH_E_NO_MEMORY, "Out of memory: unpacking.");
    return rc;
}

/* Adds a hard link as a file with the content of the earlier entry that it names. */
static int add_hard_link(struct unpacking *u, const char *path, const char *target)
{
    char plain[BERTH_TREE_PATH_BYTES_MAX + 2];
    size_t number = plain_path(target, plain) ? (size_t)berth_map_get(&u->files, plain) : 0;
    if (!number)
        return berth_fail(u->err, BERTH_E_INVALID,
                          "The archive of the place has a hard link to a file that it does not "
                          "contain: %.400s",
                          path);
    struct berth_entry e = u->out->entries[number - 1];
    e.path = path;
    return add_entry(u, &e);
}

/* Returns the time in nanoseconds; 0 for one that no clock has had. */
static int64_t mtime_of(struct archive_entry *head)
{
    int64_t time_s = (int64_t)archive_entry_mtime(head);
    return time_s > 0 && time_s < TIME_S_MAX ? time_s * SECOND_NS : 0;
}

static int read_entry(struct unpacking *u, struct archive_entry *head)
{
    char path[BERTH_TREE_PATH_BYTES_MAX + 2];
    /* Names in the pax format are UTF-8, which the C locale cannot show as its own. */
    const char *name = archive_entry_pathname(head), *hard = archive_entry_hardlink(head);
    if (!name)
        name = archive_entry_pathname_utf8(head);
    if (!hard)
        hard = archive_entry_hardlink_utf8(head);
    if (!name)
        return berth_fail(u->err, BERTH_E_INVALID, "The archive of the place has no names.");
    if (!plain_path(name, path))
        return BERTH_OK;
    if (!berth_path_valid(path))
        return hostile_path(u, name);
    mode_t type = archive_entry_filetype(head);
    if (is_excluded(u, path, type == AE_IFDIR))
        return BERTH_OK;
    struct berth_entry e = {.path = path,
                            .mode = (uint16_t)(archive_entry_perm(head) & PERMISSIONS),
                            .mtime_ns = mtime_of(head)};
    int rc = BERTH_OK;
    if (hard)
        return add_hard_link(u, path, hard);
    if (type == AE_IFDIR) {
        e.kind = BERTH_ENTRY_DIRECTORY;
    } else if (type == AE_IFLNK) {
        e.kind = BERTH_ENTRY_LINK;
        e.mode = 0;
        e.target = archive_entry_symlink(head);
        if (!e.target)
            e.target = archive_entry_symlink_utf8(head);
        if (!e.target || !*e.target || strlen(e.target) > BERTH_TREE_PATH_BYTES_MAX)
            return berth_fail(u->err, BERTH_E_INVALID,
                              "The archive of the place has a symbolic link without a target: "
                              "%.400s",
                              path);
    } else if (type == AE_IFREG) {
        e.kind = BERTH_ENTRY_FILE;
        e.size = archive_entry_size(head);
        rc = e.size < 0 ? damaged(u) : store_blob(u, &e);
        if (rc == BERTH_OK)
            berth_progress_add_file(u->source->progress);
    } else {
        if (!u->out->skipped++)
            u->out->skipped_path = berth_arena_strdup(&u->out->arena, path);
        return berth_arena_check(&u->out->arena, u->err);
    }
    return rc < 0 ? rc : add_entry(u, &e);
}

int berth_unpack(const struct berth_unpack_source *source, struct berth_ignore *ignore,
                 int blobs_fd, struct berth_tree_manifest *out, struct berth_error *err)
{
    auto_unpacking u = {
        .source = source, .ignore = ignore, .blobs_fd = blobs_fd, .out = out, .err = err};
    struct archive_entry *head;
    bool empty = true;
    int got = ARCHIVE_OK, rc = unpacking_open(&u);
    while (rc == BERTH_OK && (got = archive_read_next_header(u.tar, &head)) >= ARCHIVE_WARN &&
           got != ARCHIVE_EOF) {
        empty = false;
        rc = read_entry(&u, head);
    }
    if (rc == BERTH_OK && got != ARCHIVE_EOF)
        rc = damaged(&u);
    if (rc == BERTH_OK && empty)
        rc = berth_fail(err, BERTH_E_INVALID, "The archive of the place is empty.");
    return rc < 0 ? rc : berth_tree_manifest_sort(out, err);
}
