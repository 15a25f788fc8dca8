/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/arena.c - alignment, big blocks, remembered failure, and lists. */
#include "base/arena.h"

#include "fixture.h"

static struct {
    struct berth_error err;
} t;

static bool all_zero(const unsigned char *p, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (p[i])
            return false;
    return true;
}

/* Every block is aligned, zeroed, and does not overlap others: each is filled with its own byte and
 * looked at again once all are there. */
static void blocks_are_aligned_zeroed_and_apart(void **state)
{
    (void)state;
    enum { BLOCKS = 3000 };
    static unsigned char *blocks[BLOCKS];
    auto_arena arena = BERTH_ARENA_INIT;
    for (int i = 0; i < BLOCKS; i++) {
        size_t size = (size_t)(i * 7 % 301) + 1;
        blocks[i] = berth_arena_alloc(&arena, size);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % _Alignof(max_align_t), 0);
        assert_true(all_zero(blocks[i], size));
        memset(blocks[i], i & 0xff, size);
    }
    for (int i = 0; i < BLOCKS; i++)
        for (size_t k = 0; k < (size_t)(i * 7 % 301) + 1; k++)
            assert_int_equal(blocks[i][k], i & 0xff);
    assert_ok(&t, berth_arena_check(&arena, &t.err));
}

static void big_blocks_stand_beside_small_ones(void **state)
{
    (void)state;
    static const size_t sizes[] = {4000, 4016, 4031, 4032, 4033, 4096, 65536, 3 * 1024 * 1024 + 1};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    auto_arena arena = BERTH_ARENA_INIT;
    unsigned char *big[COUNT], *small[COUNT];
    for (int i = 0; i < COUNT; i++) {
        small[i] = berth_arena_alloc(&arena, 3);
        big[i] = berth_arena_alloc(&arena, sizes[i]);
        assert_non_null(small[i]);
        assert_non_null(big[i]);
        assert_int_equal((uintptr_t)big[i] % _Alignof(max_align_t), 0);
        assert_true(all_zero(big[i], sizes[i]));
        memset(small[i], 's', 3);
        memset(big[i], 'b', sizes[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_memory_equal(small[i], "sss", 3);
        assert_int_equal(big[i][0], 'b');
        assert_int_equal(big[i][sizes[i] - 1], 'b');
    }
}

static void nothing_asked_is_not_a_failure(void **state)
{
    (void)state;
    auto_arena arena = BERTH_ARENA_INIT;
    assert_non_null(berth_arena_alloc(&arena, 0));
    assert_ok(&t, berth_arena_check(&arena, &t.err));
}

static void failure_is_remembered_until_cleared(void **state)
{
    (void)state;
    auto_arena arena = BERTH_ARENA_INIT;
    assert_ok(&t, berth_arena_check(&arena, &t.err));
    assert_null(berth_arena_alloc(&arena, SIZE_MAX));
    assert_non_null(berth_arena_strdup(&arena, "still of use"));
    assert_fails(&t, BERTH_E_NO_MEMORY, NULL, berth_arena_check(&arena, &t.err));
    berth_arena_clear(&arena);
    assert_ok(&t, berth_arena_check(&arena, &t.err));
    assert_null(arena.chunks);
    berth_arena_clear(&arena);
}

static void copies_are_terminated(void **state)
{
    (void)state;
    auto_arena arena = BERTH_ARENA_INIT;
    const char source[] = {'a', '\0', 'b', 'X'};
    const char *copy = berth_arena_copy(&arena, source, 3);
    assert_memory_equal(copy, "a\0b", 4);
    assert_string_equal(berth_arena_copy(&arena, NULL, 0), "");

    char text[] = "mine";
    const char *dup = berth_arena_strdup(&arena, text);
    text[0] = 'f';
    assert_string_equal(dup, "mine");
    assert_null(berth_arena_strdup(&arena, NULL));
    assert_ok(&t, berth_arena_check(&arena, &t.err));
}

static void printf_of_any_length(void **state)
{
    (void)state;
    auto_arena arena = BERTH_ARENA_INIT;
    assert_string_equal(berth_arena_printf(&arena, "%s", ""), "");
    assert_string_equal(berth_arena_printf(&arena, "%d-%s", 5, "x"), "5-x");
    const char *wide = berth_arena_printf(&arena, "%20000d", 7);
    assert_int_equal(strlen(wide), 20000);
    assert_int_equal(wide[19999], '7');
}

static void lists_keep_order_while_growing(void **state)
{
    (void)state;
    enum { ITEMS = 10000 };
    static int items[ITEMS];
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_list list = {0};
    for (int i = 0; i < ITEMS; i++) {
        assert_true(berth_list_add(&list, &arena, &items[i]));
        assert_int_equal(list.count, i + 1);
    }
    for (int i = 0; i < ITEMS; i++)
        assert_ptr_equal(list.items[i], &items[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_zeroed_and_apart),
        cmocka_unit_test(big_blocks_stand_beside_small_ones),
        cmocka_unit_test(nothing_asked_is_not_a_failure),
        cmocka_unit_test(failure_is_remembered_until_cleared),
        cmocka_unit_test(copies_are_terminated),
        cmocka_unit_test(printf_of_any_length),
        cmocka_unit_test(lists_keep_order_while_growing),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
