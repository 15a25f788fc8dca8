/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/self_sweep.c - see self_sweep.h. */
#include "core/lease/self_sweep.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/lock.h"
#include "core/lock_order.h"
#include "os/pool.h"

#define RETRY_MS 100

struct berth_self_sweep {
    struct berth *b;
    berth_self_sweep_fn *sweep;
    _Atomic bool missed; /* a sweep is wanted, but there was no memory for its timer */
    struct berth_lock lock;
    bool timed;   /* a sweep is due */
    bool stopped; /* the runtime closes */
};

int berth_self_sweep_new(struct berth *b, berth_self_sweep_fn *sweep, struct berth_self_sweep **out,
                         struct berth_error *err)
{
    struct berth_self_sweep *self = calloc(1, sizeof *self);
    if (!self)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: sweep.");
    self->b = b;
    self->sweep = sweep;
    berth_lock_init(&self->lock, BERTH_RANK_SELF_SWEEP);
    *out = self;
    return BERTH_OK;
}

void berth_self_sweep_free(struct berth_self_sweep *self)
{
    if (!self)
        return;
    berth_lock_destroy(&self->lock);
    free(self);
}

void berth_self_sweep_stop(struct berth_self_sweep *self)
{
    if (!self)
        return;
    berth_lock_take(&self->lock);
    self->stopped = true;
    berth_lock_drop(&self->lock);
}

static void self_sweep_job(void *ctx)
{
    struct berth_self_sweep *self = ctx;
    berth_lock_take(&self->lock);
    self->timed = false;
    berth_lock_drop(&self->lock);
    if (self->sweep(self->b))
        return;
    const struct timespec pause = {.tv_nsec = RETRY_MS * 1000000L};
    for (;;) { /* no event says that there is memory for a timer again */
        berth_self_sweep_soon(self->b);
        if (!atomic_load(&self->missed))
            return;
        (void)nanosleep(&pause, NULL);
    }
}

void berth_self_sweep_soon(struct berth *b)
{
    struct berth_self_sweep *self = b->self_sweep;
    struct berth_error ignored;
    int64_t delay_ms = b->settings.self_sweep_ms;
    berth_lock_take(&self->lock);
    bool wanted = delay_ms > 0 && !self->stopped;
    if (wanted && !self->timed)
        self->timed =
            berth_pool_after(b->pool, delay_ms, self_sweep_job, self, &ignored) == BERTH_OK;
    atomic_store(&self->missed, wanted && !self->timed);
    berth_lock_drop(&self->lock);
}

void berth_self_sweep_remind(struct berth *b)
{
    if (atomic_load_explicit(&b->self_sweep->missed, memory_order_relaxed))
        berth_self_sweep_soon(b);
}
