/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/mask.c - values that go through in any pieces come out as stars, and nothing else
 * does. */
#include "crypto/mask.h"

#include "fixture.h"

#include "base/auto.h"
#include "base/buf.h"

#define BYTES_MAX (4 * 1024 * 1024)

static void collect(void *ctx, const char *bytes, size_t len)
{
    berth_buf_append(ctx, bytes, len);
}

static struct berth_mask *mask_of(const char *const *values, int count)
{
    struct berth_locked locked[8];
    struct berth_error err;
    struct berth_mask *mask;
    for (int i = 0; i < count; i++) {
        assert_int_equal(berth_locked_new(strlen(values[i]), &locked[i], &err), BERTH_OK);
        berth_locked_append(&locked[i], values[i], strlen(values[i]));
    }
    assert_int_equal(berth_mask_new(locked, count, &mask, &err), BERTH_OK);
    for (int i = 0; i < count; i++)
        berth_locked_clear(&locked[i]);
    return mask;
}

/* In pieces of every size, the same comes out. */
static void assert_masks(const char *const *values, int count, const char *in, const char *expected)
{
    size_t len = strlen(in);
    assert_int_equal(len, strlen(expected));
    for (size_t piece = 1; piece <= len; piece++) {
        struct berth_mask *mask = mask_of(values, count);
        auto_buf out = BERTH_BUF_INIT(BYTES_MAX);
        for (size_t at = 0; at < len; at += piece)
            berth_mask_put(mask, in + at, piece < len - at ? piece : len - at, collect, &out);
        berth_mask_end(mask, collect, &out);
        assert_string_equal(berth_buf_str(&out), expected);
        berth_mask_free(mask);
    }
}

#define VALUES(...) ((const char *const[]){__VA_ARGS__})

static void one_value_in_any_pieces(void **state)
{
    (void)state;
    assert_masks(VALUES("secret"), 1, "a secret, secretsecret sec ret",
                 "a ******, ************ sec ret");
    assert_masks(VALUES("secret"), 1, "secret", "******");
    assert_masks(VALUES("secret"), 1, "secre", "secre");
}

static void values_that_overlap(void **state)
{
    (void)state;
    assert_masks(VALUES("aaaaaa"), 1, "aaaaaaaa b aaaaa", "******** b aaaaa");
    assert_masks(VALUES("abcabcabc"), 1, "xabcabcabcabcx", "x************x");
    assert_masks(VALUES("secret-one", "one-secret"), 2, "secret-one-secret", "*****************");
    assert_masks(VALUES("inside", "the inside of it"), 2, "the inside of it, inside of",
                 "****************, ****** of");
    assert_masks(VALUES("inside", "inside-longer-value"), 2, "inside-longer-valu",
                 "******-longer-valu");
}

static void short_values_are_left(void **state)
{
    (void)state;
    struct berth_mask *mask = mask_of(VALUES("12345", ""), 2);
    assert_null(mask);
    auto_buf out = BERTH_BUF_INIT(BYTES_MAX);
    berth_mask_put(mask, "12345", 5, collect, &out);
    berth_mask_end(mask, collect, &out);
    berth_mask_free(mask);
    assert_string_equal(berth_buf_str(&out), "12345");
}

static void ends_of_lines(void **state)
{
    (void)state;
    assert_masks(VALUES("secret\n"), 1, "a secret b secret\n", "a ****** b ******\n");
    assert_masks(VALUES("two\nlines\n"), 1, "two\nlines, two\r\nlines\r\n",
                 "*********, **********\r\n");
    struct berth_mask *mask = mask_of(VALUES("12345\n\n"), 1);
    assert_null(mask);
}

static void little_is_held_back(void **state)
{
    (void)state;
    struct berth_mask *mask = mask_of(VALUES("secret"), 1);
    auto_buf out = BERTH_BUF_INIT(BYTES_MAX);
    berth_mask_put(mask, "go on? ", 7, collect, &out);
    assert_int_equal(out.len, 7);
    berth_mask_put(mask, "secre", 5, collect, &out); /* only what may be the beginning of one */
    assert_int_equal(out.len, 7);
    berth_mask_put(mask, "cy se", 5, collect, &out);
    assert_int_equal(out.len, 15);
    berth_mask_end(mask, collect, &out);
    assert_string_equal(berth_buf_str(&out), "go on? secrecy se");
    berth_mask_free(mask);
}

/* A hundred thousand times across the borders of chunks. */
static void many_across_borders(void **state)
{
    (void)state;
    static const char value[] = "s3cr3t-value";
    struct berth_mask *mask = mask_of(VALUES(value), 1);
    auto_buf in = BERTH_BUF_INIT(BYTES_MAX), out = BERTH_BUF_INIT(BYTES_MAX);
    for (int i = 0; i < 100000; i++)
        berth_buf_printf(&in, "%s%s", i % 7 ? "" : "x\n", value);
    size_t step = 1;
    for (size_t at = 0; at < in.len; at += step) {
        step = (at * 7919 + 13) % 70001 + 1;
        if (step > in.len - at)
            step = in.len - at;
        berth_mask_put(mask, in.data + at, step, collect, &out);
    }
    berth_mask_end(mask, collect, &out);
    assert_int_equal(out.len, in.len);
    assert_null(strstr(berth_buf_str(&out), "s3c"));
    assert_null(memmem(out.data, out.len, "value", 5));
    size_t plain = 0;
    for (size_t i = 0; i < out.len; i++)
        plain += out.data[i] != '*';
    assert_int_equal(plain, (100000 + 6) / 7 * 2);
    berth_mask_free(mask);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_value_in_any_pieces), cmocka_unit_test(values_that_overlap),
        cmocka_unit_test(short_values_are_left),   cmocka_unit_test(ends_of_lines),
        cmocka_unit_test(little_is_held_back),     cmocka_unit_test(many_across_borders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
