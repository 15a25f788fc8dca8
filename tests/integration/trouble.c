/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/trouble.c - drivers that fail, hang and lie. Nothing is lost, and nobody else
 * is held up. */
#include "fixture.h"

#include <time.h>

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/failpoint.h"
#include "base/limits.h"
#include "base/time.h"
#include "inventory.h"
#include "scripted.h"
#include "store/store.h"

#define MINUTE_MS INT64_C(60000)
#define DAY_MS (24 * 60 * MINUTE_MS)

#define SCRIPTED "{\"provider\":\"scripted\"}"
#define SCRIPTED_REUSED "{\"provider\":\"scripted\",\"reuseLease\":true}"
#define BLIND "{\"provider\":\"blind\"}"
#define BLIND_REUSED "{\"provider\":\"blind\",\"reuseLease\":true}"
#define INVENTORY "{\"provider\":\"inventory\"}"

/* --- help --- */

static void fails(struct fixture *f, enum scripted_op op, int code, const char *text)
{
    scripted_set(f->world, op,
                 (struct scripted_act){.mode = SCRIPTED_FAIL, .code = code, .text = text});
}

static struct berth_sweep_report sweep_for(struct fixture *f, int64_t wait_ms)
{
    struct berth_sweep_options options = BERTH_SWEEP_OPTIONS_INIT;
    options.wait_ms = wait_ms;
    struct berth_sweep_report report;
    assert_ok(f, berth_sweep(f->b, &options, &report, &f->err));
    return report;
}

/* A release on a thread of its own. */
struct giver {
    struct berth *b;
    const char *lease_id;
    pthread_t thread;
    struct berth_arena arena;
    struct berth_lease *lease;
    int rc;
    struct berth_error err;
};

static void *giver_main(void *ctx)
{
    struct giver *g = ctx;
    struct berth_release_request request = {.lease_id = g->lease_id,
                                            .status = BERTH_LEASE_RELEASED};
    g->rc = berth_lease_release(g->b, &g->arena, &request, &g->lease, &g->err);
    return NULL;
}

static void start_giving(struct giver *g, struct fixture *f, const struct berth_lease *lease)
{
    *g = (struct giver){.b = f->b, .lease_id = lease->id};
    assert_int_equal(pthread_create(&g->thread, NULL, giver_main, g), 0);
}

static void end_giving(struct giver *g)
{
    pthread_join(g->thread, NULL);
    int rc = g->rc;
    berth_arena_clear(&g->arena);
    if (rc < 0)
        fail_msg("release: %s", g->err.message);
}

/* An acquire on a thread of its own. */
struct taker {
    struct berth *b;
    struct berth_lease_request request;
    pthread_t thread;
    struct berth_arena arena;
    struct berth_lease *lease;
    int rc;
    struct berth_error err;
};

static void *taker_main(void *ctx)
{
    struct taker *t = ctx;
    t->rc = berth_lease_acquire(t->b, &t->arena, &t->request, &t->lease, &t->err);
    return NULL;
}

static void start_taking(struct taker *t, struct fixture *f, struct berth_lease_request request)
{
    *t = (struct taker){.b = f->b, .request = request};
    assert_int_equal(pthread_create(&t->thread, NULL, taker_main, t), 0);
}

/* --- hanging --- */

/* What environment B does while A's provider hangs: all of a lease's life. */
static void live_in_b(struct fixture *f, const struct berth_environment *b)
{
    struct berth_lease *given = take_lease(f, b, make_run(f));
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = b->id;
    request.ttl_ms = 1;
    struct berth_lease *left;
    assert_ok(f, berth_lease_acquire(f->b, &f->arena, &request, &left, &f->err));
    (void)give_lease(f, given, BERTH_LEASE_RELEASED);
    assert_done(f, given, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    move_clock(MINUTE_MS);
}

static void hanging_release_holds_up_nobody_else(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *a = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_environment *b = make_environment(f, BERTH_DRIVER_SANDBOX, INVENTORY);
    struct berth_environment *same = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_lease *stuck = take_lease(f, a, make_run(f));
    scripted_set(f->world, SCRIPTED_RELEASE,
                 (struct scripted_act){.mode = SCRIPTED_STALL, .environment = a->id});
    struct giver giver;
    start_giving(&giver, f, stuck);
    assert_true(scripted_await(f->world, SCRIPTED_RELEASE, 1));

    live_in_b(f, b);
    live_in_b(f, same); /* the same provider, elsewhere */
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.expired, 2);
    assert_int_equal(report.unfinished, 0); /* A's lease is being worked on: it is left alone */
    assert_int_equal(report.adopted, 0);
    assert_int_equal(inventory_count(f->inventory), 0);
    struct berth_lease *row = look_at_lease(f, stuck);
    assert_int_equal(row->status, BERTH_LEASE_RELEASING);
    assert_int_equal(row->cleanup, BERTH_CLEANUP_PENDING);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_DESTROY), 0);
    /* Even A itself gives out another place. */
    struct berth_lease *beside = take_lease(f, a, NULL);
    assert_int_equal(beside->status, BERTH_LEASE_ACTIVE);
    check_world(f);

    scripted_go_on(f->world);
    end_giving(&giver);
    assert_done(f, stuck, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    check_world(f);
    check_invariants(f);
}

static void hanging_sweep_holds_up_nobody_else(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *a = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_environment *b = make_environment(f, BERTH_DRIVER_SANDBOX, INVENTORY);
    struct berth_lease *stuck = take_lease(f, a, NULL);
    struct berth_lease *left = take_lease(f, b, NULL);
    scripted_set(f->world, SCRIPTED_RELEASE, (struct scripted_act){.mode = SCRIPTED_STALL});
    move_clock(DAY_MS);
    struct berth_sweep_report report = sweep_for(f, 2000);
    assert_int_equal(report.unfinished, 1);
    assert_int_equal(report.expired, 1);
    assert_int_equal(report.failed, 0);
    assert_int_equal(report.owed, 1);
    assert_done(f, left, BERTH_LEASE_EXPIRED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_row(f, stuck, BERTH_LEASE_RELEASING, BERTH_PLACE_LIVE, BERTH_CLEANUP_PENDING);

    /* A second pass does not start the same work again. */
    live_in_b(f, b);
    report = sweep_for(f, 2000);
    assert_int_equal(report.expired, 1);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_RELEASE), 1);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_DESTROY), 0);

    scripted_go_on(f->world);
    fixture_close(f); /* waits for what is under way */
    fixture_open(f);
    assert_done(f, stuck, BERTH_LEASE_EXPIRED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(scripted_count(f->world), 0);
    check_invariants(f);
}

/* A provider that never answers, asked again and again, must not use up the threads that others'
 * leases wait for. */
