/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/mask_budget.h - bounds the memory for the secrets that running commands hide. The
 * tables that find a secret in output take many times its length, for as long as the command runs.
 * Each company has a share, so that one cannot use up the memory of the others. */
#ifndef BERTH_CORE_RUN_MASK_BUDGET_H
#define BERTH_CORE_RUN_MASK_BUDGET_H

#include <stddef.h>

#include <berth/error.h>

struct berth_mask_budget; /* safe to share between threads */

int berth_mask_budget_new(struct berth_mask_budget **out, struct berth_error *err);
void berth_mask_budget_free(struct berth_mask_budget *budget); /* NULL is fine */

/* Counts the secrets of a command, `bytes` together. Few bytes are free and are not counted.
 * Returns UNAVAILABLE when the company's commands hide too much already. */
int berth_mask_budget_take(struct berth_mask_budget *budget, const char *company_id, size_t bytes,
                           struct berth_error *err);
void berth_mask_budget_give(struct berth_mask_budget *budget, const char *company_id, size_t bytes);
#endif
