/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/run_secrets.h - the variables of a run's command whose values are secrets. */
#ifndef BERTH_CORE_RUN_RUN_SECRETS_H
#define BERTH_CORE_RUN_RUN_SECRETS_H

#include <berth/run.h>

#include "base/arena.h"
#include "core/berth.h"

/* Resolves the secrets that the request names for the run, and records each access. *values is an
 * array in the arena, or NULL without secrets; berth_run_secrets_clear wipes it, also after an
 * error. */
int berth_run_secrets_resolve(struct berth *b, struct berth_arena *arena,
                              const struct berth_run *run, const struct berth_run_request *request,
                              struct berth_locked **values, struct berth_error *err);
/* Adds the variables to the command, in memory that is wiped. INVALID: a variable is given twice.
 */
int berth_run_secrets_add(const struct berth_run_request *request, struct berth_locked *values,
                          struct berth_arena *wiped, struct berth_exec_request *command,
                          struct berth_error *err);
void berth_run_secrets_clear(const struct berth_run_request *request, struct berth_locked *values);
#endif
