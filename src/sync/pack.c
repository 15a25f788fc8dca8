/* SPDX-License-Identifier: Apache-2.0
 * src/sync/pack.c - see pack.h. */
#include "sync/pack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/time.h"
#include "os/fs.h"

#define PERMISSIONS 0777
#define SECOND_NS INT64_C(1000000000)
#define BLOCK_BYTES (64 * 1024)       /* handed to the sink at a time */
#define WHOLE_BYTES ((size_t)1 << 20) /* files up to this size are read before they are packed */
#define READ_TRIES 3                  /* of such a file, when it changes meanwhile */

struct packing {
    int root_fd;
    const struct berth_pack_sink *sink;
    struct archive *tar;
    struct archive_entry *head;
    struct berth_sha256_stream *digest;
    char *chunk;             /* of WHOLE_BYTES */
    struct berth_error *err; /* where the sink's error goes */
    bool sink_failed;
};

static void packing_close(struct packing *p)
{
    archive_entry_free(p->head);
    (void)archive_write_free(p->tar);
    berth_sha256_stream_free(p->digest);
    free(p->chunk);
}
#define auto_packing __attribute__((cleanup(packing_close))) struct packing

static ssize_t on_write(struct archive *tar, void *ctx, const void *bytes, size_t len)
{
    struct packing *p = ctx;
    if (!p->sink_failed && p->sink->put(p->sink->ctx, bytes, len, p->err) == BERTH_OK)
        return (ssize_t)len;
    p->sink_failed = true;
    archive_set_error(tar, EIO, "the sink failed");
    return -1;
}

static int pack_failed(struct packing *p, const char *path)
{
    if (p->sink_failed)
        return p->err->code;
    const char *why = archive_error_string(p->tar);
    return berth_fail(p->err, BERTH_E_INTERNAL, "Cannot pack %.400s: %.200s.", path,
                      why ? why : "unknown error");
}

static int packing_open(struct packing *p)
{
    p->chunk = malloc(WHOLE_BYTES);
    p->head = archive_entry_new();
    p->tar = archive_write_new();
    if (!p->chunk || !p->head || !p->tar)
        return berth_fail(p->err, BERTH_E_NO_MEMORY, "Out of memory: packing.");
    int rc = berth_sha256_stream_new(&p->digest, p->err);
    if (rc < 0)
        return rc;
    if (archive_write_set_format_gnutar(p->tar) != ARCHIVE_OK ||
        archive_write_add_filter_none(p->tar) != ARCHIVE_OK ||
        archive_write_set_bytes_per_block(p->tar, BLOCK_BYTES) != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(p->tar, 512) != ARCHIVE_OK ||
        archive_write_open(p->tar, p, NULL, on_write, NULL) != ARCHIVE_OK)
        return pack_failed(p, "the workspace");
    return BERTH_OK;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return S_ISREG(a->st_mode) && a->st_size == b->st_size &&
           berth_time_ns(&a->st_mtim) == berth_time_ns(&b->st_mtim) &&
           berth_time_ns(&a->st_ctim) == berth_time_ns(&b->st_ctim);
}

/* Writes the header of an entry. */
static int put_head(struct packing *p, const struct berth_entry *e)
{
    static const mode_t types[] = {[BERTH_ENTRY_DIRECTORY] = AE_IFDIR,
                                   [BERTH_ENTRY_FILE] = AE_IFREG,
                                   [BERTH_ENTRY_LINK] = AE_IFLNK};
    archive_entry_clear(p->head);
    archive_entry_set_pathname(p->head, e->path);
    archive_entry_set_filetype(p->head, types[e->kind]);
    archive_entry_set_perm(p->head, e->kind == BERTH_ENTRY_LINK ? PERMISSIONS : e->mode);
    archive_entry_set_size(p->head, e->size);
    archive_entry_set_mtime(p->head, e->mtime_ns / SECOND_NS, 0);
    if (e->kind == BERTH_ENTRY_LINK)
        archive_entry_set_symlink(p->head, e->target);
    return archive_write_header(p->tar, p->head) == ARCHIVE_OK ? BERTH_OK : pack_failed(p, e->path);
}

static int put_data(struct packing *p, const struct berth_entry *e, const char *bytes, size_t len)
{
    if (len && archive_write_data(p->tar, bytes, len) != (ssize_t)len)
        return pack_failed(p, e->path);
    berth_progress_add(p->sink->progress, (int64_t)len);
    return BERTH_OK;
}

