/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/dialect.c - one statement, as each of the two databases wants it. */
#include "fixture.h"

#include "base/auto.h"
#include "store/dialect.h"

static void assert_expands(const char *sql, const char *sqlite, const char *postgres)
{
    auto_free char *for_sqlite = berth_dialect_expand(BERTH_DIALECT_SQLITE, sql);
    auto_free char *for_postgres = berth_dialect_expand(BERTH_DIALECT_POSTGRES, sql);
    assert_non_null(for_sqlite);
    assert_non_null(for_postgres);
    assert_string_equal(for_sqlite, sqlite);
    assert_string_equal(for_postgres, postgres);
}

/* As the list has it, but for the spelling of arguments. */
static void assert_word(const char *word, const char *sqlite, const char *postgres)
{
    char sql[256], for_sqlite[512], for_postgres[512];
    (void)snprintf(sql, sizeof sql, "a %s b", word);
    (void)snprintf(for_sqlite, sizeof for_sqlite, "a %s b", sqlite);
    (void)snprintf(for_postgres, sizeof for_postgres, "a %s b", postgres);
    for (char *p = for_sqlite; (p = strchr(p, '$'));)
        *p = '?';
    assert_expands(sql, for_sqlite, for_postgres);
}

static void every_word_has_its_text_in_each_dialect(void **state)
{
    (void)state;
    int words = 0;
#define X(word, sqlite, postgres)                                                                  \
    assert_word(word, sqlite, postgres);                                                           \
    words++;
    BERTH_DIALECT_MAP(X)
#undef X
    assert_true(words > 0);
}

/* The list itself, for what the statements lean on. */
static void words_mean_what_statements_expect(void **state)
{
    (void)state;
    assert_expands("{for_update}", "", "FOR UPDATE");
    assert_expands("{for_share}", "", "FOR SHARE");
    assert_expands("{bigint}", "INTEGER", "BIGINT");
    assert_expands("{table_end}", ") STRICT, WITHOUT ROWID", ")");
    assert_expands("{serial_table_end}", ") STRICT", ")");
}

static void several_words_in_one_statement(void **state)
{
    (void)state;
    assert_expands("CREATE TABLE t (id {serial_key}, n {bigint}, m {bigint} {serial_table_end}",
                   "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, m INTEGER ) STRICT",
                   "CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n BIGINT,"
                   " m BIGINT )");
    assert_expands("{bigint}{bigint}", "INTEGERINTEGER", "BIGINTBIGINT");
}

static void numbered_arguments(void **state)
{
    (void)state;
    assert_expands("SELECT $1, $2", "SELECT ?1, ?2", "SELECT $1, $2");
    /* By number, not by first appearance; two digits are one number. */
    assert_expands("VALUES ($2, $1, $2, $10, $40)", "VALUES (?2, ?1, ?2, ?10, ?40)",
                   "VALUES ($2, $1, $2, $10, $40)");
    assert_expands("a = $1 {for_update}", "a = ?1 ", "a = $1 FOR UPDATE");
}

static void an_empty_object_is_no_word(void **state)
{
    (void)state;
    assert_expands("'{}'", "'{}'", "'{}'");
    assert_expands("coalesce(metadata, '{}') = $1", "coalesce(metadata, '{}') = ?1",
                   "coalesce(metadata, '{}') = $1");
    assert_expands("'{}' {for_share}", "'{}' ", "'{}' FOR SHARE");
    assert_expands("'{\"a\":{}}'", "'{\"a\":{}}'", "'{\"a\":{}}'");
}

static void plain_text_is_left_alone(void **state)
{
    (void)state;
    assert_expands("", "", "");
    assert_expands("SELECT 'gr\xc3\xbc\xc3\x9f', '}', 1 % 2",
                   "SELECT 'gr\xc3\xbc\xc3\x9f', '}', 1 % 2",
                   "SELECT 'gr\xc3\xbc\xc3\x9f', '}', 1 % 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_word_has_its_text_in_each_dialect),
        cmocka_unit_test(words_mean_what_statements_expect),
        cmocka_unit_test(several_words_in_one_statement),
        cmocka_unit_test(numbered_arguments),
        cmocka_unit_test(an_empty_object_is_no_word),
        cmocka_unit_test(plain_text_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