static void hanging_find_uses_up_no_threads(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *a = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_environment *b = make_environment(f, BERTH_DRIVER_SANDBOX, INVENTORY);
    scripted_set(f->world, SCRIPTED_FIND,
                 (struct scripted_act){.mode = SCRIPTED_STALL, .environment = a->id});
    assert_int_equal(sweep_for(f, 1).failed, 0);
    assert_true(scripted_await(f->world, SCRIPTED_FIND, 1));
    for (int i = 0; i < BERTH_POOL_THREADS_MAX; i++)
        (void)sweep_for(f, 1);
    struct berth_lease *left = take_lease(f, b, NULL);
    move_clock(DAY_MS);
    struct berth_sweep_report report = {0};
    for (int i = 0; i < 20 && !report.expired; i++)
        report = sweep_for(f, 100);
    assert_int_equal(report.expired, 1);
    assert_done(f, left, BERTH_LEASE_EXPIRED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_true(scripted_calls(f->world, SCRIPTED_FIND) <= BERTH_POOL_THREADS_MAX / 2);
}

/* The same with an environment that has many leases to take back. */
static void hanging_leases_use_up_no_threads(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *a = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_environment *b = make_environment(f, BERTH_DRIVER_SANDBOX, INVENTORY);
    for (int i = 0; i <= BERTH_POOL_THREADS_MAX; i++)
        (void)take_lease(f, a, NULL);
    struct berth_lease *left = take_lease(f, b, NULL);
    scripted_set(f->world, SCRIPTED_RELEASE,
                 (struct scripted_act){.mode = SCRIPTED_STALL, .environment = a->id});
    run_sql(f, "UPDATE leases SET due_at = 1, version = version + 1 WHERE id <> $1", left->id);
    for (int i = 0; i <= BERTH_POOL_THREADS_MAX; i++)
        (void)sweep_for(f, 20);
    assert_true(scripted_await(f->world, SCRIPTED_RELEASE, 1));
    move_clock(DAY_MS);
    struct berth_sweep_report report = {0};
    for (int i = 0; i < 20 && !report.expired; i++)
        report = sweep_for(f, 100);
    assert_int_equal(report.expired, 1);
    assert_done(f, left, BERTH_LEASE_EXPIRED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
}

/* Closing the runtime gives up on calls that listen; what they were to do stays owed. */
static void closing_cancels_what_hangs(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *a = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_lease *stuck = take_lease(f, a, NULL);
    scripted_set(f->world, SCRIPTED_RELEASE, (struct scripted_act){.mode = SCRIPTED_HANG});
    move_clock(DAY_MS);
    assert_int_equal(sweep_for(f, 1).unfinished, 1);
    assert_true(scripted_await(f->world, SCRIPTED_RELEASE, 1));
    fixture_close(f);
    fixture_open(f);
    assert_row(f, stuck, BERTH_LEASE_EXPIRED, BERTH_PLACE_LIVE, BERTH_CLEANUP_FAILED);
    assert_string_equal(look_at_lease(f, stuck)->cleanup_error, "scripted: the caller gave up");
    check_world(f);
    scripted_go_on(f->world);
    move_clock(f->b->settings.cleanup_retry_ms);
    assert_int_equal(sweep(f).cleaned, 1);
    assert_done(f, stuck, BERTH_LEASE_EXPIRED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
}

/* --- acquire: given up, timed out, failed --- */

static void acquire_is_cancelled(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    scripted_set(f->world, SCRIPTED_ACQUIRE,
                 (struct scripted_act){.mode = SCRIPTED_HANG, .after = true});
    auto_close int cancel_fd = eventfd(0, EFD_CLOEXEC);
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = e->id;
    request.cancel_fd = cancel_fd;
    struct taker taker;
    start_taking(&taker, f, request);
    assert_true(scripted_await(f->world, SCRIPTED_ACQUIRE, 1));
    struct berth_lease *row = newest_lease(f, e);
    assert_int_equal(row->status, BERTH_LEASE_ACQUIRING);
    assert_int_equal(scripted_count(f->world), 1);
    struct berth_release_request release = {.lease_id = row->id, .status = BERTH_LEASE_RELEASED};
    assert_fails(f, BERTH_E_CONFLICT,
                 "is still being acquired: wait for it, or cancel the acquire.",
                 berth_lease_release(f->b, &f->arena, &release, &row, &f->err));
    assert_int_equal(eventfd_write(cancel_fd, 1), 0);
    pthread_join(taker.thread, NULL);
    assert_int_equal(taker.rc, BERTH_E_CANCELLED);
    assert_string_equal(taker.err.message, "scripted: the caller gave up");
    berth_arena_clear(&taker.arena);
    /* The clean-up of it is not cancelled. */
    row = newest_lease(f, e);
    assert_done(f, row, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_string_equal(row->failure_reason, "scripted: the caller gave up");
    assert_int_equal(scripted_count(f->world), 0);

    /* Cancelled before it began, the provider is not called at all. */
    int calls = scripted_calls(f->world, SCRIPTED_ACQUIRE);
    struct berth_lease *lease;
    assert_int_equal(berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err),
                     BERTH_E_CANCELLED);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_ACQUIRE), calls);
    assert_done(f, newest_lease(f, e), BERTH_LEASE_FAILED, BERTH_PLACE_NONE, BERTH_CLEANUP_NULL);
}

static void acquire_times_out(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    scripted_set(f->world, SCRIPTED_ACQUIRE,
                 (struct scripted_act){.mode = SCRIPTED_HANG, .after = true});
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = e->id;
    request.timeout_ms = 20;
    struct berth_lease *lease;
    assert_fails(f, BERTH_E_TIMEOUT, "scripted: the deadline passed",
                 berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err));
    struct berth_lease *row = newest_lease(f, e);
    assert_done(f, row, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_string_equal(row->failure_reason, "scripted: the deadline passed");
    assert_int_equal(scripted_count(f->world), 0);
    const struct berth_activity *a = last_activity(f, row->id, "environment.lease_released");
    assert_string_equal(json_text(f, a->details_json, "status"), "failed");
}

/* A resume that is given up: neither the claimed place nor the lease is lost. */
static void resume_times_out(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED_REUSED);
    struct berth_lease *parked = take_lease(f, e, make_run(f));
    (void)give_lease(f, parked, BERTH_LEASE_RELEASED);
    scripted_set(f->world, SCRIPTED_RESUME, (struct scripted_act){.mode = SCRIPTED_HANG});
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = e->id;
    request.run_id = make_run(f)->id;
    request.timeout_ms = 20;
    struct berth_lease *lease;
    assert_int_equal(berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err),
                     BERTH_E_TIMEOUT);
    check_world(f);
    scripted_go_on(f->world);
    assert_int_equal(sweep(f).failed, 0);
    assert_int_equal(scripted_count(f->world), 0);
    assert_done(f, parked, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(newest_lease(f, e)->status, BERTH_LEASE_FAILED);
    assert_int_equal(newest_lease(f, e)->due_at_ms, 0);
}

