/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/lease_execs.h - the commands that this process runs, by lease. No command outlives
 * its lease: code that ends a lease ends its commands here. When another process ends the lease,
 * its commands are found a few seconds later; those of a process that does not act are killed by a
 * sweep (run/exec_rows.h). */
#ifndef BERTH_CORE_LEASE_LEASE_EXECS_H
#define BERTH_CORE_LEASE_LEASE_EXECS_H

#include <stdbool.h>

#include "base/id.h"
#include "core/berth.h"

struct berth_lease_execs; /* safe to share between threads */

int berth_lease_execs_new(struct berth_pool *pool, struct berth_store *store,
                          struct berth_lease_execs **out, struct berth_error *err);
void berth_lease_execs_free(struct berth_lease_execs *all); /* NULL is fine */

/* One running command. Belongs to the struct that embeds it, and is zero before it enters. */
struct berth_lease_exec {
    struct berth_id lease_id;
    const char *label; /* the variable that its processes on this machine carry */
    bool moves_files;  /* for berth: it makes no work of its own */
    /* Asks the command to end; it leaves later. Must not block. Called with the lock held, possibly
     * more than once. */
    void (*end)(struct berth_lease_exec *exec);
    struct berth_lease_exec *next, **link;
};

/* A command enters before it checks that its lease is active, so that no end of the lease misses
 * it. */
void berth_lease_execs_enter(struct berth *b, struct berth_lease_exec *exec);
void berth_lease_execs_leave(struct berth *b, struct berth_lease_exec *exec); /* twice is fine */
/* Returns whether commands of the lease run that may make work. */
bool berth_lease_execs_work(struct berth *b, const char *lease_id);
/* Asks the commands of a lease to end. The lease is not active any more, or is about to end. */
void berth_lease_execs_tell(struct berth *b, const char *lease_id);
/* Asks them to end, waits, and kills those on this machine that have not ended after ten seconds.
 * Returns false when some commands are left: their place must not be handed on. */
bool berth_lease_execs_end(struct berth *b, const char *lease_id);
#endif
