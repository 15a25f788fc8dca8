/* SPDX-License-Identifier: Apache-2.0
 * src/os/engine.h - one thread that waits for everything: children, sockets, deadlines.
 * Handlers run on that thread and must not block; what blocks belongs on a pool. */
#ifndef BERTH_OS_ENGINE_H
#define BERTH_OS_ENGINE_H

#include <stdbool.h>

#include <berth/error.h>

#include "base/time.h"

struct berth_engine; /* safe to share between threads */

/* Most that hold one never run anything: the thread is started with the first use. */
int berth_engine_new(struct berth_engine **out, struct berth_error *err);
/* Ends every process that still runs, with its tree, and waits until all handlers have run. NULL is
 * fine. */
void berth_engine_free(struct berth_engine *engine);
/* Makes the first command start as fast as the later ones. Does nothing else, and need not be
 * called.
 */
int berth_engine_prepare(struct berth_engine *engine, struct berth_error *err);
bool berth_engine_is_here(const struct berth_engine *engine); /* are we on its thread? */

/* Something to be done on the engine's thread. The memory is the caller's again when it runs. */
struct berth_post {
    void (*run)(struct berth_post *post);
    struct berth_post *next;
};
/* They run in the order in which they came. */
int berth_engine_post(struct berth_engine *engine, struct berth_post *what,
                      struct berth_error *err);

/* The same for any other thread, which waits until it has run. */
int berth_engine_do(struct berth_engine *engine, void (*run)(void *ctx), void *ctx,
                    struct berth_error *err);

/* Only for those on the engine's thread. `run` is set before; setting it again moves it, and
 * without memory to wait with it runs at once. */
struct berth_timer {
    void (*run)(struct berth_timer *timer);
    struct berth_deadline deadline;
};
void berth_timer_set(struct berth_engine *engine, struct berth_timer *timer, int64_t after_ms);
void berth_timer_clear(struct berth_engine *engine, struct berth_timer *timer); /* twice: fine */

#endif
