/* SPDX-License-Identifier: Apache-2.0
 * src/base/buf.h - a growing byte buffer with a ceiling from birth.
 * It fails stickily: append ten times, check once. Always NUL-terminated when not failed. */
#ifndef BERTH_BASE_BUF_H
#define BERTH_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include <berth/error.h>

struct berth_buf {
    char *data; /* NULL until the first append */
    size_t len, cap, max;
    bool failed;   /* nothing is appended any more */
    bool too_long; /* failed because of `max`, not of memory */
    bool secret;   /* set by its owner: nothing of it stays in memory that is let go of */
};

#define BERTH_BUF_INIT(limit)                                                                      \
    {                                                                                              \
        .max = (limit)                                                                             \
    }

void berth_buf_append(struct berth_buf *buf, const void *bytes, size_t len);
void berth_buf_puts(struct berth_buf *buf, const char *text);
void berth_buf_printf(struct berth_buf *buf, const char *fmt, ...) BERTH_PRINTF(2, 3);
/* Room for so many more bytes, and not much beyond: for what is known to be long. */
void berth_buf_reserve(struct berth_buf *buf, size_t more);
void berth_buf_truncate(struct berth_buf *buf, size_t len);

/* OK, or TOO_LARGE / NO_MEMORY naming `what`. */
int berth_buf_check(const struct berth_buf *buf, const char *what, struct berth_error *err);

/* The text so far, "" when empty; borrowed. NULL when failed. */
const char *berth_buf_str(const struct berth_buf *buf);
/* The text as memory of the caller's, or NULL when failed; the buffer is empty afterwards. */
char *berth_buf_take(struct berth_buf *buf);
void berth_buf_clear(struct berth_buf *buf);

#define auto_buf __attribute__((cleanup(berth_buf_clear))) struct berth_buf
#endif
