/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/failpoint.c - names, the kill at the right pass, tracing, and the failing query. */
#include "base/failpoint.h"

#include "fixture.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void names_find_their_point(void **state)
{
    (void)state;
    for (int i = 0; i < BERTH_FP_COUNT; i++) {
        const char *name = berth_failpoint_name((enum berth_failpoint)i);
        assert_non_null(name);
        assert_int_equal(berth_failpoint_find(name), i);
    }
    assert_string_equal(berth_failpoint_name(BERTH_FP_acquire_after_intent),
                        "acquire_after_intent");
    assert_int_equal(berth_failpoint_find(""), BERTH_FP_COUNT);
    assert_int_equal(berth_failpoint_find("no_such_point"), BERTH_FP_COUNT);
    assert_int_equal(berth_failpoint_find("acquire_after_inten"), BERTH_FP_COUNT);
}

/* Passes every point `rounds` times in a process of its own; how that ended. */
static int status_of_passing(enum berth_failpoint point, int skip, int rounds)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        berth_failpoint_arm(point, skip);
        for (int round = 0; round < rounds; round++)
            for (int i = 0; i < BERTH_FP_COUNT; i++)
                berth_failpoint_pass((enum berth_failpoint)i);
        _exit(7);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void assert_killed(int status)
{
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void assert_survived(int status)
{
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
}

static void armed_point_kills(void **state)
{
    (void)state;
    for (int i = 0; i < BERTH_FP_COUNT; i++)
        assert_killed(status_of_passing((enum berth_failpoint)i, 0, 1));
}

static void skips_are_counted(void **state)
{
    (void)state;
    for (int skip = 0; skip < 4; skip++) {
        assert_survived(status_of_passing(BERTH_FP_release_after_place, skip, skip));
        assert_killed(status_of_passing(BERTH_FP_release_after_place, skip, skip + 1));
    }
}

static void disarmed_does_nothing(void **state)
{
    (void)state;
    assert_survived(status_of_passing(BERTH_FP_COUNT, 0, 3));
    berth_failpoint_arm(BERTH_FP_sweep_after_claim, 0);
    BERTH_FAILPOINT(sweep_before_claim); /* another point */
    berth_failpoint_arm(BERTH_FP_COUNT, 0);
    BERTH_FAILPOINT(sweep_after_claim);
}

static void trace_notes_what_is_passed(void **state)
{
    (void)state;
    _Atomic bool seen[BERTH_FP_COUNT] = {false};
    berth_failpoint_trace(seen);
    BERTH_FAILPOINT(acquire_before_intent);
    BERTH_FAILPOINT(delete_after_outcome);
    BERTH_FAILPOINT(delete_after_outcome);
    berth_failpoint_arm(BERTH_FP_COUNT, 0);
    BERTH_FAILPOINT(sweep_after_place); /* too late */
    for (int i = 0; i < BERTH_FP_COUNT; i++)
        assert_int_equal(seen[i],
                         i == BERTH_FP_acquire_before_intent || i == BERTH_FP_delete_after_outcome);
}

static void nth_query_fails_once(void **state)
{
    (void)state;
    assert_false(berth_failpoint_query_armed());
    assert_false(berth_failpoint_query_fails());
    for (int nth = 1; nth < 5; nth++) {
        berth_failpoint_arm_query(nth);
        for (int i = 1; i < nth; i++) {
            assert_true(berth_failpoint_query_armed());
            assert_false(berth_failpoint_query_fails());
        }
        assert_true(berth_failpoint_query_armed());
        assert_true(berth_failpoint_query_fails());
        assert_false(berth_failpoint_query_armed());
        assert_false(berth_failpoint_query_fails());
    }
    berth_failpoint_arm_query(2);
    berth_failpoint_arm_query(0);
    assert_false(berth_failpoint_query_armed());
    for (int i = 0; i < 3; i++)
        assert_false(berth_failpoint_query_fails());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_find_their_point),     cmocka_unit_test(armed_point_kills),
        cmocka_unit_test(skips_are_counted),          cmocka_unit_test(disarmed_does_nothing),
        cmocka_unit_test(trace_notes_what_is_passed), cmocka_unit_test(nth_query_fails_once),
    };
    return cmocka_run_group_tests_name("failpoint", tests, NULL, NULL);
}
