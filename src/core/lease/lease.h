/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/lease.h - leases for the rest of core/, the API and the command line. */
#ifndef BERTH_CORE_LEASE_LEASE_H
#define BERTH_CORE_LEASE_LEASE_H

#include <berth/lease.h>

#include "core/activity.h"
#include "core/berth.h"
#include "store/lease.h"

/* Sets the error of a lease that was to be active, CONFLICT, and returns its code. */
int berth_lease_not_active(const struct berth_lease *l, struct berth_error *err);
int berth_lease_expired(const struct berth_lease *l, struct berth_error *err);

/* Loads an active lease and finds the route to its place. Returns CONFLICT when the lease is not
 * active or has expired. */
int berth_lease_begin_use(struct berth *b, struct berth_arena *arena, const char *lease_id,
                          struct berth_lease **lease, const struct berth_route **route,
                          struct berth_error *err);
int berth_lease_not_found(struct berth_error *err); /* fills the error and returns its code */
/* Counts leases by environment and status: a list of struct berth_lease_tally. */
int berth_lease_tallies(struct berth *b, struct berth_arena *arena, struct berth_list *out,
                        struct berth_error *err);
void berth_lease_json(struct berth_json_writer *w, const struct berth_lease *lease);
#endif
