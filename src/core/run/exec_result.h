/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/exec_result.h - how an exec ended, as JSON. */
#ifndef BERTH_CORE_RUN_EXEC_RESULT_H
#define BERTH_CORE_RUN_EXEC_RESULT_H

#include <berth/exec.h>

#include "base/buf.h"
#include "base/json.h"

/* The most that a result holds of one stream. */
#define BERTH_RESULT_TEXT_BYTES_MAX (1024 * 1024)

/* Writes the members of an object that say how the exec ended. `truncated`: the log does not hold
 * all output. */
void berth_exec_end_fields(struct berth_json_writer *w, const struct berth_exec_end *end,
                           bool truncated);
/* Writes an object with these members, `execId` (unless exec_id is NULL), and both streams as
 * `stdout` and `stderr`. Bytes that are not UTF-8 are replaced. */
void berth_exec_put_result(struct berth_json_writer *w, const char *exec_id,
                           const struct berth_exec_end *end, bool truncated,
                           struct berth_buf texts[2]);
/* Writes the same object with the first bytes of each stream from the log. Characters are not
 * split. */
int berth_exec_result_json(struct berth_json_writer *w, const char *log_path, const char *exec_id,
                           const struct berth_exec_end *end, bool truncated,
                           struct berth_error *err);
#endif
