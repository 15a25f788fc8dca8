/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/exec_await.h - waits for the end of a command that may be cancelled. */
#ifndef BERTH_CORE_RUN_EXEC_AWAIT_H
#define BERTH_CORE_RUN_EXEC_AWAIT_H

#include <berth/exec.h>

#include "core/berth.h"

/* Waits until ended_fd is readable, which on_end of the command makes it. Cancels the command when
 * cancel_fd (-1: never) becomes readable, or when the runtime closes. */
void berth_exec_await(struct berth *b, struct berth_exec *x, int ended_fd, int cancel_fd);
#endif