/* The code with which an acquire fails tells whether a place may exist. */
static void failed_acquires_are_cleaned_up_by_their_code(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    static const struct {
        int code;
        bool maybe;
    } codes[] = {{BERTH_E_INVALID, false},      {BERTH_E_DENIED, false},
                 {BERTH_E_NOT_FOUND, false},    {BERTH_E_CONFLICT, false},
                 {BERTH_E_TOO_LARGE, false},    {BERTH_E_UNSUPPORTED, false},
                 {BERTH_E_UNAUTHORIZED, false}, {BERTH_E_UNPROCESSABLE, false},
                 {BERTH_E_RATE_LIMITED, false}, {BERTH_E_UNAVAILABLE, true},
                 {BERTH_E_TIMEOUT, true},       {BERTH_E_CANCELLED, true},
                 {BERTH_E_NO_MEMORY, true},     {BERTH_E_INTERNAL, true},
                 {BERTH_E_UPSTREAM, true}};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        scripted_set(f->world, SCRIPTED_ACQUIRE,
                     (struct scripted_act){.mode = SCRIPTED_FAIL,
                                           .code = codes[i].code,
                                           .text = "no box for you",
                                           .after = codes[i].maybe});
        int destroys = scripted_calls(f->world, SCRIPTED_DESTROY);
        assert_fails(f, codes[i].code, "no box for you", try_lease(f, e, make_run(f)));
        struct berth_lease *row = newest_lease(f, e);
        if (codes[i].maybe)
            assert_done(f, row, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
        else
            assert_done(f, row, BERTH_LEASE_FAILED, BERTH_PLACE_NONE, BERTH_CLEANUP_NULL);
        assert_string_equal(row->failure_reason, "no box for you");
        assert_int_equal(scripted_calls(f->world, SCRIPTED_DESTROY) - destroys, codes[i].maybe);
        assert_int_equal(scripted_count(f->world), 0);
    }
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.failed + report.owed + report.found, 0);
}

/* --- owed clean-up --- */

static void owed_cleanup_is_retried_until_it_is_confirmed(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    fails(f, SCRIPTED_RELEASE, BERTH_E_UNAVAILABLE, "no route to the box");
    int64_t wait = f->b->settings.cleanup_retry_ms;
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
    for (int attempt = 1; attempt <= 13; attempt++) {
        struct berth_lease *row = look_at_lease(f, lease);
        assert_row(f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_LIVE, BERTH_CLEANUP_FAILED);
        assert_int_equal(row->cleanup_attempts, attempt);
        assert_string_equal(row->cleanup_error, "no route to the box");
        assert_in_range(row->due_at_ms - row->updated_at_ms, wait - 100,
                        wait + 100); /* the times are from two clocks */
        assert_null(row->owner);
        assert_int_equal(scripted_calls(f->world, SCRIPTED_RELEASE), attempt);
        /* Before its time it is not tried. */
        struct berth_sweep_report report = sweep(f);
        assert_int_equal(report.failed, 0);
        assert_int_equal(report.owed, 1);
        assert_int_equal(scripted_calls(f->world, SCRIPTED_RELEASE), attempt);
        move_clock(wait);
        report = sweep(f);
        assert_int_equal(report.failed, 1);
        assert_int_equal(report.cleaned, 0);
        assert_int_equal(report.owed, 1);
        check_world(f);
        wait *= 2;
        if (wait > f->b->settings.cleanup_retry_max_ms)
            wait = f->b->settings.cleanup_retry_max_ms;
    }
    assert_int_equal(wait, f->b->settings.cleanup_retry_max_ms);
    assert_int_equal(count_activity(f, lease->id, "environment.lease_cleaned_up"), 0);
    const struct berth_activity *a = last_activity(f, lease->id, "environment.lease_released");
    assert_string_equal(json_text(f, a->details_json, "cleanupStatus"), "failed");

    scripted_go_on(f->world);
    move_clock(wait);
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.cleaned, 1);
    assert_int_equal(report.owed, 0);
    assert_done(f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    struct berth_lease *row = look_at_lease(f, lease);
    assert_int_equal(row->cleanup_attempts, 14);
    assert_null(row->cleanup_error);
    assert_int_equal(count_activity(f, lease->id, "environment.lease_released"), 1);
    a = last_activity(f, lease->id, "environment.lease_cleaned_up");
    assert_non_null(a);
    assert_string_equal(json_text(f, a->details_json, "cleanupStatus"), "success");
    assert_string_equal(json_text(f, a->details_json, "place"), "gone");
    assert_string_equal(a->actor_type, "system");
    assert_int_equal(scripted_count(f->world), 0);
}

/* What did not stop cleanly is ended, not handed on. */
static void place_that_would_not_park_is_destroyed(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED_REUSED);
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    scripted_set(
        f->world, SCRIPTED_RELEASE,
        (struct scripted_act){
            .mode = SCRIPTED_FAIL, .code = BERTH_E_TIMEOUT, .text = "slow", .after = true});
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
    assert_row(f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_LIVE, BERTH_CLEANUP_FAILED);
    assert_int_equal(look_at_lease(f, lease)->duty, BERTH_DUTY_DESTROY);
    struct berth_lease *next = take_lease(f, e, make_run(f));
    assert_string_not_equal(next->provider_lease_id, lease->provider_lease_id);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_RESUME), 0);
    move_clock(f->b->settings.cleanup_retry_ms);
    assert_int_equal(sweep(f).cleaned, 1);
    assert_done(f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_false(scripted_has(f->world, lease->provider_lease_id));
    assert_true(scripted_has(f->world, next->provider_lease_id));
}

/* A parked place that will not go is not claimed any more, and is retried like the others. */
static void parked_place_that_will_not_go_stays_owed(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED_REUSED);
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
    fails(f, SCRIPTED_DESTROY, BERTH_E_UPSTREAM, "it will not go");
    move_clock(DAY_MS);
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.failed, 1);
    assert_int_equal(report.unparked, 0);
    assert_int_equal(report.owed, 1);
    assert_int_equal(look_at_lease(f, lease)->cleanup, BERTH_CLEANUP_FAILED);
    assert_int_equal(look_at_lease(f, lease)->cleanup_attempts, 1);
    struct berth_lease *next = take_lease(f, e, make_run(f));
    assert_string_not_equal(next->provider_lease_id, lease->provider_lease_id);
    check_world(f);
    scripted_go_on(f->world);
    move_clock(f->b->settings.cleanup_retry_ms);
    report = sweep(f);
    assert_int_equal(report.failed, 0);
    assert_int_equal(report.owed, 0);
    assert_done(f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(scripted_count(f->world), 1);
}

