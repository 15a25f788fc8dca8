/* SPDX-License-Identifier: Apache-2.0
 * src/sync/diff.h - the difference of two contents of a file, as `diff -u` writes it. `git apply`
 * and `patch -p1` accept it. */
#ifndef BERTH_SYNC_DIFF_H
#define BERTH_SYNC_DIFF_H

#include <stdbool.h>
#include <stddef.h>

#include <berth/error.h>

struct berth_buf;

/* One content. */
struct berth_diff_side {
    const char *label; /* "a/PATH" or "b/PATH"; "/dev/null": the file is absent */
    const char *bytes; /* may be NULL when len is 0 */
    size_t len;
};

/* Appends the difference of two contents as a unified diff with 3 lines of context. Equal contents
 * append nothing; an absent file equals an empty one. Contents with a NUL in their first 8,000
 * bytes or with invalid UTF-8 append "Binary files OLD and NEW differ", and those above
 * BERTH_DIFF_BYTES_MAX or BERTH_DIFF_LINES_MAX "Files OLD and NEW differ".
 *
 * Appends at most bytes_max bytes. Hunks that do not fit are replaced by one line that says so, and
 * *cut becomes true. That line is missing when even it does not fit.
 *
 * Time and memory are bounded: the fewest possible lines are changed, unless more than
 * BERTH_LINE_EDITS_MAX lines of those that both contents have would be, or the search takes more
 * than BERTH_LINE_STEPS_MAX steps. Besides the output and one hunk, at most about 50 MB are used.
 * On failure, *out is as before, or has failed. */
int berth_diff_append(const struct berth_diff_side *old, const struct berth_diff_side *now,
                      size_t bytes_max, struct berth_buf *out, bool *cut, struct berth_error *err);
#endif
