/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/run_cancel.h - runs that another process of the same user on this machine performs:
 * it listens at the run's socket (cli/run_socket.h). */
#ifndef BERTH_CORE_RUN_RUN_CANCEL_H
#define BERTH_CORE_RUN_RUN_CANCEL_H

#include <berth/run.h>

#include "core/berth.h"

/* Asks the process to end it, and waits until it has let go of the run, or until `left_fd` is
 * readable (-1: never). CONFLICT: nobody here performs it. UNAVAILABLE: it did not listen, or died
 * in a way that the next sweep has to end. */
int berth_run_cancel_elsewhere(struct berth *b, struct berth_arena *arena, const char *id,
                               int left_fd, struct berth_run **out, struct berth_error *err);
#endif
