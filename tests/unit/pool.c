/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/pool.c - every job runs, never too many at once, and timers follow the movable clock.
 * Jobs run on other threads, where cmocka cannot fail a test: they count, the test looks. */
#include "os/pool.h"

#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"

#define HOUR_MS (INT64_C(60) * 60 * 1000)
#define PATIENCE_S 20 /* real time, spent only by a test that fails */

static struct {
    struct berth_error err;
} t;

/* A number that others wait for. */
struct counter {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int value;
};
#define COUNTER_INIT                                                                               \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER                     \
    }

static void count_up(void *ctx)
{
    struct counter *c = ctx;
    pthread_mutex_lock(&c->lock);
    c->value++;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static int value_of(struct counter *c)
{
    pthread_mutex_lock(&c->lock);
    int value = c->value;
    pthread_mutex_unlock(&c->lock);
    return value;
}

static bool reaches(struct counter *c, int value, int patience_s)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += patience_s;
    pthread_mutex_lock(&c->lock);
    int rc = 0;
    while (c->value < value && rc == 0)
        rc = pthread_cond_timedwait(&c->changed, &c->lock, &until);
    bool there = c->value >= value;
    pthread_mutex_unlock(&c->lock);
    return there;
}

/* For what must not happen: long enough for the pool's threads to have had their turn. */
static void let_others_run(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 30 * 1000000}, NULL);
}

static struct berth_pool *new_pool(int threads_max)
{
    struct berth_pool *pool;
    assert_ok(&t, berth_pool_new(threads_max, &pool, &t.err));
    return pool;
}

static void submit(struct berth_pool *pool, berth_job_fn *fn, void *ctx)
{
    assert_ok(&t, berth_pool_submit(pool, fn, ctx, &t.err));
}

static void after(struct berth_pool *pool, int64_t delay_ms, berth_job_fn *fn, void *ctx)
{
    assert_ok(&t, berth_pool_after(pool, delay_ms, fn, ctx, &t.err));
}

/* --- jobs --- */

static void an_unused_pool_can_go(void **state)
{
    (void)state;
    berth_pool_free(NULL);
    berth_pool_free(new_pool(4));
}

static void all_jobs_run(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 8; threads *= 2) {
        struct counter done = COUNTER_INIT;
        struct berth_pool *pool = new_pool(threads);
        for (int i = 0; i < 5000; i++)
            submit(pool, count_up, &done);
        assert_true(reaches(&done, 5000, PATIENCE_S));
        berth_pool_free(pool);
        assert_int_equal(done.value, 5000);
    }
}

static void free_runs_what_is_queued(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        struct counter done = COUNTER_INIT;
        struct berth_pool *pool = new_pool(3);
        for (int i = 0; i < 200; i++)
            submit(pool, count_up, &done);
        berth_pool_free(pool);
        assert_int_equal(done.value, 200);
    }
}

struct crowd {
    atomic_int now, most, done;
};

static void join_crowd(void *ctx)
{
    struct crowd *crowd = ctx;
    int now = atomic_fetch_add(&crowd->now, 1) + 1, most = atomic_load(&crowd->most);
    while (now > most && !atomic_compare_exchange_weak(&crowd->most, &most, now))
        ;
    (void)nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    atomic_fetch_sub(&crowd->now, 1);
    atomic_fetch_add(&crowd->done, 1);
}

static void never_more_than_threads_max_at_once(void **state)
{
    (void)state;
    static const int limits[] = {1, 2, 5};
    for (int i = 0; i < 3; i++) {
        struct crowd crowd = {0};
        struct berth_pool *pool = new_pool(limits[i]);
        for (int k = 0; k < 200; k++) {
            submit(pool, join_crowd, &crowd);
            after(pool, 0, join_crowd, &crowd); /* the timers' jobs count as well */
        }
        while (atomic_load(&crowd.done) < 400)
            let_others_run();
        berth_pool_free(pool);
        assert_in_range(atomic_load(&crowd.most), 1, limits[i]);
    }
}

struct pair {
    struct counter warm, second;
    bool met;
};

static void wait_for_second(void *ctx)
{
    struct pair *pair = ctx;
    pair->met = reaches(&pair->second, 1, 3);
}

static void warm_up(void *ctx)
{
    count_up(&((struct pair *)ctx)->warm);
}

static void be_second(void *ctx)
{
    count_up(&((struct pair *)ctx)->second);
}

/* Jobs block, so one must not queue behind another while the pool may still start a thread. Here
 * the first thread is idle when two jobs come at once: it can serve only one of them. */
static void a_blocked_job_holds_up_no_other(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) {
        struct pair pair = {.warm = COUNTER_INIT, .second = COUNTER_INIT};
        struct berth_pool *pool = new_pool(2);
        submit(pool, warm_up, &pair);
        assert_true(reaches(&pair.warm, 1, PATIENCE_S));
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* now it is idle */
        submit(pool, wait_for_second, &pair);
        submit(pool, be_second, &pair);
        berth_pool_free(pool);
        if (!pair.met)
            fail_msg("round %d: the second job had no thread, though one more was allowed", round);
    }
}

