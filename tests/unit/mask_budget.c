/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/mask_budget.c - the memory for secrets that running commands hide. */
#include "core/run/mask_budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"

static int set_up(void **state)
{
    struct berth_error err;
    return berth_mask_budget_new((struct berth_mask_budget **)state, &err);
}

static int tear_down(void **state)
{
    berth_mask_budget_free(*state);
    return 0;
}

static void few_bytes_are_free(void **state)
{
    struct berth_error err;
    for (int i = 0; i < 10000; i++)
        assert_int_equal(berth_mask_budget_take(*state, "a", BERTH_MASKED_FREE_BYTES, &err),
                         BERTH_OK);
    berth_mask_budget_give(*state, "a", BERTH_MASKED_FREE_BYTES);
}

/* A company that has used up its share neither gets more nor takes from another. */
static void each_company_has_a_share(void **state)
{
    struct berth_error err;
    const size_t each = BERTH_MASKED_FREE_BYTES + BERTH_MASKED_COMPANY_BYTES_MAX / 4;
    for (int i = 0; i < 4; i++)
        assert_int_equal(berth_mask_budget_take(*state, "a", each, &err), BERTH_OK);
    assert_int_equal(berth_mask_budget_take(*state, "a", BERTH_MASKED_FREE_BYTES + 1, &err),
                     BERTH_E_UNAVAILABLE);
    assert_non_null(strstr(err.message, "Wait until some have ended"));
    assert_int_equal(berth_mask_budget_take(*state, "b", each, &err), BERTH_OK);
    assert_int_equal(berth_mask_budget_take(*state, "a", 100, &err), BERTH_OK);
    berth_mask_budget_give(*state, "a", each);
    assert_int_equal(berth_mask_budget_take(*state, "a", each, &err), BERTH_OK);
    for (int i = 0; i < 4; i++)
        berth_mask_budget_give(*state, "a", each);
    berth_mask_budget_give(*state, "b", each);
}

static void one_command_alone_may_be_too_much(void **state)
{
    struct berth_error err;
    const size_t all = BERTH_MASKED_FREE_BYTES + BERTH_MASKED_COMPANY_BYTES_MAX;
    assert_int_equal(berth_mask_budget_take(*state, "a", all + 1, &err), BERTH_E_UNAVAILABLE);
    assert_int_equal(berth_mask_budget_take(*state, "a", all, &err), BERTH_OK);
    berth_mask_budget_give(*state, "a", all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(few_bytes_are_free, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_company_has_a_share, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_command_alone_may_be_too_much, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("mask budget", tests, NULL, NULL);
}
