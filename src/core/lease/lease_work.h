/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/lease_work.h - the mark of a lease whose place may hold work that is not home.
 * While it is set, a release keeps the place (retained), and neither a deadline nor a changed
 * config destroys it. Each command that starts in the place of a workspace renews the mark, so that
 * a pull does not remove the mark of work that was made after it had listed the place. */
#ifndef BERTH_CORE_LEASE_LEASE_WORK_H
#define BERTH_CORE_LEASE_LEASE_WORK_H

#include "core/berth.h"
#include "store/lease.h"

/* Instead of what berth_lease_work_reopen saw: the mark is removed whenever it was set. */
#define BERTH_LEASE_SEEN_ANY (-1)

/* Notes that a workspace is being sent. CONFLICT: the mark is set. */
int berth_lease_work_send(struct berth *b, const char *lease_id, struct berth_error *err);
/* Sets the mark of an active lease: the workspace is in the place. CONFLICT: the lease is not
 * active. */
int berth_lease_work_begin(struct berth *b, const char *lease_id, struct berth_error *err);
/* Sets or renews the mark if a workspace was ever sent to the lease, which was loaded. */
int berth_lease_work_renew(struct berth *b, const struct berth_lease *lease,
                           struct berth_error *err);

/* What a pull begins with. */
struct berth_lease_work_seen {
    bool reopened;   /* the lease was retained before */
    bool partial;    /* the workspace was not sent as a whole */
    int64_t mark_ms; /* the mark; 0: there is none, or a command works in the place */
};
/* Makes a retained or expired lease with work active again for an hour, owned by this node, so that
 * commands can run in its place; an active lease stays as it is. The caller gives the lease back
 * with berth_lease_release, and may hold a claim on it meanwhile. CONFLICT: the lease has ended. */
int berth_lease_work_reopen(struct berth *b, const char *lease_id,
                            struct berth_lease_work_seen *out, struct berth_error *err);
/* Removes the mark, because the work is home, if it is still the one that was seen and no command
 * works in the place. */
int berth_lease_work_end(struct berth *b, const char *lease_id, int64_t seen_ms,
                         struct berth_error *err);
#endif
