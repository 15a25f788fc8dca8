/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/lease_work.h - the mark of a lease whose place may hold work that is not home.
 * While it is set, a release keeps the place (retained), and neither a deadline nor a changed
 * config destroys it. */
#ifndef BERTH_CORE_LEASE_LEASE_WORK_H
#define BERTH_CORE_LEASE_LEASE_WORK_H

#include "core/berth.h"
#include "store/lease.h"

/* Notes that a workspace is being sent: commands set no mark until berth_lease_work_begin, because
 * a workspace that was not sent as a whole cannot come home. CONFLICT: the mark is set. */
int berth_lease_work_send(struct berth *b, const char *lease_id, struct berth_error *err);
/* Sets the mark of an active lease, unless it is set. CONFLICT: the lease is not active. */
int berth_lease_work_begin(struct berth *b, const char *lease_id, struct berth_error *err);
/* Removes the mark: the work is home. It stays while a command runs in the place. */
int berth_lease_work_end(struct berth *b, const char *lease_id, struct berth_error *err);
/* Makes a retained or expired lease with work active again for an hour, owned by this node, so that
 * commands can run in its place; an active lease stays as it is. *reopened says which. The caller
 * gives the lease back with berth_lease_release, and may hold a claim on it meanwhile. CONFLICT:
 * the lease has ended. */
int berth_lease_work_reopen(struct berth *b, const char *lease_id, bool *reopened,
                            struct berth_error *err);
#endif
