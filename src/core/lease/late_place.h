/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/late_place.h - places that a provider made after their acquire had given up. The
 * lease has failed by then; its row gets the place all the same, and owes its end. */
#ifndef BERTH_CORE_LEASE_LATE_PLACE_H
#define BERTH_CORE_LEASE_LATE_PLACE_H

#include "core/berth.h"

struct berth_late_places; /* safe to share between threads */

int berth_late_places_new(struct berth *b, struct berth_late_places **out, struct berth_error *err);
/* Starts no job from now on; places that still come wait for berth_late_places_free. NULL is fine.
 */
void berth_late_places_stop(struct berth_late_places *all);
/* Writes down what has come, for the end of the runtime, when no worker runs any more. NULL is
 * fine. */
void berth_late_places_free(struct berth_late_places *all);
/* The on_late of a struct berth_place_request; ctx is the runtime. */
void berth_late_place_put(void *ctx, const char *lease_id, const struct berth_place *place);
#endif
