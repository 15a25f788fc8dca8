/* SPDX-License-Identifier: Apache-2.0
 * src/base/budget.h - how much memory may be held for clients at once, in all and for each owner,
 * such as a company. An owner may hold as much as is left free for the others: the first one half
 * of all, the next one a quarter, and so on. So no owner can take the whole. Every function may be
 * called from any thread. */
#ifndef BERTH_BASE_BUDGET_H
#define BERTH_BASE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include <berth/error.h>

struct berth_budget;
struct berth_budget_owner;

int berth_budget_new(int64_t bytes_max, struct berth_budget **out, struct berth_error *err);
void berth_budget_free(struct berth_budget *budget); /* all charges are dropped; NULL is fine */
int64_t berth_budget_used(struct berth_budget *budget);

/* What one holder has of a budget. Zero at first; used by one thread at a time. */
struct berth_charge {
    struct berth_budget *budget;
    struct berth_budget_owner *owner;
    int64_t bytes;
};

/* Sets the charge to `bytes` in all. Less than before always fits. `owner` counts for the first
 * bytes, and is kept for later ones; NULL: only the whole is limited. Returns false, and changes
 * nothing, when it does not fit or memory ran out. */
bool berth_charge_set(struct berth_charge *charge, struct berth_budget *budget, const char *owner,
                      int64_t bytes);
/* Gives all of it back. Twice is fine. */
void berth_charge_drop(struct berth_charge *charge);
#endif
