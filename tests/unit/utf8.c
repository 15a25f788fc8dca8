/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/utf8.c - every code point passes; overlong forms, surrogates and halves do not. */
#include "base/utf8.h"

#include "fixture.h"

#include "base/limits.h"

/* The plain encoding of any number, surrogates and beyond included. */
static size_t encode(unsigned code, char out[5])
{
    size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    out[len] = '\0';
    for (size_t i = len - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(lead[len] | code);
    return len;
}

static void every_code_point(void **state)
{
    (void)state;
    assert_int_equal(berth_utf8_step(""), 0);
    for (unsigned code = 1; code < 0x120000; code++) {
        char text[5];
        size_t len = encode(code, text);
        bool fine = code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
        if (berth_utf8_step(text) != (fine ? len : 0) || berth_utf8_valid(text) != fine)
            fail_msg("U+%04X: %zu", code, berth_utf8_step(text));
    }
}

/* All lead bytes with all second bytes: compared with the table of the standard (3-7). */
static void second_bytes(void **state)
{
    (void)state;
    for (int a = 0x80; a < 0x100; a++) {
        for (int b = 0; b < 0x100; b++) {
            char text[5] = {(char)a, (char)b, '\x80', '\x80', '\0'};
            int low = a == 0xe0 ? 0xa0 : a == 0xf0 ? 0x90 : 0x80;
            int high = a == 0xed ? 0x9f : a == 0xf4 ? 0x8f : 0xbf;
            size_t len = a < 0xc2 ? 0 : a < 0xe0 ? 2 : a < 0xf0 ? 3 : a < 0xf5 ? 4 : 0;
            assert_int_equal(berth_utf8_step(text), b >= low && b <= high ? len : 0);
        }
    }
}

static void malformed_texts(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "\x80", /* a continuation alone */
        "\xbf\xbf",
        "\xc0\x80", /* overlong NUL */
        "\xc0\xaf", /* overlong slash */
        "\xc1\xbf",
        "\xe0\x80\xaf",
        "\xe0\x9f\xbf",
        "\xf0\x80\x80\xaf",
        "\xf0\x8f\xbf\xbf",
        "\xed\xa0\x80",             /* U+D800 */
        "\xed\xbf\xbf",             /* U+DFFF */
        "\xed\xa0\xbd\xed\xb8\x80", /* a pair, as CESU-8 has it */
        "\xf4\x90\x80\x80",         /* U+110000 */
        "\xf5\x80\x80\x80",
        "\xf8\x88\x80\x80\x80",
        "\xfe",
        "\xff",
        "\xc3", /* cut short */
        "\xe2\x82",
        "\xe2",
        "\xf0\x9f\x98",
        "\xf0\x9f",
        "\xf0",
        "\xc3"
        "a", /* cut short by another character */
        "\xe2\x82"
        "a",
        "\xf0\x9f\x98"
        "a",
        "\xe2\xc3\xa9",
        "fine until \xff",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *exact = strdup(texts[i]); /* on the heap, so that reading on would be seen */
        if (berth_utf8_valid(exact))
            fail_msg("text %zu passes", i);
        berth_utf8_mend(exact);
        assert_true(berth_utf8_valid(exact));
        assert_int_equal(strlen(exact), strlen(texts[i]));
        free(exact);
    }
}

static void well_formed_texts(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "plain",
        "caf\xc3\xa9",
        "\xe2\x82\xac 5",
        "\xf0\x9f\x98\x80",
        "\xef\xbb\xbf"
        "bom",
        "\xef\xbf\xbf",
        "\x01\x1f\x7f",
        "\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80",
        "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *copy = strdup(texts[i]);
        assert_true(berth_utf8_valid(copy));
        berth_utf8_mend(copy);
        assert_string_equal(copy, texts[i]);
        free(copy);
    }
}

