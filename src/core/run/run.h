/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/run.h - what the ledger and the programs need besides berth/run.h. */
#ifndef BERTH_CORE_RUN_RUN_H
#define BERTH_CORE_RUN_RUN_H

#include <berth/run.h>

#include "core/activity.h"
#include "core/berth.h"
#include "store/lease.h"
#include "store/run.h"

void berth_run_json(struct berth_json_writer *w, const struct berth_run *run);
/* Writes the run with its member workspaceDiff, too, which the rows of a list do not have. */
void berth_run_json_with_diff(struct berth_json_writer *w, const struct berth_run *run);

/* A run that this process performs: when it dies, a sweep ends the run. id NULL: a new one. */
int berth_run_create_own(struct berth *b, struct berth_arena *arena, const char *id,
                         const char *company_id, const char *environment_id, struct berth_run **out,
                         struct berth_error *err);
/* Ends runs whose process is gone, with what they left on this machine; their leases are then those
 * of an ended run. *count is how many there were. A run that another machine has to end stays. */
int berth_run_end_lost(struct berth *b, struct berth_arena *arena, int *count,
                       struct berth_error *err);

/* What becomes of a run's leases: failed and timed_out -> failed, everything else -> released. */
enum berth_lease_status berth_run_lease_status(int run_status);
#endif
