/* SPDX-License-Identifier: Apache-2.0
 * src/sync/line_match.h - finds the lines that two contents have in common. Both may come from a
 * stranger: besides sorting the lines, the work is at most BERTH_LINE_STEPS_MAX steps. */
#ifndef BERTH_SYNC_LINE_MATCH_H
#define BERTH_SYNC_LINE_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <berth/error.h>

/* The longest series of insertions and deletions that is proved to be the shortest one. Lines that
 * only one content has do not count. */
#define BERTH_LINE_EDITS_MAX 2000
/* Comparisons of two lines, and points that are reached, during one search. */
#define BERTH_LINE_STEPS_MAX UINT64_C(20000000)

/* A line with its newline, which the last line of a content may lack. */
struct berth_line {
    const char *at; /* belongs to the content */
    size_t len;
};

/* The lines of a content. */
struct berth_line_list {
    struct berth_line *at;
    size_t count;
    bool *kept; /* for each line: the other content has it too, at a place that corresponds */
};
void berth_line_list_clear(struct berth_line_list *lines);
#define auto_line_list __attribute__((cleanup(berth_line_list_clear))) struct berth_line_list

/* Splits a content; no line is kept yet. TOO_LARGE: the content has more than BERTH_DIFF_BYTES_MAX
 * bytes or BERTH_DIFF_LINES_MAX lines. */
int berth_line_list_split(const char *bytes, size_t len, struct berth_line_list *out,
                          struct berth_error *err);

bool berth_line_equal(const struct berth_line *a, const struct berth_line *b);

/* Marks the lines that are kept. Both contents have equally many of them, in the same order. There
 * are as many as possible, unless BERTH_LINE_EDITS_MAX or BERTH_LINE_STEPS_MAX is exceeded. Writes
 * the number of steps to *steps. */
int berth_line_list_match(struct berth_line_list *old, struct berth_line_list *now, uint64_t *steps,
                          struct berth_error *err);
#endif
