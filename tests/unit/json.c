/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/json.c - strict reading in both modes, canonical text, and a writer whose output
 * always reads back. */
#include "base/json.h"

#include <time.h>

#include "fixture.h"

#include "base/arena.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"

static struct {
    struct berth_error err;
} t;

static int parse(const char *text, enum berth_json_mode mode, struct berth_json **out)
{
    return berth_json_parse(text, strlen(text), mode, out, &t.err);
}

static const enum berth_json_mode modes[] = {BERTH_JSON_OURS, BERTH_JSON_FOREIGN};

/* --- reading --- */

static void reads_every_type(void **state)
{
    (void)state;
    auto_json *v = parse_json("{\"n\":null,\"t\":true,\"f\":false,\"i\":-9223372036854775808,"
                              "\"r\":2.5,\"s\":\"x\\u00e9\\ud83d\\ude00\",\"a\":[1,[2]],\"o\":{}}");
    assert_int_equal(berth_json_count(v), 8);
    assert_int_equal(berth_json_type(berth_json_get(v, "n")), BERTH_JSON_NULL);
    assert_true(berth_json_is(berth_json_get(v, "n"), BERTH_JSON_NULL));
    assert_true(berth_json_true(berth_json_get(v, "t")));
    assert_true(berth_json_is(berth_json_get(v, "f"), BERTH_JSON_BOOL));
    assert_false(berth_json_true(berth_json_get(v, "f")));
    assert_true(berth_json_is(berth_json_get(v, "i"), BERTH_JSON_INT));
    assert_true(berth_json_int(berth_json_get(v, "i")) == INT64_MIN);
    assert_true(berth_json_is(berth_json_get(v, "r"), BERTH_JSON_REAL));
    assert_true(berth_json_number(berth_json_get(v, "r")) == 2.5);
    assert_string_equal(berth_json_str(berth_json_get(v, "s")), "x\xc3\xa9\xf0\x9f\x98\x80");
    assert_int_equal(berth_json_str_len(berth_json_get(v, "s")), 7);
    const struct berth_json *a = berth_json_get(v, "a");
    assert_true(berth_json_is(a, BERTH_JSON_ARRAY));
    assert_int_equal(berth_json_count(a), 2);
    assert_int_equal(berth_json_int(berth_json_at(a, 0)), 1);
    assert_true(berth_json_number(berth_json_at(a, 0)) == 1.0);
    assert_int_equal(berth_json_int(berth_json_at(berth_json_at(a, 1), 0)), 2);
    assert_true(berth_json_is(berth_json_get(v, "o"), BERTH_JSON_OBJECT));
    assert_int_equal(berth_json_count(berth_json_get(v, "o")), 0);
}

static void asking_the_wrong_type_is_harmless(void **state)
{
    (void)state;
    auto_json *v = parse_json("[\"text\",7,{\"a\":1}]");
    const struct berth_json *values[] = {NULL, v, berth_json_at(v, 0), berth_json_at(v, 1),
                                         berth_json_at(v, 2)};
    for (int i = 0; i < 5; i++) {
        if (i != 1)
            assert_null(berth_json_at(values[i], 0));
        if (i != 4)
            assert_null(berth_json_get(values[i], "a"));
        if (i != 4)
            assert_null(berth_json_iter(values[i]));
        if (i != 2)
            assert_null(berth_json_str(values[i]));
        if (i != 2)
            assert_int_equal(berth_json_str_len(values[i]), 0);
        if (i != 3)
            assert_int_equal(berth_json_int(values[i]), 0);
        if (i != 3)
            assert_true(berth_json_number(values[i]) == 0.0);
        assert_false(berth_json_true(values[i]));
    }
    assert_int_equal(berth_json_type(NULL), BERTH_JSON_NULL);
    assert_false(berth_json_is(NULL, BERTH_JSON_NULL));
    assert_int_equal(berth_json_count(NULL), 0);
    assert_int_equal(berth_json_count(values[2]), 0);
    assert_null(berth_json_at(v, 3));
    assert_null(berth_json_at(v, SIZE_MAX));
    assert_null(berth_json_get(values[4], "b"));
    berth_json_free(NULL);
}

static void whole_documents_of_any_type(void **state)
{
    (void)state;
    static const char *const texts[] = {"null", "true", "-0",    "1.5e3",    "\"\"",
                                        "[]",   " {} ", "\t1\n", "[ 1 , 2 ]"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        for (int m = 0; m < 2; m++) {
            auto_json *v = NULL;
            assert_ok(&t, parse(texts[i], modes[m], &v));
            assert_non_null(v);
        }
    }
}

