/* SPDX-License-Identifier: Apache-2.0
 * src/core/sweep/quarantine.h - reports rows that cannot be read. They are left alone, and each
 * gets one activity entry. */
#ifndef BERTH_CORE_SWEEP_QUARANTINE_H
#define BERTH_CORE_SWEEP_QUARANTINE_H

#include "core/berth.h"

/* `trouble` says what is wrong with the row. A failure is only logged. */
void berth_quarantine_environment(struct berth *b, struct berth_arena *arena, const char *id,
                                  const char *trouble);
void berth_quarantine_lease(struct berth *b, struct berth_arena *arena, const char *id,
                            const char *trouble);
#endif
