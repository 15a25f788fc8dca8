/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/budget.c - how a budget is shared between owners. */
#include "base/budget.h"

#include "fixture.h"

static void owners_leave_some_for_the_next(void **state)
{
    (void)state;
    struct berth_budget *budget;
    struct berth_error err;
    struct berth_charge a = {0}, b = {0}, c = {0}, other = {0}, ours = {0};
    assert_int_equal(berth_budget_new(1000, &budget, &err), BERTH_OK);
    assert_true(berth_charge_set(&a, budget, "a", 400));
    assert_true(berth_charge_set(&a, budget, "a", 500));
    assert_false(berth_charge_set(&a, budget, "a", 501));
    assert_false(berth_charge_set(&other, budget, "a", 1)); /* the same owner */
    assert_true(berth_charge_set(&b, budget, "b", 250));
    assert_false(berth_charge_set(&b, budget, "b", 251));
    assert_true(berth_charge_set(&c, budget, "c", 125));
    assert_true(berth_charge_set(&ours, budget, NULL, 125)); /* only the whole limits it */
    assert_false(berth_charge_set(&ours, budget, NULL, 126));
    assert_int_equal(berth_budget_used(budget), 1000);
    assert_true(berth_charge_set(&a, budget, "a", 100)); /* less always fits */
    assert_int_equal(berth_budget_used(budget), 600);
    assert_false(berth_charge_set(&b, budget, "b", 326));
    assert_true(berth_charge_set(&b, budget, "b", 325));
    berth_charge_drop(&a);
    berth_charge_drop(&a);
    assert_true(berth_charge_set(&other, budget, "a", 100));
    berth_charge_drop(&b);
    berth_charge_drop(&c);
    berth_charge_drop(&ours);
    berth_charge_drop(&other);
    assert_int_equal(berth_budget_used(budget), 0);
    berth_budget_free(budget);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(owners_leave_some_for_the_next)};
    return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
