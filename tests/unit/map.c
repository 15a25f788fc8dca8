/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/map.c - the map against a model too simple to be wrong. */
#include "base/map.h"

#include "fixture.h"

#define KEYS 400

/* Fixed, so that a failure comes back: xorshift64. */
static uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);

static unsigned random_below(unsigned limit)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)((seed >> 16) % limit);
}

static void empty_map_answers(void **state)
{
    (void)state;
    struct berth_map map = BERTH_MAP_INIT;
    size_t at = 0;
    const char *key;
    assert_null(berth_map_get(&map, "a"));
    assert_null(berth_map_remove(&map, "a"));
    assert_null(berth_map_next(&map, &at, &key));
    berth_map_clear(&map);
    berth_map_clear(&map);
}

static void put_replaces(void **state)
{
    (void)state;
    struct berth_map map = BERTH_MAP_INIT;
    int one, two;
    assert_true(berth_map_put(&map, "key", &one));
    assert_true(berth_map_put(&map, "", &two));
    assert_ptr_equal(berth_map_get(&map, "key"), &one);
    assert_ptr_equal(berth_map_get(&map, ""), &two);
    assert_true(berth_map_put(&map, "key", &two));
    assert_int_equal(map.count, 2);
    assert_ptr_equal(berth_map_get(&map, "key"), &two);
    assert_null(berth_map_get(&map, "ke"));
    assert_null(berth_map_get(&map, "keys"));
    assert_ptr_equal(berth_map_remove(&map, "key"), &two);
    assert_null(berth_map_remove(&map, "key"));
    assert_int_equal(map.count, 1);
    berth_map_clear(&map);
    assert_null(berth_map_get(&map, ""));
}

static void keys_are_copied(void **state)
{
    (void)state;
    struct berth_map map = BERTH_MAP_INIT;
    int value;
    char key[] = "before";
    assert_true(berth_map_put(&map, key, &value));
    memcpy(key, "after!", sizeof key);
    assert_ptr_equal(berth_map_get(&map, "before"), &value);
    assert_null(berth_map_get(&map, "after!"));
    berth_map_clear(&map);
}

/* Each entry of the model is walked over exactly once, and nothing else. */
static void check_walk(const struct berth_map *map, int *const model[KEYS])
{
    bool seen[KEYS] = {false};
    size_t at = 0, count = 0, expected = 0;
    const char *key;
    for (void *value; (value = berth_map_next(map, &at, &key));) {
        int number = atoi(key + 1);
        assert_in_range(number, 0, KEYS - 1);
        assert_false(seen[number]);
        seen[number] = true;
        assert_ptr_equal(value, model[number]);
        count++;
    }
    for (int i = 0; i < KEYS; i++)
        expected += model[i] != NULL;
    assert_int_equal(count, expected);
    assert_int_equal(map->count, expected);
    at = count = 0;
    while (berth_map_next(map, &at, NULL))
        count++;
    assert_int_equal(count, expected);
}

static void check_gets(const struct berth_map *map, int *const model[KEYS])
{
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        assert_ptr_equal(berth_map_get(map, key), model[i]);
    }
}

/* The share of removals swings, so that the table fills, empties, and probes over old holes. */
static void random_operations_match_a_model(void **state)
{
    (void)state;
    static int values[64];
    int *model[KEYS] = {NULL};
    struct berth_map map = BERTH_MAP_INIT;
    for (int step = 0; step < 200000; step++) {
        unsigned k = random_below(KEYS);
        char key[16];
        (void)snprintf(key, sizeof key, "k%u", k);
        if (random_below(100) < (step / 5000 % 2 ? 80U : 30U)) {
            assert_ptr_equal(berth_map_remove(&map, key), model[k]);
            model[k] = NULL;
        } else {
            model[k] = &values[random_below(64)];
            assert_true(berth_map_put(&map, key, model[k]));
        }
        assert_ptr_equal(berth_map_get(&map, key), model[k]);
        if (step % 1000 == 0) {
            check_gets(&map, model);
            check_walk(&map, model);
        }
    }
    check_gets(&map, model);
    check_walk(&map, model);
    berth_map_clear(&map);
    assert_int_equal(map.count, 0);
}

static void holds_many(void **state)
{
    (void)state;
    enum { MANY = 50000 };
    static char values[MANY];
    struct berth_map map = BERTH_MAP_INIT;
    char key[32];
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(key, sizeof key, "lease-%d", i);
        assert_true(berth_map_put(&map, key, &values[i]));
    }
    assert_int_equal(map.count, MANY);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(key, sizeof key, "lease-%d", i);
        assert_ptr_equal(berth_map_remove(&map, key), &values[i]);
    }
    assert_int_equal(map.count, 0);
    berth_map_clear(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_map_answers), cmocka_unit_test(put_replaces),
        cmocka_unit_test(keys_are_copied),   cmocka_unit_test(random_operations_match_a_model),
        cmocka_unit_test(holds_many),
    };
    return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
