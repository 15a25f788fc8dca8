/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/json_long.c - documents with long texts read the same by us as by the library. */
#include "fixture.h"

#include <jansson.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json_long.h"

#define FLAGS (JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL)

/* Both say the same of it, and of what is in it. Whether it was read. */
static bool assert_same(const char *text, size_t len)
{
    json_error_t theirs_at = {0}, ours_at = {0};
    json_t *theirs = json_loadb(text, len, FLAGS, &theirs_at);
    json_t *ours = berth_json_load_long(text, len, FLAGS, &ours_at);
    assert_int_equal(ours != NULL, theirs != NULL);
    if (theirs)
        assert_true(json_equal(ours, theirs));
    bool read = theirs != NULL;
    json_decref(ours);
    json_decref(theirs);
    return read;
}

static void put_filler(struct berth_buf *buf, char with, size_t len)
{
    for (size_t i = 0; i < len; i++)
        berth_buf_append(buf, &with, 1);
}

/* BEFORE, 40,000 bytes, the piece, 40,000 bytes, AFTER. */
static bool same_with(const char *before, const char *piece, size_t len, const char *after)
{
    auto_buf buf = BERTH_BUF_INIT(1 << 20);
    berth_buf_puts(&buf, before);
    put_filler(&buf, 'x', 40000);
    berth_buf_append(&buf, piece, len);
    put_filler(&buf, 'y', 40000);
    berth_buf_puts(&buf, after);
    return assert_same(buf.data, buf.len);
}

static void escapes(void **state)
{
    (void)state;
    static const struct {
        const char *piece;
        bool good;
    } pieces[] = {
        {"", true},
        {"\\n\\t\\\"\\\\\\/\\b\\f\\r", true},
        {"\\u0041\\u00e9\\u20ac", true},
        {"\\ud83d\\ude00", true},
        {"\\u0000", true},
        {"\xc3\xa9\xe2\x80\xa8\xf0\x9f\x98\x80", true},
        {"\\ud83d", false},
        {"\\ude00", false},
        {"\\ud83d\\u0041", false},
        {"\\u12", false},
        {"\\u12g4", false},
        {"\\x", false},
        {"\\", false},
        {"\n", false},
        {"\x01", false},
        {"\xff", false},
        {"\xc3", false},
        {"\xed\xa0\x80", false},
        {"\xc0\x80", false},
    };
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        size_t len = strlen(pieces[i].piece);
        assert_int_equal(same_with("{\"a\":\"", pieces[i].piece, len, "\",\"b\":[1,\"c\"]}"),
                         pieces[i].good);
    }
    assert_false(same_with("{\"a\":\"", "\0", 1, "\"}"));
}

static void every_place(void **state)
{
    (void)state;
    assert_true(same_with("\"", "", 0, "\""));
    assert_true(same_with("[\"", "", 0, "\"]"));
    assert_true(same_with("[1,[\"", "", 0, "\",2],\"short\"]"));
    assert_true(same_with("{\"", "", 0, "\":1}")); /* a key */
    assert_true(same_with("{\"", "", 0, "\" \n\t :1}"));
    assert_true(same_with("{\"a\":\"b\",\"c\":{\"d\":[\"", "\",\"", 3, "\"]}}"));
    assert_false(same_with("{\"a\":\"", "", 0, "\""));
    assert_false(same_with("{\"a\":\"", "", 0, ""));
    assert_false(same_with("{\"a\":\"", "", 0, "\"} x"));
    assert_false(same_with("{\"a\":1,\"a\":\"", "", 0, "\"}"));
    assert_false(same_with("{\"a\" \"", "", 0, "\"}"));
}

/* More long texts than are kept apart; lengths around the limit, and around eight bytes. */
static void many(void **state)
{
    (void)state;
    auto_buf buf = BERTH_BUF_INIT(16 << 20);
    berth_buf_puts(&buf, "[\"first\"");
    for (int i = 0; i < 100; i++) {
        berth_buf_puts(&buf, ",\"");
        put_filler(&buf, (char)('a' + i % 26), 32 * 1024 - 10 + (size_t)(i % 20));
        berth_buf_puts(&buf, i % 3 ? "\\n\"" : "\xc3\xa9\"");
    }
    berth_buf_puts(&buf, "]");
    assert_true(assert_same(buf.data, buf.len));
}

/* One byte changed anywhere: the verdicts stay the same. */
static void mutations(void **state)
{
    (void)state;
    auto_buf buf = BERTH_BUF_INIT(1 << 20);
    berth_buf_puts(&buf, "{\"a\":\"");
    put_filler(&buf, 'x', 33000);
    berth_buf_puts(&buf, "\\u00e9\xc3\xa9\\ud83d\\ude00\\n\",\"b\":[\"c\",{\"d\":\"");
    put_filler(&buf, 'z', 33000);
    berth_buf_puts(&buf, "\"}]}");
    unsigned seed = 1;
    int read = 0;
    for (int i = 0; i < 3000; i++) {
        seed = seed * 1103515245 + 12345;
        size_t at = (i % 2 ? 32990 + seed / 65536 % 80 : (size_t)(seed / 16) % buf.len);
        char before = buf.data[at];
        static const char bytes[] = "\"\\{}[],:u0x\n\x01\x80\xc3\xff";
        buf.data[at] = bytes[(seed / 7) % (sizeof bytes - 1)];
        read += assert_same(buf.data, buf.len);
        buf.data[at] = before;
    }
    assert_true(read > 100 && read < 2900);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes),
        cmocka_unit_test(every_place),
        cmocka_unit_test(many),
        cmocka_unit_test(mutations),
    };
    return cmocka_run_group_tests_name("json_long", tests, NULL, NULL);
}
