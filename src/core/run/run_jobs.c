/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/run_jobs.c - see run_jobs.h. The beginning and the end of a run are jobs on the
 * threads for providers, first without a provider, then in the share of its environment. */
#include "core/run/run_jobs.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/lock_order.h"
#include "core/place_share.h"
#include "core/run/run_job.h"

#define END_RETRY_MS 2000 /* between two tries to store the end of a run */

struct berth_run_jobs {
    struct berth_lock lock;
    pthread_cond_t left; /* a job has left */
    struct berth_run_job *first;
    bool closing; /* none begins any more */
};

int berth_run_jobs_new(struct berth_run_jobs **out, struct berth_error *err)
{
    struct berth_run_jobs *jobs = calloc(1, sizeof *jobs);
    if (!jobs)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: runs.");
    berth_lock_init(&jobs->lock, BERTH_RANK_RUN_JOBS);
    pthread_cond_init(&jobs->left, NULL);
    *out = jobs;
    return BERTH_OK;
}

void berth_run_jobs_free(struct berth_run_jobs *jobs)
{
    if (!jobs)
        return;
    pthread_cond_destroy(&jobs->left);
    berth_lock_destroy(&jobs->lock);
    free(jobs);
}

static void run_job_free(struct berth_run_job *p)
{
    if (p->cancel_fd >= 0)
        (void)close(p->cancel_fd);
    berth_share_close(p->share);
    berth_arena_clear(&p->own);
    free(p);
}

static bool jobs_are_closing(struct berth_run_jobs *jobs)
{
    berth_lock_take(&jobs->lock);
    bool closing = jobs->closing;
    berth_lock_drop(&jobs->lock);
    return closing;
}

static void store_end_job(void *ctx);

static void retry_end_job(void *ctx)
{
    struct berth_run_job *p = ctx;
    p->end_job = (struct berth_job){.fn = store_end_job, .ctx = p};
    berth_share_put(p->share, &p->end_job);
}

/* Ends the run, and tries again until its end is stored or the runtime closes: only this process
 * knows how the command ended. */
static void store_end_job(void *ctx)
{
    struct berth_run_job *p = ctx;
    struct berth_run_jobs *jobs = p->b->run_jobs;
    struct berth_error ignored;
    if (!berth_run_job_end(p) && !jobs_are_closing(jobs) &&
        berth_pool_after(p->b->pool, END_RETRY_MS, retry_end_job, p, &ignored) == BERTH_OK)
        return;
    berth_run_job_leave(p);
    p->on_done(p->ctx, &p->result, p->rc < 0 ? &p->trouble : NULL);
    berth_lock_take(&jobs->lock);
    *p->link = p->next;
    if (p->next)
        p->next->link = p->link;
    pthread_cond_broadcast(&jobs->left);
    berth_lock_drop(&jobs->lock);
    run_job_free(p);
}

static void end_job(void *ctx)
{
    berth_run_job_conclude(ctx);
    store_end_job(ctx);
}

static void begin_job(void *ctx)
{
    struct berth_run_job *p = ctx;
    if (berth_run_job_begin(p) < 0 || atomic_fetch_add(&p->arrived, 1) == 1)
        end_job(p);
}

/* Queues begin_job in the share of the environment. Returns false when this thread goes on itself:
 * no provider is waited for, or p->rc says what failed. After true, `p` may be gone. */
static bool run_job_move(struct berth_run_job *p)
{
    struct berth_share *company = p->share;
    struct berth_error full;
    if (berth_place_is_ledger_only(p->b, p->environment))
        return false;
    p->rc = berth_place_share_environment(p->b, p->environment, &p->share, p->err);
    if (p->rc < 0)
        return false;
    berth_share_close(company);
    if (berth_share_submit(p->share, begin_job, p, &full) == BERTH_OK)
        return true;
    berth_run_job_refuse(p, &full);
    return false;
}

static void prepare_job(void *ctx)
{
    struct berth_run_job *p = ctx;
    if (berth_run_job_prepare(p) < 0 || !run_job_move(p))
        begin_job(p);
}

int berth_run_start(struct berth *b, const struct berth_run_request *request,
                    berth_run_done_fn *on_done, void *ctx, struct berth_run_job **out,
                    struct berth_error *err)
{
    struct berth_run_jobs *jobs = b->run_jobs;
    struct berth_run_job *p = calloc(1, sizeof *p);
    if (!p)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: run.");
    *p = (struct berth_run_job){.b = b,
                                .request = request,
                                .on_done = on_done,
                                .ctx = ctx,
                                .end_job = {.fn = end_job, .ctx = p},
                                .ended_fd = -1,
                                .lock = &jobs->lock,
                                .cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    p->arena = &p->own;
    p->out = &p->result;
    p->err = &p->trouble;
    if (p->cancel_fd < 0) {
        run_job_free(p);
        return berth_fail_errno(err, "Cannot make an event descriptor");
    }
    const char *company_id = request->company_id ? request->company_id : b->company_id;
    int rc = berth_share_open(b->providers, NULL, company_id, &p->share, err);
    if (rc < 0) {
        run_job_free(p);
        return rc;
    }
    berth_lock_take(&jobs->lock);
    rc = jobs->closing ? berth_fail(err, BERTH_E_CANCELLED, "The runtime is closing.")
                       : berth_share_submit(p->share, prepare_job, p, err);
    if (rc == BERTH_OK) {
        p->next = jobs->first;
        p->link = &jobs->first;
        if (p->next)
            p->next->link = &p->next;
        jobs->first = p;
        *out = p;
    }
    berth_lock_drop(&jobs->lock);
    if (rc < 0)
        run_job_free(p);
    return rc;
}

/* Lock held. */
static void run_job_cancel(struct berth_run_job *p)
{
    (void)eventfd_write(p->cancel_fd, 1);
    if (p->exec)
        berth_exec_cancel(p->exec);
}

void berth_run_cancel(struct berth_run_job *p)
{
    struct berth_run_jobs *jobs = p->b->run_jobs;
    berth_lock_take(&jobs->lock);
    run_job_cancel(p);
    berth_lock_drop(&jobs->lock);
}

void berth_run_jobs_end(struct berth_run_jobs *jobs)
{
    if (!jobs)
        return;
    berth_lock_take(&jobs->lock);
    jobs->closing = true;
    for (struct berth_run_job *p = jobs->first; p; p = p->next)
        run_job_cancel(p);
    while (jobs->first)
        berth_lock_wait(&jobs->lock, &jobs->left);
    berth_lock_drop(&jobs->lock);
}
