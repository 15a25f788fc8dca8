/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/id.c - the form of a UUIDv7, its order when the clock moves, and foreign ids. */
#include "base/id.h"

#include "fixture.h"

#include <pthread.h>

#include "base/time.h"

#define THREADS 8
#define IDS_EACH 20000
#define HOUR_MS (INT64_C(60) * 60 * 1000)

static struct {
    struct berth_error err;
} t;

static int64_t time_of(const struct berth_id *id)
{
    char hex[13];
    (void)snprintf(hex, sizeof hex, "%.8s%.4s", id->text, id->text + 9);
    return strtoll(hex, NULL, 16);
}

static void has_the_form_of_version_7(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        struct berth_id id = berth_id_new();
        assert_int_equal(strlen(id.text), 36);
        assert_int_equal(strspn(id.text, "0123456789abcdef-"), 36);
        assert_true(berth_id_valid(id.text));
        assert_int_equal(id.text[14], '7');
        assert_non_null(strchr("89ab", id.text[19]));
    }
}

/* Neither the first eight nor the last twelve digits repeat; those between them do not decrease, so
 * that an index on them grows at its end. */
static void random_ids_have_the_form_of_version_4(void **state)
{
    (void)state;
    int alike = 0, same_time = 0;
    struct berth_id last = berth_id_new_random();
    for (int i = 0; i < 1000; i++) {
        struct berth_id id = berth_id_new_random();
        assert_int_equal(strlen(id.text), 36);
        assert_int_equal(strspn(id.text, "0123456789abcdef-"), 36);
        assert_true(berth_id_valid(id.text));
        assert_int_equal(id.text[14], '4');
        assert_non_null(strchr("89ab", id.text[19]));
        alike += strncmp(id.text, last.text, 8) == 0 || strcmp(id.text + 24, last.text + 24) == 0;
        int order = memcmp(id.text + 9, last.text + 9, 14);
        assert_true(order >= 0);
        same_time += order == 0;
        last = id;
    }
    assert_int_equal(alike, 0);
    assert_in_range(same_time, 1, 1000);
    berth_time_shift(1, 0);
    struct berth_id later = berth_id_new_random();
    berth_time_shift(-1, 0);
    assert_true(memcmp(later.text + 9, last.text + 9, 14) > 0);
}

static void carries_the_time(void **state)
{
    (void)state;
    berth_time_shift(10 * HOUR_MS, 0); /* beyond what other tests have reached */
    int64_t before = berth_time_wall_ms();
    struct berth_id id = berth_id_new();
    int64_t after = berth_time_wall_ms();
    berth_time_shift(-10 * HOUR_MS, 0);
    assert_true(time_of(&id) >= before);
    assert_true(time_of(&id) <= after);
}

/* Far more in a millisecond than its counter can tell apart. */
static void later_sorts_later(void **state)
{
    (void)state;
    struct berth_id last = berth_id_new();
    for (int i = 0; i < 50000; i++) {
        struct berth_id id = berth_id_new();
        assert_true(strcmp(last.text, id.text) < 0);
        last = id;
    }
}

static void never_backwards_with_the_clock(void **state)
{
    (void)state;
    static const int64_t moves[] = {-1,       -HOUR_MS,        2 * HOUR_MS,
                                    -HOUR_MS, -1000 * HOUR_MS, 1000 * HOUR_MS + 1};
    struct berth_id last = berth_id_new();
    for (size_t m = 0; m < sizeof moves / sizeof *moves; m++) {
        berth_time_shift(moves[m], 0);
        for (int i = 0; i < 5000; i++) {
            struct berth_id id = berth_id_new();
            assert_true(strcmp(last.text, id.text) < 0);
            last = id;
        }
    }
}

struct maker {
    pthread_t thread;
    struct berth_id *ids;
    bool backwards;
};

static void *make_ids(void *ctx)
{
    struct maker *maker = ctx;
    for (int i = 0; i < IDS_EACH; i++) {
        maker->ids[i] = berth_id_new();
        if (i > 0 && strcmp(maker->ids[i - 1].text, maker->ids[i].text) >= 0)
            maker->backwards = true;
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct berth_id));
}

