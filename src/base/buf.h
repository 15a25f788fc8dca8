/* SPDX-License-Identifier: Apache-2.0
 * src/base/buf.h - a growing byte buffer with a maximum length.
 * After a failure it ignores appends, so a caller may append several times and check once. The data
 * ends with a NUL unless the buffer has failed. */
#ifndef BERTH_BASE_BUF_H
#define BERTH_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include <berth/error.h>

struct berth_buf {
    char *data; /* NULL until the first append */
    size_t len, cap, max;
    bool failed;   /* appends are ignored */
    bool too_long; /* failed because of `max`, not for lack of memory */
    bool secret;   /* set by its owner: memory is zeroed before it is freed */
};

#define BERTH_BUF_INIT(limit)                                                                      \
    {                                                                                              \
        .max = (limit)                                                                             \
    }

void berth_buf_append(struct berth_buf *buf, const void *bytes, size_t len);
void berth_buf_puts(struct berth_buf *buf, const char *text);
void berth_buf_printf(struct berth_buf *buf, const char *fmt, ...) BERTH_PRINTF(2, 3);
/* Makes room for exactly `more` further bytes. For long data whose length is known. */
void berth_buf_reserve(struct berth_buf *buf, size_t more);
/* Cuts the data to `len` bytes; shorter data stays as it is. */
void berth_buf_truncate(struct berth_buf *buf, size_t len);

/* Returns OK, or TOO_LARGE or NO_MEMORY with `what` in the message. */
int berth_buf_check(const struct berth_buf *buf, const char *what, struct berth_error *err);

/* Returns the text, which the buffer owns; "" when it is empty, NULL when it has failed. */
const char *berth_buf_str(const struct berth_buf *buf);
/* Returns the text, which the caller frees, and empties the buffer. NULL: the buffer has failed. */
char *berth_buf_take(struct berth_buf *buf);
void berth_buf_clear(struct berth_buf *buf);

#define auto_buf __attribute__((cleanup(berth_buf_clear))) struct berth_buf
#endif
