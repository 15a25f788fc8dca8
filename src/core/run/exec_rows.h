/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/exec_rows.h - reads the rows of execs, and ends those whose process is gone. Rows
 * that this process has queued are written before anything is read. */
#ifndef BERTH_CORE_RUN_EXEC_ROWS_H
#define BERTH_CORE_RUN_EXEC_ROWS_H

#include "base/json.h"
#include "core/berth.h"
#include "store/exec.h"

/* Returns NOT_FOUND when there is no such exec, or not yet. */
int berth_exec_rows_get(struct berth *b, struct berth_arena *arena, const char *id,
                        struct berth_exec_record **out, struct berth_error *err);
/* Lists the execs of a run (struct berth_exec_record), newest first, after the one with the id
 * `before`; NULL starts with the newest. */
int berth_exec_rows_list(struct berth *b, struct berth_arena *arena, const char *run_id,
                         const char *before, int limit, struct berth_list *out,
                         struct berth_error *err);
/* Returns the exec that follows `after`, or the first one when `after` is "". *out is NULL when
 * there is no such exec, or not yet. */
int berth_exec_rows_next(struct berth *b, struct berth_arena *arena, const char *run_id,
                         const char *after, struct berth_exec_record **out,
                         struct berth_error *err);
/* Kills what commands of dead processes left on this machine, and ends their rows as lost. Adds to
 * *left the commands that another machine has to end. */
int berth_exec_rows_end_lost(struct berth *b, struct berth_arena *arena, int *left,
                             struct berth_error *err);
/* Kills commands on this machine whose lease has long ended, though the process that runs them
 * lives: it is suspended, or hangs. Their rows are left to that process. */
int berth_exec_rows_end_overdue(struct berth *b, struct berth_arena *arena,
                                struct berth_error *err);
/* Kills what dead processes left running on this machine with one of the labels, by one look at
 * /proc, and logs how many processes that were. Adds the NULL behind the labels, which may be none.
 */
int berth_exec_rows_end_labelled(struct berth *b, struct berth_arena *arena,
                                 struct berth_list *labels, struct berth_error *err);
void berth_exec_rows_json(struct berth_json_writer *w, const struct berth_exec_record *record);
/* Returns the path of the file that keeps the exec's output. The caller owns it. */
int berth_exec_rows_log(struct berth *b, const char *exec_id, char **out, struct berth_error *err);
#endif
