/* SPDX-License-Identifier: Apache-2.0
 * src/os/engine.h - one thread that waits for child processes, sockets and deadlines.
 * Handlers run on that thread and must not block; work that blocks belongs on a pool. */
#ifndef BERTH_OS_ENGINE_H
#define BERTH_OS_ENGINE_H

#include <stdbool.h>

#include <berth/error.h>

#include "base/time.h"

struct berth_engine; /* safe to share between threads */

/* Makes an engine. Its thread is started with the first use, since many engines are never used. */
int berth_engine_new(struct berth_engine **out, struct berth_error *err);
/* Ends every process that still runs, with its tree, and waits until all handlers have run. NULL is
 * fine. */
void berth_engine_free(struct berth_engine *engine);
/* Makes the first command start as fast as the later ones. Does nothing else, and need not be
 * called.
 */
int berth_engine_prepare(struct berth_engine *engine, struct berth_error *err);
/* Returns whether the caller is on the engine's thread. */
bool berth_engine_is_here(const struct berth_engine *engine);

/* A function to run on the engine's thread. The caller owns the memory again when it runs. */
struct berth_post {
    void (*run)(struct berth_post *post);
    struct berth_post *next;
};
/* Queues it. Posts run in the order in which they were queued. */
int berth_engine_post(struct berth_engine *engine, struct berth_post *what,
                      struct berth_error *err);

/* Work that is done in small steps, so that other handlers never wait long for it. All work that is
 * queued takes turns, and gets a few milliseconds together before sockets are looked at again. Used
 * on the engine's thread only. */
struct berth_work {
    /* Does one step, well below a millisecond. The work is not queued any more; run puts it again
     * when there is more to do. */
    void (*run)(struct berth_work *work);
    struct berth_work *next, **link; /* link is NULL: not queued */
};
void berth_work_put(struct berth_engine *engine, struct berth_work *work);  /* twice is fine */
void berth_work_drop(struct berth_engine *engine, struct berth_work *work); /* twice is fine */

/* Runs a function on the engine's thread and waits for it. Call it from any other thread. */
int berth_engine_do(struct berth_engine *engine, void (*run)(void *ctx), void *ctx,
                    struct berth_error *err);

/* A timer, used on the engine's thread only. `run` is set before the timer. Setting the timer again
 * moves it; when memory is short, it runs at once. */
struct berth_timer {
    void (*run)(struct berth_timer *timer);
    struct berth_deadline deadline;
};
void berth_timer_set(struct berth_engine *engine, struct berth_timer *timer, int64_t after_ms);
void berth_timer_clear(struct berth_engine *engine, struct berth_timer *timer); /* twice is fine */

#endif
