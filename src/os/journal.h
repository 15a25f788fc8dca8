/* SPDX-License-Identifier: Apache-2.0
 * src/os/journal.h - a file of lines that survive a killed process until they are stored elsewhere.
 * The process holds the file locked while it lives; the next process recovers the file of a dead
 * one. Nothing is synced: lines survive a kill, but not a power failure. Not safe between threads.
 */
#ifndef BERTH_OS_JOURNAL_H
#define BERTH_OS_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>

#include <berth/error.h>

struct berth_journal;
/* Makes the directory (0700) and the file `name` in it. Returns UNAVAILABLE when it cannot. */
int berth_journal_open(const char *directory, const char *name, struct berth_journal **out,
                       struct berth_error *err);
/* Appends one line, which ends with its only newline: all of it or nothing. Returns UNAVAILABLE
 * when the disk is full or broken. */
int berth_journal_put(struct berth_journal *journal, const char *line, size_t len,
                      struct berth_error *err);
bool berth_journal_is_empty(const struct berth_journal *journal);
/* Returns whether the file is so long that it should be replaced. */
bool berth_journal_is_long(const struct berth_journal *journal);
/* Replaces all lines by `text`, which may be empty, in one step. On failure the old lines stay. */
int berth_journal_replace(struct berth_journal *journal, const char *text, size_t len,
                          struct berth_error *err);
/* `keep`: lines are left, and the next process recovers them. NULL is fine. */
void berth_journal_close(struct berth_journal *journal, bool keep);

/* Returns whether there is a journal of that name, with lines that a process may be recovering. */
bool berth_journal_is_left(const char *directory, const char *name);
/* Hands over the journal of each dead process whose name begins with the prefix, as a whole, and
 * removes it when `fn` returns OK. An incomplete line at the end was never put, and is cut off. */
typedef int berth_journal_fn(void *ctx, const char *text, size_t len, struct berth_error *err);
int berth_journal_recover(const char *directory, const char *prefix, berth_journal_fn *fn,
                          void *ctx, struct berth_error *err);
#endif
