/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/interrupted.c - a store that fails at the wrong moment: what a process could
 * not write down is not lost, and it takes it up again by itself. */
#include "fixture.h"

#include "base/failpoint.h"
#include "base/time.h"
#include "scripted.h"

#define DAY_MS INT64_C(86400000)
#define SCRIPTED "{\"provider\":\"scripted\"}"
#define SCRIPTED_REUSED "{\"provider\":\"scripted\",\"reuseLease\":true}"
#define BLIND "{\"provider\":\"blind\"}"

/* --- a store that fails at the outcome --- */

/* The n-th query after the provider's answer will fail. */
static void arm(struct fixture *f, enum scripted_op op, int nth)
{
    scripted_set(f->world, op, (struct scripted_act){.then_fail_query = nth});
}

/* Was there an n-th? */
static bool was_hit(void)
{
    bool hit = !berth_failpoint_query_armed();
    berth_failpoint_arm_query(0);
    return hit;
}

#define STORE_FAILED "The store failed because a test asked for it."

static void store_fails_after_the_acquire(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    int nth = 1;
    for (;; nth++) {
        arm(f, SCRIPTED_ACQUIRE, nth);
        int rc = try_lease(f, e, make_run(f));
        scripted_go_on(f->world);
        if (!was_hit()) {
            assert_int_equal(rc, BERTH_OK);
            break;
        }
        assert_int_equal(rc, BERTH_E_UNAVAILABLE);
        assert_string_equal(f->err.message, STORE_FAILED);
        /* The caller was told that there is no lease, so there is none: the place is given back
         * at once, by its id, which only this process knows. */
        struct berth_lease *row = newest_lease(f, e);
        assert_done(f, row, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
        assert_string_equal(look_at_lease(f, row)->failure_reason, STORE_FAILED);
        assert_int_equal(scripted_count(f->world), 0);
        check_world(f);
        struct berth_sweep_report report = sweep(f);
        assert_int_equal(report.adopted + report.owed + report.failed, 0);
    }
    assert_true(nth > 2);
}

static void store_fails_after_the_release(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *config;
        enum scripted_op op;
    } ways[] = {{SCRIPTED, SCRIPTED_RELEASE}, {SCRIPTED_REUSED, SCRIPTED_RELEASE}};
    for (int i = 0; i < 2; i++) {
        struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, ways[i].config);
        int nth = 1;
        for (;; nth++) {
            struct berth_lease *lease = take_lease(f, e, make_run(f)), *out;
            struct berth_release_request request = {.lease_id = lease->id,
                                                    .status = BERTH_LEASE_RELEASED};
            arm(f, ways[i].op, nth);
            int rc = berth_lease_release(f->b, &f->arena, &request, &out, &f->err);
            scripted_go_on(f->world);
            if (!was_hit()) {
                assert_int_equal(rc, BERTH_OK);
                break;
            }
            assert_int_equal(rc, BERTH_E_UNAVAILABLE);
            assert_string_equal(f->err.message, STORE_FAILED);
            assert_row(f, lease, BERTH_LEASE_RELEASING, BERTH_PLACE_LIVE, BERTH_CLEANUP_PENDING);
            check_world(f);
            struct berth_sweep_report report = sweep(f);
            assert_int_equal(report.adopted, 1);
            assert_int_equal(report.owed, 0);
            /* Closed as was asked; an adopted place is never parked. */
            assert_done(f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
            assert_int_equal(scripted_count(f->world), 0);
        }
        assert_true(nth > 2);
        (void)berth_environment_delete(f->b, &f->arena, e->id, true, NULL,
                                       &(struct berth_environment *){NULL}, &f->err);
    }
}

