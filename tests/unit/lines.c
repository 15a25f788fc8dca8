/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/lines.c - however a stream is cut, the same lines come out of it, and one that is too
 * long costs no other. */
#include "net/lines.h"

#include "fixture.h"

#include "base/auto.h"
#include "base/buf.h"

/* A copy without a byte behind it, so that reading on would be seen. */
static void put(struct berth_lines *lines, const char *bytes, size_t len)
{
    auto_free char *exact = malloc(len ? len : 1);
    assert_non_null(exact);
    memcpy(exact, bytes, len);
    berth_lines_put(lines, exact, len);
}

/* The lines that are there: "text|", or "<9>|" for one of nine bytes that was dropped. */
static void take(struct berth_lines *lines, struct berth_buf *heard)
{
    char *line = NULL;
    size_t len = 99, dropped = 99;
    while (berth_lines_next(lines, &line, &len, &dropped)) {
        assert_int_equal(line[len], '\0');
        if (dropped)
            assert_int_equal(len, 0);
        if (dropped)
            berth_buf_printf(heard, "<%zu>", dropped);
        berth_buf_append(heard, line, len);
        berth_buf_puts(heard, "|");
    }
}

struct stream {
    const char *bytes;
    size_t len, max;
    const char *want;
    size_t want_len;
};
#define STREAM(limit, text, lines)                                                                 \
    (&(const struct stream){.bytes = (text),                                                       \
                            .len = sizeof(text) - 1,                                               \
                            .max = (limit),                                                        \
                            .want = (lines),                                                       \
                            .want_len = sizeof(lines) - 1})

/* In three pieces, which may be empty; taken from after each, or only at the end. */
static void check_cut(const struct stream *s, size_t first, size_t second, bool late)
{
    struct berth_lines lines;
    auto_buf heard = BERTH_BUF_INIT(1 << 20);
    berth_lines_init(&lines, s->max);
    put(&lines, s->bytes, first);
    if (!late)
        take(&lines, &heard);
    put(&lines, s->bytes + first, second - first);
    if (!late)
        take(&lines, &heard);
    put(&lines, s->bytes + second, s->len - second);
    take(&lines, &heard);
    if (heard.len != s->want_len || memcmp(berth_buf_str(&heard), s->want, s->want_len) != 0)
        fail_msg("cut at %zu and %zu%s: %s, not %s", first, second, late ? ", taken late" : "",
                 berth_buf_str(&heard), s->want);
    berth_lines_clear(&lines);
}

static void check_bytewise(const struct stream *s)
{
    struct berth_lines lines;
    auto_buf heard = BERTH_BUF_INIT(1 << 20);
    berth_lines_init(&lines, s->max);
    for (size_t i = 0; i < s->len; i++) {
        put(&lines, s->bytes + i, 1);
        take(&lines, &heard);
    }
    assert_int_equal(heard.len, s->want_len);
    assert_memory_equal(berth_buf_str(&heard), s->want, s->want_len);
    berth_lines_clear(&lines);
}

static void check_cuts(const struct stream *s)
{
    for (size_t first = 0; first <= s->len; first++) {
        for (size_t second = first; second <= s->len; second++) {
            check_cut(s, first, second, false);
            check_cut(s, first, second, true);
        }
    }
    check_bytewise(s);
}

static void only_lf_ends_a_line(void **state)
{
    (void)state;
    check_cuts(STREAM(1000, "one\na\xe2\x80\xa8z\xe2\x80\xa9\nb\rc\nd\0e\n\x0b\x0c\xc2\x85\n",
                      "one|a\xe2\x80\xa8z\xe2\x80\xa9|b\rc|d\0e|\x0b\x0c\xc2\x85|"));
}

static void one_cr_before_lf_goes(void **state)
{
    (void)state;
    check_cuts(STREAM(1000, "one\r\ntwo\r\r\n\r\n\rthree\r\n", "one|two\r||\rthree|"));
}

static void empty_lines_are_lines(void **state)
{
    (void)state;
    check_cuts(STREAM(1000, "\n\n\na\n\n\nb\n\n", "|||a|||b||"));
    check_cuts(STREAM(1000, "", ""));
}

static void what_has_no_end_waits(void **state)
{
    (void)state;
    check_cuts(STREAM(1000, "one\ntwo\r", "one|"));
    check_cuts(STREAM(1000, "one", ""));
    check_cuts(STREAM(4, "one\nmuch too long", "one|"));
}

static void too_long_is_told_once_with_its_length(void **state)
{
    (void)state;
    check_cuts(STREAM(8, "12345678\n123456789\nok\n", "12345678|<9>|ok|"));
    check_cuts(STREAM(8, "a\n0123456789abcdef0123456789abcdef\nb\n\nc\n", "a|<32>|b||c|"));
    check_cuts(STREAM(8, "123456789\n1234567890\n\n12345678901\n1\n", "<9>|<10>||<11>|1|"));
    check_cuts(STREAM(0, "\nx\n\n", "|<1>||"));
    check_cuts(STREAM(8, "\0\0\0\0\0\0\0\0\0\0\nok\n", "<10>|ok|"));
}

