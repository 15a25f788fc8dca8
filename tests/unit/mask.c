/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/mask.c - values that go through in any pieces come out as stars, and nothing else
 * does. */
#include "crypto/mask.h"

#include "fixture.h"

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"

#define BYTES_MAX (16 * 1024 * 1024)
#define PATTERNS_MAX 16

static void collect(void *ctx, const char *bytes, size_t len)
{
    berth_buf_append(ctx, bytes, len);
}

static struct berth_mask *mask_of(const char *const *values, int count)
{
    struct berth_pattern patterns[PATTERNS_MAX];
    struct berth_error err;
    struct berth_mask *mask;
    for (int i = 0; i < count; i++)
        patterns[i] = (struct berth_pattern){values[i], strlen(values[i])};
    assert_int_equal(berth_mask_new(patterns, (size_t)count, &mask, &err), BERTH_OK);
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

/* --- the work is linear --- */

/* Masks `text` in pieces of `piece` bytes, and returns the steps for each of its bytes, rounded up.
 */
static uint64_t steps_for(struct berth_mask *mask, const struct berth_buf *text, size_t piece)
{
    auto_buf out = BERTH_BUF_INIT(BYTES_MAX);
    uint64_t before = berth_mask_steps(mask);
    for (size_t at = 0; at < text->len; at += piece)
        berth_mask_put(mask, text->data + at, piece < text->len - at ? piece : text->len - at,
                       collect, &out);
    berth_mask_end(mask, collect, &out);
    assert_int_equal(out.len, text->len);
    return (berth_mask_steps(mask) - before + text->len - 1) / text->len;
}

static void add_repeated(struct berth_buf *to, const char *what, size_t times)
{
    for (size_t i = 0; i < times; i++)
        berth_buf_append(to, what, strlen(what));
}

/* Two steps in the tables, and one more for bytes that are moved: whatever value and text are. */
static void assert_linear(const char *const *values, int count, const struct berth_buf *text)
{
    static const size_t pieces[] = {7, 4096, 65536, SIZE_MAX / 2};
    struct berth_mask *mask = mask_of(values, count);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        assert_in_range(steps_for(mask, text, pieces[i]), 0, 3);
    berth_mask_free(mask);
}

static void values_that_almost_match(void **state)
{
    (void)state;
    auto_buf value = BERTH_BUF_INIT(BYTES_MAX), text = BERTH_BUF_INIT(BYTES_MAX);
    add_repeated(&value, "a", 60000);
    add_repeated(&value, "b", 1);
    add_repeated(&value, "a", 59999);
    add_repeated(&text, "a", 4 * 1024 * 1024);
    assert_linear(VALUES(berth_buf_str(&value)), 1, &text);
}

static void values_that_overlap_themselves(void **state)
{
    (void)state;
    auto_buf value = BERTH_BUF_INIT(BYTES_MAX), text = BERTH_BUF_INIT(BYTES_MAX);
    add_repeated(&value, "a", 60000);
    add_repeated(&text, "a", 1024 * 1024);
    assert_linear(VALUES(berth_buf_str(&value)), 1, &text);
    assert_linear(VALUES(berth_buf_str(&value), "aaaaaa", "aaaaaaaa"), 3, &text);
}

/* Short values inside of the beginning of a long one, which stays held back. */
static void short_values_inside_a_long_one(void **state)
{
    (void)state;
    auto_buf value = BERTH_BUF_INIT(BYTES_MAX), text = BERTH_BUF_INIT(BYTES_MAX);
    add_repeated(&value, "abcdef..", 20000);
    add_repeated(&value, "!", 1);
    add_repeated(&text, "abcdef..", 100000);
    assert_linear(VALUES(berth_buf_str(&value), "abcdef"), 2, &text);
    berth_buf_append(&text, "!", 1);
    assert_linear(VALUES(berth_buf_str(&value), "abcdef", "cdef..a"), 3, &text);
}

/* --- compared with a simple masker --- */

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

static void random_text(uint32_t *seed, size_t len, unsigned letters, char *out)
{
    for (size_t i = 0; i < len; i++)
        out[i] = (char)('a' + next_random(seed) % letters);
    out[len] = '\0';
}

static void simple_mask(const char *const *values, int count, const char *in, char *out)
{
    size_t len = strlen(in);
    memcpy(out, in, len + 1);
    for (int i = 0; i < count; i++)
        for (size_t at = 0; strlen(values[i]) >= BERTH_MASKED_BYTES_MIN && at < len; at++)
            if (strncmp(in + at, values[i], strlen(values[i])) == 0)
                memset(out + at, '*', strlen(values[i]));
}

/* Returns the longest end of the text that a value may go on from. */
static size_t simple_begun(const char *const *values, int count, const char *in, size_t len)
{
    size_t most = 0;
    for (int i = 0; i < count; i++)
        for (size_t n = 1; strlen(values[i]) >= BERTH_MASKED_BYTES_MIN && n < strlen(values[i]);
             n++)
            if (n <= len && n > most && memcmp(in + len - n, values[i], n) == 0)
                most = n;
    return most;
}

static void one_random_case(uint32_t *seed)
{
    enum { TEXT_BYTES = 600, VALUE_BYTES = 24 };
    char texts[PATTERNS_MAX][VALUE_BYTES + 1], in[TEXT_BYTES + 1], expected[TEXT_BYTES + 1];
    const char *values[PATTERNS_MAX];
    unsigned letters = 1 + next_random(seed) % 3;
    int count = 1 + (int)(next_random(seed) % PATTERNS_MAX);
    for (int i = 0; i < count; i++) {
        random_text(seed, next_random(seed) % (VALUE_BYTES + 1), letters, texts[i]);
        values[i] = texts[i];
    }
    size_t len = next_random(seed) % TEXT_BYTES;
    random_text(seed, len, letters, in);
    simple_mask(values, count, in, expected);
    struct berth_mask *mask = mask_of(values, count);
    auto_buf out = BERTH_BUF_INIT(BYTES_MAX);
    for (size_t at = 0, step; at < len; at += step) {
        step = 1 + next_random(seed) % 50;
        step = step < len - at ? step : len - at;
        berth_mask_put(mask, in + at, step, collect, &out);
        assert_int_equal(at + step - out.len, simple_begun(values, count, in, at + step));
    }
    berth_mask_end(mask, collect, &out);
    assert_string_equal(berth_buf_str(&out), expected);
    berth_mask_free(mask);
}

static void random_values_and_pieces(void **state)
{
    (void)state;
    uint32_t seed = 20261118;
    for (int i = 0; i < 20000; i++)
        one_random_case(&seed);
}

static void twins_are_streams_of_their_own(void **state)
{
    (void)state;
    struct berth_error err;
    struct berth_mask *mask = mask_of(VALUES("secret"), 1), *twin;
    auto_buf out = BERTH_BUF_INIT(BYTES_MAX), other = BERTH_BUF_INIT(BYTES_MAX);
    assert_int_equal(berth_mask_twin(mask, &twin, &err), BERTH_OK);
    berth_mask_put(mask, "sec", 3, collect, &out);
    berth_mask_put(twin, "ret secret", 10, collect, &other);
    berth_mask_put(mask, "ret", 3, collect, &out);
    berth_mask_end(mask, collect, &out);
    berth_mask_free(mask);
    berth_mask_end(twin, collect, &other);
    berth_mask_free(twin);
    assert_string_equal(berth_buf_str(&out), "******");
    assert_string_equal(berth_buf_str(&other), "ret ******");
    assert_int_equal(berth_mask_twin(NULL, &twin, &err), BERTH_OK);
    assert_null(twin);
}

static void too_many_bytes(void **state)
{
    (void)state;
    static char value[BERTH_SECRET_BYTES_MAX];
    struct berth_pattern all[BERTH_PATTERNS_BYTES_MAX / BERTH_SECRET_BYTES_MAX + 1];
    struct berth_error err;
    struct berth_mask *mask;
    memset(value, 'x', sizeof value);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        all[i] = (struct berth_pattern){value, sizeof value};
    assert_int_equal(berth_mask_new(all, sizeof all / sizeof *all, &mask, &err), BERTH_E_TOO_LARGE);
    assert_null(mask);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_value_in_any_pieces),
        cmocka_unit_test(values_that_overlap),
        cmocka_unit_test(short_values_are_left),
        cmocka_unit_test(ends_of_lines),
        cmocka_unit_test(little_is_held_back),
        cmocka_unit_test(many_across_borders),
        cmocka_unit_test(values_that_almost_match),
        cmocka_unit_test(values_that_overlap_themselves),
        cmocka_unit_test(short_values_inside_a_long_one),
        cmocka_unit_test(random_values_and_pieces),
        cmocka_unit_test(twins_are_streams_of_their_own),
        cmocka_unit_test(too_many_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
