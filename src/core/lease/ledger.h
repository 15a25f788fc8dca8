/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/ledger.h - the steps that acquire, release and the sweep share. Not for others. */
#ifndef BERTH_CORE_LEASE_LEDGER_H
#define BERTH_CORE_LEASE_LEDGER_H

#include "core/berth.h"
#include "core/secret/driver_input.h"
#include "store/lease.h"

/* The operation that a step belongs to; selects the names of its failpoints. */
enum berth_ledger_op {
    BERTH_OP_ACQUIRE, /* an acquire that failed */
    BERTH_OP_RESUME,  /* a resume that gave no place */
    BERTH_OP_PROBE,
    BERTH_OP_RELEASE,
    BERTH_OP_DESTROY,
    BERTH_OP_SWEEP,
};

/* Returns the call for a lease's driver. The settings give its timeout, unless timeout_ms or the
 * driver does. */
struct berth_call berth_ledger_call(struct berth *b, const struct berth_route *route,
                                    struct berth_arena *arena, int64_t timeout_ms, int cancel_fd);
/* With the captured config and its secrets; a row of others has it rebuilt from its metadata.
 * out->ends is the caller's. The caller closes *out, also after a failure. */
int berth_ledger_input(struct berth *b, struct berth_arena *arena, const struct berth_lease *lease,
                       struct berth_driver_input *out, struct berth_error *err);
struct berth_place berth_ledger_place(const struct berth_lease *lease);
/* Finds the implementation that made the lease's place, whatever its environment says now. */
int berth_ledger_route(struct berth *b, const struct berth_lease *lease,
                       const struct berth_route **out, struct berth_error *err);

/* Returns whether the captured config has reuseLease. */
bool berth_ledger_config_reuses(const struct berth_lease *lease);

/* Changes the status. Asserts that this change may happen. */
void berth_ledger_enter(struct berth_lease *lease, enum berth_lease_status status);
/* Enters `releasing`; the lease is to end as `final`. */
void berth_ledger_enter_releasing(struct berth_lease *lease, enum berth_lease_status final);
/* Puts the row into the state in which this process gives its place back. */
void berth_ledger_take(struct berth *b, struct berth_lease *lease, enum berth_lease_duty duty);
/* Closes a row that answers for no place. */
void berth_ledger_close(struct berth_lease *lease, enum berth_lease_status status,
                        enum berth_lease_place place);

/* Returns whether a provider's id can be stored: not empty, not too long, valid UTF-8. */
bool berth_ledger_is_usable(const char *place_id);
/* Returns whether a driver's error code means that it made nothing. See driver.h. */
bool berth_ledger_made_nothing(int code);

/* Tells the provider what `lease->duty` says and stores what came of it. The row is this
 * process's, by berth_ledger_take in a committed transaction. OK also when the provider failed:
 * the row then owes. lease becomes the row as stored. */
int berth_ledger_settle(struct berth *b, struct berth_arena *arena, struct berth_lease **lease,
                        enum berth_ledger_op op, const struct berth_actor *actor,
                        struct berth_error *err);

/* Records a place that its lease's row does not answer for. Unless another row does, the row
 * answers for it now and owes its destruction. */
int berth_ledger_late_place(struct berth_db *db, struct berth_arena *arena, const char *lease_id,
                            const struct berth_place *place, struct berth_error *err);
#endif
