/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/buf.c - the ceiling, sticky failure, and who owns the text. */
#include "base/buf.h"

#include "fixture.h"

#include <malloc.h>

#include "base/auto.h"

static struct {
    struct berth_error err;
} t;

static void empty_is_the_empty_text(void **state)
{
    (void)state;
    auto_buf buf = BERTH_BUF_INIT(10);
    assert_null(buf.data);
    assert_string_equal(berth_buf_str(&buf), "");
    assert_ok(&t, berth_buf_check(&buf, "Nothing", &t.err));
    berth_buf_append(&buf, NULL, 0);
    assert_string_equal(berth_buf_str(&buf), "");
    assert_int_equal(buf.len, 0);
}

static void appends_in_order(void **state)
{
    (void)state;
    auto_buf buf = BERTH_BUF_INIT(100);
    berth_buf_puts(&buf, "one ");
    berth_buf_append(&buf, "twoXX", 3);
    berth_buf_printf(&buf, " %s %d", "three", 4);
    berth_buf_puts(&buf, "");
    assert_string_equal(berth_buf_str(&buf), "one two three 4");
    assert_int_equal(buf.len, strlen("one two three 4"));
}

static void keeps_nul_bytes(void **state)
{
    (void)state;
    auto_buf buf = BERTH_BUF_INIT(100);
    berth_buf_append(&buf, "a\0b", 3);
    berth_buf_puts(&buf, "c");
    assert_int_equal(buf.len, 4);
    assert_memory_equal(berth_buf_str(&buf), "a\0bc", 5);
}

static void exactly_the_ceiling_fits(void **state)
{
    (void)state;
    for (size_t max = 0; max < 200; max++) {
        auto_buf buf = BERTH_BUF_INIT(max);
        for (size_t i = 0; i < max; i++)
            berth_buf_puts(&buf, "x");
        assert_ok(&t, berth_buf_check(&buf, "Text", &t.err));
        assert_int_equal(buf.len, max);
        assert_int_equal(strlen(berth_buf_str(&buf)), max);
        berth_buf_puts(&buf, "x");
        assert_fails(&t, BERTH_E_TOO_LARGE, "Text", berth_buf_check(&buf, "Text", &t.err));
        assert_true(buf.failed && buf.too_long);
    }
}

static void printf_knows_the_ceiling_too(void **state)
{
    (void)state;
    auto_buf buf = BERTH_BUF_INIT(8);
    berth_buf_printf(&buf, "%s", "12345678");
    assert_string_equal(berth_buf_str(&buf), "12345678");
    berth_buf_printf(&buf, "%s", "");
    assert_ok(&t, berth_buf_check(&buf, "Text", &t.err));
    berth_buf_printf(&buf, "%d", 9);
    assert_fails(&t, BERTH_E_TOO_LARGE, "Text", berth_buf_check(&buf, "Text", &t.err));
}

/* What would still fit is refused as well: half a document must not pass for a whole one. */
static void failure_sticks(void **state)
{
    (void)state;
    auto_buf buf = BERTH_BUF_INIT(4);
    berth_buf_puts(&buf, "ab");
    berth_buf_puts(&buf, "too long");
    assert_null(berth_buf_str(&buf));
    size_t len = buf.len;
    berth_buf_puts(&buf, "c");
    berth_buf_append(&buf, "", 0);
    berth_buf_printf(&buf, "d");
    berth_buf_truncate(&buf, 0);
    assert_int_equal(buf.len, len);
    assert_null(berth_buf_str(&buf));
    assert_fails(&t, BERTH_E_TOO_LARGE, "Body", berth_buf_check(&buf, "Body", &t.err));
    assert_null(berth_buf_take(&buf));
}

static void huge_length_does_not_wrap(void **state)
{
    (void)state;
    auto_buf buf = BERTH_BUF_INIT(100);
    berth_buf_puts(&buf, "abc");
    berth_buf_append(&buf, "x", SIZE_MAX);
    assert_fails(&t, BERTH_E_TOO_LARGE, NULL, berth_buf_check(&buf, "Text", &t.err));
}

static void no_memory_is_told_apart(void **state)
{
    (void)state;
    struct berth_buf buf = {.max = 10, .failed = true};
    assert_fails(&t, BERTH_E_NO_MEMORY, "Body", berth_buf_check(&buf, "Body", &t.err));
}

static void clear_makes_it_usable_again(void **state)
{
    (void)state;
    auto_buf buf = BERTH_BUF_INIT(4);
    berth_buf_puts(&buf, "too long");
    berth_buf_clear(&buf);
    berth_buf_clear(&buf);
    assert_int_equal(buf.max, 4);
    berth_buf_puts(&buf, "fits");
    assert_string_equal(berth_buf_str(&buf), "fits");
}

static void truncate_only_shortens(void **state)
{
    (void)state;
    auto_buf buf = BERTH_BUF_INIT(100);
    berth_buf_truncate(&buf, 0);
    berth_buf_truncate(&buf, 5);
    berth_buf_puts(&buf, "abcdef");
    berth_buf_truncate(&buf, 7);
    berth_buf_truncate(&buf, 6);
    assert_string_equal(berth_buf_str(&buf), "abcdef");
    berth_buf_truncate(&buf, 2);
    assert_string_equal(berth_buf_str(&buf), "ab");
    berth_buf_puts(&buf, "z");
    assert_string_equal(berth_buf_str(&buf), "abz");
    assert_int_equal(buf.len, 3);
}

