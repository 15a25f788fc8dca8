/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/lease_execs.h - the commands that this process runs, by their leases: none
 * outlives its lease. One whose lease another process has ended is found a few seconds later. */
#ifndef BERTH_CORE_LEASE_LEASE_EXECS_H
#define BERTH_CORE_LEASE_LEASE_EXECS_H

#include "base/id.h"
#include "core/berth.h"

/* Belongs to whoever embeds it, and is zero before it enters. */
struct berth_lease_exec {
    struct berth_id lease_id;
    const char *label; /* a variable of whatever of it runs on this machine */
    /* It is to end, and leaves by itself. Must not block; more than once is fine. */
    void (*end)(struct berth_lease_exec *entry);
    struct berth_lease_exec *next, **link;
};

/* Before it looks whether its lease is active: then nobody can end the lease unseen. */
void berth_lease_execs_enter(struct berth *b, struct berth_lease_exec *entry);
void berth_lease_execs_leave(struct berth *b, struct berth_lease_exec *entry); /* twice: fine */
/* Tells those of a lease to end, which is not active any more, or about not to be. */
void berth_lease_execs_tell(struct berth *b, const char *lease_id);
/* The same, and waits for them: what has not ended after ten seconds is killed, if it is on this
 * machine. False: some are left, in a place that is not to be handed on. */
bool berth_lease_execs_end(struct berth *b, const char *lease_id);
#endif
