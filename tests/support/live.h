/* SPDX-License-Identifier: Apache-2.0
 * tests/support/live.h - a command that a test starts on a lease, and what the command writes. */
#ifndef BERTH_TESTS_LIVE_H
#define BERTH_TESTS_LIVE_H

#include <stdatomic.h>

#include "base/buf.h"
#include "core/run/exec.h"

struct fixture;

struct live {
    struct berth_buf out, err; /* may be read when the command has ended */
    _Atomic size_t seen;       /* bytes of both so far; may be read at any time */
};

/* Empties `live`, and returns the handlers that fill it. */
struct berth_exec_handlers live_handlers(struct live *live);
/* Starts the command. Fails the test when it does not start. The caller clears `live` after the
 * command has ended. */
struct berth_exec *live_start(struct fixture *f, const struct berth_exec_request *request,
                              struct live *live);
void live_clear(struct live *live);
#endif
