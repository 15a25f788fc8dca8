/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/node.c - a node of a shared store that falls silent calls no provider. The
 * monotonic clock stands still and is set by the tests, so that no heartbeat is sent by a timer.
 * Linked with --wrap=clock_gettime. */
#include "core/lease/node.h"

#include "fixture.h"

#include <stdatomic.h>
#include <time.h>

#include "base/failpoint.h"
#include "core/run/exec.h"
#include "os/pool.h"
#include "scripted.h"
#include "store/store.h"

#define LAPSE_MS INT64_C(3600000)
#define START_MS INT64_C(1000000)
#define SILENT "The store has not been reached for "

#define SCRIPTED "{\"provider\":\"scripted\"}"
#define SCRIPTED_REUSED "{\"provider\":\"scripted\",\"reuseLease\":true}"

static _Atomic int64_t mono_ms = START_MS;

int __real_clock_gettime(clockid_t clock, struct timespec *at);
int __wrap_clock_gettime(clockid_t clock, struct timespec *at);

int __wrap_clock_gettime(clockid_t clock, struct timespec *at)
{
    if (clock != CLOCK_BOOTTIME)
        return __real_clock_gettime(clock, at);
    int64_t now_ms = atomic_load(&mono_ms);
    *at = (struct timespec){.tv_sec = now_ms / 1000, .tv_nsec = now_ms % 1000 * 1000000};
    return 0;
}

/* Reads and writes of everything but heartbeats still work, as they do for a node whose
 * heartbeats alone are late. */
static void refuse_beats(struct fixture *f)
{
    run_sql(f, "ALTER TABLE nodes ADD CONSTRAINT no_beat CHECK (beat_at < 0) NOT VALID", NULL);
}

static void accept_beats(struct fixture *f)
{
    run_sql(f, "ALTER TABLE nodes DROP CONSTRAINT no_beat", NULL);
}

/* --- the rule --- */

static int setup(void **state)
{
    enum fixture_store kind = *(enum fixture_store *)*state;
    struct fixture *f = calloc(1, sizeof *f);
    struct berth_options options = BERTH_OPTIONS_INIT;
    assert_non_null(f);
    atomic_store(&mono_ms, START_MS);
    fixture_make(f, kind);
    options.store = f->store;
    options.registry = fixture_registry(f);
    options.settings.node_lapse_ms = LAPSE_MS;
    options.settings.call_timeout_ms = 10 * LAPSE_MS; /* no call ends because the clock is set */
    options.settings.self_sweep_ms = 0;
    assert_ok(f, berth_open(&options, &f->b, &f->err));
    berth_time_anchor(BERTH_TIME_NO_ANCHOR); /* deadlines of leases do not follow our clock */
    *state = f;
    return 0;
}

/* Asks a node of its own that last beat `silent_ms` ago, up to two times. */
static void ask(struct fixture *f, int64_t silent_ms, bool reachable, const bool may[2])
{
    struct berth_pool *pool;
    struct berth_node *node;
    char text[128];
    (void)snprintf(text, sizeof text, SILENT "%lld ms", (long long)silent_ms);
    atomic_store(&mono_ms, START_MS);
    assert_ok(f, berth_pool_new(1, &pool, &f->err));
    assert_ok(f, berth_node_open(f->b->store, pool, LAPSE_MS, &node, &f->err));
    if (!reachable)
        refuse_beats(f);
    atomic_store(&mono_ms, START_MS + silent_ms);
    for (int i = 0; i < 2; i++) {
        if (may[i])
            assert_ok(f, berth_node_may_act(node, &f->err));
        else
            assert_fails(f, BERTH_E_UNAVAILABLE, text, berth_node_may_act(node, &f->err));
    }
    if (!reachable)
        accept_beats(f);
    berth_pool_free(pool);
    berth_node_close(node);
}

