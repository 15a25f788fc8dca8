/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/lease.h - what the programs need besides berth/lease.h. */
#ifndef BERTH_CORE_LEASE_LEASE_H
#define BERTH_CORE_LEASE_LEASE_H

#include <berth/lease.h>

#include "core/activity.h"
#include "core/berth.h"
#include "store/lease.h"

/* An active lease, and the way to its place. CONFLICT: it is not active, or has expired. */
int berth_lease_begin_use(struct berth *b, struct berth_arena *arena, const char *lease_id,
                          struct berth_lease **lease, const struct berth_route **route,
                          struct berth_error *err);
void berth_lease_json(struct berth_json_writer *w, const struct berth_lease *lease);
#endif
