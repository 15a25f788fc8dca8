/* SPDX-License-Identifier: Apache-2.0
 * src/core/run.h - runs as rows: what leases belong to. Running something comes with execution. */
#ifndef BERTH_CORE_RUN_H
#define BERTH_CORE_RUN_H

#include "core/activity.h"
#include "core/berth.h"
#include "store/lease.h"
#include "store/run.h"

/* company_id NULL: the company `default`. The run is `running`. */
int berth_run_create(struct berth *b, struct berth_arena *arena, const char *company_id,
                     struct berth_run **out, struct berth_error *err);
int berth_run_get(struct berth *b, struct berth_arena *arena, const char *id,
                  struct berth_run **out, struct berth_error *err);

struct berth_run_end {
    enum berth_run_status status; /* succeeded, failed, cancelled or timed_out */
    const char *error, *error_code;
    const struct berth_actor *actor;
};
/* Ends the run, then gives back its leases. A run that has ended keeps its end; its leases are
 * given back all the same. *released lists struct berth_lease. */
int berth_run_finish(struct berth *b, struct berth_arena *arena, const char *id,
                     const struct berth_run_end *end, struct berth_list *released,
                     struct berth_error *err);

/* What becomes of a run's leases: failed and timed_out -> failed, everything else -> released. */
enum berth_lease_status berth_run_lease_status(int run_status);
#endif
