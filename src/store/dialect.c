/* SPDX-License-Identifier: Apache-2.0
 * src/store/dialect.c - see dialect.h. */
#include "store/dialect.h"

#include <assert.h>
#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "base/buf.h"

#define SQL_BYTES_MAX (64 * 1024)

static const struct {
    const char *word;
    const char *text[2];
} words[] = {
#define X(word, sqlite, postgres) {word, {sqlite, postgres}},
    BERTH_DIALECT_MAP(X)
#undef X
};

/* Writes ?n for SQLite, which numbers $n by first appearance. */
static void append_sql(enum berth_dialect dialect, const char *sql, struct berth_buf *out)
{
    for (; *sql; sql++)
        berth_buf_append(out, dialect == BERTH_DIALECT_SQLITE && *sql == '$' ? "?" : sql, 1);
}

static size_t expand_word(enum berth_dialect dialect, const char *at, struct berth_buf *out)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t len = strlen(words[i].word);
        if (strncmp(at, words[i].word, len) == 0) {
            append_sql(dialect, words[i].text[dialect], out);
            return len;
        }
    }
    assert(!"a {word} that dialect.h does not list");
    return 1;
}

char *berth_dialect_expand(enum berth_dialect dialect, const char *sql)
{
    struct berth_buf out = BERTH_BUF_INIT(SQL_BYTES_MAX);
    for (const char *p = sql; *p;) {
        /* "{}" is an empty JSON object, not a word. */
        if (*p == '{' && isalpha((unsigned char)p[1])) {
            p += expand_word(dialect, p, &out);
        } else {
            append_sql(dialect, (char[]){*p, '\0'}, &out);
            p++;
        }
    }
    return berth_buf_take(&out);
}