static const char *const malformed[] = {
    "",
    " ",
    "{",
    "[",
    "]",
    "}",
    "[1,]",
    "{\"a\":1,}",
    "{\"a\"}",
    "{a:1}",
    "{1:1}",
    "{'a':1}",
    "[1 2]",
    "[1}",
    "tru",
    "True",
    "nullx",
    "NaN",
    "Infinity",
    "-",
    "+1",
    "01",
    "1.",
    ".5",
    "1e",
    "0x10",
    "1e999",
    "9223372036854775808",
    "\"open",
    "\"\\x\"",
    "\"\\u12\"",
    "\"\\u12g4\"",
    "\"line\nbreak\"",
    "\"tab\t\"",
    "\"\x01\"",
    "\"\xff\"",
    "\"\xc0\x80\"",
    "\"\xed\xa0\x80\"",
    "\"\xe2\x82\"",
    "\"\xf4\x90\x80\x80\"",
    "// comment\n1",
    "1 // comment",
    "\xef\xbb\xbf{}",
    "\"\\",
    "\"\\u",
    "\"\\ud800",
    "\"\\ud800\\",
    "\\ud800",
};

static void malformed_text_is_invalid(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        for (int m = 0; m < 2; m++) {
            struct berth_json *v = NULL;
            char *exact = malloc(strlen(malformed[i]) + 1); /* without its NUL, and no byte more */
            memcpy(exact, malformed[i], strlen(malformed[i]) + 1);
            int rc = berth_json_parse(exact, strlen(exact), modes[m], &v, &t.err);
            free(exact);
            if (rc != BERTH_E_INVALID)
                fail_msg("%s: %d", malformed[i], rc);
            assert_null(v);
        }
    }
}

static void trailing_garbage_is_invalid(void **state)
{
    (void)state;
    static const char *const texts[] = {"{}{}", "[] 1", "1 2", "null,", "{}]", "\"a\"\"b\"", "{}x"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        for (int m = 0; m < 2; m++) {
            struct berth_json *v = NULL;
            assert_fails(&t, BERTH_E_INVALID, NULL, parse(texts[i], modes[m], &v));
        }
    }
    for (int m = 0; m < 2; m++) { /* raw NUL bytes are garbage like any other */
        struct berth_json *v = NULL;
        assert_fails(&t, BERTH_E_INVALID, NULL, berth_json_parse("{}\0", 3, modes[m], &v, &t.err));
        assert_fails(&t, BERTH_E_INVALID, NULL, berth_json_parse("\0{}", 3, modes[m], &v, &t.err));
        assert_fails(&t, BERTH_E_INVALID, NULL,
                     berth_json_parse("\"a\0b\"", 5, modes[m], &v, &t.err));
    }
}

static void only_len_bytes_are_read(void **state)
{
    (void)state;
    for (int m = 0; m < 2; m++) {
        auto_json *v = NULL;
        assert_ok(&t, berth_json_parse("[1]garbage", 3, modes[m], &v, &t.err));
        assert_int_equal(berth_json_count(v), 1);
    }
}

static void errors_say_where(void **state)
{
    (void)state;
    struct berth_json *v = NULL;
    assert_fails(&t, BERTH_E_INVALID, "line 3", parse("{\n\"a\": 1,\n\"b\": x}", modes[0], &v));
    assert_non_null(strstr(t.err.message, "column"));
}

static void duplicate_keys_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"{\"a\":1,\"a\":1}", "{\"a\":1,\"b\":2,\"\\u0061\":3}",
                                        "[{\"x\":{\"\":1,\"\":2}}]"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        for (int m = 0; m < 2; m++) {
            struct berth_json *v = NULL;
            assert_fails(&t, BERTH_E_INVALID, NULL, parse(texts[i], modes[m], &v));
        }
    }
    auto_json *fine = parse_json("{\"a\":{\"a\":1},\"A\":2}");
    assert_int_equal(berth_json_count(fine), 2);
}

/* --- limits --- */

static void nest(struct berth_buf *buf, int depth, const char *open, const char *close)
{
    for (int i = 0; i < depth; i++)
        berth_buf_puts(buf, open);
    berth_buf_puts(buf, "1");
    for (int i = 0; i < depth; i++)
        berth_buf_puts(buf, close);
}

static void depth_has_a_limit(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"[", "]"}, {"{\"k\":", "}"}};
    for (int p = 0; p < 2; p++) {
        for (int m = 0; m < 2; m++) {
            auto_json *v = NULL;
            auto_buf fits = BERTH_BUF_INIT(1 << 20), deep = BERTH_BUF_INIT(1 << 20);
            nest(&fits, BERTH_JSON_DEPTH_MAX, pairs[p][0], pairs[p][1]);
            assert_ok(&t, parse(berth_buf_str(&fits), modes[m], &v));
            nest(&deep, BERTH_JSON_DEPTH_MAX + 1, pairs[p][0], pairs[p][1]);
            struct berth_json *none = NULL;
            assert_fails(&t, BERTH_E_TOO_LARGE, "deeper",
                         parse(berth_buf_str(&deep), modes[m], &none));
        }
    }
    auto_buf bomb = BERTH_BUF_INIT(1 << 20);
    for (int i = 0; i < 1000000; i++)
        berth_buf_puts(&bomb, "[");
    struct berth_json *none = NULL;
    assert_fails(&t, BERTH_E_TOO_LARGE, NULL, parse(berth_buf_str(&bomb), modes[0], &none));
}

