/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/issues.c - faults are kept in order, and the first one names the error. */
#include "base/issues.h"

#include "fixture.h"

static struct {
    struct berth_error err;
} t;

static void none_is_fine(void **state)
{
    (void)state;
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_issues issues = {.arena = &arena};
    assert_ok(&t, berth_issues_check(&issues, &t.err));
}

static void kept_in_order_and_copied(void **state)
{
    (void)state;
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_issues issues = {.arena = &arena};
    char path[] = "port";
    berth_issues_add(&issues, path, "Port %d is out of range.", 70000);
    path[0] = 'X';
    berth_issues_add(&issues, "", "100%% wrong");
    berth_issues_add(&issues, "host.name", "%s", "Host is required.");
    static const struct berth_issue want[] = {
        {"port", "Port 70000 is out of range."},
        {"", "100% wrong"},
        {"host.name", "Host is required."},
    };
    assert_int_equal(issues.list.count, 3);
    for (int i = 0; i < 3; i++) {
        const struct berth_issue *issue = issues.list.items[i];
        assert_string_equal(issue->path, want[i].path);
        assert_string_equal(issue->message, want[i].message);
    }
    assert_int_equal(berth_issues_check(&issues, &t.err), BERTH_E_UNPROCESSABLE);
    assert_string_equal(t.err.message, "Port 70000 is out of range.");
}

/* The message is data, not a format. */
static void first_message_is_taken_literally(void **state)
{
    (void)state;
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_issues issues = {.arena = &arena};
    berth_issues_add(&issues, "a", "%s", "%n%s%d");
    assert_int_equal(berth_issues_check(&issues, &t.err), BERTH_E_UNPROCESSABLE);
    assert_string_equal(t.err.message, "%n%s%d");
}

static void many_and_long_ones(void **state)
{
    (void)state;
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_issues issues = {.arena = &arena};
    for (int i = 0; i < 1000; i++)
        berth_issues_add(&issues, "list", "Item %d %5000s", i, "x");
    assert_int_equal(issues.list.count, 1000);
    for (int i = 0; i < 1000; i++) {
        const struct berth_issue *issue = issues.list.items[i];
        int number = -1;
        assert_int_equal(sscanf(issue->message, "Item %d", &number), 1);
        assert_int_equal(number, i);
    }
    assert_int_equal(berth_issues_check(&issues, &t.err), BERTH_E_UNPROCESSABLE);
}

/* Whether there were faults is then unknown. */
static void out_of_memory_wins(void **state)
{
    (void)state;
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_issues issues = {.arena = &arena};
    arena.failed = true;
    assert_int_equal(berth_issues_check(&issues, &t.err), BERTH_E_NO_MEMORY);
    berth_issues_add(&issues, "a", "Fault.");
    assert_int_equal(berth_issues_check(&issues, &t.err), BERTH_E_NO_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_is_fine),
        cmocka_unit_test(kept_in_order_and_copied),
        cmocka_unit_test(first_message_is_taken_literally),
        cmocka_unit_test(many_and_long_ones),
        cmocka_unit_test(out_of_memory_wins),
    };
    return cmocka_run_group_tests_name("issues", tests, NULL, NULL);
}
