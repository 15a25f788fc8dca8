/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/exec.h - what the programs need besides berth/exec.h. */
#ifndef BERTH_CORE_RUN_EXEC_H
#define BERTH_CORE_RUN_EXEC_H

#include <berth/exec.h>

#include "core/berth.h"
#include "core/run/masking.h"

/* Returns whether the log lacks some of the output. Valid after the end. */
bool berth_exec_truncated(const struct berth_exec *x);
/* Returns whether the command was ended because its lease had ended. */
bool berth_exec_outlasted(struct berth_exec *x);
/* Returns what hides the secrets of the command and of its environment. Valid after the end, until
 * the exec is freed. */
struct berth_masking *berth_exec_masking(struct berth_exec *x);
/* Frees the exec if that cannot block, which is so after its end with most drivers. Returns false
 * when it was not freed. */
bool berth_exec_free_now(struct berth_exec *x);
#endif