/* Neither what stands in strings nor how many siblings there are has to do with depth. */
static void brackets_in_strings_are_not_depth(void **state)
{
    (void)state;
    auto_buf buf = BERTH_BUF_INIT(1 << 20);
    berth_buf_puts(&buf, "[\"");
    for (int i = 0; i < 1000; i++)
        berth_buf_puts(&buf, "[{\\\"\\\\");
    berth_buf_puts(&buf, "\"");
    for (int i = 0; i < 1000; i++)
        berth_buf_puts(&buf, ",[{}]");
    berth_buf_puts(&buf, "]");
    auto_json *v = parse_json(berth_buf_str(&buf));
    assert_int_equal(berth_json_count(v), 1001);
    assert_int_equal(berth_json_str_len(berth_json_at(v, 0)), 4000);
}

static void size_has_a_limit(void **state)
{
    (void)state;
    size_t len = BERTH_JSON_BYTES_MAX;
    auto_free char *text = malloc(len + 2);
    assert_non_null(text);
    memset(text, 'a', len + 1);
    text[0] = text[len - 1] = '"';
    for (int m = 0; m < 2; m++) {
        auto_json *v = NULL;
        assert_ok(&t, berth_json_parse(text, len, modes[m], &v, &t.err));
        assert_int_equal(berth_json_str_len(v), len - 2);
        struct berth_json *none = NULL;
        text[len] = ' ';
        assert_fails(&t, BERTH_E_TOO_LARGE, NULL,
                     berth_json_parse(text, len + 1, modes[m], &none, &t.err));
        assert_null(none);
    }
}

/* --- the two modes --- */

static void nul_is_for_foreign_frames(void **state)
{
    (void)state;
    struct berth_json *none = NULL;
    assert_fails(&t, BERTH_E_INVALID, NULL, parse("\"a\\u0000b\"", BERTH_JSON_OURS, &none));
    assert_fails(&t, BERTH_E_INVALID, NULL, parse("{\"k\":[\"\\u0000\"]}", BERTH_JSON_OURS, &none));
    auto_json *v = NULL;
    assert_ok(&t, parse("\"a\\u0000b\"", BERTH_JSON_FOREIGN, &v));
    assert_int_equal(berth_json_str_len(v), 3);
    assert_memory_equal(berth_json_str(v), "a\0b", 4);
    auto_free char *text = berth_json_canonical(v);
    assert_string_equal(text, "\"a\\u0000b\"");
}

/* A key is asked for as a C string: one with a NUL inside is refused, never cut short. */
static void nul_in_a_key_is_refused(void **state)
{
    (void)state;
    for (int m = 0; m < 2; m++) {
        struct berth_json *none = NULL;
        assert_fails(&t, BERTH_E_INVALID, NULL, parse("{\"a\\u0000b\":1}", modes[m], &none));
    }
}

#define FFFD "\xef\xbf\xbd"

static void lone_surrogates(void **state)
{
    (void)state;
    static const struct {
        const char *json, *text;
    } rows[] = {
        {"\"\\ud800\"", FFFD},
        {"\"\\uDFFF\"", FFFD},
        {"\"a\\ud83db\"", "a" FFFD "b"},
        {"\"\\ude00\\ud83d\"", FFFD FFFD},
        {"\"\\ud83d\\ud83d\\ude00\"", FFFD "\xf0\x9f\x98\x80"},
        {"\"\\ud83d\\ude00\\ude00\"", "\xf0\x9f\x98\x80" FFFD},
        {"\"\\ud83d\\n\"", FFFD "\n"},
        {"\"\\ud83d\\\\ude00\"", FFFD "\\ude00"},
        {"\"\\ud83d\\u0041\"", FFFD "A"},
        {"\"\\\\\\ud83d\"", "\\" FFFD},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct berth_json *none = NULL;
        assert_fails(&t, BERTH_E_INVALID, NULL, parse(rows[i].json, BERTH_JSON_OURS, &none));
        auto_json *v = NULL;
        assert_ok(&t, parse(rows[i].json, BERTH_JSON_FOREIGN, &v));
        assert_string_equal(berth_json_str(v), rows[i].text);
    }
    auto_json *keyed = NULL;
    assert_ok(&t, parse("{\"\\udc00\":1}", BERTH_JSON_FOREIGN, &keyed));
    assert_int_equal(berth_json_int(berth_json_get(keyed, FFFD)), 1);
}