/* Also while the clock jumps about. Only the stamp is compared, the 62 random bits are not needed
 * for it. */
static void unique_over_threads(void **state)
{
    (void)state;
    struct berth_id *ids = calloc((size_t)THREADS * IDS_EACH, sizeof *ids);
    struct maker makers[THREADS] = {0};
    assert_non_null(ids);
    for (int i = 0; i < THREADS; i++) {
        makers[i].ids = ids + (ptrdiff_t)i * IDS_EACH;
        assert_int_equal(pthread_create(&makers[i].thread, NULL, make_ids, &makers[i]), 0);
    }
    for (int i = 0; i < 200; i++)
        berth_time_shift(i % 2 ? HOUR_MS : -HOUR_MS, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(makers[i].thread, NULL);
    for (int i = 0; i < THREADS; i++)
        assert_false(makers[i].backwards);
    qsort(ids, (size_t)THREADS * IDS_EACH, sizeof *ids, compare);
    for (int i = 1; i < THREADS * IDS_EACH; i++)
        assert_true(memcmp(ids[i - 1].text, ids[i].text, 18) < 0);
    free(ids);
}

static void valid_ids(void **state)
{
    (void)state;
    assert_true(berth_id_valid("00000000-0000-0000-0000-000000000000"));
    assert_true(berth_id_valid("f81d4fae-7dec-11d0-a765-00a0c91e6bf6"));
    assert_true(berth_id_valid("F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6"));
    assert_true(berth_id_valid("ffffffff-FFFF-ffff-FFFF-ffffffffffff"));
}

static const char *const invalid[] = {
    "",
    "-",
    "f81d4fae",
    "f81d4fae-7dec-11d0-a765-00a0c91e6bf",
    "f81d4fae-7dec-11d0-a765-00a0c91e6bf66",
    "f81d4fae-7dec-11d0-a765-00a0c91e6bf6 ",
    " f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    "f81d4fae-7dec-11d0-a765-00a0c91e6bf6\n",
    "g81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    "f81d4fae-7dec-11d0-a765-00a0c91e6bfg",
    "f81d4fae7dec11d0a76500a0c91e6bf6",
    "f81d4fae-7dec-11d0-a765000a0c91e6bf6",
    "f81d4fa-e7dec-11d0-a765-00a0c91e6bf6",
    "{f81d4fae-7dec-11d0-a765-00a0c91e6bf6}",
    "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    "f81d4fae-7dec-11d0-a765-00a0c91e6b\xc3\xa9",
    "f81d4fae_7dec_11d0_a765_00a0c91e6bf6",
    "------------------------------------",
};

static void invalid_ids(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
        if (berth_id_valid(invalid[i]))
            fail_msg("\"%s\" passes", invalid[i]);
    char text[BERTH_ID_SIZE] = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
    for (int i = 0; i < 36; i++) { /* cut anywhere, and never read beyond */
        char *cut = strndup(text, (size_t)i);
        assert_false(berth_id_valid(cut));
        free(cut);
    }
}

static void parse_gives_lower_case_or_not_found(void **state)
{
    (void)state;
    struct berth_id id;
    assert_ok(&t, berth_id_parse("F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6", "Lease", &id, &t.err));
    assert_string_equal(id.text, "f81d4fae-7dec-11d0-a765-00a0c91e6bf6");
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
        assert_fails(&t, BERTH_E_NOT_FOUND, "Environment",
                     berth_id_parse(invalid[i], "Environment", &id, &t.err));
    char text[5000];
    memset(text, '%', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_fails(&t, BERTH_E_NOT_FOUND, "Lease", berth_id_parse(text, "Lease", &id, &t.err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_form_of_version_7),
        cmocka_unit_test(random_ids_have_the_form_of_version_4),
        cmocka_unit_test(carries_the_time),
        cmocka_unit_test(later_sorts_later),
        cmocka_unit_test(never_backwards_with_the_clock),
        cmocka_unit_test(unique_over_threads),
        cmocka_unit_test(valid_ids),
        cmocka_unit_test(invalid_ids),
        cmocka_unit_test(parse_gives_lower_case_or_not_found),
    };
    return cmocka_run_group_tests_name("id", tests, NULL, NULL);
}
