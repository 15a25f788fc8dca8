/* SPDX-License-Identifier: Apache-2.0
 * src/base/redact_text.c - finds secrets in one text. One pass from left to right, in linear time:
 * at each byte the rules are tried in the order of their table (names, then shapes), and what is
 * hidden is not looked at again. */
#include "base/redact_text.h"

#include "base/limits.h"

#define JWT_RUN_BYTES_MIN 8    /* of a run, when the first says `eyJ`, which is {" in base64 */
#define MIXED_RUN_BYTES_MIN 16 /* of a run, when only letters and digits in each speak for it */
#define MIXED_RUNS_MIN 3
#define LOGIN_BYTES_MIN 20  /* a user's name in a URL that is as long and mixed is a token */
#define CLOSERS_BYTES_MAX 8 /* quotes, backslashes and brackets between a name and its `=` */

struct scan {
    struct berth_span text;
    struct berth_buf *out;
    size_t at;         /* everything before is dealt with */
    bool is_script;    /* blanks end a value; else it may be all of the word */
    char quote;        /* the open one, or 0 */
    size_t slashes;    /* backslashes before it: \" is a quote in JSON inside of JSON */
    size_t dotted_end; /* the bytes before were looked at as runs between dots */
    size_t no_login;   /* there is no @ up to here */
    bool found_shape;
};

static char byte_at(const struct scan *s, size_t i)
{
    if (i < s->text.len)
        return s->text.at[i];
    return '\0';
}

/* The one before s->at, or 0. */
static char byte_before(const struct scan *s)
{
    if (s->at)
        return s->text.at[s->at - 1];
    return '\0';
}

static struct berth_span rest_of(const struct scan *s, size_t at)
{
    return (struct berth_span){s->text.at + at, s->text.len - at};
}

/* What sh would take for one word, if there are no quotes in it. */
static struct berth_span word_at(const struct scan *s, size_t at)
{
    size_t end = at;
    while (end < s->text.len && !is_space(s->text.at[end]) && !is_quote(s->text.at[end]))
        end++;
    return (struct berth_span){s->text.at + at, end - at};
}