static void destroyed_lease_ends_failed_with_its_place_gone(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED_REUSED);
    struct berth_lease *lease = take_lease(f, e, make_run(f)), *ended;
    assert_ok(f, berth_lease_destroy(f->b, &f->arena, lease->id, NULL, &ended, &f->err));
    assert_done(f, lease, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_DESTROY), 1);
    assert_ok(f, berth_lease_destroy(f->b, &f->arena, lease->id, NULL, &ended, &f->err));
    assert_int_equal(scripted_calls(f->world, SCRIPTED_DESTROY), 1);
    /* R15: `failed` alone is nothing to a sweep. */
    move_clock(DAY_MS);
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.cleaned + report.failed + report.owed, 0);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_DESTROY), 1);
}

/* --- lies --- */

static char *repeated(struct fixture *f, const char *head, char c, size_t count, const char *tail)
{
    size_t len = strlen(head);
    char *text = berth_arena_alloc(&f->arena, len + count + strlen(tail) + 1);
    assert_non_null(text);
    memcpy(text, head, len);
    memset(text + len, c, count);
    memcpy(text + len + count, tail, strlen(tail));
    return text;
}

#define NO_USABLE_ID "Provider \"scripted\" answered without a usable id."
#define BAD_METADATA "Provider \"scripted\" answered with metadata that cannot be kept."

struct lie {
    const char *name, *text;
    struct scripted_act act;
};

/* In `out`, which has room; answers how many there are. */
static int all_lies(struct fixture *f, struct lie *out)
{
    const struct lie lies[] = {
        {"no id", NO_USABLE_ID, {.no_id = true}},
        {"empty id", NO_USABLE_ID, {.id = ""}},
        {"over-long id",
         NO_USABLE_ID,
         {.id = repeated(f, "scripted://", 'x', BERTH_PLACE_ID_BYTES_MAX, "")}},
        {"endless id", NO_USABLE_ID, {.id = repeated(f, "", 'x', 3000000, "")}},
        {"id that is not UTF-8", NO_USABLE_ID, {.id = "scripted://\xc3\x28"}},
        {"metadata that is not JSON", BAD_METADATA, {.metadata = "{sandbox: 1}"}},
        {"empty metadata", BAD_METADATA, {.metadata = ""}},
        {"metadata that is cut", BAD_METADATA, {.metadata = "{\"a\":1"}},
        {"metadata that goes on", BAD_METADATA, {.metadata = "{} {}"}},
        {"metadata that is a list", BAD_METADATA, {.metadata = "[1]"}},
        {"metadata that is null", BAD_METADATA, {.metadata = "null"}},
        {"metadata with a NUL", BAD_METADATA, {.metadata = "{\"a\":\"\\u0000\"}"}},
        {"metadata that is not UTF-8", BAD_METADATA, {.metadata = "{\"a\":\"\xff\"}"}},
        {"metadata too large",
         BAD_METADATA,
         {.metadata = repeated(f, "{\"a\":\"", 'x', BERTH_METADATA_BYTES_MAX, "\"}")}},
        {"metadata too deep", BAD_METADATA, {.metadata = repeated(f, "{\"a\":", '[', 100000, "")}},
    };
    memcpy(out, lies, sizeof lies);
    return (int)(sizeof lies / sizeof lies[0]);
}

static void lies_end_as_failed_leases(void **state)
{
    struct fixture *f = *state;
    struct lie lies[24];
    int count = all_lies(f, lies);
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_lease *bystander = take_lease(f, e, make_run(f));
    for (int i = 0; i < count; i++) {
        print_message("# %s\n", lies[i].name);
        scripted_set(f->world, SCRIPTED_ACQUIRE, lies[i].act);
        int rc = try_lease(f, e, make_run(f));
        assert_int_equal(rc, BERTH_E_UPSTREAM);
        assert_string_equal(f->err.message, lies[i].text);
        struct berth_lease *row = newest_lease(f, e);
        assert_string_not_equal(row->id, bystander->id);
        assert_done(f, row, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
        assert_string_equal(row->failure_reason, lies[i].text);
        assert_int_equal(scripted_count(f->world), 1);
    }
    assert_row(f, bystander, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.failed + report.owed + report.found + report.quarantined, 0);
    check_world(f);
}

/* What a resume lies about: the claimed place is ended, not forgotten, whether or not its provider
 * can be asked. */
static void lies_of_a_resume_lose_no_place(struct fixture *f, const char *config)
{
    struct lie lies[24];
    int count = all_lies(f, lies);
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, config);
    for (int i = 0; i < count; i++) {
        if (lies[i].act.no_id || (lies[i].act.id && !*lies[i].act.id))
            continue; /* no id is no lie here: the place is gone; an empty one is tested apart */
        print_message("# %s\n", lies[i].name);
        struct berth_lease *parked = take_lease(f, e, make_run(f));
        (void)give_lease(f, parked, BERTH_LEASE_RELEASED);
        scripted_set(f->world, SCRIPTED_RESUME, lies[i].act);
        (void)try_lease(f, e, make_run(f)); /* refused, or given a fresh place */
        check_world(f);
        scripted_go_on(f->world);
        struct berth_lease *last = newest_lease(f, e);
        if (last->status == BERTH_LEASE_ACTIVE)
            (void)give_lease(f, last, BERTH_LEASE_FAILED);
        (void)sweep(f);
        assert_int_equal(scripted_count(f->world), 0);
        assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"), 0);
    }
}

static void resume_lies(void **state)
{
    lies_of_a_resume_lose_no_place(*state, SCRIPTED_REUSED);
}

static void resume_lies_of_a_blind_provider(void **state)
{
    lies_of_a_resume_lose_no_place(*state, BLIND_REUSED);
}

/* "Gone" is said by no id at all; an empty one says nothing, so the place may still be there. */
static void resume_that_answers_an_empty_id(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, BLIND_REUSED);
    struct berth_lease *parked = take_lease(f, e, make_run(f));
    (void)give_lease(f, parked, BERTH_LEASE_RELEASED);
    scripted_set(f->world, SCRIPTED_RESUME, (struct scripted_act){.id = ""});
    (void)try_lease(f, e, make_run(f));
    check_world(f);
    scripted_go_on(f->world);
    struct berth_lease *last = newest_lease(f, e);
    if (last->status == BERTH_LEASE_ACTIVE)
        (void)give_lease(f, last, BERTH_LEASE_FAILED);
    (void)sweep(f);
    assert_int_equal(scripted_count(f->world), 0);
}

