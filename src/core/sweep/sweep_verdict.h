/* SPDX-License-Identifier: Apache-2.0
 * src/core/sweep/sweep_verdict.h - decides what a sweep does with a standing row. A new reason to
 * sweep is a new verdict here. */
#ifndef BERTH_CORE_SWEEP_SWEEP_VERDICT_H
#define BERTH_CORE_SWEEP_SWEEP_VERDICT_H

#include <berth/sweep.h>

#include "core/berth.h"
#include "store/lease.h"

enum berth_verdict {
    BERTH_VERDICT_LEAVE,
    BERTH_VERDICT_RELEASE, /* end the active lease as `status` */
    BERTH_VERDICT_ADOPT,   /* its owner is gone: destroy the place */
    BERTH_VERDICT_CLEAN,   /* the lease is closed, but its place is parked or owed */
};

struct berth_sweep_verdict {
    enum berth_verdict verdict;
    enum berth_lease_status status;
    const char *reason; /* the lease's failure reason, or NULL */
    int *counter;       /* what to count in the report when it was carried out */
};

/* Judges the row as of `now_ms`. A row that a living process works on is left alone. The counter
 * points into `report`. */
int berth_sweep_judge(struct berth *b, int64_t now_ms, const struct berth_standing *row,
                      struct berth_sweep_report *report, struct berth_sweep_verdict *out,
                      struct berth_error *err);
#endif
