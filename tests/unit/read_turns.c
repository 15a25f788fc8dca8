/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/read_turns.c - watches of one owner that wait do not stop those of another. */
#include "api/read_turns.h"

#include "fixture.h"

#define WATCHES 200

static struct berth_api_reader many[WATCHES], other;

static void no_owner_has_all(void **state)
{
    struct berth_api_read_turns turns = {0};
    int taken = 0;
    (void)state;
    for (int i = 0; i < WATCHES; i++)
        assert_true(berth_api_read_turns_put(&turns, "many", &many[i]));
    for (; berth_api_read_turns_take(&turns); taken++)
        assert_true(taken < BERTH_API_LOG_READS_MAX / 2);
    assert_int_equal(taken, BERTH_API_LOG_READS_MAX / 2);
    assert_true(berth_api_read_turns_put(&turns, "other", &other));
    assert_ptr_equal(berth_api_read_turns_take(&turns), &other);
    assert_null(berth_api_read_turns_take(&turns));
    berth_api_read_turns_done(&turns, "other");
    for (; taken < WATCHES; taken++) { /* each in its turn */
        berth_api_read_turns_done(&turns, "many");
        assert_ptr_equal(berth_api_read_turns_take(&turns), &many[taken]);
        assert_null(berth_api_read_turns_take(&turns));
    }
    for (int i = 0; i < BERTH_API_LOG_READS_MAX / 2; i++)
        berth_api_read_turns_done(&turns, "many");
    assert_int_equal(turns.reads, 0);
    assert_null(berth_map_get(&turns.owners, "many"));
    berth_api_read_turns_clear(&turns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_owner_has_all),
    };
    return cmocka_run_group_tests_name("read_turns", tests, NULL, NULL);
}
