/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/time.c - clocks that move, ISO times, and the heap of deadlines against a model. */
#include "base/time.h"

#include "base/limits.h"

#include "fixture.h"

#define HOUR_MS (INT64_C(60) * 60 * 1000)

static struct {
    struct berth_error err;
} t;

/* --- clocks --- */

static void shift_moves_each_clock_alone(void **state)
{
    (void)state;
    int64_t wall = berth_time_wall_ms(), mono = berth_time_mono_ms();
    berth_time_shift(5 * HOUR_MS, 0);
    int64_t wall_moved = berth_time_wall_ms() - wall, mono_moved = berth_time_mono_ms() - mono;
    assert_in_range(wall_moved, 5 * HOUR_MS - 1000, 6 * HOUR_MS);
    assert_in_range(mono_moved, 0, HOUR_MS);
    berth_time_shift(-5 * HOUR_MS, 7 * HOUR_MS);
    wall_moved = berth_time_wall_ms() - wall, mono_moved = berth_time_mono_ms() - mono;
    assert_true(wall_moved > -HOUR_MS && wall_moved < HOUR_MS);
    assert_in_range(mono_moved, 7 * HOUR_MS, 8 * HOUR_MS);
    berth_time_shift(0, -7 * HOUR_MS);
}

static void count_shift(void *ctx)
{
    ++*(int *)ctx;
}

static void watchers_are_told(void **state)
{
    (void)state;
    int counts[3] = {0};
    struct berth_time_watch watches[3];
    for (int i = 0; i < 3; i++) {
        watches[i] = (struct berth_time_watch){.on_shift = count_shift, .ctx = &counts[i]};
        berth_time_watch_add(&watches[i]);
    }
    berth_time_shift(0, 1);
    berth_time_watch_remove(&watches[1]);
    berth_time_shift(1, 0);
    berth_time_watch_remove(&watches[1]); /* no longer there: nothing happens */
    berth_time_watch_remove(&watches[2]);
    berth_time_watch_remove(&watches[0]);
    berth_time_shift(-1, -1);
    assert_int_equal(counts[0], 2);
    assert_int_equal(counts[1], 1);
    assert_int_equal(counts[2], 2);
}

/* --- ISO --- */

static const struct {
    int64_t wall_ms;
    const char *iso;
} known[] = {
    {0, "1970-01-01T00:00:00.000Z"},
    {1, "1970-01-01T00:00:00.001Z"},
    {-1, "1969-12-31T23:59:59.999Z"},
    {-1000, "1969-12-31T23:59:59.000Z"},
    {-1001, "1969-12-31T23:59:58.999Z"},
    {951782400000, "2000-02-29T00:00:00.000Z"},
    {1794729900123, "2026-11-15T08:05:00.123Z"},
    {4107542399999, "2100-02-28T23:59:59.999Z"},
    {4107542400000, "2100-03-01T00:00:00.000Z"},
    {253402300799999, "9999-12-31T23:59:59.999Z"},
};

static void iso_both_ways(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char text[BERTH_TIME_ISO_SIZE];
        int64_t back = 42;
        berth_time_iso(known[i].wall_ms, text);
        assert_string_equal(text, known[i].iso);
        assert_true(berth_time_parse_iso(text, &back));
        assert_true(back == known[i].wall_ms);
    }
}

static void iso_of_random_times_comes_back(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252U;
    for (int i = 0; i < 20000; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        int64_t wall_ms = (int64_t)(seed % 253402300800000U), back = -1;
        char text[BERTH_TIME_ISO_SIZE];
        berth_time_iso(wall_ms, text);
        assert_int_equal(strlen(text), 24);
        assert_true(berth_time_parse_iso(text, &back));
        assert_true(back == wall_ms);
    }
}

/* Text order is time order only with four digits. */
static void iso_years_have_four_digits(void **state)
{
    (void)state;
    char text[BERTH_TIME_ISO_SIZE];
    int64_t back = 0;
    berth_time_iso(INT64_C(-62135596800000), text);
    assert_string_equal(text, "0001-01-01T00:00:00.000Z");
    assert_true(berth_time_parse_iso(text, &back));
    assert_true(back == INT64_C(-62135596800000));
}

static void iso_beyond_the_calendar_is_empty(void **state)
{
    (void)state;
    static const int64_t beyond[] = {INT64_C(253402300800000), INT64_C(-99999999999999), INT64_MAX,
                                     INT64_MIN + 1000};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        char text[BERTH_TIME_ISO_SIZE] = "untouched";
        berth_time_iso(beyond[i], text);
        assert_string_equal(text, "");
    }
}