/* Reads up to `len` bytes; fewer only at the end of the file. Returns -1 with errno. */
static ssize_t read_some(int fd, char *to, size_t len)
{
    size_t got = 0;
    while (got < len) {
        ssize_t n = read(fd, to + got, len - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

static int changes(struct packing *p, const struct berth_entry *e)
{
    return berth_fail(p->err, BERTH_E_CONFLICT, "%.600s changes while it is read. Try again.",
                      e->path);
}

static void set_from_stat(struct berth_entry *e, const struct stat *st)
{
    e->mode = (uint16_t)(st->st_mode & PERMISSIONS);
    e->size = (int64_t)st->st_size;
    e->mtime_ns = berth_time_ns(&st->st_mtim);
    e->ctime_ns = berth_time_ns(&st->st_ctim);
    e->inode = (uint64_t)st->st_ino;
}

/* Packs a file whose size must be known before its content is read. */
static int pack_large(struct packing *p, int fd, const struct stat *before, struct berth_entry *e)
{
    struct stat after;
    set_from_stat(e, before);
    int rc = put_head(p, e);
    int64_t size = 0;
    berth_sha256_stream_begin(p->digest);
    for (ssize_t got; rc == BERTH_OK && (got = read_some(fd, p->chunk, WHOLE_BYTES)) != 0;) {
        if (got < 0)
            return berth_fail_errno(p->err, "Cannot read %s", e->path);
        size += got;
        if (size > e->size)
            return changes(p, e);
        berth_sha256_stream_put(p->digest, p->chunk, (size_t)got);
        rc = put_data(p, e, p->chunk, (size_t)got);
    }
    if (rc < 0)
        return rc;
    if (fstat(fd, &after) < 0 || size != e->size || !is_same_file(before, &after))
        return changes(p, e);
    berth_sha256_stream_end(p->digest, e->hash);
    e->hashed = true;
    return BERTH_OK;
}

static int pack_file(struct packing *p, struct berth_entry *e)
{
    for (int tries = 0; tries < READ_TRIES; tries++) {
        struct stat before, after;
        auto_close int fd =
            berth_fs_open_beneath(p->root_fd, e->path, O_RDONLY | O_NONBLOCK, 0, p->err);
        if (fd < 0)
            return fd;
        if (fstat(fd, &before) < 0)
            return berth_fail_errno(p->err, "Cannot read %s", e->path);
        if (before.st_size >= (off_t)WHOLE_BYTES)
            return pack_large(p, fd, &before, e);
        ssize_t got = read_some(fd, p->chunk, WHOLE_BYTES);
        if (got < 0 || fstat(fd, &after) < 0)
            return berth_fail_errno(p->err, "Cannot read %s", e->path);
        if (got != (ssize_t)before.st_size || !is_same_file(&before, &after))
            continue;
        set_from_stat(e, &after);
        berth_sha256_stream_begin(p->digest);
        berth_sha256_stream_put(p->digest, p->chunk, (size_t)got);
        berth_sha256_stream_end(p->digest, e->hash);
        e->hashed = true;
        int rc = put_head(p, e);
        return rc < 0 ? rc : put_data(p, e, p->chunk, (size_t)got);
    }
    return changes(p, e);
}

int berth_pack(int root_fd, struct berth_entry *const *entries, size_t count,
               const struct berth_pack_sink *sink, int cancel_fd, struct berth_error *err)
{
    auto_packing p = {.root_fd = root_fd, .sink = sink, .err = err};
    struct pollfd cancel = {.fd = cancel_fd, .events = POLLIN};
    int rc = packing_open(&p);
    for (size_t i = 0; rc == BERTH_OK && i < count; i++) {
        if (cancel_fd >= 0 && poll(&cancel, 1, 0) > 0)
            return berth_fail(err, BERTH_E_CANCELLED, "Packing the workspace was cancelled.");
        rc = entries[i]->kind == BERTH_ENTRY_FILE ? pack_file(&p, entries[i])
                                                  : put_head(&p, entries[i]);
        if (rc == BERTH_OK && entries[i]->kind == BERTH_ENTRY_FILE)
            berth_progress_add_file(sink->progress);
    }
    if (rc == BERTH_OK && archive_write_close(p.tar) != ARCHIVE_OK)
        rc = pack_failed(&p, "the workspace");
    return rc;
}
