/* SPDX-License-Identifier: Apache-2.0
 * src/os/engine.c - see engine.h. */
#include "os/engine.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <uv.h>

#include "base/container.h"
#include "base/time.h"
#include "os/inits.h"
#include "os/loop.h"

#define POST_TURNS_MAX 4
#define WORK_NS ((uint64_t)2 * 1000 * 1000) /* for queued work in one turn of the loop */
#define TRIM_MS 2000
#define CHUNK_BYTES (64 * 1024)

struct berth_engine {
    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t timer;    /* for the first deadline */
    uv_prepare_t before; /* before the loop waits: runs posts of its own thread */
    pthread_t thread;
    _Atomic bool started; /* the loop and its thread exist, from the first use on */
    pthread_mutex_t lock; /* guards the queue and the start */
    struct berth_post *head, **tail;
    bool stopping;
    struct berth_work *work, **work_tail; /* that is queued; the engine's thread alone */
    struct berth_deadlines deadlines;
    struct berth_time_watch watch;
    struct berth_inits *inits;
    struct berth_timer trim;   /* of the spare inits */
    struct berth_guest *first; /* guests that have entered and not left */
    char chunk[CHUNK_BYTES];   /* for reads; one stream uses it at a time */
};

/* --- the loop --- */

bool berth_engine_is_here(const struct berth_engine *engine)
{
    return engine->started && pthread_equal(pthread_self(), engine->thread);
}

void berth_engine_put(struct berth_engine *engine, struct berth_post *what)
{
    what->next = NULL;
    pthread_mutex_lock(&engine->lock);
    *engine->tail = what;
    engine->tail = &what->next;
    pthread_mutex_unlock(&engine->lock);
    if (!berth_engine_is_here(engine))
        (void)uv_async_send(&engine->wake);
}

static void on_engine_timer(uv_timer_t *timer);

static void engine_set_timer(struct berth_engine *engine)
{
    const struct berth_deadline *first = berth_deadlines_first(&engine->deadlines);
    if (!first) {
        (void)uv_timer_stop(&engine->timer);
        return;
    }
    int64_t wait_ms = first->at_ms - berth_time_mono_ms();
    uv_update_time(&engine->loop);
    (void)uv_timer_start(&engine->timer, on_engine_timer, wait_ms > 0 ? (uint64_t)wait_ms : 0, 0);
}

static void on_engine_timer(uv_timer_t *timer)
{
    struct berth_engine *engine = timer->data;
    for (struct berth_deadline *d;
         (d = berth_deadlines_pop_due(&engine->deadlines, berth_time_mono_ms()));) {
        struct berth_timer *due = berth_container_of(d, struct berth_timer, deadline);
        due->run(due);
    }
    engine_set_timer(engine);
}

void berth_timer_set(struct berth_engine *engine, struct berth_timer *timer, int64_t after_ms)
{
    struct berth_error ignored;
    berth_deadlines_remove(&engine->deadlines, &timer->deadline);
    timer->deadline.at_ms = berth_time_mono_ms() + after_ms;
    if (berth_deadlines_add(&engine->deadlines, &timer->deadline, &ignored) < 0)
        timer->run(timer); /* no memory: it runs now instead of later */
    engine_set_timer(engine);
}

void berth_timer_clear(struct berth_engine *engine, struct berth_timer *timer)
{
    berth_deadlines_remove(&engine->deadlines, &timer->deadline);
}

static void stop_loop(struct berth_engine *engine);

/* Runs all posts so far. Returns false when there were none. *stopping: the engine stops, and later
 * posts are not waited for. */
static bool run_posts(struct berth_engine *engine, bool *stopping)
{
    pthread_mutex_lock(&engine->lock);
    struct berth_post *all = engine->head;
    engine->head = NULL;
    engine->tail = &engine->head;
    *stopping = engine->stopping;
    pthread_mutex_unlock(&engine->lock);
    bool some = all != NULL;
    while (all) {
        struct berth_post *next = all->next;
        all->run(all);
        all = next;
    }
    return some;
}

static void on_wake(uv_async_t *wake)
{
    struct berth_engine *engine = wake->data;
    bool stopping;
    (void)run_posts(engine, &stopping);
    engine_set_timer(engine); /* the clock may have been moved */
    if (stopping)
        stop_loop(engine);
}

