/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/late_place.h - places of acquires that nobody waits for any more. The lease has
 * failed by then; its row answers for the place all the same, and owes its end. */
#ifndef BERTH_CORE_LEASE_LATE_PLACE_H
#define BERTH_CORE_LEASE_LATE_PLACE_H

#include "core/berth.h"

/* A struct berth_place_request's on_late, with the runtime as its ctx. */
void berth_late_place_put(void *ctx, const char *lease_id, const struct berth_place *place);
/* Writes down what has come; for the end of the runtime, when no worker runs any more. */
void berth_late_place_flush(struct berth *b);
#endif
