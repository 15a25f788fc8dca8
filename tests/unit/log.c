/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/log.c - lines are complete JSON objects for all texts. */
#include "base/log.h"

#include "fixture.h"

#include "base/auto.h"
#include "base/time.h"

struct capture {
    int count;
    enum berth_log_level level;
    char *line; /* the last one */
};

static void keep(void *ctx, enum berth_log_level level, const char *line)
{
    struct capture *c = ctx;
    free(c->line);
    c->line = strdup(line);
    c->level = level;
    c->count++;
}

static void forget(struct capture *c)
{
    free(c->line);
}

#define CAPTURE(c, log)                                                                            \
    auto_clean(forget) struct capture c = {0};                                                     \
    struct berth_log log = {.write = keep, .ctx = &(c)}

static void line_is_an_object(void **state)
{
    (void)state;
    CAPTURE(c, log);
    int64_t before = berth_time_wall_ms(), at = 0;
    berth_log_line(&log, BERTH_LOG_WARN, "cleanup failed", "leaseId", "l-1", "error", "no", NULL);
    int64_t after = berth_time_wall_ms();
    assert_int_equal(c.count, 1);
    assert_int_equal(c.level, BERTH_LOG_WARN);
    auto_json *line = parse_json(c.line);
    assert_true(berth_json_is(line, BERTH_JSON_OBJECT));
    assert_int_equal(berth_json_count(line), 5);
    assert_string_equal(berth_json_str(berth_json_get(line, "level")), "warn");
    assert_string_equal(berth_json_str(berth_json_get(line, "event")), "cleanup failed");
    assert_string_equal(berth_json_str(berth_json_get(line, "leaseId")), "l-1");
    assert_string_equal(berth_json_str(berth_json_get(line, "error")), "no");
    assert_true(berth_time_parse_iso(berth_json_str(berth_json_get(line, "time")), &at));
    assert_true(at >= before && at <= after);
}

static void event_alone_is_enough(void **state)
{
    (void)state;
    CAPTURE(c, log);
    berth_log_line(&log, BERTH_LOG_ERROR, "stopped", NULL);
    auto_json *line = parse_json(c.line);
    assert_int_equal(berth_json_count(line), 3);
}

static void null_pairs_are_left_out(void **state)
{
    (void)state;
    CAPTURE(c, log);
    const char *none = NULL;
    berth_log_line(&log, BERTH_LOG_INFO, "e", "a", none, "b", "2", "c", none, "d", "", NULL);
    auto_json *line = parse_json(c.line);
    assert_int_equal(berth_json_count(line), 5);
    assert_null(berth_json_get(line, "a"));
    assert_string_equal(berth_json_str(berth_json_get(line, "b")), "2");
    assert_null(berth_json_get(line, "c"));
    assert_string_equal(berth_json_str(berth_json_get(line, "d")), "");
}

static void any_text_stays_one_line(void **state)
{
    (void)state;
    CAPTURE(c, log);
    char every[256];
    for (int i = 0; i < 255; i++)
        every[i] = (char)(i + 1);
    every[255] = '\0';
    berth_log_line(&log, BERTH_LOG_INFO, "two\nlines \"quoted\"", "every", every, NULL);
    assert_null(strchr(c.line, '\n'));
    auto_json *line = parse_json(c.line);
    assert_string_equal(berth_json_str(berth_json_get(line, "event")), "two\nlines \"quoted\"");
    assert_memory_equal(berth_json_str(berth_json_get(line, "every")), every, 127);
}

static void levels_below_are_dropped(void **state)
{
    (void)state;
    CAPTURE(c, log);
    static const char *const names[] = {"debug", "info", "warn", "error"};
    for (int min = BERTH_LOG_DEBUG; min <= BERTH_LOG_ERROR; min++) {
        for (int level = BERTH_LOG_DEBUG; level <= BERTH_LOG_ERROR; level++) {
            log.min_level = (enum berth_log_level)min;
            int before = c.count;
            berth_log_line(&log, (enum berth_log_level)level, "e", NULL);
            assert_int_equal(c.count - before, level >= min);
            if (level < min)
                continue;
            auto_json *line = parse_json(c.line);
            assert_string_equal(berth_json_str(berth_json_get(line, "level")), names[level]);
        }
    }
}

static void without_write_nothing_happens(void **state)
{
    (void)state;
    struct berth_log log = {0};
    berth_log_line(&log, BERTH_LOG_ERROR, "e", "a", "b", NULL);
}

/* A provider's text may be huge; the line must still say what failed. */
static void a_huge_text_does_not_lose_the_event(void **state)
{
    (void)state;
    CAPTURE(c, log);
    enum { HUGE_BYTES = 1024 * 1024 };
    auto_free char *text = malloc(HUGE_BYTES + 1);
    assert_non_null(text);
    memset(text, 'x', HUGE_BYTES);
    text[HUGE_BYTES] = '\0';
    berth_log_line(&log, BERTH_LOG_ERROR, "cleanup failed", "leaseId", "l-1", "error", text, NULL);
    assert_int_equal(c.count, 1);
    auto_json *line = parse_json(c.line);
    assert_string_equal(berth_json_str(berth_json_get(line, "event")), "cleanup failed");
    assert_string_equal(berth_json_str(berth_json_get(line, "level")), "error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_is_an_object),
        cmocka_unit_test(event_alone_is_enough),
        cmocka_unit_test(null_pairs_are_left_out),
        cmocka_unit_test(any_text_stays_one_line),
        cmocka_unit_test(levels_below_are_dropped),
        cmocka_unit_test(without_write_nothing_happens),
        cmocka_unit_test(a_huge_text_does_not_lose_the_event),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