void berth_work_put(struct berth_engine *engine, struct berth_work *work)
{
    if (work->link)
        return;
    work->next = NULL;
    work->link = engine->work_tail;
    *engine->work_tail = work;
    engine->work_tail = &work->next;
}

void berth_work_drop(struct berth_engine *engine, struct berth_work *work)
{
    if (!work->link)
        return;
    *work->link = work->next;
    if (work->next)
        work->next->link = work->link;
    else
        engine->work_tail = work->link;
    work->link = NULL;
}

static void run_work(struct berth_engine *engine)
{
    uint64_t end = engine->work ? uv_hrtime() + WORK_NS : 0;
    while (engine->work) {
        struct berth_work *work = engine->work;
        berth_work_drop(engine, work);
        work->run(work);
        if (uv_hrtime() >= end)
            return;
    }
}

/* Runs work and posts; the latter several times, since one post often queues the next. The limits
 * give sockets a turn. */
static void on_before(uv_prepare_t *before)
{
    struct berth_engine *engine = before->data;
    bool stopping, more = true; /* on_wake handles `stopping` */
    run_work(engine);
    for (int turn = 0; more && turn < POST_TURNS_MAX; turn++)
        more = run_posts(engine, &stopping);
    if (more || engine->work)
        (void)uv_async_send(&engine->wake);
}

static void on_engine_shift(void *ctx)
{
    struct berth_engine *engine = ctx;
    (void)uv_async_send(&engine->wake);
}

static void *loop_main(void *ctx)
{
    struct berth_engine *engine = ctx;
    (void)uv_run(&engine->loop, UV_RUN_DEFAULT);
    return NULL;
}

static int engine_start_thread(struct berth_engine *engine, struct berth_error *err)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int number = pthread_create(&engine->thread, NULL, loop_main, engine);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = number;
    return number ? berth_fail_errno(err, "Cannot start the engine's thread") : BERTH_OK;
}

static int start_loop(struct berth_engine *engine, struct berth_error *err)
{
    if (uv_loop_init(&engine->loop) != 0)
        return berth_fail(err, BERTH_E_UNAVAILABLE, "Cannot make an event loop.");
    (void)uv_timer_init(&engine->loop, &engine->timer);
    engine->timer.data = engine;
    (void)uv_prepare_init(&engine->loop, &engine->before);
    engine->before.data = engine;
    (void)uv_prepare_start(&engine->before, on_before);
    int number = uv_async_init(&engine->loop, &engine->wake, on_wake);
    engine->wake.data = engine;
    int rc = number == 0 ? engine_start_thread(engine, err)
                         : berth_fail(err, BERTH_E_UNAVAILABLE, "Cannot make an event loop: %s.",
                                      uv_strerror(number));
    if (rc == BERTH_OK)
        return rc;
    uv_close((uv_handle_t *)&engine->timer, NULL);
    uv_close((uv_handle_t *)&engine->before, NULL);
    if (number == 0)
        uv_close((uv_handle_t *)&engine->wake, NULL);
    (void)uv_run(&engine->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&engine->loop);
    return rc;
}

int berth_engine_start(struct berth_engine *engine, struct berth_error *err)
{
    if (engine->started)
        return BERTH_OK;
    pthread_mutex_lock(&engine->lock);
    int rc = engine->started ? BERTH_OK : start_loop(engine, err);
    bool first = rc == BERTH_OK && !engine->started;
    engine->started |= first;
    pthread_mutex_unlock(&engine->lock);
    if (first)
        berth_time_watch_add(&engine->watch);
    return rc;
}

int berth_engine_post(struct berth_engine *engine, struct berth_post *what, struct berth_error *err)
{
    int rc = berth_engine_start(engine, err);
    if (rc == BERTH_OK)
        berth_engine_put(engine, what);
    return rc;
}

/* Somebody waits for it. */
struct errand {
    struct berth_post post;
    void (*run)(void *ctx);
    void *ctx;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
};

