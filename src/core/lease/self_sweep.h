/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/self_sweep.h - sweeps, after a while, the rows that this process left unfinished
 * because the store failed. Other processes leave such rows alone while this one lives. */
#ifndef BERTH_CORE_LEASE_SELF_SWEEP_H
#define BERTH_CORE_LEASE_SELF_SWEEP_H

#include <stdbool.h>

#include "core/berth.h"

struct berth_self_sweep; /* safe to share between threads */

/* Sweeps this process's own rows once. Returns false when some rows are left. */
typedef bool berth_self_sweep_fn(struct berth *b);

int berth_self_sweep_new(struct berth *b, berth_self_sweep_fn *sweep, struct berth_self_sweep **out,
                         struct berth_error *err);
void berth_self_sweep_free(struct berth_self_sweep *self); /* NULL is fine */
/* Sets no timer from now on. NULL is fine. */
void berth_self_sweep_stop(struct berth_self_sweep *self);
/* Sweeps after settings.self_sweep_ms, and again until no row is left. */
void berth_self_sweep_soon(struct berth *b);
/* Sets the timer that an earlier call had no memory for. */
void berth_self_sweep_remind(struct berth *b);
#endif
