/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/engine.c - what is posted runs in order, and timers run when it is time. */
#include "os/engine.h"

#include "engines.h"
#include "fixture.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include "base/time.h"

#define MINUTE_MS INT64_C(60000)

/* A post that notes its number. */
struct note {
    struct berth_post post;
    int number;
};

static struct {
    int numbers[4096];
    int count;
    bool elsewhere; /* one ran on another thread */
    sem_t done;
} notes;

static pthread_mutex_t notes_lock = PTHREAD_MUTEX_INITIALIZER;

static void write_down(int number)
{
    pthread_mutex_lock(&notes_lock);
    notes.elsewhere |= !berth_engine_is_here(engine);
    if (notes.count < 4096)
        notes.numbers[notes.count++] = number;
    pthread_mutex_unlock(&notes_lock);
}

static void run_note(struct berth_post *post)
{
    write_down(((struct note *)(void *)post)->number);
}

static void run_done(struct berth_post *post)
{
    (void)post;
    (void)sem_post(&notes.done);
}

static void post(struct berth_post *what)
{
    struct berth_error err;
    assert_int_equal(berth_engine_post(engine, what, &err), BERTH_OK);
}

/* All that was posted before has run. */
static void sync_with_engine(void)
{
    struct berth_post last = {.run = run_done};
    post(&last);
    while (sem_wait(&notes.done) < 0 && errno == EINTR)
        ;
}

static void begin_notes(void)
{
    memset(&notes, 0, sizeof notes);
    (void)sem_init(&notes.done, 0, 0);
}

static void *post_hundreds(void *ctx)
{
    struct note *mine = ctx;
    for (int i = 0; i < 500; i++)
        post(&mine[i].post);
    return NULL;
}

/* Posts of one thread run in their order, while other threads post, too. */
static void posts_run_in_order(void **state)
{
    (void)state;
    enum { THREADS = 4, EACH = 500 };
    static struct note all[THREADS * EACH];
    pthread_t threads[THREADS];
    begin_notes();
    assert_false(berth_engine_is_here(engine));
    for (int i = 0; i < THREADS * EACH; i++)
        all[i] = (struct note){.post = {.run = run_note}, .number = i};
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, post_hundreds, &all[i * EACH]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    sync_with_engine();
    assert_int_equal(notes.count, THREADS * EACH);
    int next[THREADS] = {0};
    for (int i = 0; i < notes.count; i++) {
        int who = notes.numbers[i] / EACH;
        assert_int_equal(notes.numbers[i] % EACH, next[who]++);
    }
    assert_false(notes.elsewhere);
}

/* Posts itself twice more: its memory is free again when it runs. */
static void run_again(struct berth_post *again)
{
    struct note *note = (struct note *)(void *)again;
    write_down(note->number);
    again->next = again; /* the engine does not use it any more */
    if (note->number++ < 3)
        post(again);
    else
        (void)sem_post(&notes.done);
}

