/* SPDX-License-Identifier: Apache-2.0
 * src/os/journal.h - lines that are on their way to somewhere safer. A killed process leaves them
 * in files, and whoever comes next reads them. Two files by turns, so that one can be emptied when
 * its lines have arrived. What the kernel has is kept; a machine that loses its power may lose it.
 * One thread at a time.
 */
#ifndef BERTH_OS_JOURNAL_H
#define BERTH_OS_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>

#include <berth/error.h>

struct berth_journal;
/* Makes the directory (0700) and the file `name`.0 in it. UNAVAILABLE: it cannot. */
int berth_journal_open(const char *directory, const char *name, struct berth_journal **out,
                       struct berth_error *err);
/* All of the line, which ends with the only newline in it, or nothing. UNAVAILABLE: the disk is
 * full, or broken. */
int berth_journal_put(struct berth_journal *journal, const char *line, size_t len,
                      struct berth_error *err);
/* The same to both files, where the other has lines still: it is about one of them. */
int berth_journal_put_to_both(struct berth_journal *journal, const char *line, size_t len,
                              struct berth_error *err);
bool berth_journal_is_long(const struct berth_journal *journal); /* the file that is written to */
/* What follows goes to the other file. False: that has lines still, so it goes on in this one. */
bool berth_journal_turn(struct berth_journal *journal);
bool berth_journal_owes(const struct berth_journal *journal); /* lines from before the last turn */
/* They have arrived. */
void berth_journal_clear(struct berth_journal *journal);
/* `keep`: some have not; the files stay, and are those of a dead process. NULL is fine. */
void berth_journal_close(struct berth_journal *journal, bool keep);

/* Whether there is a journal of that name: with lines, perhaps, that somebody recovers just now. */
bool berth_journal_is_left(const char *directory, const char *name);
/* The journals of dead processes whose names begin with the prefix: each file is handed over whole,
 * and removed when `fn` is content. A line without a newline at its end was never put. */
typedef int berth_journal_fn(void *ctx, const char *text, size_t len, struct berth_error *err);
int berth_journal_recover(const char *directory, const char *prefix, berth_journal_fn *fn,
                          void *ctx, struct berth_error *err);
#endif