static void run_errand(struct berth_post *what)
{
    struct errand *e = berth_container_of(what, struct errand, post);
    e->run(e->ctx);
    pthread_mutex_lock(&e->lock);
    e->done = true;
    pthread_cond_signal(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

int berth_engine_do(struct berth_engine *engine, void (*run)(void *ctx), void *ctx,
                    struct berth_error *err)
{
    assert(!berth_engine_is_here(engine)); /* it would wait for itself */
    struct errand e = {.post = {.run = run_errand}, .run = run, .ctx = ctx};
    pthread_mutex_init(&e.lock, NULL);
    pthread_cond_init(&e.changed, NULL);
    int rc = berth_engine_post(engine, &e.post, err);
    pthread_mutex_lock(&e.lock);
    while (rc == BERTH_OK && !e.done)
        pthread_cond_wait(&e.changed, &e.lock);
    pthread_mutex_unlock(&e.lock);
    pthread_cond_destroy(&e.changed);
    pthread_mutex_destroy(&e.lock);
    return rc;
}

static void on_trim(struct berth_timer *timer)
{
    struct berth_engine *engine = berth_container_of(timer, struct berth_engine, trim);
    if (berth_inits_trim(engine->inits))
        berth_timer_set(engine, timer, TRIM_MS);
}

int berth_engine_new(struct berth_engine **out, struct berth_error *err)
{
    struct berth_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: engine.");
    int rc = berth_inits_new(&engine->inits, err);
    if (rc < 0) {
        free(engine);
        return rc;
    }
    engine->tail = &engine->head;
    engine->work_tail = &engine->work;
    engine->trim.run = on_trim;
    engine->watch = (struct berth_time_watch){.on_shift = on_engine_shift, .ctx = engine};
    pthread_mutex_init(&engine->lock, NULL);
    *out = engine;
    return BERTH_OK;
}

struct berth_inits *berth_engine_inits(struct berth_engine *engine)
{
    return engine->inits;
}

void berth_engine_give_init(struct berth_engine *engine, struct berth_init *init)
{
    berth_inits_give(engine->inits, init);
    if (!engine->trim.deadline.index)
        berth_timer_set(engine, &engine->trim, TRIM_MS);
}

int berth_engine_prepare(struct berth_engine *engine, struct berth_error *err)
{
    return berth_inits_prepare(engine->inits, err);
}

uv_loop_t *berth_engine_loop(struct berth_engine *engine)
{
    return &engine->loop;
}

uv_buf_t berth_engine_chunk(struct berth_engine *engine)
{
    return uv_buf_init(engine->chunk, sizeof engine->chunk);
}

/* --- the end --- */

static bool is_stopping(struct berth_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    bool stopping = engine->stopping;
    pthread_mutex_unlock(&engine->lock);
    return stopping;
}

bool berth_engine_enter(struct berth_engine *engine, struct berth_guest *guest)
{
    guest->next = engine->first;
    guest->link = &engine->first;
    if (guest->next)
        guest->next->link = &guest->next;
    engine->first = guest;
    return !is_stopping(engine);
}

void berth_engine_leave(struct berth_engine *engine, struct berth_guest *guest)
{
    *guest->link = guest->next;
    if (guest->next)
        guest->next->link = guest->link;
    if (is_stopping(engine))
        stop_loop(engine);
}

static void stop_loop(struct berth_engine *engine)
{
    for (struct berth_guest *guest = engine->first; guest; guest = guest->next)
        guest->end(guest);
    if (engine->first)
        return; /* the last of them comes back here */
    if (!uv_is_closing((uv_handle_t *)&engine->wake)) {
        uv_close((uv_handle_t *)&engine->wake, NULL);
        uv_close((uv_handle_t *)&engine->timer, NULL);
        uv_close((uv_handle_t *)&engine->before, NULL);
    }
}

/* Runs what was queued in the last turn. */
static void run_left(struct berth_engine *engine)
{
    bool stopping;
    do
        run_work(engine);
    while (run_posts(engine, &stopping) || engine->work);
}

static void stop_thread(struct berth_engine *engine)
{
    assert(!berth_engine_is_here(engine));
    berth_time_watch_remove(&engine->watch);
    pthread_mutex_lock(&engine->lock);
    engine->stopping = true;
    pthread_mutex_unlock(&engine->lock);
    (void)uv_async_send(&engine->wake);
    (void)pthread_join(engine->thread, NULL);
    run_left(engine);
    (void)uv_loop_close(&engine->loop);
}

void berth_engine_free(struct berth_engine *engine)
{
    if (!engine)
        return;
    if (engine->started)
        stop_thread(engine);
    berth_inits_free(engine->inits);
    berth_deadlines_clear(&engine->deadlines);
    pthread_mutex_destroy(&engine->lock);
    free(engine);
}