static void bytes_with_nul_among_them(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
        bool valid;
    } rows[] = {
        {"", 0, true},           {"\0", 1, true},        {"a\0b\0", 4, true},
        {"\0\xc3\xa9", 3, true}, {"a\0\xff", 3, false},  {"\xe2\0\xac", 3, false},
        {"a\0b\xc3", 4, false},  {"\xff\0ab", 4, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(berth_utf8_valid_bytes(rows[i].bytes, rows[i].len), rows[i].valid);
}

static void mend_replaces_byte_by_byte(void **state)
{
    (void)state;
    static const struct {
        const char *before, *after;
    } rows[] = {
        {"a\xff"
         "b",
         "a?b"},
        {"\xe2\x82", "??"},
        {"\xe2\x82\xac\xe2\x82", "\xe2\x82\xac??"},
        {"\xed\xa0\x80", "???"},
        {"\xc3\xc3\xa9", "?\xc3\xa9"},
        {"\xf0\x9f\x98"
         "a\xc3\xa9",
         "???a\xc3\xa9"},
        {"\xc0\x80", "??"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[32];
        (void)snprintf(text, sizeof text, "%s", rows[i].before);
        berth_utf8_mend(text);
        assert_string_equal(text, rows[i].after);
    }
}

static void whole_leaves_out_what_has_only_begun(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t whole;
    } rows[] = {{"", 0},
                {"abc", 3},
                {"a\xc3\xa9", 3},
                {"a\xc3", 1},
                {"\xe2\x82\xac", 3},
                {"x\xe2\x82", 1},
                {"x\xe2", 1},
                {"\xf0\x9f\x98\x80", 4},
                {"\xf0\x9f\x98", 0},
                {"y\xf0\x9f", 1},
                {"z\x80\x80\x80\x80", 5}, /* no sequence: nothing to wait for */
                {"z\xff", 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(berth_utf8_whole(rows[i].bytes, strlen(rows[i].bytes)), rows[i].whole);
}

static void assert_name(const char *name, const char *told)
{
    struct berth_error err = {0};
    int rc = berth_utf8_check_name(name, "A thing", &err);
    assert_int_equal(rc, told ? BERTH_E_INVALID : BERTH_OK);
    if (told)
        assert_non_null(strstr(err.message, told));
}

static void names(void **state)
{
    (void)state;
    char longest[BERTH_NAME_BYTES_MAX + 2];
    memset(longest, 'n', sizeof longest);
    longest[BERTH_NAME_BYTES_MAX + 1] = '\0';
    assert_name("ci", NULL);
    assert_name("My  \xc3\x89tude #1", NULL);
    assert_name("\xe6\x9d\xb1\xe4\xba\xac", NULL);
    assert_name(NULL, "A thing needs a name.");
    assert_name("", "A thing needs a name.");
    assert_name(longest, "longer than 200 bytes");
    assert_name("\xff", "not UTF-8");
    static const char *const blank[] = {
        " ", "   ", " ci", "ci ", "\xc2\xa0", "ci\xe3\x80\x80", "\xe2\x80\x83"};
    for (size_t i = 0; i < sizeof blank / sizeof *blank; i++)
        assert_name(blank[i], "begins or ends with a blank");
    static const char *const control[] = {"\t",
                                          "a\nb",
                                          "a\x1b[2Jb",
                                          "a\x7f",
                                          "a\xc2\x85",
                                          "\xe2\x80\xae"
                                          "cod",
                                          "a\xe2\x80\x8b",
                                          "\xe2\x80\xa8 x",
                                          "a\xe2\x80\xa9"
                                          "b",
                                          "\xef\xbb\xbf"
                                          "a"};
    for (size_t i = 0; i < sizeof control / sizeof *control; i++)
        assert_name(control[i], "contains the control character U+");
}

static void ids(void **state)
{
    (void)state;
    static const struct {
        const char *id, *told;
    } rows[] = {{"bot-7", NULL},
                {"bot 7", NULL},
                {"", "agentId is empty"},
                {"  ", "agentId begins or ends with a blank"},
                {" a", "agentId begins or ends with a blank"},
                {"a\nb", "agentId contains the control character U+000A"},
                {"\xff", "not UTF-8"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct berth_error err = {0};
        assert_int_equal(berth_utf8_check_id(rows[i].id, "agentId", &err),
                         rows[i].told ? BERTH_E_INVALID : BERTH_OK);
        if (rows[i].told)
            assert_non_null(strstr(err.message, rows[i].told));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point),
        cmocka_unit_test(second_bytes),
        cmocka_unit_test(malformed_texts),
        cmocka_unit_test(well_formed_texts),
        cmocka_unit_test(bytes_with_nul_among_them),
        cmocka_unit_test(mend_replaces_byte_by_byte),
        cmocka_unit_test(whole_leaves_out_what_has_only_begun),
        cmocka_unit_test(names),
        cmocka_unit_test(ids),
    };
    return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