/* In pieces as a pipe gives them. */
static void long_lines_in_pieces(void **state)
{
    (void)state;
    enum { MAX = 100000, PIECE = 65536, SHORT = MAX, LONG = 250001 };
    auto_buf stream = BERTH_BUF_INIT(1 << 20), heard = BERTH_BUF_INIT(1 << 20);
    auto_free char *filler = malloc(LONG);
    memset(filler, 'x', LONG);
    for (int i = 0; i < 2; i++) {
        berth_buf_puts(&stream, "before\n");
        berth_buf_append(&stream, filler, LONG);
        berth_buf_puts(&stream, "\n");
        berth_buf_append(&stream, filler, SHORT);
        berth_buf_puts(&stream, "\nafter\n");
    }
    struct berth_lines lines;
    berth_lines_init(&lines, MAX);
    for (size_t at = 0, len; at < stream.len; at += len) {
        len = stream.len - at < PIECE ? stream.len - at : PIECE;
        put(&lines, stream.data + at, len);
        take(&lines, &heard);
    }
    berth_lines_clear(&lines);
    auto_buf want = BERTH_BUF_INIT(1 << 20);
    for (int i = 0; i < 2; i++) {
        berth_buf_printf(&want, "before|<%d>|", LONG);
        berth_buf_append(&want, filler, SHORT);
        berth_buf_puts(&want, "|after|");
    }
    assert_true(strcmp(berth_buf_str(&heard), berth_buf_str(&want)) == 0);
}

/* The bytes of a line that is too long are not kept. */
static void too_long_takes_no_memory(void **state)
{
    (void)state;
    enum { PIECE = 4096, PIECES = 10000 };
    static char piece[PIECE];
    struct berth_lines lines;
    auto_buf heard = BERTH_BUF_INIT(1 << 20);
    memset(piece, 'x', sizeof piece);
    berth_lines_init(&lines, 1000);
    for (int i = 0; i < PIECES; i++) {
        berth_lines_put(&lines, piece, sizeof piece);
        take(&lines, &heard);
        assert_true(lines.buf.cap <= (size_t)4 * PIECE);
    }
    put(&lines, "yz\nnext\n", 8);
    take(&lines, &heard);
    assert_string_equal(berth_buf_str(&heard), "<40960002>|next|");
    berth_lines_clear(&lines);
}

/* More at once than there is room for counts as too long as well. */
static void more_than_there_is_room_for(void **state)
{
    (void)state;
    enum { MUCH = 3 * 1024 * 1024 };
    struct berth_lines lines;
    auto_buf heard = BERTH_BUF_INIT(1 << 20);
    auto_free char *much = malloc(MUCH);
    memset(much, 'x', MUCH);
    berth_lines_init(&lines, 8);
    put(&lines, "ab", 2);
    take(&lines, &heard);
    put(&lines, much, MUCH);
    take(&lines, &heard);
    put(&lines, "cd\nnext\n", 8);
    take(&lines, &heard);
    assert_string_equal(berth_buf_str(&heard), "<3145732>|next|");
    berth_lines_clear(&lines);
}

/* The caller may write into a line that it was handed: the next is not touched by that. */
static void a_line_is_the_callers(void **state)
{
    (void)state;
    struct berth_lines lines;
    char *line;
    size_t len, dropped;
    berth_lines_init(&lines, 100);
    put(&lines, "one\ntwo\nth", 10);
    assert_true(berth_lines_next(&lines, &line, &len, &dropped));
    assert_string_equal(line, "one");
    memset(line, '!', len + 1);
    assert_true(berth_lines_next(&lines, &line, &len, &dropped));
    assert_string_equal(line, "two");
    assert_false(berth_lines_next(&lines, &line, &len, &dropped));
    assert_false(berth_lines_next(&lines, &line, &len, &dropped));
    put(&lines, "ree\n", 4);
    assert_true(berth_lines_next(&lines, &line, &len, &dropped));
    assert_string_equal(line, "three");
    berth_lines_clear(&lines);
    berth_lines_clear(&lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_lf_ends_a_line),
        cmocka_unit_test(one_cr_before_lf_goes),
        cmocka_unit_test(empty_lines_are_lines),
        cmocka_unit_test(what_has_no_end_waits),
        cmocka_unit_test(too_long_is_told_once_with_its_length),
        cmocka_unit_test(long_lines_in_pieces),
        cmocka_unit_test(too_long_takes_no_memory),
        cmocka_unit_test(more_than_there_is_room_for),
        cmocka_unit_test(a_line_is_the_callers),
    };
    return cmocka_run_group_tests_name("lines", tests, NULL, NULL);
}