/* Whether a quote behind `slashes` backslashes ends a text that began behind `opened` of them. */
static bool closes(size_t opened, size_t slashes)
{
    return slashes < opened || slashes % (2 * (opened + 1)) == opened;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Keeps track of the open quote. An apostrophe between letters is none. */
static void see_quote(struct scan *s, size_t i)
{
    size_t slashes = 0;
    char c = s->text.at[i];
    while (slashes < i && s->text.at[i - 1 - slashes] == '\\')
        slashes++;
    if (s->quote) {
        if (c == s->quote && closes(s->slashes, slashes))
            s->quote = '\0';
        return;
    }
    if (c == '\'' && i && is_letter(s->text.at[i - 1]) && is_letter(byte_at(s, i + 1)))
        return;
    s->quote = c;
    s->slashes = slashes;
}

static void keep_to(struct scan *s, size_t end)
{
    berth_buf_append(s->out, s->text.at + s->at, end - s->at);
    for (; s->at < end; s->at++)
        if (is_quote(s->text.at[s->at]))
            see_quote(s, s->at);
}

static void hide_to(struct scan *s, size_t end)
{
    berth_buf_puts(s->out, BERTH_REDACTED);
    s->at = end;
}

/* The end of what is in quotes: before the closing one, or of all. */
static size_t quoted_end(const struct scan *s, size_t quote, size_t opened)
{
    size_t slashes = 0;
    for (size_t i = quote + 1; i < s->text.len; i++) {
        char c = s->text.at[i];
        if (c == s->text.at[quote] && closes(opened, slashes))
            return i - smaller(slashes, opened);
        slashes = c == '\\' ? slashes + 1 : 0;
    }
    return s->text.len;
}

/* Behind the bracket that closes the one at `at`. */
static size_t group_end(const struct scan *s, size_t at)
{
    size_t depth = 0, slashes = 0;
    for (size_t i = at; i < s->text.len; i++) {
        char c = s->text.at[i];
        if (is_quote(c))
            i = quoted_end(s, i, slashes) + slashes;
        else if (is_one_of(c, "[{"))
            depth++;
        else if (is_one_of(c, "]}") && --depth == 0)
            return i + 1;
        slashes = c == '\\' ? slashes + 1 : 0;
    }
    return s->text.len;
}

/* The end of a value that stands bare. As in sh, parts of it may be quoted or escaped, unless it is
 * itself inside of quotes. */
static size_t run_end(const struct scan *s, size_t at, const char *stops)
{
    size_t slashes = 0;
    for (; at < s->text.len; at++) {
        char c = s->text.at[at];
        bool escaped = slashes % 2 && !s->quote;
        if ((is_space(c) && (!escaped || c == '\n')) || c == '`' || is_one_of(c, stops))
            return at;
        if (is_quote(c) && s->quote && (c == s->quote ? closes(s->slashes, slashes) : !slashes))
            return at - smaller(slashes, s->slashes);
        if (is_quote(c) && !s->quote && !escaped)
            at = quoted_end(s, at, 0);
        slashes = c == '\\' ? slashes + 1 : 0;
    }
    return s->text.len;
}

/* The end of the line or of the quotes around it, or the next of `stops`. */
static size_t line_end(const struct scan *s, size_t at, const char *stops)
{
    size_t slashes = 0;
    for (; at < s->text.len; at++) {
        char c = s->text.at[at];
        if (c == '\n' || c == '\r' || is_one_of(c, stops))
            return at;
        if (s->quote && c == s->quote && closes(s->slashes, slashes))
            return at - smaller(slashes, s->slashes);
        slashes = c == '\\' ? slashes + 1 : 0;
    }
    return at;
}

/* Blanks, and ends of lines that a backslash takes away. */
static size_t skip_blanks(const struct scan *s, size_t at)
{
    for (;; at++) {
        char c = byte_at(s, at);
        if (c == '\\' && byte_at(s, at + 1) == '\n')
            at++;
        else if (c != ' ' && c != '\t')
            return at;
    }
}

/* --- shapes --- */

static bool is_mixed(struct berth_span run, size_t min)
{
    bool letters = false, digits = false;
    for (size_t i = 0; i < run.len; i++) {
        letters = letters || is_letter(run.at[i]);
        digits = digits || is_digit(run.at[i]);
    }
    return letters && digits && run.len >= min;
}

static const struct {
    const char *prefix;
    size_t min; /* bytes behind it */
    bool dashes;
} tokens_known[] = {
    {"sk-", 12, true},   {"ghp_", 20, false}, {"gho_", 20, false},        {"ghu_", 20, false},
    {"ghs_", 20, false}, {"ghr_", 20, false}, {"github_pat_", 20, false},
};

/* Where the token that begins here ends, or 0. Not inside of a word: task-runner is none. */
static size_t token_end(const struct scan *s)
{
    char before = byte_before(s);
    if (is_letter(before) || is_digit(before))
        return 0;
    for (size_t i = 0; i < sizeof tokens_known / sizeof tokens_known[0]; i++) {
        size_t len = strlen(tokens_known[i].prefix), end = s->at + len;
        if (s->text.len - s->at < len ||
            memcmp(s->text.at + s->at, tokens_known[i].prefix, len) != 0)
            continue;
        while (end < s->text.len && is_run(s->text.at[end]) &&
               (tokens_known[i].dashes || s->text.at[end] != '-'))
            end++;
        if (end - s->at - len >= tokens_known[i].min)
            return end;
    }
    return 0;
}

/* Where the JWT that begins here ends, or 0. Names with dots (com.example.SomeVeryLongName) are
 * told from one by its first run, which is JSON in base64, or by the digits in every run. */
static size_t jwt_end(struct scan *s)
{
    size_t i = s->at, mixed = 0;
    bool found = false, is_head = false;
    if (i < s->dotted_end)
        return 0;
    while (i < s->text.len && is_run(s->text.at[i])) {
        struct berth_span run = {s->text.at + i, 0};
        while (i + run.len < s->text.len && is_run(run.at[run.len]))
            run.len++;
        i += run.len;
        found = found || (is_head && run.len >= JWT_RUN_BYTES_MIN);
        is_head = run.len >= JWT_RUN_BYTES_MIN && memcmp(run.at, "eyJ", 3) == 0;
        mixed = is_mixed(run, MIXED_RUN_BYTES_MIN) ? mixed + 1 : 0;
        found = found || mixed >= MIXED_RUNS_MIN;
        i += byte_at(s, i) == '.';
    }
    s->dotted_end = i;
    return found ? i : 0;
}

static bool hide_shape(struct scan *s)
{
    size_t end = token_end(s);
    if (!end)
        end = jwt_end(s);
    if (!end)
        return false;
    s->found_shape = true;
    hide_to(s, end);
    return true;
}

/* --- names and their values --- */

enum separator {
    NO_SEPARATOR,
    EQUALS,
    COLON,
    BLANK, /* an option's */
};

struct field {
    struct berth_span name;
    size_t from;    /* where the name begins, with its dashes */
    size_t value;   /* where the value would */
    char before;    /* the byte before the name, or 0 */
    bool in_quotes; /* the name is: JSON, for one */
    enum separator separator;
};

static size_t read_equals(const struct scan *s, size_t at)
{
    if (is_one_of(byte_at(s, at), ":+?") && byte_at(s, at + 1) == '=')
        at++;
    size_t end = at;
    while (byte_at(s, end) == '=')
        end++;
    return end > at && byte_at(s, end) == '>' ? end + 1 : end == at ? 0 : end;
}

static void read_separator(const struct scan *s, struct field *f)
{
    size_t name_end = f->from + f->name.len, at = name_end;
    for (; at - name_end < CLOSERS_BYTES_MAX && is_one_of(byte_at(s, at), "\\\"']"); at++)
        f->in_quotes = f->in_quotes || is_quote(s->text.at[at]);
    bool is_option = f->name.at[0] == '-';
    size_t after = skip_blanks(s, at), equals_end = read_equals(s, after);
    bool is_url = !f->in_quotes && begins_with(rest_of(s, after), "://");
    if (equals_end) {
        f->separator = EQUALS;
        f->value = skip_blanks(s, equals_end);
    } else if (byte_at(s, after) == ':' && (f->in_quotes || after == at) && !is_url &&
               f->before != '/') { /* /run/secrets:/run is no header */
        f->separator = COLON;
        f->value = skip_blanks(s, after + 1);
    } else if (is_option && f->in_quotes && byte_at(s, after) == ',') { /* ["--token", "x"] */
        f->separator = BLANK;
        f->value = skip_blanks(s, after + 1);
    } else if (is_option && after > at) {
        f->separator = BLANK;
        f->value = after;
    }
}

static bool read_field(const struct scan *s, struct field *f)
{
    if (!is_name(s->text.at[s->at]) || is_name(byte_before(s)))
        return false;
    *f = (struct field){.from = s->at, .before = byte_before(s)};
    f->name = (struct berth_span){s->text.at + s->at, name_len(rest_of(s, s->at))};
    read_separator(s, f);
    return f->separator != NO_SEPARATOR && berth_redact_is_secret(f->name);
}

/* Behind `Bearer ` and the like, when a value follows. */
static size_t skip_scheme(const struct scan *s, size_t at, size_t end)
{
    size_t word_end = at;
    while (word_end < end && is_letter(s->text.at[word_end]))
        word_end++;
    size_t value = skip_blanks(s, word_end);
    if (value == word_end || value >= end || is_space(s->text.at[value]) ||
        !berth_redact_is_scheme((struct berth_span){s->text.at + at, word_end - at}))
        return at;
    return berth_redact_is_option(word_at(s, value)) ? at : value;
}

/* A run, and the next one as long as there is something in them that wants a value itself. */
static void hide_runs(struct scan *s, const struct field *f)
{
    const char *stops = is_one_of(f->before, "?&") ? "&#" : f->in_quotes ? ",}]" : "";
    size_t end = s->at, from;
    if (is_one_of(byte_at(s, end), "[{") && f->separator != BLANK)
        end = group_end(s, end);
    do {
        from = end;
        end = run_end(s, from, stops);
        if (!berth_redact_wants_value((struct berth_span){s->text.at + from, end - from}))
            break;
        from = end;
        end = skip_blanks(s, end);
    } while (end > from);
    if (end > s->at)
        hide_to(s, end);
}

/* What stands in quotes, and what sh would add to it. */
static void hide_quoted(struct scan *s, const struct field *f, size_t quote)
{
    size_t opened = quote - s->at, end = quoted_end(s, quote, opened);
    size_t after = smaller(end + opened + 1, s->text.len), added = after;
    if (!s->quote && f->separator != COLON && !is_one_of(byte_at(s, after), ",;)]}>&|"))
        added = run_end(s, after, "");
    keep_to(s, skip_scheme(s, quote + 1, end));
    if (end > s->at || added > after)
        hide_to(s, end);
    keep_to(s, after);
    s->at = added;
}

/* The whole rest of a word; quotes around it stay. */
static void hide_rest(struct scan *s)
{
    size_t end = s->text.len;
    char first = byte_at(s, s->at);
    if (is_quote(first) && end - s->at >= 2 && s->text.at[end - 1] == first) {
        keep_to(s, s->at + 1);
        end--;
    }
    keep_to(s, skip_scheme(s, s->at, end));
    if (end > s->at)
        hide_to(s, end);
}

/* Whether the value goes on to the end of the line: a header's, which begins where nothing but a
 * header would, or is known by its name. */
static bool is_header(const struct field *f)
{
    if (f->separator != COLON || f->in_quotes)
        return false;
    return !f->before || is_one_of(f->before, "\n=\"'") || ends_with(f->name, "cookie") ||
           ends_with(f->name, "authorization");
}

/* Whether the quote at `quote` ends what is open: "token=" says nothing. But "token="x does, and so
 * does what an apostrophe made us misread. */
static bool ends_here(const struct scan *s, const struct field *f, size_t quote)
{
    char next = byte_at(s, quote + 1);
    return !f->in_quotes && s->text.at[quote] == s->quote && closes(s->slashes, quote - s->at) &&
           (!next || is_space(next) || is_one_of(next, ",;:)]}>&|"));
}

static void hide_value(struct scan *s, const struct field *f)
{
    size_t quote = s->at;
    while (byte_at(s, quote) == '\\')
        quote++;
    if (is_quote(byte_at(s, quote))) {
        if (!ends_here(s, f, quote))
            hide_quoted(s, f, quote);
        return;
    }
    keep_to(s, skip_scheme(s, s->at, s->text.len));
    /* In lists of settings blanks belong to the value: a=b;password=c d */
    bool is_setting = f->separator == EQUALS && !s->is_script && is_one_of(f->before, ";\n");
    if (!is_setting && !is_header(f)) {
        hide_runs(s, f);
        return;
    }
    size_t end = line_end(s, s->at, is_setting && f->before == ';' ? ";" : "");
    if (end > s->at)
        hide_to(s, end);
}

static bool hide_named(struct scan *s)
{
    struct field f;
    if (!read_field(s, &f))
        return false;
    (void)hide_shape(s); /* a name may be a secret itself, and chance put `key` into it */
    keep_to(s, f.value);
    if (s->at == s->text.len || (f.separator == BLANK && berth_redact_is_option(word_at(s, s->at))))
        return true;
    if (f.separator == EQUALS && f.from == 0 && !s->is_script)
        hide_rest(s);
    else
        hide_value(s, &f);
    return true;
}

/* --- URLs --- */

/* The @ behind a password with a slash in it, which no URL may have and some do; 0: none. */
static size_t far_login_end(struct scan *s, size_t from)
{
    size_t i = from < s->no_login ? s->no_login : from;
    for (; i < s->text.len && !is_space(s->text.at[i]) && !is_one_of(s->text.at[i], "\"'`"); i++)
        if (s->text.at[i] == '@')
            return i;
    s->no_login = i;
    return 0;
}

/* The @ that ends the login which begins at `from`; 0: there is none. */
static size_t login_end(struct scan *s, size_t from)
{
    size_t i = from, found = 0, colon = 0;
    bool is_port = true; /* what follows the colon */
    for (; i < s->text.len; i++) {
        char c = s->text.at[i];
        if (is_space(c) || is_one_of(c, "\"`/?#<>") || (c == '\'' && s->quote == c))
            break;
        if (c == '@')
            found = i;
        if (colon && !is_digit(c))
            is_port = false;
        if (c == ':')
            colon = i;
    }
    bool is_odd = colon && !is_port && byte_at(s, from) != '['; /* which is an address of IPv6 */
    return !found && is_odd && is_one_of(byte_at(s, i), "/?#") ? far_login_end(s, i) : found;
}

static bool hide_login(struct scan *s)
{
    if (s->text.at[s->at] != ':' || !begins_with(rest_of(s, s->at), "://"))
        return false;
    keep_to(s, s->at + strlen("://"));
    size_t from = s->at, end = login_end(s, from);
    if (!end)
        return true;
    const char *colon = memchr(s->text.at + from, ':', end - from);
    size_t user_end = colon ? (size_t)(colon - s->text.at) : end;
    if (is_mixed((struct berth_span){s->text.at + from, user_end - from}, LOGIN_BYTES_MIN))
        hide_to(s, user_end);
    if (colon) {
        keep_to(s, user_end + 1);
        if (end > s->at)
            hide_to(s, end);
    }
    return true;
}

bool berth_redact_text(struct berth_span text, bool is_script, struct berth_buf *out)
{
    struct scan s = {.text = text, .out = out, .is_script = is_script};
    while (s.at < text.len)
        if (!hide_login(&s) && !hide_named(&s) && !hide_shape(&s))
            keep_to(&s, s.at + 1);
    return s.found_shape;
}