static void node_that_cannot_beat_stops_at_half_the_lapse(void **state)
{
    static const bool yes[2] = {true, true}, no[2] = {false, false};
    ask(*state, 0, false, yes);
    ask(*state, LAPSE_MS / 2, false, yes);
    ask(*state, LAPSE_MS / 2 + 1, false, no);
    ask(*state, LAPSE_MS - 1, false, no);
    ask(*state, LAPSE_MS + 1, false, no);
}

/* After a whole lapse other nodes have taken over its rows: the operation that asks first is one
 * of those, the next one begins after the new heartbeat. */
static void node_that_was_silent_for_a_lapse_starts_anew(void **state)
{
    static const bool yes[2] = {true, true}, later[2] = {false, true};
    ask(*state, LAPSE_MS / 2 + 1, true, yes);
    ask(*state, LAPSE_MS - 1, true, yes);
    ask(*state, LAPSE_MS, true, later);
    ask(*state, 10 * LAPSE_MS, true, later);
}

/* On one machine a locked file says that the node lives. */
static void node_of_one_machine_never_lapses(void **state)
{
    static const bool yes[2] = {true, true};
    ask(*state, 10 * LAPSE_MS, true, yes);
}

/* --- those who have to ask --- */

static void fall_silent(struct fixture *f)
{
    refuse_beats(f);
    atomic_fetch_add(&mono_ms, LAPSE_MS * 3 / 4);
}

static void speak_again(struct fixture *f)
{
    accept_beats(f);
    atomic_fetch_sub(&mono_ms, LAPSE_MS * 3 / 4);
}

static int provider_calls(struct fixture *f)
{
    int calls = 0;
    for (int op = 0; op < SCRIPTED_OPS; op++)
        calls += scripted_calls(f->world, (enum scripted_op)op);
    return calls;
}

static void assert_owed(struct fixture *f, const struct berth_lease *lease)
{
    const struct berth_lease *row = look_at_lease(f, lease);
    assert_int_equal(row->cleanup, BERTH_CLEANUP_FAILED);
    assert_non_null(strstr(row->cleanup_error, SILENT));
}

static void silent_node_takes_no_places(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *plain = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_environment *reused = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED_REUSED);
    struct berth_lease *parked = take_lease(f, reused, make_run(f));
    struct berth_probe probe;
    (void)give_lease(f, parked, BERTH_LEASE_RELEASED);
    int calls = provider_calls(f);
    fall_silent(f);
    assert_fails(f, BERTH_E_UNAVAILABLE, SILENT, try_lease(f, plain, make_run(f)));
    assert_int_equal(provider_calls(f), calls);
    assert_fails(f, BERTH_E_UNAVAILABLE, SILENT, try_lease(f, reused, make_run(f)));
    assert_int_equal(provider_calls(f), calls);
    assert_fails(f, BERTH_E_UNAVAILABLE, SILENT,
                 berth_environment_probe(f->b, &f->arena, plain->id, NULL, &probe, &f->err));
    assert_int_equal(provider_calls(f), calls);
    speak_again(f);
    assert_string_equal(take_lease(f, reused, make_run(f))->provider_lease_id,
                        parked->provider_lease_id);
    (void)take_lease(f, plain, make_run(f));
}

static void silent_node_uses_no_places(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED), *local;
    assert_ok(f, berth_environment_ensure_local(f->b, &f->arena, NULL, &local, &f->err));
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    struct berth_workspace workspace = {0};
    struct berth_realized realized;
    struct berth_place place;
    struct berth_exec_request request = BERTH_EXEC_REQUEST_INIT;
    struct berth_exec *x;
    request.lease_id = take_lease(f, local, make_run(f))->id;
    request.argv = (const char *const[]){"true", NULL};
    int calls = provider_calls(f);
    fall_silent(f);
    assert_fails(f, BERTH_E_UNAVAILABLE, SILENT,
                 berth_lease_realize(f->b, &f->arena, lease->id, &workspace, &realized, &f->err));
    assert_fails(f, BERTH_E_UNAVAILABLE, SILENT,
                 berth_lease_resume(f->b, &f->arena, lease->id, &place, &f->err));
    assert_fails(f, BERTH_E_UNAVAILABLE, SILENT,
                 berth_exec_start(f->b, &request, NULL, &x, &f->err));
    assert_int_equal(provider_calls(f), calls);
    speak_again(f);
    assert_ok(f, berth_lease_realize(f->b, &f->arena, lease->id, &workspace, &realized, &f->err));
}

