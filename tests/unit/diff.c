/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/diff.c - differences of two contents. Each difference of a random pair is applied
 * here, and a sample of them by git and patch. */
#include "sync/diff.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "os/fs.h"
#include "sync/line_match.h"

#define PAIRS 6000
#define TOOL_PAIRS 60
#define DIFF_BYTES_MAX ((size_t)32 * 1024 * 1024)
#define LCS_LINES_MAX ((size_t)64)

/* A pair of contents, and what is appended for it. */
struct pair {
    struct berth_buf old, now, diff;
    bool old_absent, now_absent, cut;
};
#define PAIR_INIT                                                                                  \
    {                                                                                              \
        .old = BERTH_BUF_INIT(DIFF_BYTES_MAX), .now = BERTH_BUF_INIT(DIFF_BYTES_MAX),              \
        .diff = BERTH_BUF_INIT(DIFF_BYTES_MAX)                                                     \
    }

static void pair_clear(struct pair *p)
{
    berth_buf_clear(&p->old);
    berth_buf_clear(&p->now);
    berth_buf_clear(&p->diff);
}
#define auto_pair __attribute__((cleanup(pair_clear))) struct pair

/* The contents have no NUL behind them, so that a sanitizer sees what is read beyond their ends. */
static char *exact_copy(const struct berth_buf *buf)
{
    char *bytes = malloc(buf->len + !buf->len);
    assert_non_null(bytes);
    if (buf->len)
        memcpy(bytes, buf->data, buf->len);
    return bytes;
}

static void pair_diff(struct pair *p, size_t bytes_max)
{
    auto_free char *old = exact_copy(&p->old), *now = exact_copy(&p->now);
    struct berth_diff_side sides[] = {
        {p->old_absent ? "/dev/null" : "a/f", p->old_absent ? NULL : old, p->old.len},
        {p->now_absent ? "/dev/null" : "b/f", p->now_absent ? NULL : now, p->now.len}};
    struct berth_error err;
    berth_buf_truncate(&p->diff, 0);
    assert_int_equal(berth_diff_append(&sides[0], &sides[1], bytes_max, &p->diff, &p->cut, &err),
                     BERTH_OK);
    assert_true(p->diff.len <= bytes_max);
}

/* --- by hand --- */

static void expect_diff(const char *old, const char *now, const char *wanted)
{
    auto_pair p = PAIR_INIT;
    berth_buf_puts(&p.old, old);
    berth_buf_puts(&p.now, now);
    pair_diff(&p, DIFF_BYTES_MAX);
    assert_string_equal(berth_buf_str(&p.diff), wanted);
    assert_false(p.cut);
}

#define HEAD "--- a/f\n+++ b/f\n"

static void hunks_as_diff_writes_them(void **state)
{
    (void)state;
    expect_diff("", "", "");
    expect_diff("a\nb\n", "a\nb\n", "");
    expect_diff("", "a\n", HEAD "@@ -0,0 +1 @@\n+a\n");
    expect_diff("a\nb\n", "", HEAD "@@ -1,2 +0,0 @@\n-a\n-b\n");
    expect_diff("a\nb\nc\n", "a\nB\nc\n", HEAD "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
    expect_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n",
                HEAD "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n");
    /* Six lines between two changes are context of both; seven are not. */
    expect_diff("x\n1\n2\n3\n4\n5\n6\ny\n", "1\n2\n3\n4\n5\n6\n",
                HEAD "@@ -1,8 +1,6 @@\n-x\n 1\n 2\n 3\n 4\n 5\n 6\n-y\n");
    expect_diff("x\n1\n2\n3\n4\n5\n6\n7\ny\n", "1\n2\n3\n4\n5\n6\n7\n",
                HEAD "@@ -1,4 +1,3 @@\n-x\n 1\n 2\n 3\n@@ -6,4 +5,3 @@\n 5\n 6\n 7\n-y\n");
    expect_diff("a\r\nb\n", "a\nb\n", HEAD "@@ -1,2 +1,2 @@\n-a\r\n+a\n b\n");
}

#define NO_NEWLINE "\\ No newline at end of file\n"

