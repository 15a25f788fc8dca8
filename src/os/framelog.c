/* SPDX-License-Identifier: Apache-2.0
 * src/os/framelog.c - see framelog.h. A header of 24 bytes, little-endian, before each frame's
 * bytes: kind (1), zero (3), length (4), offset (8), time (8). */
#include "os/framelog.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"

#define MAGIC "berth-log-1\n"
#define MAGIC_LEN 12
#define LOOK_BYTES ((off_t)256 * 1024) /* written between two looks at the free space */

struct header {
    uint8_t kind, zero[3];
    uint32_t len;
    uint64_t offset;
    uint64_t at_ms;
};
_Static_assert(sizeof(struct header) == 24, "the header has no holes");

struct berth_framelog {
    int fd;
    uint64_t limit;
    uint64_t seen[2]; /* bytes of each stream so far */
    bool cut[2];
    bool broken;   /* nothing can be written any more */
    off_t written; /* whole frames end here */
    off_t look_at; /* when so much is written: is there enough free space? */
};

static int fail_write(struct berth_framelog *log, struct berth_error *err)
{
    int number = errno;
    /* Half a frame would hide what follows. */
    if (ftruncate(log->fd, log->written) < 0)
        log->broken = true;
    errno = number;
    return berth_fail(err, BERTH_E_UNAVAILABLE, "The log cannot be written: %s.", strerror(number));
}

/* All of it, or nothing. */
static int framelog_put(struct berth_framelog *log, const struct header *header, const char *bytes,
                        size_t len, struct berth_error *err)
{
    struct iovec parts[2] = {{(void *)(uintptr_t)header, sizeof *header},
                             {(void *)(uintptr_t)bytes, len}};
    size_t left = sizeof *header + len;
    if (log->broken)
        return berth_fail(err, BERTH_E_UNAVAILABLE, "The log cannot be written any more.");
    for (int at = 0; left;) {
        ssize_t done = writev(log->fd, parts + at, 2 - at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return fail_write(log, err);
        left -= (size_t)done;
        for (size_t part; at < 2 && done; done -= (ssize_t)part) {
            part = (size_t)done < parts[at].iov_len ? (size_t)done : parts[at].iov_len;
            parts[at].iov_base = (char *)parts[at].iov_base + part;
            parts[at].iov_len -= part;
            at += parts[at].iov_len == 0;
        }
    }
    log->written += (off_t)(sizeof *header + len);
    return BERTH_OK;
}

static int framelog_put_frame(struct berth_framelog *log, enum berth_frame_kind kind,
                              uint64_t offset, const char *bytes, size_t len, int64_t at_ms,
                              struct berth_error *err)
{
    struct header header = {.kind = (uint8_t)kind,
                            .len = htole32((uint32_t)len),
                            .offset = htole64(offset),
                            .at_ms = htole64((uint64_t)at_ms)};
    return framelog_put(log, &header, bytes, len, err);
}

/* Half of it would be no log, and in the way of the next. */
static int put_magic(const struct berth_framelog *log, const char *path, struct berth_error *err)
{
    ssize_t done = write(log->fd, MAGIC, MAGIC_LEN);
    if (done == MAGIC_LEN)
        return BERTH_OK;
    int number = done < 0 ? errno : ENOSPC;
    (void)unlink(path);
    (void)berth_fail(err, BERTH_E_UNAVAILABLE, "The log cannot be written: %s.", strerror(number));
    return berth_wrap(err, "%s", path);
}

int berth_framelog_create(const char *path, uint64_t limit, struct berth_framelog **out,
                          struct berth_error *err)
{
    struct berth_framelog *log = calloc(1, sizeof *log);
    if (!log)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: log.");
    *log = (struct berth_framelog){
        .fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600), .limit = limit};
    int rc = BERTH_OK;
    if (log->fd < 0)
        rc = errno == EEXIST ? berth_fail(err, BERTH_E_CONFLICT, "The log %s is there.", path)
                             : berth_fail_errno(err, "Cannot make the log %s", path);
    else
        rc = put_magic(log, path, err);
    if (rc < 0) {
        berth_framelog_close(log);
        return rc;
    }
    log->written = MAGIC_LEN;
    *out = log;
    return BERTH_OK;
}

/* Says once that the rest of the stream is missing. */
static void cut(struct berth_framelog *log, enum berth_frame_kind stream, int64_t at_ms)
{
    struct berth_error ignored; /* the end says it, too */
    char which = (char)('0' + stream);
    log->cut[stream] = true;
    (void)framelog_put_frame(log, BERTH_FRAME_CUT, log->seen[stream], &which, 1, at_ms, &ignored);
}

