/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/exec_journal.h - rows of execs on their way to the store. No command waits for a
 * transaction: its row is queued, and one transaction writes many a moment later. Until then a file
 * holds what a killed process knew; the next process to open the store writes it. */
#ifndef BERTH_CORE_RUN_EXEC_JOURNAL_H
#define BERTH_CORE_RUN_EXEC_JOURNAL_H

#include "core/berth.h"
#include "store/exec.h"

struct berth_exec_journal; /* safe to share between threads */

int berth_exec_journal_new(struct berth *b, struct berth_exec_journal **out,
                           struct berth_error *err);
/* Writes what is queued; what cannot be written stays in the file. NULL is fine. */
void berth_exec_journal_free(struct berth_exec_journal *journal);

/* Records that the command is about to start. Returns UNAVAILABLE when that cannot be written; the
 * command must not start then. One of the next two calls follows. */
int berth_exec_journal_begin(struct berth *b, const struct berth_exec_record *record,
                             struct berth_error *err);
void berth_exec_journal_started(struct berth *b, const char *id);
void berth_exec_journal_void(struct berth *b, const char *id); /* the command was not started */
/* Records how the command ended. From here on the end survives a kill of this process. */
void berth_exec_journal_end(struct berth *b, const struct berth_exec_record *record);
/* Writes what is queued before it returns. Returns UNAVAILABLE, and logs it, when that cannot be
 * done now: the rows in the store are behind then, and are written later. */
int berth_exec_journal_flush(struct berth *b, struct berth_error *err);
/* For tests: sets no timer from now on, so that only a flush writes rows. */
void berth_exec_journal_hold(struct berth *b);
/* Writes what killed processes had queued. */
void berth_exec_journal_recover(struct berth *b);
/* Returns whether the node left a journal that is not recovered yet. */
int berth_exec_journal_is_left(struct berth *b, const char *node_id, bool *out,
                               struct berth_error *err);
#endif
