/* SPDX-License-Identifier: Apache-2.0
 * src/net/lines.h - lines out of a stream, ended by LF alone, however the stream was cut. */
#ifndef BERTH_NET_LINES_H
#define BERTH_NET_LINES_H

#include "base/buf.h"

struct berth_lines {
    struct berth_buf buf;
    size_t taken;   /* of the buffer, by lines that were handed out */
    size_t scanned; /* of the buffer: no LF between `taken` and here */
    size_t max;     /* of one line */
    size_t dropped; /* bytes of a line that is too long, so far */
};

void berth_lines_init(struct berth_lines *lines, size_t max);
/* Appends received bytes, and frees the lines that were handed out. A line for which memory ran out
 * counts as too long. */
void berth_lines_put(struct berth_lines *lines, const char *bytes, size_t len);
/* Hands out the next whole line, without LF and a CR before it; a NUL follows it. A line that was
 * too long is handed out empty, and *dropped is its length. Returns false when no whole line has
 * come. */
bool berth_lines_next(struct berth_lines *lines, char **line, size_t *len, size_t *dropped);
void berth_lines_clear(struct berth_lines *lines);
#endif