/* What only looks like a surrogate, and pairs in either case, are left alone. */
static void mending_touches_nothing_else(void **state)
{
    (void)state;
    static const struct {
        const char *json, *text;
    } rows[] = {
        {"\"\\\\ud800\"", "\\ud800"},
        {"\"\\\\\\\\ud800\"", "\\\\ud800"},
        {"\"\\uD83D\\uDE00\"", "\xf0\x9f\x98\x80"},
        {"\"\\ud83d\\uDe00 \\ud83D\\ude00\"", "\xf0\x9f\x98\x80 \xf0\x9f\x98\x80"},
        {"\"\\ud7ff\\ue000\\uffff\"", "\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"},
        {"\"ud800 \xf0\x9f\x98\x80\"", "ud800 \xf0\x9f\x98\x80"},
        {"\"\\\"\\/\\b\\f\\n\\r\\t\"", "\"/\b\f\n\r\t"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int m = 0; m < 2; m++) {
            auto_json *v = NULL;
            assert_ok(&t, parse(rows[i].json, modes[m], &v));
            assert_string_equal(berth_json_str(v), rows[i].text);
        }
    }
}

/* The caller's text is only borrowed. */
static void foreign_text_is_not_written_to(void **state)
{
    (void)state;
    char text[] = "\"\\ud800\"";
    auto_json *v = NULL;
    assert_ok(&t, parse(text, BERTH_JSON_FOREIGN, &v));
    assert_string_equal(text, "\"\\ud800\"");
}

/* --- frames --- */

/* All that the foreign mode takes, and it says the same. */
static void a_frame_may_hold_what_is_foreign(void **state)
{
    (void)state;
    static const char *const texts[] = {"{\"a\":[1,2.5,null]}", "\"a\\u0000b\"",
                                        "\"\\ud800 \\ud83d\\ude00\"",
                                        "\"\xc3\xa9\xe2\x80\xa8\xf0\x9f\x98\x80\""};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        auto_json *foreign = NULL, *frame = NULL;
        assert_ok(&t, parse(texts[i], BERTH_JSON_FOREIGN, &foreign));
        assert_ok(&t, parse(texts[i], BERTH_JSON_FRAME, &frame));
        assert_true(berth_json_equal(foreign, frame));
    }
    static const char *const wrong[] = {"",          "{",      "[1,]",   "\"\x01\"",
                                        "\"open",    "{} {}",  "\xff",   "{}\xff",
                                        "\"\\ud8\"", "\"\xff", "[1\xc3]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct berth_json *none = NULL;
        assert_fails(&t, BERTH_E_INVALID, NULL, parse(wrong[i], BERTH_JSON_FRAME, &none));
        assert_null(none);
    }
    struct berth_json *none = NULL;
    assert_fails(&t, BERTH_E_INVALID, NULL,
                 parse("{\"\xff\":1,\"\xfe\":2}", BERTH_JSON_FRAME, &none));
}

/* Each byte that belongs to no sequence is one; whole ones beside it stay. */
static void bytes_in_a_frame_that_are_no_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *json, *text;
    } rows[] = {
        {"\"\xc3\"", FFFD},
        {"\"a\xa9z\"", "a" FFFD "z"},
        {"\"\xff\xfe\"", FFFD FFFD},
        {"\"\xe2\x82\"", FFFD FFFD},
        {"\"\xf0\x9f\x98\"", FFFD FFFD FFFD},
        {"\"\xc0\x80\"", FFFD FFFD},
        {"\"\xed\xa0\x80\"", FFFD FFFD FFFD},
        {"\"\xf4\x90\x80\x80\"", FFFD FFFD FFFD FFFD},
        {"\"\xc3\xa9\xc3\xe2\x82\xac\"", "\xc3\xa9" FFFD "\xe2\x82\xac"},
        {"\"\\ud800\xff\\u0041\"", FFFD FFFD "A"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int m = 0; m < 2; m++) {
            struct berth_json *none = NULL;
            assert_fails(&t, BERTH_E_INVALID, NULL, parse(rows[i].json, modes[m], &none));
        }
        auto_json *v = NULL;
        assert_ok(&t, parse(rows[i].json, BERTH_JSON_FRAME, &v));
        assert_string_equal(berth_json_str(v), rows[i].text);
    }
    auto_json *v = NULL;
    assert_ok(&t, berth_json_parse("\"\xff\\u0000\"", 9, BERTH_JSON_FRAME, &v, &t.err));
    assert_int_equal(berth_json_str_len(v), 4);
}