/* Returns false while the rest of the disk is reserved for the ledger, which must be able to end
 * what runs. */
static bool has_space(struct berth_framelog *log)
{
    struct statvfs disk;
    if (log->written < log->look_at || fstatvfs(log->fd, &disk) < 0)
        return true;
    uint64_t reserve = (uint64_t)disk.f_blocks * disk.f_frsize / BERTH_LOG_RESERVE_PART;
    if (reserve > BERTH_LOG_RESERVE_BYTES_MAX)
        reserve = BERTH_LOG_RESERVE_BYTES_MAX;
    log->look_at = log->written + LOOK_BYTES;
    return (uint64_t)disk.f_bavail * disk.f_frsize >= reserve;
}

int berth_framelog_write(struct berth_framelog *log, enum berth_frame_kind stream,
                         const char *bytes, size_t len, int64_t at_ms, struct berth_error *err)
{
    int rc = BERTH_OK;
    while (len && rc == BERTH_OK && !log->cut[stream]) {
        uint64_t room = log->limit - log->seen[stream];
        size_t part = len < BERTH_FRAME_BYTES_MAX ? len : BERTH_FRAME_BYTES_MAX;
        if (part > room)
            part = (size_t)room;
        if (part && !has_space(log))
            rc = berth_fail(err, BERTH_E_UNAVAILABLE,
                            "The disk is nearly full, and the rest is reserved for the ledger.");
        else if (part)
            rc = framelog_put_frame(log, stream, log->seen[stream], bytes, part, at_ms, err);
        if (rc == BERTH_OK) {
            log->seen[stream] += part;
            bytes += part;
            len -= part;
        }
        if (rc < 0 || (len && log->seen[stream] == log->limit))
            cut(log, stream, at_ms);
    }
    log->seen[stream] += len;
    return rc;
}

int berth_framelog_end(struct berth_framelog *log, const char *result_json, int64_t at_ms,
                       struct berth_error *err)
{
    size_t len = strlen(result_json);
    if (len == 0 || len > BERTH_FRAME_BYTES_MAX) /* readers would take it for damage */
        return berth_fail(err, BERTH_E_INVALID, "A log cannot end with %zu bytes.", len);
    return framelog_put_frame(log, BERTH_FRAME_END, 0, result_json, len, at_ms, err);
}

bool berth_framelog_was_cut(const struct berth_framelog *log, enum berth_frame_kind stream)
{
    return log->cut[stream];
}

void berth_framelog_close(struct berth_framelog *log)
{
    if (!log)
        return;
    if (log->fd >= 0)
        (void)close(log->fd);
    free(log);
}

/* --- reading --- */

struct berth_framereader {
    int fd;
    off_t at;
    uint64_t from[2]; /* of each stream: what ends before is passed over */
    char *bytes;
    size_t cap;
};

static int fail_damaged(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_INVALID, "The log is damaged, or none of berth's.");
}

