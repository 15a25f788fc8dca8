/* SPDX-License-Identifier: Apache-2.0
 * src/base/redact.c - see redact.h. */
#include "base/redact.h"

#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/redact_text.h"
#include "base/utf8.h"

/* --- quoting for sh --- */

/* Returns how many bytes at `at` a line must not show as they are: control characters, and bytes
 * that are not UTF-8. */
static size_t unshowable(const char *at)
{
    const unsigned char *u = (const unsigned char *)at;
    size_t step = berth_utf8_step(at);
    if (step == 2 && u[0] == 0xc2 && u[1] < 0xa0)
        return 2;
    return !step || u[0] < 0x20 || u[0] == 0x7f ? 1 : 0;
}

/* Returns whether the word needs no quotes. BERTH_REDACTED needs none: sh never reads it. */
static bool is_plain(const char *word)
{
    if (!*word)
        return false;
    while (*word)
        if (strncmp(word, BERTH_REDACTED, strlen(BERTH_REDACTED)) == 0)
            word += strlen(BERTH_REDACTED);
        else if (is_letter(*word) || is_digit(*word) || is_one_of(*word, "_@%+=:,./-"))
            word++;
        else
            return false;
    return true;
}

static bool is_showable(const char *word)
{
    for (; *word; word += berth_utf8_step(word))
        if (unshowable(word))
            return false;
    return true;
}

/* 'it'\''s' */
static void put_quoted(const char *word, struct berth_buf *out)
{
    berth_buf_puts(out, "'");
    for (const char *quote; (quote = strchr(word, '\'')); word = quote + 1) {
        berth_buf_append(out, word, (size_t)(quote - word));
        berth_buf_puts(out, "'\\''");
    }
    berth_buf_puts(out, word);
    berth_buf_puts(out, "'");
}

/* $'two\nlines' */
static void put_escaped(const char *word, struct berth_buf *out)
{
    berth_buf_puts(out, "$'");
    while (*word) {
        size_t odd = unshowable(word), len = odd ? odd : berth_utf8_step(word);
        if (*word == '\n')
            berth_buf_puts(out, "\\n");
        else if (*word == '\t')
            berth_buf_puts(out, "\\t");
        else if (*word == '\'' || *word == '\\')
            berth_buf_printf(out, "\\%c", *word);
        else if (!odd)
            berth_buf_append(out, word, len);
        else
            for (size_t i = 0; i < len; i++)
                berth_buf_printf(out, "\\x%02x", (unsigned char)word[i]);
        word += len;
    }
    berth_buf_puts(out, "'");
}

static void put_word(const char *word, struct berth_buf *out)
{
    if (out->len)
        berth_buf_puts(out, " ");
    if (is_plain(word))
        berth_buf_puts(out, word);
    else if (is_showable(word))
        put_quoted(word, out);
    else
        put_escaped(word, out);
}

/* --- commands --- */

struct line {
    struct berth_buf out, word;
    bool hides_next; /* the last word asked for a secret */
};

/* Puts the word that the last one asked for. Returns false when it is an option instead. */
static bool put_value(struct line *line, const char *word)
{
    struct berth_span text = {word, strlen(word)};
    if (!line->hides_next || berth_redact_is_option(text))
        return false;
    put_word(*word ? BERTH_REDACTED : "", &line->out);
    line->hides_next = berth_redact_is_scheme(text) || berth_redact_wants_value(text);
    return true;
}

static void put_text(struct line *line, const char *word, const char *before)
{
    struct berth_span text = {word, strlen(word)};
    size_t shown = berth_redact_find(text);
    berth_buf_truncate(&line->word, 0);
    berth_buf_append(&line->word, word, shown);
    if (shown < text.len)
        berth_buf_puts(&line->word, BERTH_REDACTED);
    const char *redacted = berth_buf_str(&line->word);
    if (redacted)
        put_word(redacted, &line->out);
    else
        line->out.failed = true;
    bool is_assigned = strcmp(word, "=") == 0 && before &&
                       berth_redact_is_secret((struct berth_span){before, strlen(before)});
    line->hides_next = is_assigned || berth_redact_wants_value(text);
}

const char *berth_redact_command(struct berth_arena *arena, const char *const *argv)
{
    struct line line = {BERTH_BUF_INIT(SIZE_MAX / 2), BERTH_BUF_INIT(SIZE_MAX / 2), false};
    for (size_t i = 0; argv[i]; i++)
        if (!put_value(&line, argv[i]))
            put_text(&line, argv[i], i ? argv[i - 1] : NULL);
    const char *text = berth_buf_str(&line.out), *copy = NULL;
    if (text)
        copy = berth_arena_copy(arena, text, line.out.len);
    else
        arena->failed = true;
    berth_buf_clear(&line.word);
    berth_buf_clear(&line.out);
    return copy;
}