/* Longer than a document of ours, and no longer than a message. */
static void a_frame_has_its_own_limit(void **state)
{
    (void)state;
    size_t len = (size_t)BERTH_JSON_BYTES_MAX + 1;
    auto_free char *text = malloc(len + 1);
    memset(text, 'a', len);
    text[0] = text[len - 1] = '"';
    text[len] = '\0';
    struct berth_json *none = NULL;
    assert_fails(&t, BERTH_E_TOO_LARGE, NULL,
                 berth_json_parse(text, len, BERTH_JSON_FOREIGN, &none, &t.err));
    auto_json *v = NULL;
    assert_ok(&t, berth_json_parse(text, len, BERTH_JSON_FRAME, &v, &t.err));
    assert_int_equal(berth_json_str_len(v), len - 2);
    auto_free char *longer = calloc(1, (size_t)BERTH_MESSAGE_BYTES_MAX + 2);
    assert_fails(&t, BERTH_E_TOO_LARGE, "134217728",
                 berth_json_parse(longer, (size_t)BERTH_MESSAGE_BYTES_MAX + 1, BERTH_JSON_FRAME,
                                  &none, &t.err));
    auto_buf deep = BERTH_BUF_INIT(4096);
    nest(&deep, BERTH_JSON_DEPTH_MAX + 1, "[", "]");
    assert_fails(&t, BERTH_E_TOO_LARGE, "deeper",
                 parse(berth_buf_str(&deep), BERTH_JSON_FRAME, &none));
}

/* A text of many pieces. */
static void put_long(struct berth_buf *out, const char *piece)
{
    berth_buf_puts(out, "\"");
    while (out->len <= (size_t)BERTH_MESSAGE_BYTES_SMALL)
        berth_buf_puts(out, piece);
    berth_buf_puts(out, "\"");
}

/* How long a frame is, and which of its texts are, makes no difference to what it says. */
static void long_frames_are_read_like_short_ones(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "x",
        "\\n\\\"\\\\",
        "\xc3\xa9\xf0\x9f\x98\x80 ",
        "\\ud83d\\ude00",
        "\\u0000",
        "a\\ud800",
        "\\udc00\\ud83d",
        "\\/\\b\\u00e9\\uFFFF",
        "\\x",
        "a\x01",
        "\\u12g4",
        "a\"b",
        "1234567\\",
        "\\ud83d\\u0041",
        ":,{}[]",
    };
    static const char *const forms[][2] = {
        {"", ""},
        {"[1,", ",2]"},
        {"{\"a\":", ",\"b\":{}}"},
        {"{", ":1}"},
        {"[", "]]"},
        {"[", ""},
        {"{\"a\":1,\"a\":", "}"},
        {" ", " \n"},
        {"[\"\\\"\",", ",\"\\\\\"]"},
        {"{\"a\":[{\"b\":", "}]}"},
        {"\\", ""},
        {"", "\"\""},
    };
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        size_t count = i < 2 ? sizeof forms / sizeof *forms : 4;
        for (size_t f = 0; f < count; f++) {
            auto_buf text = BERTH_BUF_INIT(1 << 20);
            berth_buf_puts(&text, forms[f][0]);
            put_long(&text, pieces[i]);
            berth_buf_puts(&text, forms[f][1]);
            auto_json *foreign = NULL, *frame = NULL;
            int want = parse(berth_buf_str(&text), BERTH_JSON_FOREIGN, &foreign);
            int rc = parse(berth_buf_str(&text), BERTH_JSON_FRAME, &frame);
            if (rc != want || (rc == BERTH_OK && !berth_json_equal(foreign, frame)))
                fail_msg("%s%s...%s: %d, not %d", forms[f][0], pieces[i], forms[f][1], rc, want);
        }
    }
}

static void many_long_texts_in_one_frame(void **state)
{
    (void)state;
    auto_buf text = BERTH_BUF_INIT(1 << 24);
    berth_buf_puts(&text, "[");
    for (int i = 0; i < 100; i++) {
        berth_buf_printf(&text, "%s{\"n\":%d,\"s\":\"%d ", i ? "," : "", i, i);
        for (int n = 0; n < 9000; n++)
            berth_buf_puts(&text, "word ");
        berth_buf_puts(&text, i % 10 ? "\"}" : "\xff\"}");
    }
    berth_buf_puts(&text, "]");
    auto_json *v = NULL;
    assert_ok(&t, parse(berth_buf_str(&text), BERTH_JSON_FRAME, &v));
    assert_int_equal(berth_json_count(v), 100);
    for (size_t i = 0; i < 100; i++) {
        const struct berth_json *s = berth_json_get(berth_json_at(v, i), "s");
        assert_int_equal(atoi(berth_json_str(s)), i);
        assert_int_equal(berth_json_str_len(s), 45000 + (i < 10 ? 2 : 3) + (i % 10 ? 0 : 3));
    }
}

/* --- values --- */

static void iterates_in_order_of_insertion(void **state)
{
    (void)state;
    auto_json *v = parse_json("{\"z\":0,\"a\":1,\"m\":2}");
    assert_true(berth_json_set(v, "b", berth_json_new_int(3)));
    static const char *const keys[] = {"z", "a", "m", "b"};
    int n = 0;
    berth_json_each (v, it) {
        assert_true(n < 4);
        assert_string_equal(berth_json_iter_key(it), keys[n]);
        assert_int_equal(berth_json_int(berth_json_iter_value(it)), n);
        n++;
    }
    assert_int_equal(n, 4);
}