static void store_fails_after_the_resume(void **state)
{
    struct fixture *f = *state;
    static const struct scripted_act acts[] = {
        {.mode = SCRIPTED_SUCCEED},
        {.mode = SCRIPTED_FAIL, .after = true, .code = BERTH_E_UPSTREAM, .text = "stale sandbox"},
    };
    for (int i = 0; i < 2; i++) {
        struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED_REUSED);
        for (int nth = 1;; nth++) {
            struct berth_lease *parked = take_lease(f, e, make_run(f));
            (void)give_lease(f, parked, BERTH_LEASE_RELEASED);
            struct scripted_act act = acts[i];
            act.then_fail_query = nth;
            scripted_set(f->world, SCRIPTED_RESUME, act);
            int rc = try_lease(f, e, make_run(f));
            scripted_go_on(f->world);
            bool hit = was_hit();
            assert_int_equal(rc, hit ? BERTH_E_UNAVAILABLE : BERTH_OK);
            check_world(f);
            if (!hit)
                (void)give_lease(f, newest_lease(f, e), BERTH_LEASE_FAILED);
            assert_int_equal(sweep(f).failed, 0);
            assert_int_equal(scripted_count(f->world), 0);
            assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"),
                             0);
            if (!hit)
                break;
        }
    }
}