static void post_from_a_post(void **state)
{
    (void)state;
    struct note note = {.post = {.run = run_again}, .number = 1};
    begin_notes();
    post(&note.post);
    while (sem_wait(&notes.done) < 0 && errno == EINTR)
        ;
    assert_int_equal(notes.count, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(notes.numbers[i], i + 1);
    assert_false(notes.elsewhere);
}

/* The first post starts the thread, and what was posted runs before the engine goes. */
static void post_to_an_engine_that_never_ran(void **state)
{
    (void)state;
    struct berth_engine *shared = engine;
    struct berth_error err;
    struct note first = {.post = {.run = run_note}, .number = 7};
    begin_notes();
    assert_int_equal(berth_engine_new(&engine, &err), BERTH_OK);
    assert_false(berth_engine_is_here(engine));
    post(&first.post);
    sync_with_engine();
    berth_engine_free(engine);
    assert_int_equal(notes.count, 1);
    assert_false(notes.elsewhere);
    engine = shared;
}

/* What a test wants done with timers, on the engine's thread. */
enum { TIMERS = 5 };
static struct {
    struct berth_timer timer;
    int repeats;
} timers[TIMERS];

static void run_timer(struct berth_timer *timer)
{
    int i = 0;
    while (&timers[i].timer != timer)
        i++;
    write_down(i);
    if (timers[i].repeats-- > 0)
        berth_timer_set(engine, timer, 10 * MINUTE_MS);
}

struct wish {
    struct berth_post post;
    int timer;
    int64_t after_ms; /* -1: clear it */
};

static void run_wish(struct berth_post *wish_post)
{
    struct wish *w = (struct wish *)(void *)wish_post;
    if (w->after_ms < 0)
        berth_timer_clear(engine, &timers[w->timer].timer);
    else
        berth_timer_set(engine, &timers[w->timer].timer, w->after_ms);
}

static void set_timer(int timer, int64_t after_ms)
{
    struct wish w = {.post = {.run = run_wish}, .timer = timer, .after_ms = after_ms};
    post(&w.post);
    sync_with_engine();
}

static void begin_timers(void)
{
    begin_notes();
    memset(timers, 0, sizeof timers);
    for (int i = 0; i < TIMERS; i++)
        timers[i].timer.run = run_timer;
}

/* The numbers of those that have run, in their order. */
static void read_notes(char out[64])
{
    out[0] = '\0';
    pthread_mutex_lock(&notes_lock);
    for (int i = 0; i < notes.count; i++)
        (void)snprintf(out + strlen(out), 64 - strlen(out), "%d", notes.numbers[i]);
    assert_false(notes.elsewhere);
    pthread_mutex_unlock(&notes_lock);
}

/* Moves the clock: these timers have then run since the test began, and no others. */
static void assert_run(int64_t shift_ms, const char *want)
{
    char ran[64] = "";
    berth_time_shift(0, shift_ms);
    for (int i = 0; i < 500 && strlen(ran) < strlen(want); i++) {
        pause_ms(10);
        read_notes(ran);
    }
    pause_ms(50); /* for those that should not */
    sync_with_engine();
    read_notes(ran);
    assert_string_equal(ran, want);
}

static void timers_follow_the_moved_clock(void **state)
{
    (void)state;
    begin_timers();
    set_timer(0, 30 * MINUTE_MS);
    set_timer(1, 10 * MINUTE_MS);
    set_timer(2, 20 * MINUTE_MS);
    assert_run(9 * MINUTE_MS, "");
    assert_run(2 * MINUTE_MS, "1");
    assert_run(20 * MINUTE_MS, "120"); /* both at once, in the order of their time */
    assert_run(24 * 60 * MINUTE_MS, "120");
}

static void timers_run_by_themselves(void **state)
{
    (void)state;
    begin_timers();
    set_timer(0, 40);
    set_timer(1, 0);
    assert_run(0, "10");
}

static void timers_are_moved_and_cleared(void **state)
{
    (void)state;
    begin_timers();
    for (int i = 0; i < TIMERS; i++)
        set_timer(i, (i + 1) * 10 * MINUTE_MS);
    set_timer(0, 60 * MINUTE_MS); /* later */
    set_timer(3, 5 * MINUTE_MS);  /* earlier */
    set_timer(1, -1);
    set_timer(1, -1);
    assert_run(6 * MINUTE_MS, "3");
    assert_run(40 * MINUTE_MS, "32"); /* not 0, whose time was 10, and not 1 */
    set_timer(4, -1);
    set_timer(3, -1); /* has run */
    assert_run(10 * MINUTE_MS, "32");
    set_timer(1, MINUTE_MS); /* it was cleared, and is set again */
    assert_run(2 * MINUTE_MS, "321");
    assert_run(10 * MINUTE_MS, "3210");
}

static void timers_set_themselves_again(void **state)
{
    (void)state;
    begin_timers();
    timers[0].repeats = 2;
    set_timer(0, 10 * MINUTE_MS);
    assert_run(11 * MINUTE_MS, "0");
    assert_run(8 * MINUTE_MS, "0");
    assert_run(3 * MINUTE_MS, "00");
    assert_run(11 * MINUTE_MS, "000");
    assert_run(60 * MINUTE_MS, "000");
}

/* Those that wait go with the engine, and do not run. */
static void closing_the_engine_forgets_timers(void **state)
{
    (void)state;
    struct berth_engine *shared = engine;
    struct berth_error err;
    assert_int_equal(berth_engine_new(&engine, &err), BERTH_OK);
    begin_timers();
    set_timer(0, MINUTE_MS);
    berth_engine_free(engine);
    engine = shared;
    berth_time_shift(0, 10 * MINUTE_MS);
    pause_ms(50);
    assert_int_equal(notes.count, 0);
    assert_int_equal(timers[0].timer.deadline.index, 0);
}

/* Work that never ends: each step takes half a millisecond. */
struct endless {
    struct berth_work work;
    int steps;
};

static struct {
    struct endless all[8];
    struct berth_timer tick;
    int ticks, last_steps, most; /* steps between two ticks, of all together */
} busy;

static int busy_steps(void)
{
    int steps = 0;
    for (int i = 0; i < 8; i++)
        steps += busy.all[i].steps;
    return steps;
}

static void run_endless(struct berth_work *work)
{
    struct timespec from, now;
    (void)clock_gettime(CLOCK_MONOTONIC, &from);
    do
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000000000 + now.tv_nsec - from.tv_nsec < 500000);
    ((struct endless *)(void *)work)->steps++;
    berth_work_put(engine, work);
    berth_work_put(engine, work); /* twice is fine */
}

/* A timer that is due in each turn of the loop. */
static void on_busy_tick(struct berth_timer *timer)
{
    int steps = busy_steps();
    if (steps - busy.last_steps > busy.most)
        busy.most = steps - busy.last_steps;
    busy.last_steps = steps;
    if (++busy.ticks < 100) {
        berth_timer_set(engine, timer, 1);
        return;
    }
    for (int i = 0; i < 8; i++)
        berth_work_drop(engine, &busy.all[i].work);
    (void)sem_post(&notes.done);
}

static void start_busy(void *ctx)
{
    (void)ctx;
    for (int i = 0; i < 8; i++) {
        busy.all[i].work.run = run_endless;
        berth_work_put(engine, &busy.all[i].work);
    }
    busy.tick.run = on_busy_tick;
    berth_timer_set(engine, &busy.tick, 0);
}

/* However much work there is: it takes turns, and timers and sockets wait for a few steps only. */
static void work_takes_turns(void **state)
{
    (void)state;
    struct berth_error err;
    begin_notes();
    assert_int_equal(berth_engine_do(engine, start_busy, NULL, &err), BERTH_OK);
    while (sem_wait(&notes.done) < 0 && errno == EINTR)
        ;
    assert_in_range(busy.most, 1, 8);
    for (int i = 0; i < 8; i++)
        assert_in_range(busy.all[0].steps - busy.all[i].steps, 0, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_takes_turns),
        cmocka_unit_test(posts_run_in_order),
        cmocka_unit_test(post_from_a_post),
        cmocka_unit_test(post_to_an_engine_that_never_ran),
        cmocka_unit_test(timers_follow_the_moved_clock),
        cmocka_unit_test(timers_run_by_themselves),
        cmocka_unit_test(timers_are_moved_and_cleared),
        cmocka_unit_test(timers_set_themselves_again),
        cmocka_unit_test(closing_the_engine_forgets_timers),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
