/* SPDX-License-Identifier: Apache-2.0
 * src/os/pool.c - see pool.h. One mutex guards everything; jobs run outside it. */
#include "os/pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "base/auto.h"

#define RETRY_MS 1000 /* of a timer that no thread could be started for */

struct berth_pool {
    pthread_mutex_t lock;
    pthread_cond_t work;  /* for the workers: a job is queued, or the pool stops */
    pthread_cond_t timer; /* for the timer thread: the heap or the clock changed */
    struct berth_job *head, **tail;
    struct berth_deadlines timed;
    struct berth_time_watch watch;
    pthread_t *threads;
    pthread_t timer_thread;
    int count, max, idle, queued;
    bool woken; /* a worker is, and has not come yet */
    bool timer_runs, stopping;
    _Atomic int waking; /* who is about to wake a worker, without the lock */
};

/* Signals are for the program's own threads. */
static int start_thread(pthread_t *thread, void *(*main)(void *), void *ctx)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(thread, NULL, main, ctx);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

/* Wakes one thread. Lock held. A thread wakes the next one when there are more jobs than it takes.
 */
static bool should_wake(struct berth_pool *pool)
{
    bool wake = pool->head && pool->idle > 0 && !pool->woken;
    pool->woken |= wake;
    return wake;
}

static void *worker_main(void *ctx)
{
    struct berth_pool *pool = ctx;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->head && !pool->stopping) {
            pool->idle++;
            pthread_cond_wait(&pool->work, &pool->lock);
            pool->idle--;
            pool->woken = false;
        }
        struct berth_job *job = pool->head;
        if (!job)
            break;
        pool->head = job->next;
        pool->queued--;
        if (!pool->head)
            pool->tail = &pool->head;
        bool wake = should_wake(pool);
        pthread_mutex_unlock(&pool->lock);
        if (wake)
            pthread_cond_signal(&pool->work);
        bool owned = job->owned; /* the owner of any other may free it while it runs */
        job->fn(job->ctx);
        if (owned)
            free(job);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Takes the job over, unless it fails; a thread more is started when none is idle. Called with the
 * lock held; one is to be woken afterwards. */
static int enqueue(struct berth_pool *pool, struct berth_job *job, struct berth_error *err)
{
    /* An idle thread that was signalled still counts as idle until it wakes. */
    if (pool->queued >= pool->idle && pool->count < pool->max) {
        int rc = start_thread(&pool->threads[pool->count], worker_main, pool);
        if (rc == 0) {
            pool->count++;
        } else if (pool->count == 0) {
            errno = rc;
            return berth_fail_errno(err, "Cannot start a thread");
        }
    }
    job->next = NULL;
    *pool->tail = job;
    pool->tail = &job->next;
    pool->queued++;
    return BERTH_OK;
}

static void on_shift(void *ctx)
{
    struct berth_pool *pool = ctx;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_signal(&pool->timer);
    pthread_mutex_unlock(&pool->lock);
}

