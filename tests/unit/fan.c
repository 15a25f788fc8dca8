/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/fan.c - output for many watches: written once for all that are alike, in one part for
 * each, and never with a gap. */
#include "api/stream/fan.h"

#include "fixture.h"

#include "base/limits.h"

#define WATCHES 2000
#define LINES 400

static struct berth_api_log_cursor cursors[WATCHES];

static void begin_at(const struct berth_api_output_format *format, uint64_t out, uint64_t err)
{
    for (int i = 0; i < WATCHES; i++)
        cursors[i] =
            (struct berth_api_log_cursor){.format = format, .stream = -1, .seen = {out, err}};
}

/* Adds "0\n", "1\n" and so on to stdout. Returns the offset after them. */
static uint64_t say_lines(struct berth_api_fan *fan, uint64_t offset, struct berth_buf *all)
{
    for (int i = 0; i < LINES; i++) {
        char line[16];
        int len = snprintf(line, sizeof line, "%d\n", i);
        berth_api_fan_add(fan, BERTH_STDOUT, offset, line, (size_t)len);
        berth_buf_append(all, line, (size_t)len);
        offset += (uint64_t)len;
    }
    return offset;
}

static void many_lines_are_one_text_for_all(void **state)
{
    (void)state;
    struct berth_api_fan fan = {0};
    auto_buf all = BERTH_BUF_INIT(1 << 20);
    begin_at(&berth_api_format_bytes, 0, 0);
    uint64_t end = say_lines(&fan, 0, &all);
    assert_true(berth_api_fan_begin(&fan));
    const struct berth_buf *first = berth_api_fan_give(&fan, &cursors[0]);
    assert_int_equal(first->len, all.len);
    assert_memory_equal(first->data, all.data, all.len);
    for (int i = 1; i < WATCHES; i++)
        assert_ptr_equal(berth_api_fan_give(&fan, &cursors[i]), first);
    assert_int_equal(fan.text_count, 1);
    for (int i = 0; i < WATCHES; i++)
        assert_int_equal(cursors[i].seen[0], end);
    berth_api_fan_end(&fan);
    assert_false(berth_api_fan_begin(&fan)); /* nothing more has come */
    berth_api_fan_clear(&fan);
}

/* Watches that differ have texts of their own, which their neighbours do not displace. */
static void mixed_watches_share(void **state)
{
    (void)state;
    struct berth_api_fan fan = {0};
    begin_at(&berth_api_format_events, 0, 0);
    for (int i = 0; i < WATCHES; i++) {
        cursors[i].stream = i % 3 - 1;
        cursors[i].format = i % 2 ? &berth_api_format_bytes : &berth_api_format_events;
    }
    berth_api_fan_add(&fan, BERTH_STDOUT, 0, "out", 3);
    berth_api_fan_add(&fan, BERTH_STDERR, 0, "error", 5);
    assert_true(berth_api_fan_begin(&fan));
    for (int i = 0; i < WATCHES; i++) {
        const struct berth_buf *text = berth_api_fan_give(&fan, &cursors[i]);
        assert_non_null(text);
        if (i % 2)
            assert_int_equal(text->len, i % 3 == 0 ? 8 : i % 3 == 1 ? 3 : 5);
    }
    assert_int_equal(fan.text_count, 6);
    berth_api_fan_clear(&fan);
}

/* One that has read a part of it from the log gets the rest. */
static void what_was_seen_is_left_out(void **state)
{
    (void)state;
    struct berth_api_fan fan = {0};
    begin_at(&berth_api_format_bytes, 0, 0);
    berth_api_fan_add(&fan, BERTH_STDOUT, 10, "abc", 3);
    berth_api_fan_add(&fan, BERTH_STDOUT, 13, "def", 3);
    assert_true(berth_api_fan_begin(&fan));
    cursors[0].seen[0] = 14;
    const struct berth_buf *text = berth_api_fan_give(&fan, &cursors[0]);
    assert_int_equal(text->len, 2);
    assert_memory_equal(text->data, "ef", 2);
    cursors[1].seen[0] = 16;
    assert_int_equal(berth_api_fan_give(&fan, &cursors[1])->len, 0);
    cursors[2].seen[0] = 9; /* a byte before it is missing */
    assert_null(berth_api_fan_give(&fan, &cursors[2]));
    assert_int_equal(cursors[2].seen[0], 9);
    berth_api_fan_clear(&fan);
}

/* More than fits: the watches read the log, also when nothing comes after it. */
static void too_much_is_left_to_the_log(void **state)
{
    (void)state;
    struct berth_api_fan fan = {0};
    char *much = test_calloc(1, BERTH_FAN_BYTES_MAX);
    begin_at(&berth_api_format_bytes, 0, 0);
    berth_api_fan_add(&fan, BERTH_STDOUT, 0, "x", 1);
    berth_api_fan_add(&fan, BERTH_STDOUT, 1, much, BERTH_FAN_BYTES_MAX);
    assert_true(berth_api_fan_begin(&fan));
    assert_null(berth_api_fan_give(&fan, &cursors[0]));
    assert_int_equal(cursors[0].seen[0], 0);
    cursors[1].stream = BERTH_STDERR; /* it does not want this stream */
    assert_int_equal(berth_api_fan_give(&fan, &cursors[1])->len, 0);
    berth_api_fan_end(&fan);
    cursors[0].seen[0] = 1 + BERTH_FAN_BYTES_MAX;
    berth_api_fan_add(&fan, BERTH_STDOUT, cursors[0].seen[0], "y", 1);
    assert_true(berth_api_fan_begin(&fan));
    assert_int_equal(berth_api_fan_give(&fan, &cursors[0])->len, 1);
    berth_api_fan_clear(&fan);
    test_free(much);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_lines_are_one_text_for_all),
        cmocka_unit_test(mixed_watches_share),
        cmocka_unit_test(what_was_seen_is_left_out),
        cmocka_unit_test(too_much_is_left_to_the_log),
    };
    return cmocka_run_group_tests_name("fan", tests, NULL, NULL);
}
