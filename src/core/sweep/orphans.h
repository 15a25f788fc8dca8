/* SPDX-License-Identifier: Apache-2.0
 * src/core/sweep/orphans.h - asks the provider of an environment for places that no lease answers
 * for. */
#ifndef BERTH_CORE_SWEEP_ORPHANS_H
#define BERTH_CORE_SWEEP_ORPHANS_H

#include <berth/environment.h>

#include "core/berth.h"

struct berth_orphans_report {
    int found;   /* places of ours that were forgotten; the ledger owes them now */
    int foreign; /* places that carry a label which is not ours: left alone */
};
/* Looks for orphaned places of the environment and records them. Failures are logged. */
void berth_orphans_end(struct berth *b, const struct berth_environment *e,
                       struct berth_orphans_report *out);
#endif
