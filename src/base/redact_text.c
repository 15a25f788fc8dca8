/* SPDX-License-Identifier: Apache-2.0
 * src/base/redact_text.c - finds the first secret of a text. Each kind of secret has a search of
 * its own, which takes linear time and returns the length of the text when it finds nothing. */
#include "base/redact_text.h"

#define JWT_RUN_BYTES_MIN 8    /* of a run, when the one before begins with `eyJ`: {" in base64 */
#define MIXED_RUN_BYTES_MIN 16 /* of a run that is known only by its letters and digits */
#define MIXED_RUNS_MIN 3
#define LOGIN_BYTES_MIN 20  /* a user name in a URL that is as long and mixed is a token */
#define CLOSERS_BYTES_MAX 8 /* quotes, backslashes and brackets between a name and its `=` */

/* Returns 0 behind the end: the text contains no NUL. */
static char byte_at(struct berth_span text, size_t i)
{
    return i < text.len ? text.at[i] : '\0';
}

static struct berth_span rest_of(struct berth_span text, size_t at)
{
    return (struct berth_span){text.at + at, text.len - at};
}

/* --- shapes --- */

static const struct {
    const char *prefix;
    size_t min; /* bytes behind it */
    bool dashes;
} tokens_known[] = {
    {"sk-", 12, true},   {"ghp_", 20, false}, {"gho_", 20, false},        {"ghu_", 20, false},
    {"ghs_", 20, false}, {"ghr_", 20, false}, {"github_pat_", 20, false},
};

static bool is_known_token(struct berth_span text)
{
    for (size_t i = 0; i < sizeof tokens_known / sizeof tokens_known[0]; i++) {
        size_t len = strlen(tokens_known[i].prefix), end = len + tokens_known[i].min;
        if (text.len < end || memcmp(text.at, tokens_known[i].prefix, len) != 0)
            continue;
        while (len < end && is_run(text.at[len]) && (tokens_known[i].dashes || text.at[len] != '-'))
            len++;
        if (len == end)
            return true;
    }
    return false;
}

/* A token does not begin inside a word: task-runner does not contain one. */
static size_t find_token(struct berth_span text)
{
    for (size_t i = 0; i < text.len; i++) {
        char before = i ? text.at[i - 1] : '\0';
        if (!is_letter(before) && !is_digit(before) && is_known_token(rest_of(text, i)))
            return i;
    }
    return text.len;
}

static bool is_mixed(struct berth_span run, size_t min)
{
    bool letters = false, digits = false;
    for (size_t i = 0; i < run.len; i++) {
        letters = letters || is_letter(run.at[i]);
        digits = digits || is_digit(run.at[i]);
    }
    return letters && digits && run.len >= min;
}

/* Returns whether the runs between dots that begin at *at are a JWT, and moves *at behind them.
 * Names with dots (com.example.SomeVeryLongName) are told from a JWT by its first run, which is
 * JSON in base64, or by the digits in every run. */
static bool is_jwt(struct berth_span text, size_t *at)
{
    size_t mixed = 0;
    bool found = false, is_head = false;
    while (is_run(byte_at(text, *at))) {
        struct berth_span run = {text.at + *at, 0};
        for (; is_run(byte_at(text, *at)); ++*at)
            run.len++;
        found = found || (is_head && run.len >= JWT_RUN_BYTES_MIN);
        is_head = run.len >= JWT_RUN_BYTES_MIN && memcmp(run.at, "eyJ", 3) == 0;
        mixed = is_mixed(run, MIXED_RUN_BYTES_MIN) ? mixed + 1 : 0;
        found = found || mixed >= MIXED_RUNS_MIN;
        *at += byte_at(text, *at) == '.';
    }
    return found;
}

static size_t find_jwt(struct berth_span text)
{
    for (size_t from = 0; from < text.len; from++) {
        size_t end = from;
        if (is_jwt(text, &end))
            return from;
        if (end > from)
            from = end - 1;
    }
    return text.len;
}

/* --- values of secret names --- */

/* Skips blanks, and ends of lines behind a backslash. */
static size_t skip_blanks(struct berth_span text, size_t at)
{
    for (;; at++) {
        char c = byte_at(text, at);
        if (c == '\\' && byte_at(text, at + 1) == '\n')
            at++;
        else if (c != ' ' && c != '\t')
            return at;
    }
}