static void take_hands_the_text_on(void **state)
{
    (void)state;
    auto_buf buf = BERTH_BUF_INIT(100);
    auto_free char *nothing = berth_buf_take(&buf);
    assert_string_equal(nothing, "");
    berth_buf_puts(&buf, "text");
    auto_free char *text = berth_buf_take(&buf);
    assert_string_equal(text, "text");
    assert_string_equal(berth_buf_str(&buf), "");
    assert_int_equal(buf.len, 0);
    berth_buf_puts(&buf, "next");
    assert_string_equal(text, "text");
    assert_string_equal(berth_buf_str(&buf), "next");
}

static void take_after_failure_empties_it(void **state)
{
    (void)state;
    auto_buf buf = BERTH_BUF_INIT(4);
    berth_buf_puts(&buf, "abc");
    berth_buf_puts(&buf, "def");
    assert_null(berth_buf_take(&buf));
    assert_ok(&t, berth_buf_check(&buf, "Text", &t.err));
    berth_buf_puts(&buf, "new");
    assert_string_equal(berth_buf_str(&buf), "new");
}

static void grows_over_many_appends(void **state)
{
    (void)state;
    enum { ROUNDS = 20000 };
    auto_buf buf = BERTH_BUF_INIT(1 << 20);
    for (int i = 0; i < ROUNDS; i++)
        berth_buf_printf(&buf, "%05d;", i);
    assert_ok(&t, berth_buf_check(&buf, "Text", &t.err));
    assert_int_equal(buf.len, ROUNDS * 6);
    for (int i = 0; i < ROUNDS; i++)
        assert_int_equal(atoi(berth_buf_str(&buf) + i * 6), i);
}

/* --- secrets --- */

#define WORDS "correct horse battery"

static int betrayed; /* blocks that still held the words when they were let go of */

/* Instead of free, by the linker. */
void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p)
{
    if (p && memmem(p, malloc_usable_size(p), WORDS, strlen(WORDS)))
        betrayed++;
    __real_free(p);
}

/* Far more than the first block holds, with the words at its beginning. */
static void fill(struct berth_buf *buf)
{
    for (int i = 0; i < 10000; i++)
        berth_buf_puts(buf, i % 1000 ? "filler " : WORDS " ");
}

static void secrets_do_not_stay_behind(void **state)
{
    (void)state;
    for (int secret = 0; secret < 2; secret++) {
        struct berth_buf buf = BERTH_BUF_INIT(1 << 20);
        buf.secret = secret;
        betrayed = 0;
        fill(&buf); /* it moves several times */
        assert_string_equal(berth_buf_str(&buf) + buf.len - 14, "filler filler ");
        assert_ptr_equal(strstr(berth_buf_str(&buf), WORDS), berth_buf_str(&buf));
        berth_buf_truncate(&buf, 3); /* what is behind is still ours */
        berth_buf_clear(&buf);
        assert_int_equal(betrayed > 0, !secret);
        assert_int_equal(buf.secret, secret); /* for what comes next */
    }
}

static void secrets_that_failed_do_not_stay_behind(void **state)
{
    (void)state;
    for (int by_take = 0; by_take < 2; by_take++) {
        struct berth_buf buf = BERTH_BUF_INIT(3000);
        buf.secret = true;
        betrayed = 0;
        fill(&buf);
        assert_true(buf.failed && buf.data);
        if (by_take)
            assert_null(berth_buf_take(&buf));
        else
            berth_buf_clear(&buf);
        assert_int_equal(betrayed, 0);
        assert_null(buf.data);
    }
}

static void taken_secrets_are_the_callers(void **state)
{
    (void)state;
    struct berth_buf buf = BERTH_BUF_INIT(100);
    buf.secret = true;
    berth_buf_puts(&buf, WORDS);
    auto_free char *text = berth_buf_take(&buf);
    assert_string_equal(text, WORDS);
    assert_true(buf.secret);
    berth_buf_clear(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_is_the_empty_text),
        cmocka_unit_test(appends_in_order),
        cmocka_unit_test(keeps_nul_bytes),
        cmocka_unit_test(exactly_the_ceiling_fits),
        cmocka_unit_test(printf_knows_the_ceiling_too),
        cmocka_unit_test(failure_sticks),
        cmocka_unit_test(huge_length_does_not_wrap),
        cmocka_unit_test(no_memory_is_told_apart),
        cmocka_unit_test(clear_makes_it_usable_again),
        cmocka_unit_test(truncate_only_shortens),
        cmocka_unit_test(take_hands_the_text_on),
        cmocka_unit_test(take_after_failure_empties_it),
        cmocka_unit_test(grows_over_many_appends),
        cmocka_unit_test(secrets_do_not_stay_behind),
        cmocka_unit_test(secrets_that_failed_do_not_stay_behind),
        cmocka_unit_test(taken_secrets_are_the_callers),
    };
    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
