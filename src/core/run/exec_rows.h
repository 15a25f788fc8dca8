/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/exec_rows.h - the rows of execs: queued, and written some moments later by one
 * transaction for many. A command waits for none of them: until then a journal has what a killed
 * process knew, and whoever opens the store next writes it. */
#ifndef BERTH_CORE_RUN_EXEC_ROWS_H
#define BERTH_CORE_RUN_EXEC_ROWS_H

#include "base/json.h"
#include "core/berth.h"
#include "store/exec.h"

/* Before it is started: whatever happens, it is not forgotten. UNAVAILABLE: that cannot be
 * written, and it must not be started. One of the next two follows. */
int berth_exec_rows_begin(struct berth *b, const struct berth_exec_record *record,
                          struct berth_error *err);
void berth_exec_rows_started(struct berth *b, const char *id);
void berth_exec_rows_void(struct berth *b, const char *id); /* it was not */
/* It is known, also when we are killed, before anybody is told of it. */
void berth_exec_rows_end(struct berth *b, const struct berth_exec_record *record);
void berth_exec_rows_flush(struct berth *b); /* writes what is queued, now */
void berth_exec_rows_close(struct berth *b);
void berth_exec_rows_recover(struct berth *b); /* what killed processes did not write */

/* One command. NOT_FOUND: there is none of that id, or none yet. */
int berth_exec_rows_get(struct berth *b, struct berth_arena *arena, const char *id,
                        struct berth_exec_record **out, struct berth_error *err);
/* The commands of a run, a list of struct berth_exec_record, newest first, from behind the one of
 * the id `before`, or NULL. Those of this process are there at once. */
int berth_exec_rows_list(struct berth *b, struct berth_arena *arena, const char *run_id,
                         const char *before, int limit, struct berth_list *out,
                         struct berth_error *err);
/* The one after that of this id; after "": the first. *out is NULL when there is none, or none yet.
 */
int berth_exec_rows_next(struct berth *b, struct berth_arena *arena, const char *run_id,
                         const char *after, struct berth_exec_record **out,
                         struct berth_error *err);
/* Ends, on this machine, what commands of killed processes left, and writes that they are lost. */
int berth_exec_rows_end_lost(struct berth *b, struct berth_arena *arena, struct berth_error *err);
void berth_exec_rows_json(struct berth_json_writer *w, const struct berth_exec_record *record);
/* Where its output is kept; the caller's. */
int berth_exec_rows_log(struct berth *b, const char *exec_id, char **out, struct berth_error *err);
#endif