static void last_line_without_newline(void **state)
{
    (void)state;
    expect_diff("a", "a\n", HEAD "@@ -1 +1 @@\n-a\n" NO_NEWLINE "+a\n");
    expect_diff("a\n", "a", HEAD "@@ -1 +1 @@\n-a\n+a\n" NO_NEWLINE);
    expect_diff("a", "b", HEAD "@@ -1 +1 @@\n-a\n" NO_NEWLINE "+b\n" NO_NEWLINE);
    expect_diff("a\nz", "b\nz", HEAD "@@ -1,2 +1,2 @@\n-a\n+b\n z\n" NO_NEWLINE);
    expect_diff("", "a", HEAD "@@ -0,0 +1 @@\n+a\n" NO_NEWLINE);
}

static void insertions_end_where_git_ends_them(void **state)
{
    (void)state;
    expect_diff("x {\n}\n\nz {\n}\n", "x {\n}\n\ny {\n}\n\nz {\n}\n",
                HEAD "@@ -1,5 +1,8 @@\n x {\n }\n \n+y {\n+}\n+\n z {\n }\n");
    expect_diff("q\nx\n}\n}\n}\nz\n", "x\n}\n}\nz\n",
                HEAD "@@ -1,6 +1,4 @@\n-q\n x\n }\n }\n-}\n z\n");
}

static void absent_files(void **state)
{
    (void)state;
    auto_pair p = PAIR_INIT;
    p.old_absent = true;
    pair_diff(&p, DIFF_BYTES_MAX);
    assert_int_equal(p.diff.len, 0); /* it becomes an empty file */
    berth_buf_puts(&p.now, "a\n");
    pair_diff(&p, DIFF_BYTES_MAX);
    assert_string_equal(berth_buf_str(&p.diff), "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n");
    auto_pair q = PAIR_INIT;
    q.now_absent = true;
    berth_buf_puts(&q.old, "a\n");
    pair_diff(&q, DIFF_BYTES_MAX);
    assert_string_equal(berth_buf_str(&q.diff), "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n");
}

static void expect_labels(const char *name, const char *quoted)
{
    char old[128], now[128], wanted[512];
    struct berth_error err;
    bool cut;
    auto_buf out = BERTH_BUF_INIT(4096);
    (void)snprintf(old, sizeof old, "a/%s", name);
    (void)snprintf(now, sizeof now, "b/%s", name);
    const char *quote = strcmp(name, quoted) ? "\"" : "", *tab = strchr(name, ' ') ? "\t" : "";
    assert_int_equal(berth_diff_append(&(struct berth_diff_side){old, "1\n", 2},
                                       &(struct berth_diff_side){now, "2\n", 2}, 4096, &out, &cut,
                                       &err),
                     BERTH_OK);
    (void)snprintf(wanted, sizeof wanted, "--- %sa/%s%s%s\n+++ %sb/%s%s%s\n@@ -1 +1 @@\n-1\n+2\n",
                   quote, quoted, quote, tab, quote, quoted, quote, tab);
    assert_string_equal(berth_buf_str(&out), wanted);
}

static void labels_as_git_quotes_them(void **state)
{
    (void)state;
    expect_labels("x/y.c", "x/y.c");
    expect_labels("x y", "x y");
    expect_labels("\xc3\xa9", "\xc3\xa9");
    expect_labels("x\n+++ b/etc", "x\\n+++ b/etc");
    expect_labels("\a\b\t\v\f\r\x01\x1b\x7f", "\\a\\b\\t\\v\\f\\r\\001\\033\\177");
    expect_labels("\"\\", "\\\"\\\\");
    expect_labels("\xff\xc3\xa9\xe2\x82", "\\377\xc3\xa9\\342\\202");
    expect_labels("\xe2\x80\xae", "\\342\\200\\256"); /* turns the direction of text */
}

static void binary_contents(void **state)
{
    (void)state;
    static const char binary[] = "Binary files a/f and b/f differ\n";
    expect_diff("a\n", "\xff\n", binary);
    expect_diff("a\n", "a\xe2\x82", binary);
    expect_diff("\xed\xa0\x80", "", binary);
    auto_pair p = PAIR_INIT;
    for (int i = 0; i < 1000; i++)
        berth_buf_puts(&p.old, "1234567\n");
    berth_buf_append(&p.now, p.old.data, p.old.len);
    p.now.data[7999] = '\0';
    pair_diff(&p, DIFF_BYTES_MAX);
    assert_string_equal(berth_buf_str(&p.diff), binary);
    pair_diff(&p, sizeof binary - 2);
    assert_true(p.cut && p.diff.len == 0);
    p.now.data[7999] = '\n';
    berth_buf_append(&p.now, "", 1); /* behind what is searched for a NUL */
    pair_diff(&p, DIFF_BYTES_MAX);
    assert_memory_equal(p.diff.data, HEAD "@@ -998,3 +998,4 @@\n", 34);
}