struct chain {
    struct berth_pool *pool;
    atomic_int left, failed;
};

static void go_on(void *ctx)
{
    struct chain *chain = ctx;
    struct berth_error err;
    int left = atomic_fetch_sub(&chain->left, 1);
    if (left <= 1)
        return;
    int rc = left % 2 ? berth_pool_submit(chain->pool, go_on, chain, &err)
                      : berth_pool_after(chain->pool, 0, go_on, chain, &err);
    if (rc < 0)
        atomic_store(&chain->failed, 1);
}

static void jobs_may_call_the_pool(void **state)
{
    (void)state;
    struct chain chain = {.pool = new_pool(2), .left = 1000};
    submit(chain.pool, go_on, &chain);
    for (int i = 0; i < 600 && atomic_load(&chain.left) > 0; i++)
        let_others_run();
    assert_int_equal(atomic_load(&chain.left), 0);
    assert_int_equal(atomic_load(&chain.failed), 0);
    berth_pool_free(chain.pool);
}

struct submitter {
    pthread_t thread;
    struct berth_pool *pool;
    struct counter *done;
    int failed;
};

static void *submit_many(void *ctx)
{
    struct submitter *s = ctx;
    for (int i = 0; i < 2000; i++) {
        struct berth_error err;
        s->failed += berth_pool_submit(s->pool, count_up, s->done, &err) < 0;
    }
    return NULL;
}

static void any_thread_may_submit(void **state)
{
    (void)state;
    enum { SUBMITTERS = 4 };
    struct counter done = COUNTER_INIT;
    struct submitter s[SUBMITTERS];
    struct berth_pool *pool = new_pool(4);
    for (int i = 0; i < SUBMITTERS; i++) {
        s[i] = (struct submitter){.pool = pool, .done = &done};
        assert_int_equal(pthread_create(&s[i].thread, NULL, submit_many, &s[i]), 0);
    }
    for (int i = 0; i < SUBMITTERS; i++) {
        pthread_join(s[i].thread, NULL);
        assert_int_equal(s[i].failed, 0);
    }
    berth_pool_free(pool);
    assert_int_equal(done.value, SUBMITTERS * 2000);
}

/* --- timers --- */

static void timers_follow_the_clock(void **state)
{
    (void)state;
    struct counter fired = COUNTER_INIT;
    struct berth_pool *pool = new_pool(2);
    after(pool, 2 * HOUR_MS, count_up, &fired);
    let_others_run();
    assert_int_equal(value_of(&fired), 0);
    berth_time_shift(0, HOUR_MS);
    let_others_run();
    assert_int_equal(value_of(&fired), 0);
    berth_time_shift(5 * HOUR_MS, 0); /* the other clock: no matter */
    let_others_run();
    assert_int_equal(value_of(&fired), 0);
    berth_time_shift(-5 * HOUR_MS, HOUR_MS);
    assert_true(reaches(&fired, 1, PATIENCE_S));
    berth_time_shift(0, 10 * HOUR_MS); /* once is enough */
    let_others_run();
    berth_pool_free(pool);
    assert_int_equal(fired.value, 1);
}

static void short_timers_fire_by_themselves(void **state)
{
    (void)state;
    struct counter fired = COUNTER_INIT;
    struct berth_pool *pool = new_pool(2);
    int64_t before = berth_time_mono_ms();
    after(pool, 40, count_up, &fired);
    assert_true(reaches(&fired, 1, PATIENCE_S));
    assert_true(berth_time_mono_ms() - before >= 40);
    after(pool, 0, count_up, &fired);
    after(pool, -5, count_up, &fired);
    assert_true(reaches(&fired, 3, PATIENCE_S));
    berth_pool_free(pool);
}

/* The timer thread sleeps for the far one when the near one comes. */
static void an_earlier_timer_overtakes(void **state)
{
    (void)state;
    struct counter far = COUNTER_INIT, near = COUNTER_INIT;
    struct berth_pool *pool = new_pool(1);
    after(pool, 10 * HOUR_MS, count_up, &far);
    let_others_run();
    after(pool, 20, count_up, &near);
    assert_true(reaches(&near, 1, PATIENCE_S));
    assert_int_equal(value_of(&far), 0);
    berth_time_shift(0, 10 * HOUR_MS);
    assert_true(reaches(&far, 1, PATIENCE_S));
    berth_pool_free(pool);
}

struct order {
    struct counter done;
    int seen[16];
};

struct numbered {
    struct order *order;
    int number;
};

static void note_number(void *ctx)
{
    struct numbered *n = ctx;
    n->order->seen[value_of(&n->order->done)] = n->number; /* one thread: nothing runs in between */
    count_up(&n->order->done);
}

