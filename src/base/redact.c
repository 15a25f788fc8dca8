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

/* --- what sh would read --- */

/* Bytes at `at` that a line must not show as they are: controls, and what is not UTF-8. */
static size_t unshowable(const char *at)
{
    const unsigned char *u = (const unsigned char *)at;
    size_t step = berth_utf8_step(at);
    if (step == 2 && u[0] == 0xc2 && u[1] < 0xa0)
        return 2;
    return !step || u[0] < 0x20 || u[0] == 0x7f ? 1 : 0;
}

/* The mark needs no quotes: nobody can use it as it is. */
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
    struct berth_buf *out, word;
    bool hides_next; /* a secret is expected */
    bool saw_shell;  /* one with -c takes a script */
    bool is_script;  /* the next word is one */
};

static bool is_shell(const char *word)
{
    static const char *const shells[] = {"sh", "bash", "dash", "ash", "ksh", "zsh", "fish", NULL};
    const char *slash = strrchr(word, '/');
    const char *name = slash ? slash + 1 : word;
    return is_among((struct berth_span){name, strlen(name)}, shells);
}

/* -c, -lc */
static bool takes_script(const char *word)
{
    if (word[0] != '-' || !strchr(word, 'c'))
        return false;
    for (word++; *word; word++)
        if (!is_letter(*word))
            return false;
    return true;
}

/* A value that the word before asked for. False: it is none. */
static bool put_value(struct line *line, const char *word, const char *next)
{
    struct berth_span text = {word, strlen(word)};
    if (!line->hides_next || berth_redact_is_option(text))
        return false;
    bool is_scheme = berth_redact_is_scheme(text) && next &&
                     !berth_redact_is_option((struct berth_span){next, strlen(next)});
    put_word(is_scheme || !*word ? word : BERTH_REDACTED, line->out);
    line->hides_next = is_scheme || berth_redact_wants_value(text);
    return true;
}

static void put_text(struct line *line, const char *word, const char *before)
{
    struct berth_span text = {word, strlen(word)};
    berth_buf_truncate(&line->word, 0);
    (void)berth_redact_text(text, line->is_script, &line->word);
    const char *redacted = berth_buf_str(&line->word);
    if (redacted)
        put_word(redacted, line->out);
    else
        line->out->failed = true;
    bool is_assigned = strcmp(word, "=") == 0 && before &&
                       berth_redact_is_secret((struct berth_span){before, strlen(before)});
    line->hides_next = is_assigned || berth_redact_wants_value(text);
}

static const char *finish(struct berth_arena *arena, const struct berth_buf *out)
{
    if (!berth_buf_str(out)) {
        arena->failed = true;
        return NULL;
    }
    return berth_arena_copy(arena, berth_buf_str(out), out->len);
}

const char *berth_redact_command(struct berth_arena *arena, const char *const *argv)
{
    auto_buf out = BERTH_BUF_INIT(SIZE_MAX / 2);
    struct line line = {.out = &out, .word = BERTH_BUF_INIT(SIZE_MAX / 2)};
    for (size_t i = 0; argv[i]; i++) {
        if (!put_value(&line, argv[i], argv[i + 1]))
            put_text(&line, argv[i], i ? argv[i - 1] : NULL);
        line.is_script = line.saw_shell && takes_script(argv[i]);
        line.saw_shell = line.saw_shell || is_shell(argv[i]);
    }
    berth_buf_clear(&line.word);
    return finish(arena, &out);
}
