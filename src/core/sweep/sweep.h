/* SPDX-License-Identifier: Apache-2.0
 * src/core/sweep/sweep.h - takes back what nobody gave back. Safe in several processes at once. */
#ifndef BERTH_CORE_SWEEP_SWEEP_H
#define BERTH_CORE_SWEEP_SWEEP_H

#include <berth/sweep.h>

#include "base/json.h"
#include "core/berth.h"

/* This process has a row that it could not bring to an end, because the store failed. Others leave
 * it alone while we live, so we sweep after a while (settings.self_sweep_ms), until it works. */
void berth_sweep_soon(struct berth *b);
/* The same, if memory was too short for it the last time. */
void berth_sweep_remind(struct berth *b);
/* What the ledger can settle by itself, as every command does first: processes that are gone,
 * leases whose time is up. */
int berth_sweep_ledger(struct berth *b, struct berth_error *err);
void berth_sweep_json(struct berth_json_writer *w, const struct berth_sweep_report *report);
#endif