static void objects_are_built_and_changed(void **state)
{
    (void)state;
    auto_json *v = berth_json_new_object();
    assert_true(berth_json_set(v, "s", berth_json_new_str("text")));
    assert_true(berth_json_set(v, "none", berth_json_new_str(NULL)));
    assert_true(berth_json_set(v, "i", berth_json_new_int(INT64_MAX)));
    assert_true(berth_json_set(v, "b", berth_json_new_bool(true)));
    assert_true(berth_json_set(v, "n", berth_json_new_null()));
    assert_true(berth_json_set(v, "s", berth_json_new_str("newer")));
    assert_false(berth_json_set(v, "x", NULL));
    assert_false(berth_json_set(v, "\xff", berth_json_new_int(1)));
    assert_null(berth_json_new_str("\xff"));
    berth_json_remove(v, "n");
    berth_json_remove(v, "not there");
    auto_free char *text = berth_json_canonical(v);
    assert_string_equal(text, "{\"b\":true,\"i\":9223372036854775807,\"none\":null,"
                              "\"s\":\"newer\"}");
}

static void copies_are_deep(void **state)
{
    (void)state;
    auto_json *v = parse_json("{\"a\":{\"b\":[1,2]}}");
    auto_json *copy = berth_json_copy(v);
    assert_true(berth_json_equal(v, copy));
    struct berth_json *inner = (struct berth_json *)(uintptr_t)berth_json_get(copy, "a");
    assert_true(berth_json_set(inner, "b", berth_json_new_int(3)));
    assert_false(berth_json_equal(v, copy));
    assert_int_equal(berth_json_count(berth_json_get(berth_json_get(v, "a"), "b")), 2);
}

static void equality(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool equal;
    } rows[] = {
        {"{\"a\":1,\"b\":2}", "{ \"b\" : 2, \"a\" : 1 }", true},
        {"[1,2]", "[2,1]", false},
        {"\"\\u0041\"", "\"A\"", true},
        {"1", "1.0", false},
        {"1.50", "15e-1", true},
        {"null", "false", false},
        {"{}", "[]", false},
        {"{\"a\":null}", "{}", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        auto_json *a = parse_json(rows[i].a), *b = parse_json(rows[i].b);
        assert_int_equal(berth_json_equal(a, b), rows[i].equal);
        auto_free char *text_a = berth_json_canonical(a), *text_b = berth_json_canonical(b);
        assert_int_equal(strcmp(text_a, text_b) == 0, rows[i].equal);
    }
}

/* --- canonical text --- */

static void canonical_is_sorted_compact_and_stable(void **state)
{
    (void)state;
    auto_json *v = parse_json(" { \"b\" : [ 3, {\"z\":1,\"y\":{ \"d\":1, \"c\":2 }} ],\n"
                              "\"a\" : \"q\\\"\\\\\\/\\n\\u0001\\u00e9\", \"B\":1.5, \"\":null,"
                              "\"aa\":true}");
    static const char want[] = "{\"\":null,\"B\":1.5,\"a\":\"q\\\"\\\\/\\n\\u0001\xc3\xa9\","
                               "\"aa\":true,\"b\":[3,{\"y\":{\"c\":2,\"d\":1},\"z\":1}]}";
    auto_free char *first = berth_json_canonical(v);
    assert_string_equal(first, want);
    auto_json *again = parse_json(first);
    assert_true(berth_json_equal(v, again));
    auto_free char *second = berth_json_canonical(again);
    assert_string_equal(second, first);
    auto_json *copy = berth_json_copy(v);
    auto_free char *third = berth_json_canonical(copy);
    assert_string_equal(third, first);
}

static void canonical_of_one_value(void **state)
{
    (void)state;
    static const char *const texts[] = {"null", "true", "false", "0", "-7", "\"\"", "[]", "{}"};
    auto_arena arena = BERTH_ARENA_INIT;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        auto_json *v = parse_json(texts[i]);
        assert_string_equal(berth_json_canonical_in(&arena, v), texts[i]);
    }
    assert_ok(&t, berth_arena_check(&arena, &t.err));
}

/* The order in which keys came must not show, however many there are. */
static void canonical_forgets_the_order_of_insertion(void **state)
{
    (void)state;
    enum { KEYS = 500 };
    auto_json *up = berth_json_new_object(), *down = berth_json_new_object();
    for (int i = 0; i < KEYS; i++) {
        char a[16], b[16];
        (void)snprintf(a, sizeof a, "key%d", i);
        (void)snprintf(b, sizeof b, "key%d", KEYS - 1 - i);
        assert_true(berth_json_set(up, a, berth_json_new_str(a)));
        assert_true(berth_json_set(down, b, berth_json_new_str(b)));
    }
    auto_free char *one = berth_json_canonical(up), *two = berth_json_canonical(down);
    assert_string_equal(one, two);
}

