/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/exec_journal.h - a command that is to be recorded: a copy, and a line of the
 * journal. */
#ifndef BERTH_CORE_RUN_EXEC_JOURNAL_H
#define BERTH_CORE_RUN_EXEC_JOURNAL_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "store/exec.h"

struct berth_exec_note {
    struct berth_exec_note *next;
    struct berth_arena arena;
    struct berth_exec_record record;
    bool intended; /* nobody knows yet whether it was started: it gets no row */
};

/* NULL: out of memory. */
struct berth_exec_note *berth_exec_note_new(const struct berth_exec_record *record);
void berth_exec_note_free(struct berth_exec_note *note);
void berth_exec_notes_free(struct berth_exec_note *first);

void berth_exec_note_write(struct berth_buf *line, const struct berth_exec_record *record);
/* That the one of this id was never started. */
void berth_exec_note_write_void(struct berth_buf *line, const char *id);
/* Every line, in their order, without those that were never started; what is no such line is
 * counted. The list is the caller's. */
int berth_exec_notes_read(const char *text, size_t len, struct berth_exec_note **out, int *unread,
                          struct berth_error *err);
#endif