static void silent_node_ends_no_places(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    struct berth_lease *given = take_lease(f, e, make_run(f));
    struct berth_lease *destroyed = take_lease(f, e, make_run(f)), *out;
    int calls = provider_calls(f);
    fall_silent(f);
    (void)give_lease(f, given, BERTH_LEASE_RELEASED);
    assert_owed(f, given);
    assert_ok(f, berth_lease_destroy(f->b, &f->arena, destroyed->id, NULL, &out, &f->err));
    assert_owed(f, destroyed);
    assert_int_equal(provider_calls(f), calls);
    move_clock(2 * f->b->settings.cleanup_retry_ms);
    assert_int_equal(sweep(f).failed, 2); /* it does not ask what else is there, either */
    assert_int_equal(provider_calls(f), calls);
    assert_int_equal(scripted_count(f->world), 2);
    speak_again(f);
    move_clock(4 * f->b->settings.cleanup_retry_ms);
    assert_int_equal(sweep(f).cleaned, 2);
    assert_int_equal(scripted_count(f->world), 0);
}

/* What happens to the node at a step of its operation. */
static struct {
    struct fixture *f;
    enum berth_failpoint point;
    bool lapses; /* a whole lapse passes, and the store is there; else it falls silent */
} event;

static void on_point(enum berth_failpoint point)
{
    if (point != event.point)
        return;
    if (event.lapses)
        atomic_fetch_add(&mono_ms, LAPSE_MS);
    else
        fall_silent(event.f);
}

static void acquire_meets(struct fixture *f, enum berth_failpoint point, bool lapses,
                          const struct berth_environment *e)
{
    event.f = f;
    event.point = point;
    event.lapses = lapses;
    berth_failpoint_watch(on_point);
    int rc = try_lease(f, e, make_run(f));
    berth_failpoint_arm(BERTH_FP_COUNT, 0);
    assert_fails(f, BERTH_E_UNAVAILABLE, SILENT, rc);
}

static void resume_that_took_long_is_not_followed_by_an_acquire(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED_REUSED);
    (void)give_lease(f, take_lease(f, e, make_run(f)), BERTH_LEASE_RELEASED);
    scripted_set(f->world, SCRIPTED_RESUME,
                 (struct scripted_act){
                     .mode = SCRIPTED_FAIL, .code = BERTH_E_UPSTREAM, .text = "told to fail"});
    acquire_meets(f, BERTH_FP_resume_failed_recorded, false, e);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_RESUME), 1);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_ACQUIRE), 1); /* of the parked lease */
    speak_again(f);
}

/* By then another node may have adopted the row, and looked for the place in vain. */
static void acquire_that_slept_for_a_lapse_makes_no_place(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = make_environment(f, BERTH_DRIVER_SANDBOX, SCRIPTED);
    acquire_meets(f, BERTH_FP_acquire_after_intent, true, e);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_ACQUIRE), 0);
    (void)take_lease(f, e, make_run(f));
    check_world(f);
}

#define ON(test, store)                                                                            \
    {                                                                                              \
#test " (" #store ")", test, setup, fixture_teardown, &on_##store                          \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON(node_that_cannot_beat_stops_at_half_the_lapse, postgres),
        ON(node_that_was_silent_for_a_lapse_starts_anew, postgres),
        ON(node_of_one_machine_never_lapses, sqlite),
        ON(silent_node_takes_no_places, postgres),
        ON(silent_node_uses_no_places, postgres),
        ON(silent_node_ends_no_places, postgres),
        ON(resume_that_took_long_is_not_followed_by_an_acquire, postgres),
        ON(acquire_that_slept_for_a_lapse_makes_no_place, postgres),
    };
    return cmocka_run_group_tests_name("node", tests, NULL, NULL);
}