static void reals_come_back_exactly(void **state)
{
    (void)state;
    static const char *const texts[] = {"0.1",
                                        "-0.0",
                                        "1e-320",
                                        "1.7976931348623157e308",
                                        "1e22",
                                        "5e-324",
                                        "0.30000000000000004",
                                        "123456789.123456789"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        auto_json *v = parse_json(texts[i]);
        assert_true(berth_json_is(v, BERTH_JSON_REAL));
        auto_free char *text = berth_json_canonical(v);
        auto_json *again = parse_json(text);
        assert_true(berth_json_is(again, BERTH_JSON_REAL));
        assert_true(berth_json_number(v) == berth_json_number(again));
    }
}

/* --- writing --- */

static void writes_commas_and_nesting(void **state)
{
    (void)state;
    auto_buf buf = BERTH_BUF_INIT(4096);
    struct berth_json_writer w = {.buf = &buf};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "s", "text");
    berth_json_put_str(&w, "none", NULL);
    berth_json_put_int(&w, "min", INT64_MIN);
    berth_json_put_bool(&w, "yes", true);
    berth_json_open_in(&w, "list", '[');
    berth_json_put_int(&w, NULL, 1);
    berth_json_open(&w, '{');
    berth_json_close(&w, '}');
    berth_json_open(&w, '[');
    berth_json_close(&w, ']');
    berth_json_put_bool(&w, NULL, false);
    berth_json_close(&w, ']');
    berth_json_put_time(&w, "at", 1794729900123);
    berth_json_put_time(&w, "never", 0);
    berth_json_put_raw(&w, "raw", "{\"a\":1}");
    berth_json_put_raw(&w, "no_raw", NULL);
    berth_json_close(&w, '}');
    assert_string_equal(berth_buf_str(&buf),
                        "{\"s\":\"text\",\"none\":null,\"min\":-9223372036854775808,\"yes\":true,"
                        "\"list\":[1,{},[],false],\"at\":\"2026-11-15T08:05:00.123Z\","
                        "\"never\":null,\"raw\":{\"a\":1},\"no_raw\":null}");
}

/* Every byte, as a key, as a value, alone and between others. */
static void every_byte_reads_back(void **state)
{
    (void)state;
    static const char *const forms[] = {"%c", "a%cb", "%c%c", "\xe2\x82%c", "%c\xa9"};
    for (int c = 1; c < 256; c++) {
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
            char text[16];
            (void)snprintf(text, sizeof text, strstr(forms[i], "%c%c") ? "%c%c" : forms[i], c, c);
            auto_buf buf = BERTH_BUF_INIT(4096);
            struct berth_json_writer w = {.buf = &buf};
            berth_json_open(&w, '{');
            berth_json_put_str(&w, text, text);
            berth_json_close(&w, '}');
            auto_json *v = parse_json(berth_buf_str(&buf));
            assert_int_equal(berth_json_count(v), 1);
            void *it = berth_json_iter(v);
            assert_string_equal(berth_json_iter_key(it), berth_json_str(berth_json_iter_value(it)));
            if (c < 0x80 && i < 3)
                assert_string_equal(berth_json_iter_key(it), text);
        }
    }
}

static const char *written(struct berth_buf *buf, const char *text)
{
    struct berth_json_writer w = {.buf = buf};
    berth_buf_clear(buf);
    berth_json_put_str(&w, NULL, text);
    return berth_buf_str(buf);
}

