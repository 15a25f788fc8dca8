/* SPDX-License-Identifier: Apache-2.0
 * src/core/sweep/sweep.h - releases leases and places that their owners did not release. Safe in
 * several processes at once. */
#ifndef BERTH_CORE_SWEEP_SWEEP_H
#define BERTH_CORE_SWEEP_SWEEP_H

#include <berth/sweep.h>

#include "base/json.h"
#include "core/berth.h"

/* Sweeps the rows that this process owns and no thread of it works on. Returns false when some are
 * left. A berth_self_sweep_fn. */
bool berth_sweep_own_rows(struct berth *b);
/* Makes the short pass that calls no provider: ends runs of dead processes and leases whose time is
 * up. */
int berth_sweep_ledger(struct berth *b, struct berth_error *err);
void berth_sweep_json(struct berth_json_writer *w, const struct berth_sweep_report *report);
#endif
