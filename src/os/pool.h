/* SPDX-License-Identifier: Apache-2.0
 * src/os/pool.h - threads for work that blocks, started when there is work, and timers. Every
 * function may be called from any thread, also from a job. */
#ifndef BERTH_OS_POOL_H
#define BERTH_OS_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include <berth/error.h>

#include "base/time.h"

struct berth_pool;
typedef void berth_job_fn(void *ctx);

/* A job in memory that its owner provides. fn and ctx are set before it is queued. */
struct berth_job {
    struct berth_deadline deadline; /* first: the heap of deadlines hands back its address */
    berth_job_fn *fn;
    void *ctx;
    struct berth_job *next;
    bool owned; /* by the pool, which frees it */
};

int berth_pool_new(int threads_max, struct berth_pool **out, struct berth_error *err);
/* Queues fn(ctx). On failure it does not run. */
int berth_pool_submit(struct berth_pool *pool, berth_job_fn *fn, void *ctx,
                      struct berth_error *err);
/* Queues a job without needing memory. Only for a pool that has run a job before: it has a thread.
 * The owner may reuse the job's memory when fn is called. */
void berth_pool_put(struct berth_pool *pool, struct berth_job *job);
/* Queues fn(ctx) once `delay_ms` have passed on the movable clock. */
int berth_pool_after(struct berth_pool *pool, int64_t delay_ms, berth_job_fn *fn, void *ctx,
                     struct berth_error *err);
/* Runs the queued jobs and waits for them. Drops jobs whose delay has not passed. NULL is fine. */
void berth_pool_free(struct berth_pool *pool);
#endif