static void timers_fire_in_order(void **state)
{
    (void)state;
    static const int hours[] = {5, 1, 7, 3, 2, 8, 6, 4};
    struct order order = {.done = COUNTER_INIT};
    struct numbered n[8];
    struct berth_pool *pool = new_pool(1);
    for (int i = 0; i < 8; i++) {
        n[i] = (struct numbered){.order = &order, .number = hours[i]};
        after(pool, hours[i] * HOUR_MS, note_number, &n[i]);
    }
    berth_time_shift(0, 3 * HOUR_MS + HOUR_MS / 2);
    assert_true(reaches(&order.done, 3, PATIENCE_S));
    let_others_run();
    assert_int_equal(value_of(&order.done), 3);
    berth_time_shift(0, 24 * HOUR_MS);
    assert_true(reaches(&order.done, 8, PATIENCE_S));
    berth_pool_free(pool);
    for (int i = 0; i < 8; i++)
        assert_int_equal(order.seen[i], i + 1);
}

static void free_drops_what_is_only_timed(void **state)
{
    (void)state;
    struct counter fired = COUNTER_INIT, done = COUNTER_INIT;
    struct berth_pool *pool = new_pool(2);
    for (int i = 0; i < 100; i++)
        after(pool, HOUR_MS + i, count_up, &fired);
    submit(pool, count_up, &done);
    berth_pool_free(pool);
    berth_time_shift(0, 5 * HOUR_MS);
    let_others_run();
    assert_int_equal(fired.value, 0);
    assert_int_equal(done.value, 1);
}

static void two_pools_keep_apart(void **state)
{
    (void)state;
    struct counter one = COUNTER_INIT, two = COUNTER_INIT;
    struct berth_pool *first = new_pool(1), *second = new_pool(1);
    after(first, HOUR_MS, count_up, &one);
    after(second, 2 * HOUR_MS, count_up, &two);
    berth_time_shift(0, HOUR_MS);
    assert_true(reaches(&one, 1, PATIENCE_S));
    berth_pool_free(first);
    assert_int_equal(value_of(&two), 0);
    berth_time_shift(0, HOUR_MS);
    assert_true(reaches(&two, 1, PATIENCE_S));
    berth_pool_free(second);
}

struct late {
    struct berth_pool *pool;
    struct counter begun, ran;
    int rc;
};

static void set_timer_late(void *ctx)
{
    struct late *late = ctx;
    struct berth_error err;
    count_up(&late->begun);
    (void)nanosleep(&(struct timespec){.tv_nsec = 2 * 1000000}, NULL); /* free has begun by now */
    late->rc = berth_pool_after(late->pool, HOUR_MS, count_up, &late->ran, &err);
}

static void submit_late(void *ctx)
{
    struct late *late = ctx;
    struct berth_error err;
    count_up(&late->begun);
    (void)nanosleep(&(struct timespec){.tv_nsec = 2 * 1000000}, NULL);
    late->rc = berth_pool_submit(late->pool, count_up, &late->ran, &err);
}

/* Every function may be called from a job, also from one that free waits for. What it asks for is
 * run or refused; for a timer, dropped. */
static void jobs_may_submit_while_free_waits(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        struct late late = {.pool = new_pool(4), .begun = COUNTER_INIT, .ran = COUNTER_INIT};
        submit(late.pool, submit_late, &late);
        assert_true(reaches(&late.begun, 1, PATIENCE_S));
        berth_pool_free(late.pool);
        assert_int_equal(late.ran.value, late.rc == BERTH_OK);
    }
}

/* In a process of its own: a timer thread that outlives its pool may take everything down. */
static void jobs_may_set_timers_while_free_waits(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int wrong = 0;
        for (int round = 0; round < 100; round++) {
            struct late late = {.begun = COUNTER_INIT, .ran = COUNTER_INIT};
            struct berth_error err;
            if (berth_pool_new(2, &late.pool, &err) < 0 ||
                berth_pool_submit(late.pool, set_timer_late, &late, &err) < 0)
                _exit(3);
            (void)reaches(&late.begun, 1, PATIENCE_S);
            berth_pool_free(late.pool);
            wrong += late.ran.value;
        }
        let_others_run();
        _exit(wrong ? 4 : 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unused_pool_can_go),
        cmocka_unit_test(all_jobs_run),
        cmocka_unit_test(free_runs_what_is_queued),
        cmocka_unit_test(never_more_than_threads_max_at_once),
        cmocka_unit_test(a_blocked_job_holds_up_no_other),
        cmocka_unit_test(jobs_may_call_the_pool),
        cmocka_unit_test(any_thread_may_submit),
        cmocka_unit_test(timers_follow_the_clock),
        cmocka_unit_test(short_timers_fire_by_themselves),
        cmocka_unit_test(an_earlier_timer_overtakes),
        cmocka_unit_test(timers_fire_in_order),
        cmocka_unit_test(free_drops_what_is_only_timed),
        cmocka_unit_test(two_pools_keep_apart),
        cmocka_unit_test(jobs_may_submit_while_free_waits),
        cmocka_unit_test(jobs_may_set_timers_while_free_waits),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
