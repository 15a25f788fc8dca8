/* SPDX-License-Identifier: Apache-2.0
 * src/core/sweep/sweep_slots.h - bounds how many sweep jobs run at once, over all passes: one for
 * each environment and a few for each provider. A provider that hangs then takes no further thread
 * with every pass. */
#ifndef BERTH_CORE_SWEEP_SWEEP_SLOTS_H
#define BERTH_CORE_SWEEP_SWEEP_SLOTS_H

#include <stdbool.h>

#include <berth/error.h>

struct berth_sweep_slots; /* safe to share between threads */

int berth_sweep_slots_new(struct berth_sweep_slots **out, struct berth_error *err);
void berth_sweep_slots_free(struct berth_sweep_slots *slots); /* NULL is fine */

/* Returns false when another job sweeps this environment. */
bool berth_sweep_slots_enter(struct berth_sweep_slots *slots, const char *environment_id);
void berth_sweep_slots_leave(struct berth_sweep_slots *slots, const char *environment_id);
/* Returns false when BERTH_PROVIDER_SWEEPS_MAX jobs sweep environments of this provider. */
bool berth_sweep_slots_enter_provider(struct berth_sweep_slots *slots, const char *provider);
void berth_sweep_slots_leave_provider(struct berth_sweep_slots *slots, const char *provider);

/* Returns the number of the pass, counted from 0. */
unsigned berth_sweep_slots_count_pass(struct berth_sweep_slots *slots);
#endif