/* The claimed place answers under another name: both are places, and both are answered for. */
static void resume_that_answers_another_id(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, BLIND_REUSED);
    struct berth_lease *parked = take_lease(f, e, make_run(f));
    (void)give_lease(f, parked, BERTH_LEASE_RELEASED);
    scripted_set(f->world, SCRIPTED_RESUME, (struct scripted_act){.id = "scripted://another"});
    (void)try_lease(f, e, make_run(f));
    check_world(f); /* somebody still answers for the parked place */
    scripted_go_on(f->world);
    struct berth_lease *last = newest_lease(f, e);
    if (last->status == BERTH_LEASE_ACTIVE)
        (void)give_lease(f, last, BERTH_LEASE_FAILED);
    (void)sweep(f);
    assert_int_equal(scripted_count(f->world), 0);
}

static void id_that_another_lease_holds(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_lease *holder = take_lease(f, e, make_run(f));
    scripted_set(f->world, SCRIPTED_ACQUIRE,
                 (struct scripted_act){.id = holder->provider_lease_id, .makes_nothing = true});
    int rc = try_lease(f, e, make_run(f));
    assert_int_equal(rc, BERTH_E_CONFLICT);
    assert_string_equal(f->err.message,
                        "Provider \"scripted\" handed out a place that another lease holds.");
    struct berth_lease *row = newest_lease(f, e);
    assert_string_not_equal(row->id, holder->id);
    assert_done(f, row, BERTH_LEASE_FAILED, BERTH_PLACE_NONE, BERTH_CLEANUP_NULL);
    assert_string_equal(row->failure_reason, "place_in_use");
    assert_null(row->provider_lease_id);
    assert_non_null(last_activity(f, row->id, "environment.lease_failed"));
    /* That place is not touched, now or later. */
    assert_int_equal(scripted_calls(f->world, SCRIPTED_DESTROY), 0);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_RELEASE), 0);
    (void)sweep(f);
    assert_true(scripted_has(f->world, holder->provider_lease_id));
    assert_row(f, holder, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_DESTROY), 0);
    check_world(f);
}

/* The same id in another environment is another place. */
static void same_id_in_another_environment(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *a = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_environment *b = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    scripted_set(f->world, SCRIPTED_ACQUIRE,
                 (struct scripted_act){.id = "one-and-the-same", .makes_nothing = true});
    assert_ok(f, try_lease(f, a, make_run(f)));
    assert_ok(f, try_lease(f, b, make_run(f)));
    assert_int_equal(try_lease(f, a, make_run(f)), BERTH_E_CONFLICT);
}

/* A parked or owed place is held too. */
static void id_of_a_parked_place_is_held(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED_REUSED);
    struct berth_lease *parked = take_lease(f, e, make_run(f));
    (void)give_lease(f, parked, BERTH_LEASE_RELEASED);
    scripted_set(f->world, SCRIPTED_ACQUIRE,
                 (struct scripted_act){.id = parked->provider_lease_id, .makes_nothing = true});
    assert_int_equal(try_lease(f, e, NULL), BERTH_E_CONFLICT); /* ad hoc: never claims */
    assert_string_equal(newest_lease(f, e)->failure_reason, "place_in_use");
    assert_row(f, parked, BERTH_LEASE_RELEASED, BERTH_PLACE_PARKED, BERTH_CLEANUP_SUCCESS);
    assert_true(scripted_has(f->world, parked->provider_lease_id));
    assert_int_equal(scripted_calls(f->world, SCRIPTED_DESTROY), 0);
}

/* It made a place of its own, but answered with another's: the audit finds what was made. */
static void place_made_under_a_false_name_is_found(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_lease *holder = take_lease(f, e, make_run(f));
    scripted_set(f->world, SCRIPTED_ACQUIRE,
                 (struct scripted_act){.id = holder->provider_lease_id});
    assert_int_equal(try_lease(f, e, make_run(f)), BERTH_E_CONFLICT);
    struct berth_lease *row = newest_lease(f, e);
    assert_int_equal(scripted_count(f->world), 2);
    scripted_go_on(f->world);
    assert_int_equal(sweep(f).found, 1);
    assert_row(f, row, BERTH_LEASE_FAILED, BERTH_PLACE_LIVE, BERTH_CLEANUP_PENDING);
    assert_non_null(last_activity(f, row->id, "environment.lease_place_found"));
    check_world(f);
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.cleaned, 1);
    assert_int_equal(report.found, 0);
    assert_done(f, row, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(scripted_count(f->world), 1);
    assert_true(scripted_has(f->world, holder->provider_lease_id));
}

/* The provider's list is older than the release: it shows a place that is gone by now. */
static void place_that_goes_while_it_is_listed_is_not_found(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_lease *l = take_lease(f, e, NULL);
    struct berth_sweep_report report = {.unfinished = 1};
    scripted_set(f->world, SCRIPTED_FIND,
                 (struct scripted_act){.mode = SCRIPTED_STALL, .after = true});
    (void)sweep_for(f, 1);
    assert_true(scripted_await(f->world, SCRIPTED_FIND, 1));
    give_lease(f, l, BERTH_LEASE_RELEASED);
    scripted_go_on(f->world);
    for (int i = 0; i < 100 && report.unfinished; i++)
        report = sweep_for(f, 100);
    assert_int_equal(count_activity(f, l->id, "environment.lease_place_found"), 0);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_DESTROY), 0);
    assert_done(f, l, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
}

/* A sweep between the last release and the end of a delete does what is left to do. */
static struct fixture *sweeping;
static void sweep_after_drain(enum berth_failpoint point)
{
    if (point == BERTH_FP_delete_after_drain)
        assert_int_equal(sweep(sweeping).deleted, 1);
}

static void environment_that_a_sweep_deletes_first_is_deleted(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED), *deleted;
    struct berth_lease *l = take_lease(f, e, NULL);
    sweeping = f;
    berth_failpoint_watch(sweep_after_drain);
    int rc = berth_environment_delete(f->b, &f->arena, e->id, true, NULL, &deleted, &f->err);
    berth_failpoint_arm(BERTH_FP_COUNT, 0);
    assert_ok(f, rc);
    assert_string_equal(deleted->id, e->id);
    assert_done(f, l, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
}