static void *timer_main(void *ctx)
{
    struct berth_pool *pool = ctx;
    pthread_mutex_lock(&pool->lock);
    while (!pool->stopping) {
        int64_t now = berth_time_mono_ms();
        struct berth_deadline *due = berth_deadlines_pop_due(&pool->timed, now);
        if (due) {
            struct berth_error err;
            due->at_ms = now + RETRY_MS;
            if (enqueue(pool, (struct berth_job *)due, &err) < 0)
                (void)berth_deadlines_add(&pool->timed, due, &err); /* it has just left the heap */
            else if (should_wake(pool))
                pthread_cond_signal(&pool->work);
            continue;
        }
        struct berth_deadline *first = berth_deadlines_first(&pool->timed);
        if (!first) {
            pthread_cond_wait(&pool->timer, &pool->lock);
            continue;
        }
        struct timespec until;
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        int64_t wait_ms = first->at_ms - now;
        until.tv_sec += wait_ms / 1000;
        until.tv_nsec += wait_ms % 1000 * 1000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        pthread_cond_timedwait(&pool->timer, &pool->lock, &until);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

int berth_pool_new(int threads_max, struct berth_pool **out, struct berth_error *err)
{
    auto_free struct berth_pool *pool = calloc(1, sizeof *pool);
    if (pool)
        pool->threads = calloc((size_t)threads_max, sizeof *pool->threads);
    if (!pool || !pool->threads)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: pool.");
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    berth_time_cond_init(&pool->timer);
    pool->tail = &pool->head;
    pool->max = threads_max;
    pool->watch = (struct berth_time_watch){.on_shift = on_shift, .ctx = pool};
    berth_time_watch_add(&pool->watch);
    *out = take_ptr(pool);
    return BERTH_OK;
}

static struct berth_job *new_job(berth_job_fn *fn, void *ctx, struct berth_error *err)
{
    struct berth_job *job = calloc(1, sizeof *job);
    if (!job) {
        (void)berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: job.");
        return NULL;
    }
    job->fn = fn;
    job->ctx = ctx;
    job->owned = true;
    return job;
}

/* Queues the job and wakes a worker. */
static int pool_queue(struct berth_pool *pool, struct berth_job *job, struct berth_error *err)
{
    pthread_mutex_lock(&pool->lock);
    int rc = enqueue(pool, job, err);
    bool wake = rc == BERTH_OK && should_wake(pool);
    atomic_fetch_add(&pool->waking, wake);
    pthread_mutex_unlock(&pool->lock);
    if (wake) { /* a worker woken with the lock held would run into it */
        pthread_cond_signal(&pool->work);
        atomic_fetch_sub(&pool->waking, 1);
    }
    return rc;
}

int berth_pool_submit(struct berth_pool *pool, berth_job_fn *fn, void *ctx, struct berth_error *err)
{
    struct berth_job *job = new_job(fn, ctx, err);
    if (!job)
        return err->code;
    int rc = pool_queue(pool, job, err);
    if (rc < 0)
        free(job);
    return rc;
}

void berth_pool_put(struct berth_pool *pool, struct berth_job *job)
{
    struct berth_error none;
    int rc = pool_queue(pool, job, &none);
    assert(rc == BERTH_OK); /* enqueue fails only when there is no thread at all */
    (void)rc;
}

/* Called with the lock held. */
static int start_timer(struct berth_pool *pool, struct berth_error *err)
{
    if (pool->timer_runs)
        return BERTH_OK;
    int rc = start_thread(&pool->timer_thread, timer_main, pool);
    if (rc != 0) {
        errno = rc;
        return berth_fail_errno(err, "Cannot start a thread");
    }
    pool->timer_runs = true;
    return BERTH_OK;
}

int berth_pool_after(struct berth_pool *pool, int64_t delay_ms, berth_job_fn *fn, void *ctx,
                     struct berth_error *err)
{
    struct berth_job *job = new_job(fn, ctx, err);
    if (!job)
        return err->code;
    if (__builtin_add_overflow(berth_time_mono_ms(), delay_ms, &job->deadline.at_ms))
        job->deadline.at_ms = INT64_MAX;
    pthread_mutex_lock(&pool->lock);
    if (pool->stopping) { /* free drops timed jobs; the timer thread is not started again */
        pthread_mutex_unlock(&pool->lock);
        free(job);
        return BERTH_OK;
    }
    int rc = start_timer(pool, err);
    if (rc == BERTH_OK)
        rc = berth_deadlines_add(&pool->timed, &job->deadline, err);
    if (rc == BERTH_OK && berth_deadlines_first(&pool->timed) == &job->deadline)
        pthread_cond_signal(&pool->timer);
    if (rc < 0)
        free(job);
    pthread_mutex_unlock(&pool->lock);
    return rc;
}

void berth_pool_free(struct berth_pool *pool)
{
    if (!pool)
        return;
    berth_time_watch_remove(&pool->watch);
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->work);
    pthread_cond_broadcast(&pool->timer);
    bool timer_runs = pool->timer_runs;
    pthread_mutex_unlock(&pool->lock);
    if (timer_runs)
        pthread_join(pool->timer_thread, NULL);
    for (int i = 0;; i++) { /* a job may submit, and so start a thread more */
        pthread_mutex_lock(&pool->lock);
        bool more = i < pool->count;
        pthread_mutex_unlock(&pool->lock);
        if (!more)
            break;
        pthread_join(pool->threads[i], NULL);
    }
    while (atomic_load(&pool->waking))
        (void)sched_yield();
    for (struct berth_deadline *d; (d = berth_deadlines_pop_due(&pool->timed, INT64_MAX));)
        free(d);
    berth_deadlines_clear(&pool->timed);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->timer);
    free(pool->threads);
    free(pool);
}
