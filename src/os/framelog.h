/* SPDX-License-Identifier: Apache-2.0
 * src/os/framelog.h - the log of a command's output: a file that only grows, of frames of bytes
 * with stream, offset and time. Readers begin at any offset and read at their own pace, also after
 * a crash. */
#ifndef BERTH_OS_FRAMELOG_H
#define BERTH_OS_FRAMELOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <berth/error.h>

enum berth_frame_kind {
    BERTH_FRAME_STDOUT,
    BERTH_FRAME_STDERR,
    BERTH_FRAME_CUT, /* the rest of a stream is not kept; its one byte is '0' for stdout, '1' for
                        stderr */
    BERTH_FRAME_END, /* the last frame; its bytes are the result as JSON */
    BERTH_FRAME_KINDS,
};

#define BERTH_FRAME_BYTES_MAX (1024 * 1024)

struct berth_frame {
    enum berth_frame_kind kind;
    uint64_t offset; /* of its first byte in its stream; offset + len is below 2^63 */
    int64_t at_ms;   /* by the wall clock */
    const char *bytes;
    size_t len; /* at least 1 */
};

/* --- writing: one thread at a time --- */

struct berth_framelog;
/* Makes the file (0600). CONFLICT: the file exists. The log keeps the first `limit` bytes of each
 * stream and counts the rest. */
int berth_framelog_create(const char *path, uint64_t limit, struct berth_framelog **out,
                          struct berth_error *err);
/* Appends output. UNAVAILABLE: the disk is nearly full or broken; later output of the stream is
 * counted, but not kept. */
int berth_framelog_write(struct berth_framelog *log, enum berth_frame_kind stream,
                         const char *bytes, size_t len, int64_t at_ms, struct berth_error *err);
/* Appends the result. INVALID: it is empty, or longer than a frame. */
int berth_framelog_end(struct berth_framelog *log, const char *result_json, int64_t at_ms,
                       struct berth_error *err);
bool berth_framelog_was_cut(const struct berth_framelog *log, enum berth_frame_kind stream);
void berth_framelog_close(struct berth_framelog *log); /* NULL is fine */

/* --- reading: a reader of its own for each thread --- */

struct berth_framereader;
/* Opens a log. NOT_FOUND: the file does not exist, or is being made. */
int berth_framereader_open(const char *path, struct berth_framereader **out,
                           struct berth_error *err);
/* Skips the frames of the stream that end before the offset. The first frame that is read may begin
 * before it. */
void berth_framereader_from(struct berth_framereader *reader, enum berth_frame_kind stream,
                            uint64_t offset);
/* Reads the next frame; its bytes live until the next call. *more is false when no complete frame
 * has been written yet. INVALID: the file is not a log, or damaged. */
int berth_framereader_next(struct berth_framereader *reader, struct berth_frame *out, bool *more,
                           struct berth_error *err);
/* Returns where the next frame begins in the file, for a reader that continues there later. */
uint64_t berth_framereader_tell(const struct berth_framereader *reader);
void berth_framereader_seek(struct berth_framereader *reader, uint64_t where);
void berth_framereader_close(struct berth_framereader *reader); /* NULL is fine */
#endif