/* The smallest number there is: (wall_ms - rest) must not overflow on the way. */
static void iso_of_the_smallest_number(void **state)
{
    (void)state;
    char text[BERTH_TIME_ISO_SIZE] = "untouched";
    berth_time_iso(INT64_MIN, text);
    assert_string_equal(text, "");
}

static void parse_knows_offsets_and_fractions(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t wall_ms;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01T00:00:00.5Z", 500},
        {"1970-01-01T00:00:00.05Z", 50},
        {"1970-01-01T00:00:00.123456789Z", 123},
        {"1970-01-01T00:00:00.000+00:00", 0},
        {"1970-01-01T00:00:00.000-00:00", 0},
        {"1970-01-01T01:00:00.000+01:00", 0},
        {"1969-12-31T19:00:00-05:00", 0},
        {"1970-01-01T05:45:00.001+05:45", 1},
        {"2026-11-15T08:05:00.123Z", 1794729900123},
        {"2026-11-15T13:35:00.123+05:30", 1794729900123},
        {"2026-11-14T22:05:00.123-10:00", 1794729900123},
        {"2026-11-15T22:05:00.123+14:00", 1794729900123},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t wall_ms = 42;
        if (!berth_time_parse_iso(rows[i].text, &wall_ms) || wall_ms != rows[i].wall_ms)
            fail_msg("%s: %lld", rows[i].text, (long long)wall_ms);
    }
}

/* All in the list, so that one run tells everything that passes. */
static void refuses_all(const char *const texts[])
{
    int passed = 0;
    for (int i = 0; texts[i]; i++) {
        int64_t wall_ms = 42;
        if (berth_time_parse_iso(texts[i], &wall_ms)) {
            print_error("\"%s\" passes as %lld\n", texts[i], (long long)wall_ms);
            passed++;
        } else {
            assert_true(wall_ms == 42);
        }
    }
    assert_int_equal(passed, 0);
}

static void parse_refuses_garbage(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "Z",
        "now",
        "1794729900123",
        "2026",
        "2026-11-15",
        "2026-11-15T08:05Z",
        "2026-11-15T08:05:00",
        "2026-11-15T08:05:00.123",
        "2026-11-15 08:05:00Z",
        "2026-11-15T08:05:00ZZ",
        "2026-11-15T08:05:00Z ",
        "2026-11-15T08:05:00.123Z\n",
        "2026-11-15T08:05:00.12x3Z",
        "2026-11-15T08:05:00,123Z",
        "2026-13-15T08:05:00Z",
        "2026-00-15T08:05:00Z",
        "2026-11-32T08:05:00Z",
        "2026-11-00T08:05:00Z",
        "2026-11-15T24:05:00Z",
        "2026-11-15T08:60:00Z",
        "2026-11-15T08:05:62Z",
        "2026-11-15T08:05:00+",
        "2026-11-15T08:05:00+01",
        "2026-11-15T08:05:00+0100",
        "2026-11-15T08:05:00+1:00",
        "2026-11-15T08:05:00+01:0",
        "2026-11-15T08:05:00+01:000",
        "2026-11-15T08:05:00+01:00Z",
        "2026-11-15T08:05:00+aa:bb",
        "2026-11-15T08:05:00 +01:00",
        NULL,
    };
    refuses_all(texts);
}

/* The exact form is required: not all that strptime and sscanf accept. */
static void parse_refuses_what_libc_forgives(void **state)
{
    (void)state;
    static const char *const texts[] = {
        " 2026-11-15T08:05:00Z",     "2026- 1- 5T08:05:00Z",      "2026-1-5T8:5:0Z",
        "26-11-15T08:05:00Z",        "2026-11-15T08:05: 0Z",      "2026-02-30T08:05:00Z",
        "2026-02-29T08:05:00Z",      "2026-04-31T08:05:00Z",      "2026-11-15T08:05:00.Z",
        "2026-11-15T08:05:00+-1:00", "2026-11-15T08:05:00+01:-1", "2026-11-15T08:05:00++1:00",
        "2026-11-15T08:05:00+ 1:00", "2026-11-15T08:05:00+01: 1", "2026-11-15T08:05:00+24:00",
        "2026-11-15T08:05:00+01:60", "2026-11-15T08:05:00-99:99", NULL,
    };
    refuses_all(texts);
}

/* --- durations --- */