/* --- applied --- */

/* Returns the line at *at, which it moves on, and its length with the newline. */
static const char *next_line(const char **at, const char *end, size_t *len)
{
    const char *line = *at, *newline = memchr(line, '\n', (size_t)(end - line));
    assert_true(line < end);
    *at = newline ? newline + 1 : end;
    *len = (size_t)(*at - line);
    return line;
}

/* Applies the lines of one hunk, whose counts are left[0] and left[1]. Context and deletions must
 * be what stands at *source. */
static void apply_hunk(const char **at, const char *end, const char **source,
                       const char *source_end, unsigned long left[2], struct berth_buf *out)
{
    while (left[0] || left[1]) {
        size_t len, there;
        const char *line = next_line(at, end, &len);
        if (end - *at > 2 && **at == '\\') {
            size_t ignored;
            (void)next_line(at, end, &ignored);
            len--;
        }
        if (*line != '+') {
            const char *wanted = next_line(source, source_end, &there);
            assert_true(there == len - 1 && memcmp(wanted, line + 1, there) == 0);
            assert_true(left[0]-- > 0);
        }
        if (*line != '-') {
            berth_buf_append(out, line + 1, len - 1);
            assert_true(left[1]-- > 0);
        }
        assert_true(strchr(" +-", *line) && *line);
    }
}

/* Applies a difference. Every hunk must stand where its header says. */
static void apply_diff(const struct berth_buf *diff, const struct berth_buf *old,
                       struct berth_buf *out)
{
    const char *at = berth_buf_str(diff), *end = at + diff->len;
    const char *source = berth_buf_str(old), *source_end = source + old->len;
    size_t len, line = 1;
    if (diff->len) {
        assert_memory_equal(next_line(&at, end, &len), "--- ", 4);
        assert_memory_equal(next_line(&at, end, &len), "+++ ", 4);
    }
    while (at < end) {
        unsigned long first[2], count[2] = {1, 1};
        char *p = (char *)next_line(&at, end, &len);
        for (int side = 0; side < 2; side++) {
            assert_memory_equal(p, side ? " +" : "@@ -", side ? 2 : 4);
            first[side] = strtoul(p + (side ? 2 : 4), &p, 10);
            if (*p == ',')
                count[side] = strtoul(p + 1, &p, 10);
        }
        assert_memory_equal(p, " @@\n", 4);
        unsigned long begin = count[0] ? first[0] : first[0] + 1;
        for (; line < begin; line++) {
            const char *unchanged = next_line(&source, source_end, &len);
            berth_buf_append(out, unchanged, len);
        }
        line += count[0];
        apply_hunk(&at, end, &source, source_end, count, out);
    }
    berth_buf_append(out, source, (size_t)(source_end - source));
}

static void expect_applies(struct pair *p)
{
    auto_buf result = BERTH_BUF_INIT(DIFF_BYTES_MAX);
    pair_diff(p, DIFF_BYTES_MAX);
    assert_false(p->cut);
    apply_diff(&p->diff, &p->old, &result);
    assert_int_equal(result.len, p->now.len);
    assert_true(!result.len || memcmp(result.data, p->now.data, result.len) == 0);
}

/* --- random pairs --- */

struct dice {
    uint64_t state;
};

static unsigned roll(struct dice *d, unsigned below)
{
    d->state = d->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(d->state >> 33) % below;
}

static void put_random_line(struct dice *d, unsigned letters, struct berth_buf *out)
{
    unsigned what = roll(d, letters + 2);
    if (what < letters)
        berth_buf_printf(out, "%c", 'a' + what);
    else if (what == letters && roll(d, 8) == 0)
        for (unsigned i = 0, len = roll(d, 9000); i < len; i++)
            berth_buf_puts(out, "-+ ");
    berth_buf_puts(out, roll(d, 10) ? "\n" : "\r\n");
}

/* Copies the old content line by line, and changes some of them. */
static void put_edited(struct dice *d, const struct berth_buf *old, unsigned letters,
                       struct berth_buf *out)
{
    const char *at = berth_buf_str(old), *end = at + old->len;
    unsigned seldom = 2 + roll(d, 12);
    while (at < end) {
        size_t len;
        const char *line = next_line(&at, end, &len);
        if (roll(d, seldom))
            berth_buf_append(out, line, len);
        while (roll(d, seldom) == 0)
            put_random_line(d, letters, out);
    }
}

