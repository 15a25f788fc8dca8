/* SPDX-License-Identifier: Apache-2.0
 * src/core/exec.h - what the programs need besides berth/exec.h. */
#ifndef BERTH_CORE_EXEC_H
#define BERTH_CORE_EXEC_H

#include <berth/exec.h>

#include "base/json.h"
#include "core/berth.h"

/* Ends what execs that are over have left behind, now; it is done by itself soon after their end.
 */
void berth_exec_end_strays(struct berth *b);

/* The result as the API shows it; the streams themselves are in the log. */
void berth_exec_end_json(struct berth_json_writer *w, const struct berth_exec_end *end,
                         const bool truncated[2]);
#endif