/* Two lies at once: another's id, and metadata nobody can keep. */
static void held_id_with_bad_metadata(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_lease *holder = take_lease(f, e, make_run(f));
    scripted_set(f->world, SCRIPTED_ACQUIRE,
                 (struct scripted_act){
                     .id = holder->provider_lease_id, .metadata = "[", .makes_nothing = true});
    assert_int_equal(try_lease(f, e, make_run(f)), BERTH_E_UPSTREAM);
    scripted_go_on(f->world);
    assert_int_equal(sweep(f).failed, 0);
    struct berth_lease *row = newest_lease(f, e);
    assert_int_equal(row->status, BERTH_LEASE_FAILED);
    assert_int_equal(row->due_at_ms, 0);
    assert_true(scripted_has(f->world, holder->provider_lease_id)); /* not touched */
    assert_row(f, holder, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
}

/* "I made nothing", it said; the audit knows better. */
static void place_made_by_a_driver_that_denies_it(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    scripted_set(
        f->world, SCRIPTED_ACQUIRE,
        (struct scripted_act){
            .mode = SCRIPTED_FAIL, .code = BERTH_E_RATE_LIMITED, .text = "quota", .after = true});
    assert_int_equal(try_lease(f, e, NULL), BERTH_E_RATE_LIMITED);
    struct berth_lease *row = newest_lease(f, e);
    assert_done(f, row, BERTH_LEASE_FAILED, BERTH_PLACE_NONE, BERTH_CLEANUP_NULL);
    assert_int_equal(scripted_count(f->world), 1);
    assert_int_equal(sweep(f).found, 1);
    assert_int_equal(sweep(f).cleaned, 1);
    assert_done(f, row, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(scripted_count(f->world), 0);
}

/* --- a provider that cannot be asked --- */

static struct berth_lease *lose_a_place(struct fixture *f, const struct berth_environment *e)
{
    scripted_set(f->world, SCRIPTED_ACQUIRE,
                 (struct scripted_act){.mode = SCRIPTED_HANG, .after = true});
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.environment_id = e->id;
    request.timeout_ms = 20;
    struct berth_lease *lease;
    assert_int_equal(berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err),
                     BERTH_E_TIMEOUT);
    scripted_go_on(f->world);
    return newest_lease(f, e);
}

static void unknown_place_is_shown_until_acknowledged(void **state)
{
    struct fixture *f = *state;
    struct berth_actor operator= {.type = "user", .id = "operator"};
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, BLIND);
    struct berth_lease *lost = lose_a_place(f, e), *seen;
    assert_row(f, lost, BERTH_LEASE_FAILED, BERTH_PLACE_UNKNOWN, BERTH_CLEANUP_FAILED);
    assert_string_equal(lost->failure_reason, "scripted: the deadline passed");
    assert_string_equal(lost->cleanup_error,
                        "Provider \"blind\" never named a place for this lease and cannot be asked "
                        "by lease id: look there, then acknowledge the lease.");
    assert_true(lost->due_at_ms > 0);
    /* Time does not heal it. */
    for (int i = 0; i < 3; i++) {
        move_clock(DAY_MS);
        struct berth_sweep_report report = sweep(f);
        assert_int_equal(report.failed, 1);
        assert_int_equal(report.owed, 1);
        assert_row(f, lost, BERTH_LEASE_FAILED, BERTH_PLACE_UNKNOWN, BERTH_CLEANUP_FAILED);
    }
    assert_int_equal(look_at_lease(f, lost)->cleanup_attempts, 4);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_DESTROY), 0); /* nobody to name */
    struct berth_environment *gone;
    int rc = berth_environment_delete(f->b, &f->arena, e->id, false, NULL, &gone, &f->err);
    assert_int_equal(rc, BERTH_E_CONFLICT);
    assert_string_equal(f->err.message,
                        "Environment \"place under test\" owes the clean-up of 1 place: run "
                        "\"berth sweep\", or delete with --drain.");
    assert_fails(f, BERTH_E_CONFLICT, "some of its places are not confirmed gone",
                 berth_environment_delete(f->b, &f->arena, e->id, true, NULL, &gone, &f->err));

    assert_ok(f, berth_lease_acknowledge(f->b, &f->arena, lost->id, &operator, & seen, &f->err));
    assert_true(seen->acknowledged_at_ms > 0);
    struct berth_lease *row = look_at_lease(f, lost);
    assert_row(f, lost, BERTH_LEASE_FAILED, BERTH_PLACE_UNKNOWN, BERTH_CLEANUP_FAILED);
    assert_int_equal(row->due_at_ms, 0);
    const struct berth_activity *a = last_activity(f, lost->id, "environment.lease_acknowledged");
    assert_string_equal(a->actor_id, "operator");
    int64_t version = row->version;
    assert_ok(f, berth_lease_acknowledge(f->b, &f->arena, lost->id, &operator, & seen, &f->err));
    assert_int_equal(seen->version, version); /* twice is fine */
    move_clock(DAY_MS);
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.deleted, 1); /* the drain that was waiting for it */
    assert_int_equal(report.failed + report.owed, 0);
}

static void only_unknown_places_are_acknowledged(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_lease *lease = take_lease(f, e, NULL), *out;
    assert_fails(f, BERTH_E_CONFLICT, "this one is active with place live.",
                 berth_lease_acknowledge(f->b, &f->arena, lease->id, NULL, &out, &f->err));
    fails(f, SCRIPTED_RELEASE, BERTH_E_UPSTREAM, "no");
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
    assert_fails(f, BERTH_E_CONFLICT, "this one is released with place live.",
                 berth_lease_acknowledge(f->b, &f->arena, lease->id, NULL, &out, &f->err));
    assert_row(f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_LIVE, BERTH_CLEANUP_FAILED);
    check_world(f);
}

/* With a driver that can find, what was unknown is settled. */
static void unknown_place_is_found_by_a_better_driver(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, BLIND);
    struct berth_lease *lost = lose_a_place(f, e);
    assert_int_equal(scripted_count(f->world), 1);
    fixture_close(f);
    struct berth_registry *registry;
    struct berth_driver *driver;
    assert_ok(f, berth_registry_new(&registry, &f->err));
    assert_ok(f, scripted_driver(f->world, true, &driver, &f->err));
    assert_ok(f, berth_registry_add(registry, "sandbox", "blind", driver, &f->err));
    fixture_open_with(f, registry);
    move_clock(f->b->settings.cleanup_retry_ms);
    assert_int_equal(sweep(f).cleaned, 1);
    assert_done(f, lost, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(scripted_count(f->world), 0);
}

/* --- a driver that is not there --- */