static void durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } fine[] = {{"1ms", 1},
                {"250ms", 250},
                {"90s", 90000},
                {"15m", 900000},
                {"1h", HOUR_MS},
                {"2d", 48 * HOUR_MS},
                {"007s", 7000},
                {"366d", 366 * 24 * HOUR_MS},
                {"31622400s", 366 * 24 * HOUR_MS}};
    for (unsigned i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        int64_t ms = -1;
        if (!berth_time_parse_duration(fine[i].text, &ms) || ms != fine[i].ms)
            fail_msg("%s gives %lld", fine[i].text, (long long)ms);
    }
}

static void what_is_no_duration(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "0s",
                                        "0ms",
                                        "1",
                                        "s",
                                        "ms",
                                        "1 s",
                                        " 1s",
                                        "1s ",
                                        "-1s",
                                        "+1s",
                                        "1.5h",
                                        "1S",
                                        "1min",
                                        "1w",
                                        "367d",
                                        "31622401s",
                                        "0x1s",
                                        "999999999999d",
                                        "213504d",
                                        "213503982335d",
                                        "1000000000000ms",
                                        "99999999999999999999s"};
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int64_t ms = -1;
        if (berth_time_parse_duration(texts[i], &ms) || ms != -1)
            fail_msg("%s gives %lld", texts[i], (long long)ms);
    }
}

/* --- deadlines --- */

static void empty_heap_answers(void **state)
{
    (void)state;
    struct berth_deadlines all = {0};
    struct berth_deadline d = {.at_ms = 5};
    assert_null(berth_deadlines_first(&all));
    assert_null(berth_deadlines_pop_due(&all, INT64_MAX));
    berth_deadlines_remove(&all, &d);
    berth_deadlines_clear(&all);
    berth_deadlines_clear(&all);
}

static void due_means_reached(void **state)
{
    (void)state;
    struct berth_deadlines all = {0};
    struct berth_deadline d = {.at_ms = 100};
    assert_ok(&t, berth_deadlines_add(&all, &d, &t.err));
    assert_ptr_equal(berth_deadlines_first(&all), &d);
    assert_null(berth_deadlines_pop_due(&all, 99));
    assert_int_not_equal(d.index, 0);
    assert_ptr_equal(berth_deadlines_pop_due(&all, 100), &d);
    assert_int_equal(d.index, 0);
    assert_null(berth_deadlines_pop_due(&all, 100));
    berth_deadlines_remove(&all, &d);
    berth_deadlines_remove(&all, &d);
    assert_ok(&t, berth_deadlines_add(&all, &d, &t.err)); /* and once more */
    berth_deadlines_remove(&all, &d);
    assert_int_equal(d.index, 0);
    assert_null(berth_deadlines_first(&all));
    berth_deadlines_clear(&all);
}

/* An index of 0 says "in none", so after clear each has it. */
static void clear_leaves_nobody_inside(void **state)
{
    (void)state;
    struct berth_deadlines all = {0};
    struct berth_deadline d[3] = {{.at_ms = 1}, {.at_ms = 2}, {.at_ms = 3}};
    for (int i = 0; i < 3; i++)
        assert_ok(&t, berth_deadlines_add(&all, &d[i], &t.err));
    berth_deadlines_clear(&all);
    assert_null(berth_deadlines_first(&all));
    for (int i = 0; i < 3; i++)
        assert_int_equal(d[i].index, 0);
}

#define MODEL 300

struct model {
    struct berth_deadlines all;
    struct berth_deadline d[MODEL];
    bool inside[MODEL];
    uint64_t seed;
};

static unsigned random_below(struct model *m, unsigned limit)
{
    m->seed ^= m->seed << 13;
    m->seed ^= m->seed >> 7;
    m->seed ^= m->seed << 17;
    return (unsigned)((m->seed >> 16) % limit);
}

static int64_t earliest(const struct model *m)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < MODEL; i++)
        if (m->inside[i] && m->d[i].at_ms < least)
            least = m->d[i].at_ms;
    return least;
}

static void check_model(const struct model *m)
{
    size_t count = 0;
    for (int i = 0; i < MODEL; i++) {
        count += m->inside[i];
        assert_int_equal(m->d[i].index != 0, m->inside[i]);
        if (m->inside[i])
            assert_ptr_equal(m->all.heap[m->d[i].index - 1], &m->d[i]);
    }
    assert_int_equal(m->all.count, count);
    const struct berth_deadline *first = berth_deadlines_first(&m->all);
    assert_int_equal(first != NULL, count != 0);
    if (first)
        assert_true(first->at_ms == earliest(m));
}