static void escapes_to_the_letter(void **state)
{
    (void)state;
    auto_buf buf = BERTH_BUF_INIT(4096);
    assert_string_equal(written(&buf, ""), "\"\"");
    assert_string_equal(written(&buf, "\"\\/"), "\"\\\"\\\\/\"");
    assert_string_equal(written(&buf, "a\nb\tc"), "\"a\\nb\\tc\"");
    assert_string_equal(written(&buf, "\x01\x1f\x7f"), "\"\\u0001\\u001f\x7f\"");
    for (unsigned c = 1; c < 0x20; c++) {
        char want[16];
        (void)snprintf(want, sizeof want, c == '\n' || c == '\t' ? "\"\\%c\"" : "\"\\u%04x\"",
                       c == '\n'   ? 'n'
                       : c == '\t' ? 't'
                                   : c);
        assert_string_equal(written(&buf, (char[]){(char)c, '\0'}), want);
    }
    assert_string_equal(written(&buf, "caf\xc3\xa9 \xf0\x9f\x98\x80"),
                        "\"caf\xc3\xa9 \xf0\x9f\x98\x80\"");
    assert_string_equal(written(&buf, "a\xff"
                                      "b"),
                        "\"a\\ufffdb\"");
    assert_string_equal(written(&buf, "\xe2\x82"), "\"\\ufffd\\ufffd\"");
    assert_string_equal(written(&buf, "\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\"");
    assert_string_equal(written(&buf, "\xc0\x80"), "\"\\ufffd\\ufffd\"");
}

/* Returns the least processor time, in ns, that writing `len` times this byte took. */
static int64_t writing_ns(char byte, size_t len)
{
    int64_t least = INT64_MAX;
    auto_buf text = BERTH_BUF_INIT(len);
    for (size_t i = 0; i < len; i++)
        berth_buf_append(&text, &byte, 1);
    for (int round = 0; round < 5; round++) {
        struct timespec begin, end;
        auto_buf buf = BERTH_BUF_INIT(len * 6 + 64);
        struct berth_json_writer w = {.buf = &buf};
        assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin), 0);
        berth_json_put_bytes(&w, NULL, text.data, len);
        assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end), 0);
        assert_false(buf.failed);
        int64_t took = (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec;
        least = took < least ? took : least;
    }
    return least;
}

/* Writing and reading control bytes costs about as much as plain text of the length of their
 * escapes. */
static void escapes_are_cheap(void **state)
{
    (void)state;
    enum { BYTES = 1 << 18 };
    assert_true(writing_ns('\0', BYTES) < 12 * writing_ns('a', 6 * BYTES));
    assert_true(writing_ns('\xff', BYTES) < 12 * writing_ns('a', 6 * BYTES));
}

static void random_bytes_read_back(void **state)
{
    (void)state;
    uint64_t seed = 2463534242U;
    for (int round = 0; round < 5000; round++) {
        char text[64];
        size_t len = 0;
        for (; len < sizeof text - 1; len++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            text[len] = (char)(seed >> 24);
            if (!text[len])
                break;
        }
        text[len] = '\0';
        auto_buf buf = BERTH_BUF_INIT(4096);
        auto_json *v = parse_json(written(&buf, text));
        assert_true(berth_json_is(v, BERTH_JSON_STRING));
    }
}

static void writer_errors_stick_in_the_buffer(void **state)
{
    (void)state;
    auto_buf buf = BERTH_BUF_INIT(20);
    struct berth_json_writer w = {.buf = &buf};
    berth_json_open(&w, '[');
    for (int i = 0; i < 100; i++)
        berth_json_put_str(&w, NULL, "\x01\"\xff");
    berth_json_close(&w, ']');
    assert_null(berth_buf_str(&buf));
    assert_fails(&t, BERTH_E_TOO_LARGE, "Answer", berth_buf_check(&buf, "Answer", &t.err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_type),
        cmocka_unit_test(asking_the_wrong_type_is_harmless),
        cmocka_unit_test(whole_documents_of_any_type),
        cmocka_unit_test(malformed_text_is_invalid),
        cmocka_unit_test(trailing_garbage_is_invalid),
        cmocka_unit_test(only_len_bytes_are_read),
        cmocka_unit_test(errors_say_where),
        cmocka_unit_test(duplicate_keys_are_refused),
        cmocka_unit_test(depth_has_a_limit),
        cmocka_unit_test(brackets_in_strings_are_not_depth),
        cmocka_unit_test(size_has_a_limit),
        cmocka_unit_test(nul_is_for_foreign_frames),
        cmocka_unit_test(nul_in_a_key_is_refused),
        cmocka_unit_test(lone_surrogates),
        cmocka_unit_test(mending_touches_nothing_else),
        cmocka_unit_test(foreign_text_is_not_written_to),
        cmocka_unit_test(a_frame_may_hold_what_is_foreign),
        cmocka_unit_test(bytes_in_a_frame_that_are_no_utf8),
        cmocka_unit_test(a_frame_has_its_own_limit),
        cmocka_unit_test(long_frames_are_read_like_short_ones),
        cmocka_unit_test(many_long_texts_in_one_frame),
        cmocka_unit_test(iterates_in_order_of_insertion),
        cmocka_unit_test(objects_are_built_and_changed),
        cmocka_unit_test(copies_are_deep),
        cmocka_unit_test(equality),
        cmocka_unit_test(canonical_is_sorted_compact_and_stable),
        cmocka_unit_test(canonical_of_one_value),
        cmocka_unit_test(canonical_forgets_the_order_of_insertion),
        cmocka_unit_test(reals_come_back_exactly),
        cmocka_unit_test(writes_commas_and_nesting),
        cmocka_unit_test(every_byte_reads_back),
        cmocka_unit_test(escapes_to_the_letter),
        cmocka_unit_test(escapes_are_cheap),
        cmocka_unit_test(random_bytes_read_back),
        cmocka_unit_test(writer_errors_stick_in_the_buffer),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