static void store_fails_when_a_failed_acquire_is_recorded(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    for (int nth = 1;; nth++) {
        scripted_set(f->world, SCRIPTED_ACQUIRE,
                     (struct scripted_act){.mode = SCRIPTED_FAIL,
                                           .code = BERTH_E_UPSTREAM,
                                           .text = "half made",
                                           .after = true,
                                           .then_fail_query = nth});
        /* The caller hears of the acquire, not of the store. */
        assert_fails(f, BERTH_E_UPSTREAM, "half made", try_lease(f, e, make_run(f)));
        bool hit = was_hit();
        struct berth_lease *row = newest_lease(f, e);
        check_world(f);
        struct berth_sweep_report report = sweep(f);
        assert_int_equal(report.failed, 0);
        assert_int_equal(report.owed, 0);
        assert_done(f, row, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
        assert_int_equal(scripted_count(f->world), 0);
        if (!hit)
            break;
        assert_true(nth < 50);
    }
}

static void store_fails_in_the_sweep(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    for (int nth = 1;; nth++) {
        struct berth_lease *lease = take_lease(f, e, NULL);
        move_clock(DAY_MS);
        arm(f, SCRIPTED_RELEASE, nth);
        struct berth_sweep_options options = BERTH_SWEEP_OPTIONS_INIT;
        options.audit = false;
        struct berth_sweep_report report = {0};
        int rc = berth_sweep(f->b, &options, &report, &f->err);
        scripted_go_on(f->world);
        bool hit = was_hit();
        if (!hit)
            assert_int_equal(report.expired, 1);
        else if (rc == BERTH_OK)
            assert_int_equal(report.failed, 1);
        check_world(f);
        assert_int_equal(sweep(f).failed, 0);
        assert_done(f, lease, BERTH_LEASE_EXPIRED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
        assert_int_equal(scripted_count(f->world), 0);
        if (!hit)
            break;
        assert_true(nth < 50);
    }
}

/* The provider that cannot be asked named the place, but the store could not write it down: the
 * process still knows it, and must not let the name go. */
static void store_fails_after_the_acquire_of_a_blind_provider(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, BLIND);
    arm(f, SCRIPTED_ACQUIRE, 1);
    assert_int_equal(try_lease(f, e, make_run(f)), BERTH_E_UNAVAILABLE);
    assert_true(was_hit());
    check_world(f);
    (void)sweep(f);
    check_world(f); /* gone, or at least still shown */
    assert_int_equal(newest_lease(f, e)->status, BERTH_LEASE_FAILED);
}

/* --- what a living process holds, nobody else may touch: it sweeps by itself --- */

static void open_self_sweeping_with(struct fixture *f, struct berth_log log)
{
    fixture_close(f);
    struct berth_options options = BERTH_OPTIONS_INIT;
    options.log = log;
    options.store = f->store;
    options.registry = fixture_registry(f);
    options.settings.self_sweep_ms = 20;
    assert_ok(f, berth_open(&options, &f->b, &f->err));
}

static void open_self_sweeping(struct fixture *f)
{
    open_self_sweeping_with(f, (struct berth_log){0});
}

static void release_that_fails(struct fixture *f, const struct berth_lease *lease)
{
    struct berth_release_request request = {.lease_id = lease->id, .status = BERTH_LEASE_RELEASED};
    struct berth_lease *out;
    arm(f, SCRIPTED_RELEASE, 1);
    assert_fails(f, BERTH_E_UNAVAILABLE, STORE_FAILED,
                 berth_lease_release(f->b, &f->arena, &request, &out, &f->err));
}

static void what_the_store_interrupted_is_swept_by_itself(void **state)
{
    struct fixture *f = *state;
    open_self_sweeping(f);
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    release_that_fails(f, lease);
    assert_true(was_hit());
    scripted_go_on(f->world);
    await_lease_done(f, lease);
    assert_done(f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
}

/* The first tries meet the same trouble, and one comes after it. */
static void self_sweep_tries_until_the_store_is_back(void **state)
{
    struct fixture *f = *state;
    open_self_sweeping(f);
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_lease *lease = take_lease(f, e, NULL);
    /* Reads work and writes do not, as with a full disk. */
    run_sql(f,
            f->kind == ON_SQLITE ? "CREATE TRIGGER full BEFORE UPDATE ON leases"
                                   " WHEN OLD.status = 'releasing'"
                                   " BEGIN SELECT RAISE(ABORT, 'full'); END"
                                 : "ALTER TABLE leases ADD CONSTRAINT full_disk"
                                   " CHECK (status <> 'released') NOT VALID",
            NULL);
    struct berth_release_request request = {.lease_id = lease->id, .status = BERTH_LEASE_RELEASED};
    struct berth_lease *out;
    assert_true(berth_lease_release(f->b, &f->arena, &request, &out, &f->err) < 0);
    pause_ms(200);
    assert_row(f, lease, BERTH_LEASE_RELEASING, BERTH_PLACE_LIVE, BERTH_CLEANUP_PENDING);
    run_sql(f,
            f->kind == ON_SQLITE ? "DROP TRIGGER full"
                                 : "ALTER TABLE leases DROP CONSTRAINT full_disk",
            NULL);
    await_lease_done(f, lease);
    assert_done(f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
}

/* Another lease of the environment hangs in a sweep when the self-sweep comes. */
static void self_sweep_comes_back_to_a_busy_environment(void **state)
{
    struct fixture *f = *state;
    open_self_sweeping(f);
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    struct berth_lease *hanging;
    request.environment_id = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED)->id;
    request.ttl_ms = 1000;
    assert_ok(f, berth_lease_acquire(f->b, &f->arena, &request, &hanging, &f->err));
    request.ttl_ms = 0;
    struct berth_lease *lease;
    assert_ok(f, berth_lease_acquire(f->b, &f->arena, &request, &lease, &f->err));
    move_clock(2000);
    scripted_set(f->world, SCRIPTED_RELEASE, (struct scripted_act){.mode = SCRIPTED_STALL});
    struct berth_sweep_options options = BERTH_SWEEP_OPTIONS_INIT;
    struct berth_sweep_report report;
    options.wait_ms = 0;
    options.audit = false;
    assert_ok(f, berth_sweep(f->b, &options, &report, &f->err));
    assert_true(scripted_await(f->world, SCRIPTED_RELEASE, 1));
    release_that_fails(f, lease); /* the one that stalls goes on stalling */
    pause_ms(200);
    scripted_go_on(f->world);
    await_lease_done(f, lease);
    assert_done(f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    await_lease_done(f, hanging);
    assert_int_equal(scripted_count(f->world), 0);
}

static void write_slowly(void *ctx, enum berth_log_level level, const char *line)
{
    (void)ctx, (void)level, (void)line;
    pause_ms(150); /* several times the wait before a self-sweep */
}

/* It comes while the operation that asked for it is not quite over, and must come again. */
static void self_sweep_waits_for_its_operation_to_end(void **state)
{
    struct fixture *f = *state;
    open_self_sweeping_with(f, (struct berth_log){.write = write_slowly});
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct scripted_act act = {.mode = SCRIPTED_FAIL,
                               .code = BERTH_E_UPSTREAM,
                               .text = "half made",
                               .after = true,
                               .then_fail_query = 1};
    scripted_set(f->world, SCRIPTED_ACQUIRE, act);
    assert_fails(f, BERTH_E_UPSTREAM, "half made", try_lease(f, e, NULL));
    scripted_go_on(f->world);
    struct berth_lease *row = newest_lease(f, e);
    await_lease_done(f, row);
    assert_done(f, row, BERTH_LEASE_FAILED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(scripted_count(f->world), 0);
}

/* Both ends of a probe: what it found, and that it failed. */
static void probe_that_was_interrupted_is_swept_by_itself(void **state)
{
    struct fixture *f = *state;
    open_self_sweeping(f);
    for (int fails = 0; fails < 2; fails++) {
        struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
        struct scripted_act act = {.then_fail_query = 1};
        if (fails) {
            act.mode = SCRIPTED_FAIL;
            act.code = BERTH_E_TIMEOUT;
            act.text = "late";
            act.after = true;
        }
        scripted_set(f->world, SCRIPTED_PROBE, act);
        struct berth_probe probe;
        assert_true(berth_environment_probe(f->b, &f->arena, e->id, NULL, &probe, &f->err) < 0);
        assert_true(was_hit());
        scripted_go_on(f->world);
        struct berth_lease *row = newest_lease(f, e);
        await_lease_done(f, row);
        assert_int_equal(look_at_lease(f, row)->due_at_ms, 0);
        assert_int_equal(scripted_count(f->world), 0);
    }
}

/* It is there for what this process began, not for what a sweep is due to do anyway. */
static void self_sweep_leaves_the_rest_to_sweeps(void **state)
{
    struct fixture *f = *state;
    open_self_sweeping(f);
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    struct berth_lease *expired;
    request.environment_id = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED)->id;
    request.ttl_ms = 1000;
    assert_ok(f, berth_lease_acquire(f->b, &f->arena, &request, &expired, &f->err));
    move_clock(2000);
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_lease *lease = take_lease(f, e, NULL);
    release_that_fails(f, lease);
    scripted_go_on(f->world);
    await_lease_done(f, lease);
    assert_int_equal(look_at_lease(f, lease)->due_at_ms, 0);
    assert_row(f, expired, BERTH_LEASE_ACTIVE, BERTH_PLACE_LIVE, BERTH_CLEANUP_NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ON_BOTH(store_fails_after_the_acquire),
        TEST_ON_BOTH(store_fails_after_the_release),
        TEST_ON_BOTH(store_fails_after_the_resume),
        TEST_ON_BOTH(store_fails_when_a_failed_acquire_is_recorded),
        TEST_ON_BOTH(store_fails_in_the_sweep),
        TEST_ON_BOTH(store_fails_after_the_acquire_of_a_blind_provider),
        TEST_ON_BOTH(what_the_store_interrupted_is_swept_by_itself),
        TEST_ON_BOTH(self_sweep_tries_until_the_store_is_back),
        TEST_ON_BOTH(self_sweep_comes_back_to_a_busy_environment),
        TEST_ON_BOTH(self_sweep_waits_for_its_operation_to_end),
        TEST_ON_BOTH(probe_that_was_interrupted_is_swept_by_itself),
        TEST_ON_BOTH(self_sweep_leaves_the_rest_to_sweeps),
    };
    return cmocka_run_group_tests_name("interrupted", tests, NULL, NULL);
}