static void make_pair(unsigned seed, struct pair *p)
{
    struct dice d = {seed};
    unsigned letters = 1 + roll(&d, 6), lines = roll(&d, roll(&d, 10) ? 30 : 200);
    (void)roll(&d, 2);
    for (unsigned i = 0; i < lines; i++)
        put_random_line(&d, letters, &p->old);
    if (roll(&d, 3))
        put_edited(&d, &p->old, letters, &p->now);
    else
        for (unsigned i = roll(&d, 30); i; i--)
            put_random_line(&d, letters, &p->now);
    if (p->old.len && roll(&d, 4) == 0)
        berth_buf_truncate(&p->old, p->old.len - 1);
    if (p->now.len && roll(&d, 4) == 0)
        berth_buf_truncate(&p->now, p->now.len - 1);
    p->old_absent = !p->old.len && roll(&d, 2);
    p->now_absent = !p->now.len && roll(&d, 2);
}

/* Returns the length of the longest common subsequence, from the table of all prefixes. */
static size_t longest_common(const struct berth_line_list *a, const struct berth_line_list *b)
{
    size_t table[LCS_LINES_MAX + 1][LCS_LINES_MAX + 1] = {0};
    for (size_t i = 1; i <= a->count; i++)
        for (size_t j = 1; j <= b->count; j++) {
            size_t up = table[i - 1][j], left = table[i][j - 1];
            table[i][j] = berth_line_equal(&a->at[i - 1], &b->at[j - 1]) ? table[i - 1][j - 1] + 1
                          : up > left                                    ? up
                                                                         : left;
        }
    return table[a->count][b->count];
}

/* Counts the changed lines of a difference. The content of these tests has no line that looks like
 * a header inside a hunk. */
static size_t count_changed(const struct berth_buf *diff)
{
    const char *at = berth_buf_str(diff), *end = at + diff->len;
    size_t count = 0, len;
    for (int line = 0; at < end; line++) {
        char mark = *next_line(&at, end, &len);
        count += line >= 2 && (mark == '+' || mark == '-');
    }
    return count;
}

/* Returns whether the pair was small enough to be checked. */
static bool expect_fewest(const struct pair *p)
{
    auto_line_list old = {0}, now = {0};
    struct berth_error err;
    assert_int_equal(berth_line_list_split(p->old.data, p->old.len, &old, &err), BERTH_OK);
    assert_int_equal(berth_line_list_split(p->now.data, p->now.len, &now, &err), BERTH_OK);
    if (old.count > LCS_LINES_MAX || now.count > LCS_LINES_MAX)
        return false;
    assert_int_equal(count_changed(&p->diff),
                     old.count + now.count - 2 * longest_common(&old, &now));
    return true;
}

static unsigned first_seed(void)
{
    const char *seed = getenv("BERTH_TEST_SEED");
    return seed ? (unsigned)strtoul(seed, NULL, 10) : 1;
}

static void random_pairs_apply(void **state)
{
    (void)state;
    int checked = 0;
    for (unsigned i = 0; i < PAIRS; i++) {
        auto_pair p = PAIR_INIT;
        make_pair(first_seed() + i, &p);
        expect_applies(&p);
        checked += expect_fewest(&p);
    }
    assert_true(checked > PAIRS / 2);
}

/* Cuts the difference of a pair at each length. What is left is its beginning, up to the end of a
 * hunk. */
static void expect_cuts(struct pair *p)
{
    static const char notice[] = "The rest of the difference between a/f and b/f is left out\n";
    auto_buf whole = BERTH_BUF_INIT(DIFF_BYTES_MAX);
    pair_diff(p, DIFF_BYTES_MAX);
    berth_buf_append(&whole, berth_buf_str(&p->diff), p->diff.len);
    for (size_t max = 0; max < whole.len; max++) {
        pair_diff(p, max);
        assert_true(p->cut);
        assert_int_equal(p->diff.len > 0, max >= sizeof notice - 1);
        if (p->diff.len == 0)
            continue;
        size_t kept = p->diff.len - (sizeof notice - 1);
        assert_string_equal(p->diff.data + kept, notice);
        assert_memory_equal(p->diff.data, whole.data, kept);
        assert_true(!kept || memcmp(whole.data + kept, "@@ -", 4) == 0);
    }
    pair_diff(p, whole.len);
    assert_false(p->cut);
    assert_string_equal(berth_buf_str(&p->diff), berth_buf_str(&whole));
}

