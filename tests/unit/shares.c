/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/shares.c - a provider that hangs leaves threads to the others, companies too, and the
 * queue has an end. Jobs run on other threads, where cmocka cannot fail a test: they count, the
 * test looks. */
#include "os/shares.h"

#include "fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define PATIENCE_S 20 /* real time, spent only by a test that fails */

static struct {
    struct berth_error err;
} t;

static const struct berth_shares_limits limits = {
    .threads = 32, .reserved = 4, .queued_max = 300, .key_queued_max = 100};

/* A door at which jobs wait, as at a provider that hangs. */
struct door {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int in, out; /* jobs that came, and those that went on */
    bool open;
};
#define DOOR_INIT                                                                                  \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER                     \
    }

static void pass_door(void *ctx)
{
    struct door *d = ctx;
    pthread_mutex_lock(&d->lock);
    d->in++;
    pthread_cond_broadcast(&d->changed);
    while (!d->open)
        pthread_cond_wait(&d->changed, &d->lock);
    d->out++;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

static void open_door(struct door *d)
{
    pthread_mutex_lock(&d->lock);
    d->open = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

/* Waits until `count` jobs stand at the door, or went through it. */
static void await_in(struct door *d, int count)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&d->lock);
    int rc = 0;
    while (d->in < count && rc == 0)
        rc = pthread_cond_timedwait(&d->changed, &d->lock, &until);
    int in = d->in;
    pthread_mutex_unlock(&d->lock);
    assert_int_equal(in, count);
}

static struct berth_shares *new_shares(void)
{
    struct berth_shares *all;
    assert_ok(&t, berth_shares_new(&limits, &all, &t.err));
    return all;
}

/* Submits jobs that go through the door. Returns how many were taken. */
static int submit(struct berth_shares *all, const char *provider, const char *company,
                  struct door *d, int count)
{
    struct berth_share *share;
    int taken = 0;
    assert_ok(&t, berth_share_open(all, provider, company, &share, &t.err));
    while (taken < count && berth_share_submit(share, pass_door, d, &t.err) == BERTH_OK)
        taken++;
    berth_share_close(share);
    return taken;
}

static void an_unused_one_can_go(void **state)
{
    (void)state;
    struct berth_share *share;
    berth_shares_free(NULL);
    berth_shares_free(new_shares());
    struct berth_shares *all = new_shares();
    assert_ok(&t, berth_share_open(all, "fake", "acme", &share, &t.err));
    berth_share_close(share);
    berth_share_close(NULL);
    berth_shares_free(all);
}

/* Each that hangs takes a third of what the ones before it have left. The reserve stays free. */
static void providers_that_hang_leave_threads(void **state)
{
    (void)state;
    struct berth_shares *all = new_shares();
    struct door doors[4] = {DOOR_INIT, DOOR_INIT, DOOR_INIT, DOOR_INIT}, local = DOOR_INIT;
    static const int expected[] = {10, 6, 4, 3};
    for (int i = 0; i < 4; i++) {
        char provider[16], company[16];
        (void)snprintf(provider, sizeof provider, "provider%d", i);
        (void)snprintf(company, sizeof company, "company%d", i);
        assert_int_equal(submit(all, provider, company, &doors[i], 50), 50);
        await_in(&doors[i], expected[i]);
    }
    assert_int_equal(submit(all, NULL, "company0", &local, 3), 3);
    await_in(&local, 3);
    for (int i = 0; i < 4; i++)
        assert_int_equal(doors[i].in, expected[i]); /* still */
    for (int i = 0; i < 4; i++)
        open_door(&doors[i]);
    open_door(&local);
    berth_shares_free(all);
    for (int i = 0; i < 4; i++)
        assert_int_equal(doors[i].out, 50);
    assert_int_equal(local.out, 3);
}

/* One company at many providers leaves threads to other companies. */
static void a_company_leaves_threads(void **state)
{
    (void)state;
    struct berth_shares *all = new_shares();
    struct door greedy = DOOR_INIT, other = DOOR_INIT;
    for (int i = 0; i < 20; i++) {
        char provider[16];
        (void)snprintf(provider, sizeof provider, "host%d", i);
        assert_int_equal(submit(all, provider, "greedy", &greedy, 2), 2);
    }
    await_in(&greedy, 23);
    assert_int_equal(submit(all, "host0", "other", &other, 1), 1);
    await_in(&other, 1);
    assert_int_equal(greedy.in, 23);
    open_door(&greedy);
    open_door(&other);
    berth_shares_free(all);
    assert_int_equal(greedy.out, 40);
    assert_int_equal(other.out, 1);
}

/* At a provider that works, a company with one request does not wait for another's hundred. */
static void companies_take_turns(void **state)
{
    (void)state;
    struct berth_shares *all = new_shares();
    struct door first = DOOR_INIT, second = DOOR_INIT, late = DOOR_INIT;
    assert_int_equal(submit(all, "fake", "a", &first, 10), 10);
    await_in(&first, 10);
    assert_int_equal(submit(all, "fake", "a", &second, 80), 80);
    assert_int_equal(submit(all, "fake", "b", &late, 1), 1);
    assert_int_equal(berth_shares_queued(all), 81);
    open_door(&first); /* of the 10 that start now, one is the other company's */
    await_in(&late, 1);
    await_in(&second, 9);
    open_door(&second);
    open_door(&late);
    berth_shares_free(all);
}

static void the_queue_has_an_end(void **state)
{
    (void)state;
    struct berth_shares *all = new_shares();
    struct door d = DOOR_INIT;
    struct berth_share *share;
    assert_int_equal(submit(all, "fake", "a", &d, 1000), 10 + 100);
    assert_int_equal(t.err.code, BERTH_E_UNAVAILABLE);
    assert_string_equal(t.err.message, "Too many requests wait for fake. Try again later.");
    assert_int_equal(submit(all, "fake", "b", &d, 10), 0); /* of the provider, whoever asks */
    assert_ok(&t, berth_share_open(all, "fake", "b", &share, &t.err));
    assert_int_equal(berth_share_check(share, &t.err), BERTH_E_UNAVAILABLE);
    struct berth_job owed = {.fn = pass_door, .ctx = &d};
    berth_share_put(share, &owed); /* what must run is taken all the same */
    berth_share_close(share);
    assert_int_equal(submit(all, "ssh 1", "c", &d, 10), 10);
    assert_int_equal(submit(all, "ssh 2", "d", &d, 1000), 4 + 100);
    assert_int_equal(submit(all, "ssh 3", "e", &d, 1000), 3 + 95); /* 300 wait */
    assert_string_equal(t.err.message, "Too many requests wait. Try again later.");
    open_door(&d);
    berth_shares_free(all);
    assert_int_equal(d.in, d.out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unused_one_can_go),
        cmocka_unit_test(providers_that_hang_leave_threads),
        cmocka_unit_test(a_company_leaves_threads),
        cmocka_unit_test(companies_take_turns),
        cmocka_unit_test(the_queue_has_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