/* Skips =, ==, =>, :=, += and ?=. */
static size_t skip_equals(struct berth_span text, size_t at)
{
    size_t from = at + (is_one_of(byte_at(text, at), ":+?") && byte_at(text, at + 1) == '=');
    size_t end = from;
    while (byte_at(text, end) == '=')
        end++;
    return end == from ? at : end + (byte_at(text, end) == '>');
}

/* Returns whether an option stands where the value of another one would. */
static bool is_option_at(struct berth_span text, size_t at)
{
    size_t end = at;
    while (end < text.len && !is_space(text.at[end]) && !is_quote(text.at[end]))
        end++;
    return berth_redact_is_option((struct berth_span){text.at + at, end - at});
}

/* Returns where the value of the name at [from, end) begins, or the length of the text when no
 * value follows. The name may be in quotes or brackets; so may the value. */
static size_t value_of(struct berth_span text, size_t from, size_t end)
{
    bool is_option = text.at[from] == '-', in_quotes = false;
    size_t at = end;
    for (; at - end < CLOSERS_BYTES_MAX && is_one_of(byte_at(text, at), "\\\"']"); at++)
        in_quotes = in_quotes || is_quote(text.at[at]);
    size_t after = skip_blanks(text, at), value = skip_equals(text, after);
    if (value > after)
        return skip_blanks(text, value);

    bool is_path = from && text.at[from - 1] == '/'; /* /run/secrets:/run is not a header */
    bool is_url = begins_with(rest_of(text, after), "://");
    if (byte_at(text, after) == ':' && !is_path && (in_quotes || (after == at && !is_url)))
        return skip_blanks(text, after + 1);

    if (is_option && in_quotes && byte_at(text, after) == ',') /* ["--token", "x"] */
        value = skip_blanks(text, after + 1);
    else if (!is_option || after == at)
        return text.len;
    return is_option_at(text, value) ? text.len : value;
}

static size_t find_value(struct berth_span text)
{
    for (size_t i = 0; i < text.len; i++) {
        struct berth_span name = {text.at + i, name_len(rest_of(text, i))};
        if (!name.len)
            continue;
        size_t value = value_of(text, i, i + name.len);
        if (value < text.len && berth_redact_is_secret(name))
            return value;
        i += name.len - 1;
    }
    return text.len;
}

/* --- logins in URLs --- */

static bool is_port(const char *at, const char *end)
{
    while (at < end && is_digit(*at))
        at++;
    return at == end;
}

/* Returns where the secret of the login that begins at `from` begins, or NULL. `last` is the last @
 * before `end`. A password that contains a slash is not valid in a URL, but is hidden, too. */
static const char *secret_of_login(const char *from, const char *last, const char *end)
{
    const char *stop = from;
    while (stop < end && !is_one_of(*stop, "/?#<>"))
        stop++;
    size_t len = (size_t)(stop - from);
    const char *colon = memchr(from, ':', len), *at = memrchr(from, '@', len);
    if (!at && colon && *from != '[' && !is_port(colon + 1, stop)) /* [ begins an IPv6 address */
        at = last;
    if (!at)
        return NULL;
    bool has_password = colon && colon < at;
    struct berth_span user = {from, (size_t)((has_password ? colon : at) - from)};
    if (is_mixed(user, LOGIN_BYTES_MIN))
        return from;
    return has_password ? colon + 1 : NULL;
}

/* Returns the first secret of a login in [at, end), which contains no blanks, or NULL. */
static const char *secret_of_logins(const char *at, const char *end)
{
    const char *last = memrchr(at, '@', (size_t)(end - at)), *found = NULL;
    while (last && !found && (at = memmem(at, (size_t)(last - at), "://", 3))) {
        at += strlen("://");
        found = secret_of_login(at, last, end);
    }
    return found;
}

static size_t find_login(struct berth_span text)
{
    for (size_t i = 0, end; i < text.len; i = end + 1) {
        for (end = i; end < text.len; end++)
            if (is_space(text.at[end]) || is_one_of(text.at[end], "\"`"))
                break;
        const char *found = secret_of_logins(text.at + i, text.at + end);
        if (found)
            return (size_t)(found - text.at);
    }
    return text.len;
}

size_t berth_redact_find(struct berth_span text)
{
    size_t (*const finds[])(struct berth_span) = {find_token, find_jwt, find_value, find_login};
    size_t first = text.len;
    for (size_t i = 0; i < sizeof finds / sizeof finds[0]; i++) {
        size_t found = finds[i](text);
        first = found < first ? found : first;
    }
    return first;
}
