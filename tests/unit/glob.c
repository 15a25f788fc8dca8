/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/glob.c - patterns in the syntax of gitignore. tests/unit/ignore.c compares them with
 * git itself. */
#include "sync/glob.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct row {
    const char *pattern, *text;
    bool matches;
};

static void names(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"", "", true},
        {"a", "a", true},
        {"a", "b", false},
        {"a", "", false},
        {"*", "", true},
        {"*", "anything.o", true},
        {"*.o", "x.o", true},
        {"*.o", "x.oo", false},
        {"**.o", "x.o", true},
        {"a*b*c", "a1b2b3c", true},
        {"a*b*c", "a1b2b3", false},
        {"?", "x", true},
        {"?", "", false},
        {"a?c", "abc", true},
        {"[abc]", "b", true},
        {"[abc]", "d", false},
        {"[!abc]", "d", true},
        {"[^abc]", "a", false},
        {"[a-c]x", "bx", true},
        {"[a-]", "-", true},
        {"[]a]", "]", true},
        {"[!]a]", "]", false},
        {"[[:digit:]]", "7", true},
        {"[[:digit:]]", "x", false},
        {"[[:alpha:]-]", "-", true},
        {"[a\\]b]", "]", true},
        {"[\\-a]", "-", true},
        {"[abc", "a", false}, /* it has no end */
        {"\\*", "*", true},
        {"\\*", "x", false},
        {"\\[a]", "[a]", true},
        {"\xff*", "\xff\xfe", true},
        {"[\xf0-\xff]", "\xf7", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (berth_glob_match_name(rows[i].pattern, rows[i].text) != rows[i].matches)
            fail_msg("\"%s\" and \"%s\"", rows[i].pattern, rows[i].text);
}

static void paths(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"a/b", "a/b", true},
        {"a/b", "a/b/c", false},
        {"a/*", "a/b", true},
        {"a/*", "a/b/c", false},
        {"**/b", "b", true},
        {"**/b", "a/b", true},
        {"**/b", "a/x/b", true},
        {"**/b", "a/b/c", false},
        {"a/**", "a", false},
        {"a/**", "a/b", true},
        {"a/**", "a/b/c", true},
        {"a/**/b", "a/b", true},
        {"a/**/b", "a/x/b", true},
        {"a/**/b", "a/x/y/b", true},
        {"a/**/b", "a/x/y/c", false},
        {"a/**/b/**/c", "a/b/x/b/y/c", true},
        {"**/a/**/a/**", "a/a/b", true},
        {"a**/b", "axx/b", true},
        {"a**/b", "a/x/b", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (berth_glob_match_path(rows[i].pattern, rows[i].text) != rows[i].matches)
            fail_msg("\"%s\" and \"%s\"", rows[i].pattern, rows[i].text);
}

/* With backtracking into every star these would not end within the test's time. */
static void many_stars_take_no_time(void **state)
{
    (void)state;
    char pattern[2001], text[2001];
    for (size_t i = 0; i < 1000; i++)
        memcpy(pattern + 2 * i, "*a", 2);
    memset(text, 'a', 2000);
    pattern[1999] = 'b';
    pattern[2000] = text[2000] = '\0';
    assert_false(berth_glob_match_name(pattern, text));
    for (size_t i = 0; i < 500; i++)
        memcpy(pattern + 4 * i, i % 2 ? "/a/x" : "/**/", 4);
    for (size_t i = 1; i < 2000; i += 2)
        text[i] = '/';
    text[1999] = '\0';
    assert_false(berth_glob_match_path("**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/b", text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(paths),
        cmocka_unit_test(many_stars_take_no_time),
    };
    return cmocka_run_group_tests_name("glob", tests, NULL, NULL);
}
