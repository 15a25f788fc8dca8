/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/run_cancel.h - cancels a run that another process of the same user on this machine
 * performs. That process listens at the run's socket (run_socket.h). */
#ifndef BERTH_CORE_RUN_RUN_CANCEL_H
#define BERTH_CORE_RUN_RUN_CANCEL_H

#include <berth/run.h>

#include "core/berth.h"

/* Asks the process to end the run and waits until the run has ended, or until `left_fd` is readable
 * (-1: never). CONFLICT: no process of this user on this machine performs it. UNAVAILABLE: the
 * process did not answer, or it died and the next sweep has to end the run. */
int berth_run_cancel_elsewhere(struct berth *b, struct berth_arena *arena, const char *id,
                               int left_fd, struct berth_run **out, struct berth_error *err);
#endif
