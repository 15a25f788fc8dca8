/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/exec_note.h - a copy of an exec's record on its way to the store, and its form as a
 * line of the journal. */
#ifndef BERTH_CORE_RUN_EXEC_NOTE_H
#define BERTH_CORE_RUN_EXEC_NOTE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "store/exec.h"

struct berth_exec_note {
    struct berth_exec_note *next;
    struct berth_arena arena;
    struct berth_exec_record record;
    bool intended; /* the command may not have started, so the note gets no row yet */
};

/* Returns NULL when memory is short. */
struct berth_exec_note *berth_exec_note_new(const struct berth_exec_record *record);
void berth_exec_note_free(struct berth_exec_note *note);
void berth_exec_notes_free(struct berth_exec_note *first);

/* Appends the line of a record. */
void berth_exec_note_write(struct berth_buf *line, const struct berth_exec_record *record);
/* Appends the line that says that the exec of this id was never started. */
void berth_exec_note_write_void(struct berth_buf *line, const char *id);
/* Reads all lines in their order, without execs that were never started. *unread counts lines that
 * make no sense. The caller owns the list. */
int berth_exec_notes_read(const char *text, size_t len, struct berth_exec_note **out, int *unread,
                          struct berth_error *err);
#endif