static void pop_one(struct model *m)
{
    int64_t now = random_below(m, 1000), least = earliest(m);
    struct berth_deadline *due = berth_deadlines_pop_due(&m->all, now);
    assert_int_equal(due != NULL, least <= now);
    if (due) {
        assert_true(due->at_ms == least);
        assert_true(m->inside[due - m->d]);
        m->inside[due - m->d] = false;
    }
}

/* Few distinct times, so that equal ones meet. */
static void random_operations_match_a_model(void **state)
{
    (void)state;
    static struct model m = {.seed = 4101842887655102017U};
    for (int step = 0; step < 40000; step++) {
        unsigned i = random_below(&m, MODEL), what = random_below(&m, 10);
        if (what < 2) {
            pop_one(&m);
        } else if (m.inside[i] || what == 2) {
            berth_deadlines_remove(&m.all, &m.d[i]); /* those outside as well */
            m.inside[i] = false;
        } else {
            m.d[i].at_ms = random_below(&m, 1000);
            assert_ok(&t, berth_deadlines_add(&m.all, &m.d[i], &t.err));
            m.inside[i] = true;
        }
        if (step % 16 == 0)
            check_model(&m);
    }
    int64_t last = INT64_MIN;
    for (struct berth_deadline *d; (d = berth_deadlines_pop_due(&m.all, INT64_MAX));) {
        assert_true(d->at_ms >= last);
        last = d->at_ms;
        m.inside[d - m.d] = false;
    }
    check_model(&m);
    berth_deadlines_clear(&m.all);
}

/* Setting the wall clock does not move the steady clock; passing time does. */
static void the_steady_clock_does_not_jump(void **state)
{
    (void)state;
    assert_int_equal(berth_time_jumped_ms(), 0); /* without an anchor */
    berth_time_anchor(berth_time_offset_ms());
    static const int64_t jumps[] = {HOUR_MS, -HOUR_MS, 24 * HOUR_MS, -50 * HOUR_MS};
    for (size_t i = 0; i < sizeof jumps / sizeof jumps[0]; i++) {
        int64_t before = berth_time_steady_ms();
        berth_time_jump(jumps[i]);
        int64_t moved = berth_time_steady_ms() - before;
        assert_in_range(moved + BERTH_CLOCK_JUMP_MS, 0, 2 * BERTH_CLOCK_JUMP_MS);
        int64_t wall = berth_time_wall_ms();
        assert_in_range(berth_time_steady_to_wall(berth_time_steady_ms()) - wall + 100, 0, 200);
        assert_in_range(berth_time_wall_to_steady(wall) - berth_time_steady_ms() + 100, 0, 200);
        before = berth_time_steady_ms();
        berth_time_shift(5 * HOUR_MS, 0);
        assert_in_range(berth_time_steady_ms() - before, 5 * HOUR_MS - 100, 5 * HOUR_MS + 10000);
        berth_time_shift(-5 * HOUR_MS, 0);
        berth_time_jump(-jumps[i]);
        assert_int_equal(berth_time_jumped_ms(), 0);
    }
    assert_int_equal(berth_time_steady_to_wall(0), 0);
    assert_int_equal(berth_time_wall_to_steady(0), 0);
    int64_t before = berth_time_steady_ms();
    berth_time_jump(BERTH_CLOCK_JUMP_MS / 2); /* a small step is followed */
    assert_in_range(berth_time_steady_ms() - before, BERTH_CLOCK_JUMP_MS / 2 - 100,
                    BERTH_CLOCK_JUMP_MS / 2 + 5000);
    berth_time_jump(-BERTH_CLOCK_JUMP_MS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shift_moves_each_clock_alone),
        cmocka_unit_test(watchers_are_told),
        cmocka_unit_test(iso_both_ways),
        cmocka_unit_test(iso_of_random_times_comes_back),
        cmocka_unit_test(iso_years_have_four_digits),
        cmocka_unit_test(iso_beyond_the_calendar_is_empty),
        cmocka_unit_test(parse_knows_offsets_and_fractions),
        cmocka_unit_test(parse_refuses_garbage),
        cmocka_unit_test(parse_refuses_what_libc_forgives),
        cmocka_unit_test(durations),
        cmocka_unit_test(what_is_no_duration),
        cmocka_unit_test(empty_heap_answers),
        cmocka_unit_test(due_means_reached),
        cmocka_unit_test(clear_leaves_nobody_inside),
        cmocka_unit_test(random_operations_match_a_model),
        cmocka_unit_test(iso_of_the_smallest_number),
        cmocka_unit_test(the_steady_clock_does_not_jump),
    };
    return cmocka_run_group_tests_name("time", tests, NULL, NULL);
}
