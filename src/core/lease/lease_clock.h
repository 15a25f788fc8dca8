/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/lease_clock.h - the clock by which leases end: the steady clock of base/time.h.
 * Setting the wall clock ends no lease, and keeps none. The anchor of the clock outlives processes:
 * on one machine it is a file beside the store, valid until the machine boots again; in a shared
 * store the clock of the database is the reference. */
#ifndef BERTH_CORE_LEASE_LEASE_CLOCK_H
#define BERTH_CORE_LEASE_LEASE_CLOCK_H

#include "core/berth.h"

/* Anchors the clock. An anchor that cannot be read or written is replaced by the wall clock. */
int berth_lease_clock_open(struct berth *b, struct berth_error *err);
/* Writes a line to the log when the wall clock has jumped since the last call. */
void berth_lease_clock_watch(struct berth *b);
#endif