static void cut_between_hunks(void **state)
{
    (void)state;
    /* The last hunk is shorter than the notice: with room for all hunks, the notice needs none. */
    auto_pair by_hand = PAIR_INIT;
    berth_buf_puts(&by_hand.old, "x\n1\n2\n3\n4\n5\n6\n7\ny\n1\n2\n3\n4\n5\n6\n7\nz\n");
    berth_buf_puts(&by_hand.now, "1\n2\n3\n4\n5\n6\n7\nY\n1\n2\n3\n4\n5\n6\n7\n");
    expect_cuts(&by_hand);
    for (unsigned i = 0; i < 40; i++) {
        auto_pair p = PAIR_INIT;
        make_pair(first_seed() + i, &p);
        pair_diff(&p, DIFF_BYTES_MAX);
        if (p.diff.len < 3000 && !p.old_absent && !p.now_absent)
            expect_cuts(&p);
    }
}

static void output_too_long(void **state)
{
    (void)state;
    struct berth_diff_side old = {"a/f", "1\n", 2}, now = {"b/f", "2\n", 2};
    struct berth_error err;
    bool cut;
    auto_buf out = BERTH_BUF_INIT(10);
    assert_int_equal(berth_diff_append(&old, &now, 1000, &out, &cut, &err), BERTH_E_TOO_LARGE);
}

/* --- hostile contents --- */

static uint64_t count_steps(const struct pair *p)
{
    auto_line_list old = {0}, now = {0};
    struct berth_error err;
    uint64_t steps;
    assert_int_equal(berth_line_list_split(p->old.data, p->old.len, &old, &err), BERTH_OK);
    assert_int_equal(berth_line_list_split(p->now.data, p->now.len, &now, &err), BERTH_OK);
    assert_int_equal(berth_line_list_match(&old, &now, &steps, &err), BERTH_OK);
    /* One run of equal lines may still be passed when the steps are used up. */
    assert_true(steps <= BERTH_LINE_STEPS_MAX + BERTH_DIFF_LINES_MAX);
    return steps;
}

static void different_lines_take_no_steps(void **state)
{
    (void)state;
    auto_pair p = PAIR_INIT;
    for (int i = 0; i < 100000; i++) {
        berth_buf_printf(&p.old, "old %d\n", i);
        berth_buf_printf(&p.now, "new %d\n", i);
    }
    assert_int_equal(count_steps(&p), 0);
    expect_applies(&p);
    assert_int_equal(count_changed(&p.diff), 200000);
}

/* The same lines in an order by chance: nearly all of them are edits. */
static void steps_are_bounded(void **state)
{
    (void)state;
    struct dice d = {1};
    auto_pair p = PAIR_INIT;
    for (int i = 0; i < 200000; i++) {
        berth_buf_printf(&p.old, "%u\n", roll(&d, 50000));
        berth_buf_printf(&p.now, "%u\n", roll(&d, 50000));
    }
    assert_true(count_steps(&p) > BERTH_LINE_STEPS_MAX);
    expect_applies(&p);
    berth_buf_truncate(&p.old, 0);
    berth_buf_truncate(&p.now, 0);
    /* Each diagonal of the search has a long run of equal lines. */
    for (int i = 0; i < 200000; i++) {
        berth_buf_puts(&p.old, i < 2000 || i == 199999 ? "b\n" : "a\n");
        berth_buf_puts(&p.now, i < 197000 ? "a\n" : "b\n");
    }
    (void)count_steps(&p);
    expect_applies(&p);
}

/* More edits than a round of the search covers: the rounds together still find common lines. */
static void many_edits_share_lines(void **state)
{
    (void)state;
    struct dice d = {1};
    auto_pair p = PAIR_INIT;
    for (int i = 0; i < 30000; i++) {
        unsigned number = roll(&d, 1000);
        berth_buf_printf(&p.old, "%u\n", number);
        berth_buf_printf(&p.now, "%u\n", i % 6 ? number : roll(&d, 1000));
    }
    assert_true(count_steps(&p) <= BERTH_LINE_STEPS_MAX);
    expect_applies(&p);
    assert_true(count_changed(&p.diff) < 12000);
}