static void missing_driver_leaves_the_cleanup_owed(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED_REUSED);
    struct berth_environment *here = make_environment(f, BERTH_DRIVER_LOCAL, "{}");
    struct berth_run *run = make_run(f);
    struct berth_lease *lease = take_lease(f, e, run), *local = take_lease(f, here, run);
    fixture_close(f);
    struct berth_registry *builtins;
    assert_ok(f, berth_registry_new(&builtins, &f->err));
    assert_ok(f, berth_builtins.add_drivers(builtins, &f->err));
    fixture_open_with(f, builtins);

    struct berth_run_end end = {.status = BERTH_RUN_SUCCEEDED};
    struct berth_list released;
    assert_ok(f, berth_run_finish(f->b, &f->arena, run->id, &end, &released, &f->err));
    assert_int_equal(released.count, 2);
    assert_done(f, local, BERTH_LEASE_RELEASED, BERTH_PLACE_NONE, BERTH_CLEANUP_NULL);
    assert_row(f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_LIVE, BERTH_CLEANUP_FAILED);
    struct berth_lease *row = look_at_lease(f, lease);
    assert_string_equal(row->cleanup_error,
                        "Sandbox provider \"scripted\" is not registered as a built-in provider "
                        "and no matching plugin is available.");
    assert_int_equal(row->cleanup_attempts, 1);
    move_clock(f->b->settings.cleanup_retry_ms);
    struct berth_sweep_report report = sweep(f);
    assert_int_equal(report.failed, 1);
    assert_int_equal(report.owed, 1);
    assert_int_equal(look_at_lease(f, lease)->cleanup_attempts, 2);
    assert_int_equal(scripted_count(f->world), 1);

    fixture_close(f);
    fixture_open(f); /* the driver is back */
    move_clock(2 * f->b->settings.cleanup_retry_ms);
    report = sweep(f);
    assert_int_equal(report.cleaned, 1);
    assert_int_equal(report.owed, 0);
    assert_done(f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(scripted_count(f->world), 0);
}

/* More hanging environments than a provider has jobs: the others still have theirs. */
static void hanging_provider_leaves_threads_to_others(void **state)
{
    struct fixture *f = *state;
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    request.ttl_ms = 1000;
    struct berth_lease *lease;
    for (int i = 0; i < 40; i++) {
        request.environment_id = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED)->id;
        assert_ok(f, berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err));
    }
    request.environment_id =
        make_environment(f, BERTH_DRIVER_SANDBOX, "{\"provider\":\"inventory\"}")->id;
    assert_ok(f, berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err));
    scripted_set(f->world, SCRIPTED_RELEASE, (struct scripted_act){.mode = SCRIPTED_STALL});
    berth_time_shift(2000, 0);
    struct berth_sweep_options options = BERTH_SWEEP_OPTIONS_INIT;
    struct berth_sweep_report report;
    options.wait_ms = 0;
    options.audit = false;
    assert_ok(f, berth_sweep(f->b, &options, &report, &f->err));
    await_lease_done(f, lease);
    assert_done(f, lease, BERTH_LEASE_EXPIRED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_true(scripted_await(f->world, SCRIPTED_RELEASE, BERTH_PROVIDER_SWEEPS_MAX));
    assert_ok(f, berth_sweep(f->b, &options, &report, &f->err));
    assert_int_equal(report.unfinished, 40);
    scripted_go_on(f->world);
    assert_true(scripted_await_count(f->world, 0)); /* the first pass goes on by itself */
    (void)sweep(f);
    check_invariants(f);
}

/* A pass that was held up goes by what it saw then: what was decided meanwhile stands. */
static void held_up_sweep_respects_what_was_decided_meanwhile(void **state)
{
    struct fixture *f = *state;
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    struct berth_lease *lease, *kept, *out;
    request.ttl_ms = 1000;
    for (int i = 0; i <= BERTH_PROVIDER_SWEEPS_MAX; i++) {
        request.environment_id = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED)->id;
        assert_ok(f, berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err));
    }
    request.environment_id = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED)->id;
    request.retain_on_failure = true;
    request.ttl_ms = 1500; /* so that it is looked at last */
    assert_ok(f, berth_lease_acquire(f->b, &f->arena, &request, &kept, &f->err));
    scripted_set(f->world, SCRIPTED_RELEASE, (struct scripted_act){.mode = SCRIPTED_STALL});
    move_clock(3000);
    struct berth_sweep_options options = BERTH_SWEEP_OPTIONS_INIT;
    struct berth_sweep_report report;
    options.wait_ms = 0;
    options.audit = false;
    assert_ok(f, berth_sweep(f->b, &options, &report, &f->err));
    assert_true(scripted_await(f->world, SCRIPTED_RELEASE, BERTH_PROVIDER_SWEEPS_MAX));
    struct berth_release_request release = {.lease_id = kept->id, .status = BERTH_LEASE_FAILED};
    assert_ok(f, berth_lease_release(f->b, &f->arena, &release, &out, &f->err));
    assert_int_equal(out->status, BERTH_LEASE_RETAINED);
    scripted_go_on(f->world);
    assert_true(scripted_await_count(f->world, 1)); /* the old pass goes on by itself */
    assert_row(f, kept, BERTH_LEASE_RETAINED, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
    assert_int_equal(scripted_count(f->world), 1);
}

/* What happens between the verdict of the first sweep and its claim, once. */
static struct {
    struct fixture *f;
    struct berth *other; /* sweeps; NULL: the lease is acquired */
    struct berth_lease_request request;
    struct berth_lease *lease;
    struct berth_sweep_report report;
    bool reached;
    int rc;
} claim;

static void come_before_claim(enum berth_failpoint point)
{
    if (point != BERTH_FP_sweep_before_claim || claim.reached)
        return;
    struct berth_sweep_options options = BERTH_SWEEP_OPTIONS_INIT;
    claim.reached = true;
    claim.rc = claim.other ? berth_sweep(claim.other, &options, &claim.report, &claim.f->err)
                           : berth_lease_acquire(claim.f->b, &claim.f->arena, &claim.request,
                                                 &claim.lease, &claim.f->err);
}

static struct berth_sweep_report sweep_too_late(struct fixture *f)
{
    claim.f = f;
    claim.reached = false;
    berth_failpoint_watch(come_before_claim);
    struct berth_sweep_report report = sweep(f);
    berth_failpoint_arm(BERTH_FP_COUNT, 0);
    assert_true(claim.reached);
    assert_ok(f, claim.rc);
    return report;
}

static void sweep_leaves_a_place_that_was_claimed_after_it_was_judged(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED_REUSED);
    struct berth_lease *parked = take_lease(f, e, make_run(f));
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    (void)give_lease(f, parked, BERTH_LEASE_RELEASED);
    assert_row(f, parked, BERTH_LEASE_RELEASED, BERTH_PLACE_PARKED, BERTH_CLEANUP_SUCCESS);
    request.environment_id = e->id;
    request.run_id = make_run(f)->id;
    move_clock(f->b->settings.idle_ttl_ms);
    claim.request = request;
    claim.other = NULL;
    struct berth_sweep_report report = sweep_too_late(f);
    assert_string_equal(claim.lease->provider_lease_id, parked->provider_lease_id);
    assert_true(scripted_has(f->world, parked->provider_lease_id));
    assert_int_equal(scripted_calls(f->world, SCRIPTED_DESTROY), 0);
    assert_int_equal(report.unparked + report.cleaned + report.failed + report.owed, 0);
    assert_row(f, claim.lease, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
    check_world(f);
}