/* `len` bytes at `at`, or *whole false when they are not all there yet. */
static int read_at(int fd, off_t at, void *out, size_t len, bool *whole, struct berth_error *err)
{
    *whole = false;
    for (size_t done = 0; done < len;) {
        ssize_t got = pread(fd, (char *)out + done, len - done, at + (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return berth_fail_errno(err, "Cannot read the log");
        if (got == 0)
            return BERTH_OK;
        done += (size_t)got;
    }
    *whole = true;
    return BERTH_OK;
}

int berth_framereader_open(const char *path, struct berth_framereader **out,
                           struct berth_error *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOTDIR)
        return berth_fail(err, BERTH_E_NOT_FOUND, "There is no log %s.", path);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot open the log %s", path);
    char magic[MAGIC_LEN];
    bool whole;
    if (lseek(fd, 0, SEEK_END) == 0)
        return berth_fail(err, BERTH_E_NOT_FOUND, "The log %s has not begun.", path);
    int rc = read_at(fd, 0, magic, sizeof magic, &whole, err);
    if (rc == BERTH_OK && (!whole || memcmp(magic, MAGIC, MAGIC_LEN) != 0))
        rc = fail_damaged(err);
    struct berth_framereader *reader = rc == BERTH_OK ? calloc(1, sizeof *reader) : NULL;
    if (rc == BERTH_OK && !reader)
        rc = berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: log.");
    if (rc < 0)
        return rc;
    *reader = (struct berth_framereader){.fd = fd, .at = MAGIC_LEN};
    fd = -1;
    *out = reader;
    return BERTH_OK;
}

/* No frame is empty: what a crash filled with zeros must not look like many. Offsets fit into the
 * numbers of JSON and SQL, also behind the last byte. */
static bool is_sound(const struct header *h, size_t len)
{
    return h->kind < BERTH_FRAME_KINDS && !h->zero[0] && !h->zero[1] && !h->zero[2] && len > 0 &&
           len <= BERTH_FRAME_BYTES_MAX && le64toh(h->offset) <= INT64_MAX - len;
}

/* Whether the bytes are those of such a frame. */
static bool is_complete(const struct header *h, const char *bytes, size_t len)
{
    return h->kind != BERTH_FRAME_CUT || (len == 1 && (bytes[0] == '0' || bytes[0] == '1'));
}

/* Room for `len` bytes of a frame, once the file has them: *whole false until then, so that nothing
 * is allocated because a header says so. */
static int make_room(struct berth_framereader *reader, size_t len, bool *whole,
                     struct berth_error *err)
{
    struct stat st;
    *whole = true;
    if (len <= reader->cap)
        return BERTH_OK;
    if (fstat(reader->fd, &st) < 0)
        return berth_fail_errno(err, "Cannot read the log");
    *whole = st.st_size - reader->at >= (off_t)(sizeof(struct header) + len);
    if (!*whole)
        return BERTH_OK;
    char *grown = realloc(reader->bytes, len);
    if (!grown)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: log.");
    reader->bytes = grown;
    reader->cap = len;
    return BERTH_OK;
}

void berth_framereader_from(struct berth_framereader *reader, enum berth_frame_kind stream,
                            uint64_t offset)
{
    reader->from[stream] = offset;
}

static bool is_unwanted(const struct berth_framereader *reader, const struct header *h, size_t len)
{
    return h->kind <= BERTH_FRAME_STDERR && le64toh(h->offset) + len <= reader->from[h->kind];
}

/* The header of the next frame that is wanted, at reader->at; or *whole false. */
static int find_frame(struct berth_framereader *reader, struct header *h, bool *whole,
                      struct berth_error *err)
{
    for (;;) {
        int rc = read_at(reader->fd, reader->at, h, sizeof *h, whole, err);
        if (rc < 0 || !*whole)
            return rc;
        size_t len = le32toh(h->len);
        if (!is_sound(h, len))
            return fail_damaged(err);
        if (!is_unwanted(reader, h, len))
            return BERTH_OK;
        reader->at += (off_t)(sizeof *h + len);
    }
}

/* The frame at reader->at, with its bytes in reader->bytes, or *whole false. */
static int read_frame(struct berth_framereader *reader, struct header *h, bool *whole,
                      struct berth_error *err)
{
    int rc = find_frame(reader, h, whole, err);
    if (rc < 0 || !*whole)
        return rc;
    size_t len = le32toh(h->len);
    rc = make_room(reader, len, whole, err);
    if (rc == BERTH_OK && *whole)
        rc = read_at(reader->fd, reader->at + (off_t)sizeof *h, reader->bytes, len, whole, err);
    if (rc == BERTH_OK && *whole && !is_complete(h, reader->bytes, len))
        rc = fail_damaged(err);
    return rc;
}

int berth_framereader_next(struct berth_framereader *reader, struct berth_frame *out, bool *more,
                           struct berth_error *err)
{
    struct header h;
    bool whole = false;
    int rc = read_frame(reader, &h, &whole, err);
    *more = rc == BERTH_OK && whole;
    if (!*more)
        return rc;
    size_t len = le32toh(h.len);
    reader->at += (off_t)(sizeof h + len);
    *out = (struct berth_frame){.kind = (enum berth_frame_kind)h.kind,
                                .offset = le64toh(h.offset),
                                .at_ms = (int64_t)le64toh(h.at_ms),
                                .bytes = reader->bytes,
                                .len = len};
    return BERTH_OK;
}

uint64_t berth_framereader_tell(const struct berth_framereader *reader)
{
    return (uint64_t)reader->at;
}

void berth_framereader_seek(struct berth_framereader *reader, uint64_t where)
{
    reader->at = (off_t)where;
}

void berth_framereader_close(struct berth_framereader *reader)
{
    if (!reader)
        return;
    (void)close(reader->fd);
    free(reader->bytes);
    free(reader);
}