static void put_letters(struct berth_buf *out, char letter, size_t len)
{
    size_t at = out->len;
    berth_buf_reserve(out, len);
    assert_true(out->cap > at + len);
    memset(out->data + at, letter, len);
    out->data[out->len = at + len] = '\0';
}

static void long_lines(void **state)
{
    (void)state;
    auto_pair p = PAIR_INIT;
    put_letters(&p.old, 'a', BERTH_DIFF_BYTES_MAX);
    put_letters(&p.now, 'a', BERTH_DIFF_BYTES_MAX - 1);
    expect_applies(&p);
    pair_diff(&p, 1000);
    assert_true(p.cut);
    berth_buf_truncate(&p.old, 0);
    berth_buf_truncate(&p.now, 0);
    for (int i = 0; i < 3; i++) {
        put_letters(&p.old, 'a', 1024 * 1024);
        put_letters(&p.now, 'a', 1024 * 1024);
        berth_buf_printf(&p.old, "%d\n", i);
        berth_buf_printf(&p.now, "%d\n", 2 - i);
    }
    assert_true(count_steps(&p) < 100);
    expect_applies(&p);
}

static void too_large_contents(void **state)
{
    (void)state;
    auto_pair p = PAIR_INIT;
    for (int i = 0; i < BERTH_DIFF_LINES_MAX; i++)
        berth_buf_puts(&p.old, "\n");
    berth_buf_append(&p.now, p.old.data, p.old.len - 1);
    expect_applies(&p);
    assert_int_equal(count_changed(&p.diff), 1);
    berth_buf_puts(&p.old, "a");
    pair_diff(&p, DIFF_BYTES_MAX);
    assert_string_equal(berth_buf_str(&p.diff), "Files a/f and b/f differ\n");
    berth_buf_truncate(&p.old, 0);
    put_letters(&p.old, 'a', BERTH_DIFF_BYTES_MAX + 1);
    pair_diff(&p, DIFF_BYTES_MAX);
    assert_string_equal(berth_buf_str(&p.diff), "Files a/f and b/f differ\n");
}

/* --- beside git and patch --- */

#define PART_OLD "old\n1\n2\n3\n4\n5\n6\n7\nold\n"
#define PART_FIRST "new\n1\n2\n3\n4\n5\n6\n7\nold\n" /* with the first hunk */
#define PART_NOW                                                                                   \
    "new\n1\n2\n3\n4\n5\n6\n7\na hunk that is longer than the notice, which takes its place\n"

static void write_file(const char *directory, const char *name, const struct berth_buf *bytes)
{
    char path[2048];
    struct berth_error err;
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(berth_fs_write_all(fd, berth_buf_str(bytes), bytes->len, &err), BERTH_OK);
}

static void expect_file(const char *directory, const char *name, const struct berth_buf *wanted,
                        bool absent)
{
    char path[2048];
    struct berth_error err;
    auto_buf bytes = BERTH_BUF_INIT(DIFF_BYTES_MAX);
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        assert_true(absent && errno == ENOENT);
        return;
    }
    assert_false(absent);
    assert_int_equal(berth_fs_read_all(fd, &bytes, &err), BERTH_OK);
    assert_int_equal(bytes.len, wanted->len);
    assert_memory_equal(berth_buf_str(&bytes), berth_buf_str(wanted), wanted->len);
}

/* Appends a difference that has room for one of its two hunks, and two that have no hunk. */
static void put_cut_diffs(struct berth_buf *patch)
{
    static const struct berth_diff_side sides[][2] = {
        {{"a/p q", PART_OLD, sizeof PART_OLD - 1}, {"b/p q", PART_NOW, sizeof PART_NOW - 1}},
        {{"a/none", PART_OLD, sizeof PART_OLD - 1}, {"b/none", PART_NOW, sizeof PART_NOW - 1}},
        {{"a/none", "1\n", 2}, {"b/none", "\xff", 1}}};
    static const size_t rooms[] = {120, 70, 70};
    struct berth_error err;
    bool cut;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(berth_diff_append(&sides[i][0], &sides[i][1], rooms[i], patch, &cut, &err),
                         BERTH_OK);
        assert_int_equal(cut, i < 2);
    }
    assert_non_null(strstr(berth_buf_str(patch), "+new\n 1\n 2\n 3\nThe rest of"));
}