static void sweep_leaves_a_row_that_was_cleaned_after_it_was_judged(void **state)
{
    struct fixture *f = *state;
    struct berth *own = f->b;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    fails(f, SCRIPTED_RELEASE, BERTH_E_UNAVAILABLE, "no route to the box");
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
    scripted_go_on(f->world);
    move_clock(f->b->settings.cleanup_retry_ms);
    fixture_open(f);
    claim.other = f->b;
    f->b = own;
    struct berth_sweep_report report = sweep_too_late(f);
    berth_close(claim.other);
    assert_int_equal(claim.report.cleaned, 1);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_RELEASE), 2);
    assert_int_equal(report.cleaned + report.failed + report.owed, 0);
    assert_done(f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
}

/* A retry is never set further ahead than the longest wait: one that is was set by a clock that
 * has gone back since. */
static void owed_retry_does_not_wait_for_a_clock_that_went_back(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    int64_t retry_ms = f->b->settings.cleanup_retry_ms;
    int64_t back_ms = f->b->settings.cleanup_retry_max_ms - retry_ms - MINUTE_MS;
    fails(f, SCRIPTED_RELEASE, BERTH_E_UNAVAILABLE, "no route to the box");
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
    move_clock(-back_ms); /* a minute less than the longest wait is left */
    assert_int_equal(sweep(f).failed, 0);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_RELEASE), 1);
    move_clock(-10 * MINUTE_MS);
    assert_int_equal(sweep(f).failed, 1);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_RELEASE), 2);
    scripted_go_on(f->world);
    move_clock(2 * retry_ms); /* the next one goes by the clock as it is */
    assert_int_equal(sweep(f).cleaned, 1);
    assert_done(f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    move_clock(back_ms + 10 * MINUTE_MS);
}

/* --- clocks that are set --- */

static struct berth_lease *take_for_a_minute(struct fixture *f, const struct berth_environment *e)
{
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    struct berth_lease *l;
    request.environment_id = e->id;
    request.ttl_ms = MINUTE_MS;
    assert_ok(f, berth_lease_acquire(f->b, &f->arena, &request, &l, &f->err));
    return l;
}

/* Neither the process that sees it nor the next one ends a lease because the clock was set. */
static void a_clock_that_is_set_moves_no_deadline(void **state)
{
    struct fixture *f = *state;
    const struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    static const int64_t jumps[] = {60 * MINUTE_MS, -60 * MINUTE_MS, 400 * DAY_MS, -400 * DAY_MS};
    for (size_t i = 0; i < sizeof jumps / sizeof jumps[0]; i++) {
        struct berth_lease *before = take_for_a_minute(f, e);
        berth_time_jump(jumps[i]);
        assert_int_equal(sweep(f).expired, 0);
        assert_int_equal(look_at_lease(f, before)->status, BERTH_LEASE_ACTIVE);
        fixture_close(f);
        fixture_open(f);
        struct berth_lease *after = take_for_a_minute(f, e);
        int64_t left_ms = berth_lease_expires_at_ms(after) - berth_time_wall_ms();
        assert_in_range(left_ms, MINUTE_MS - 30000, MINUTE_MS + 1000); /* as it is shown */
        move_clock(MINUTE_MS - BERTH_CLOCK_JUMP_MS - 30000);           /* and some real time */
        assert_int_equal(sweep(f).expired, 0);
        assert_int_equal(look_at_lease(f, before)->status, BERTH_LEASE_ACTIVE);
        assert_int_equal(look_at_lease(f, after)->status, BERTH_LEASE_ACTIVE);
        move_clock(2 * BERTH_CLOCK_JUMP_MS + 30000);
        assert_int_equal(sweep(f).expired, 2);
        assert_int_equal(look_at_lease(f, before)->status, BERTH_LEASE_EXPIRED);
        assert_int_equal(look_at_lease(f, after)->status, BERTH_LEASE_EXPIRED);
        berth_time_jump(-jumps[i]);
    }
    check_world(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ON_BOTH(a_clock_that_is_set_moves_no_deadline),
        TEST_ON_BOTH(hanging_provider_leaves_threads_to_others),
        TEST_ON_BOTH(held_up_sweep_respects_what_was_decided_meanwhile),
        TEST_ON_BOTH(hanging_release_holds_up_nobody_else),
        TEST_ON_BOTH(hanging_sweep_holds_up_nobody_else),
        TEST_ON_BOTH(hanging_find_uses_up_no_threads),
        TEST_ON_BOTH(hanging_leases_use_up_no_threads),
        TEST_ON_BOTH(closing_cancels_what_hangs),
        TEST_ON_BOTH(acquire_is_cancelled),
        TEST_ON_BOTH(acquire_times_out),
        TEST_ON_BOTH(resume_times_out),
        TEST_ON_BOTH(failed_acquires_are_cleaned_up_by_their_code),
        TEST_ON_BOTH(owed_cleanup_is_retried_until_it_is_confirmed),
        TEST_ON_BOTH(place_that_would_not_park_is_destroyed),
        TEST_ON_BOTH(parked_place_that_will_not_go_stays_owed),
        TEST_ON_BOTH(destroyed_lease_ends_failed_with_its_place_gone),
        TEST_ON_BOTH(lies_end_as_failed_leases),
        TEST_ON_BOTH(resume_lies),
        TEST_ON_BOTH(resume_lies_of_a_blind_provider),
        TEST_ON_BOTH(resume_that_answers_an_empty_id),
        TEST_ON_BOTH(resume_that_answers_another_id),
        TEST_ON_BOTH(id_that_another_lease_holds),
        TEST_ON_BOTH(same_id_in_another_environment),
        TEST_ON_BOTH(id_of_a_parked_place_is_held),
        TEST_ON_BOTH(place_made_under_a_false_name_is_found),
        TEST_ON_BOTH(place_that_goes_while_it_is_listed_is_not_found),
        TEST_ON_BOTH(environment_that_a_sweep_deletes_first_is_deleted),
        TEST_ON_BOTH(held_id_with_bad_metadata),
        TEST_ON_BOTH(place_made_by_a_driver_that_denies_it),
        TEST_ON_BOTH(unknown_place_is_shown_until_acknowledged),
        TEST_ON_BOTH(only_unknown_places_are_acknowledged),
        TEST_ON_BOTH(unknown_place_is_found_by_a_better_driver),
        TEST_ON_BOTH(missing_driver_leaves_the_cleanup_owed),
        TEST_ON_BOTH(sweep_leaves_a_place_that_was_claimed_after_it_was_judged),
        TEST_ON_BOTH(sweep_leaves_a_row_that_was_cleaned_after_it_was_judged),
        TEST_ON_BOTH(owed_retry_does_not_wait_for_a_clock_that_went_back),
    };
    return cmocka_run_group_tests_name("trouble", tests, NULL, NULL);
}
