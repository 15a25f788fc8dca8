/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/exec.h - what the programs need besides berth/exec.h. */
#ifndef BERTH_CORE_RUN_EXEC_H
#define BERTH_CORE_RUN_EXEC_H

#include <berth/exec.h>

#include "base/buf.h"
#include "base/json.h"
#include "core/berth.h"

/* Ends what execs that are over have left behind, now; it is done by itself soon after their end.
 */
void berth_exec_end_strays(struct berth *b);

/* The result as the API shows it, as members of an object; the streams themselves are in the log.
 * `truncated`: something of them is not. */
void berth_exec_end_fields(struct berth_json_writer *w, const struct berth_exec_end *end,
                           bool truncated);
/* The same as an object with both streams in `stdout` and `stderr`, what is no UTF-8 replaced.
 * exec_id NULL: without it. */
void berth_exec_put_result(struct berth_json_writer *w, const char *exec_id,
                           const struct berth_exec_end *end, bool truncated,
                           struct berth_buf texts[2]);
/* The same with their first bytes, as the log kept them, no character split. */
#define BERTH_RESULT_TEXT_BYTES_MAX (1024 * 1024)
int berth_exec_result_json(struct berth_json_writer *w, const char *log_path, const char *exec_id,
                           const struct berth_exec_end *end, bool truncated,
                           struct berth_error *err);
bool berth_exec_truncated(const struct berth_exec *x); /* once it is over */
bool berth_exec_outlasted(struct berth_exec *x);       /* it was told to end, as its lease had */
/* Frees it if that cannot block: it is over, and its driver waits for nobody. False: it is as it
 * was. */
bool berth_exec_free_now(struct berth_exec *x);
#endif