/* Appends the differences of all pairs, and puts the others before, between and behind them. */
static void write_patch(struct pair pairs[TOOL_PAIRS], char names[TOOL_PAIRS][32],
                        const char *directory)
{
    auto_buf patch = BERTH_BUF_INIT(DIFF_BYTES_MAX);
    put_cut_diffs(&patch);
    for (unsigned i = 0; i < TOOL_PAIRS; i++) {
        char old[40], now[40];
        struct pair *p = &pairs[i];
        struct berth_error err;
        bool cut;
        (void)snprintf(old, sizeof old, "a/%s", names[i]);
        (void)snprintf(now, sizeof now, "b/%s", names[i]);
        struct berth_diff_side sides[] = {
            {p->old_absent ? "/dev/null" : old, berth_buf_str(&p->old), p->old.len},
            {p->now_absent ? "/dev/null" : now, berth_buf_str(&p->now), p->now.len}};
        assert_int_equal(
            berth_diff_append(&sides[0], &sides[1], DIFF_BYTES_MAX, &patch, &cut, &err), BERTH_OK);
        berth_buf_puts(&patch, i % 2 ? "Binary files a/none and b/none differ\n" : "");
    }
    write_file(directory, "all.patch", &patch);
}

static void expect_tool_applies(const char *command)
{
    static const char *const names[] = {"f", "x y", "\"q\"", "n\nn", "t\tt", "\xc3\xa9", "\\"};
    struct pair pairs[TOOL_PAIRS];
    char own[TOOL_PAIRS][32], root[] = "/tmp/berth-test.XXXXXX", line[512];
    struct berth_error err;
    assert_non_null(mkdtemp(root));
    for (unsigned i = 0; i < TOOL_PAIRS; i++) {
        pairs[i] = (struct pair)PAIR_INIT;
        make_pair(first_seed() + i, &pairs[i]);
        (void)snprintf(own[i], sizeof own[i], "%s%u", names[i % 7], i);
        if (!pairs[i].old_absent)
            write_file(root, own[i], &pairs[i].old);
    }
    auto_buf part = BERTH_BUF_INIT(DIFF_BYTES_MAX);
    berth_buf_puts(&part, PART_OLD);
    write_file(root, "p q", &part);
    write_patch(pairs, own, root);
    (void)snprintf(line, sizeof line, "cd %s && export GIT_CEILING_DIRECTORIES=/tmp && %s", root,
                   command);
    assert_int_equal(system(line), 0); /* NOLINT: the words are ours */
    berth_buf_truncate(&part, 0);
    berth_buf_puts(&part, PART_FIRST);
    expect_file(root, "p q", &part, false);
    for (unsigned i = 0; i < TOOL_PAIRS; i++) {
        struct pair *p = &pairs[i];
        bool same = p->old.len == 0 && p->now.len == 0;
        expect_file(root, own[i], &p->now, same ? p->old_absent : p->now_absent);
        pair_clear(p);
    }
    assert_int_equal(berth_fs_remove_tree(root, &err), BERTH_OK);
}

static void git_and_patch_apply(void **state)
{
    (void)state;
    bool git = system("git --version >/dev/null 2>&1") == 0;        /* NOLINT */
    bool patch = system("patch --version 2>&1 | grep -q GNU") == 0; /* NOLINT */
    if (git)
        expect_tool_applies("git apply --check all.patch && git apply -p1 all.patch 2>/dev/null");
    if (patch)
        expect_tool_applies("patch -sp1 --fuzz=0 <all.patch");
    if (!git && !patch)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hunks_as_diff_writes_them),
        cmocka_unit_test(last_line_without_newline),
        cmocka_unit_test(insertions_end_where_git_ends_them),
        cmocka_unit_test(absent_files),
        cmocka_unit_test(labels_as_git_quotes_them),
        cmocka_unit_test(binary_contents),
        cmocka_unit_test(random_pairs_apply),
        cmocka_unit_test(cut_between_hunks),
        cmocka_unit_test(output_too_long),
        cmocka_unit_test(different_lines_take_no_steps),
        cmocka_unit_test(steps_are_bounded),
        cmocka_unit_test(many_edits_share_lines),
        cmocka_unit_test(long_lines),
        cmocka_unit_test(too_large_contents),
        cmocka_unit_test(git_and_patch_apply),
    };
    return cmocka_run_group_tests_name("diff", tests, NULL, NULL);
}
