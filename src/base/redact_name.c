/* SPDX-License-Identifier: Apache-2.0
 * src/base/redact_name.c - tells by a name or word whether a secret follows. */
#include "base/redact_text.h"

static const char *const stems[] = {
    "secret",    "password",   "passwd",     "passphrase",       "authorization",
    "cookie",    "credential", "creds",      "bearer",           "jwt",
    "apikey",    "accesskey",  "privatekey", "connectionstring", "keypass",
    "storepass", "sshpass",    NULL};
static const char *const no_keys[] = {"turkey", "donkey",  "hockey", "jockey", "whiskey",
                                      "hotkey", "turnkey", "lackey", "mickey", NULL};
static const char *const counts[] = {"max",   "min",    "num",   "count",
                                     "limit", "budget", "total", NULL};
static const char *const abouts[] = {"file", "path",   "dir",    "name",   "type",  "mode",
                                     "size", "bits",   "length", "count",  "limit", "budget",
                                     "ttl",  "format", "ref",    "repeat", NULL};
static const char *const passes[] = {"pass", "pw", "pwd", NULL};

static bool equals(struct berth_span text, const char *lower)
{
    return text.len == strlen(lower) && begins_with(text, lower);
}

static bool ends_with(struct berth_span text, const char *lower)
{
    size_t len = strlen(lower);
    return text.len >= len && equals((struct berth_span){text.at + text.len - len, len}, lower);
}

/* `words` ends with NULL. */
static bool is_among(struct berth_span text, const char *const *words)
{
    while (*words && !equals(text, *words))
        words++;
    return *words;
}

/* Returns whether the letters of the stem begin here; other bytes may be between them. */
static bool is_stem_at(const char *at, const char *end, const char *stem)
{
    for (; *stem && at < end; at++) {
        if (!is_letter(*at))
            continue;
        if (!begins_with((struct berth_span){at, 1}, (const char[]){*stem, '\0'}))
            return false;
        stem++;
    }
    return !*stem;
}

static bool has_stem(struct berth_span name)
{
    for (size_t i = 0; i < name.len; i++)
        for (const char *const *stem = stems; *stem; stem++)
            if (is_letter(name.at[i]) && is_stem_at(name.at + i, name.at + name.len, *stem))
                return true;
    return false;
}

/* Returns whether a new word begins at this letter (apiKey, APIKey). The s of APIKEYs is a plural.
 */
static bool is_hump(struct berth_span name, size_t i)
{
    if (!is_upper(name.at[i]))
        return false;
    if (is_lower(name.at[i - 1]))
        return true;
    bool low = i + 1 < name.len && is_lower(name.at[i + 1]);
    bool plural = low && name.at[i + 1] == 's' && (i + 2 == name.len || !is_letter(name.at[i + 2]));
    return low && !plural;
}

static bool next_word(struct berth_span name, size_t *at, struct berth_span *out)
{
    while (*at < name.len && !is_letter(name.at[*at]))
        ++*at;
    if (*at == name.len)
        return false;
    size_t end = *at + 1;
    while (end < name.len && is_letter(name.at[end]) && !is_hump(name, end))
        end++;
    *out = (struct berth_span){name.at + *at, end - *at};
    *at = end;
    return true;
}

static bool is_key(struct berth_span word)
{
    if (ends_with(word, "s"))
        word.len--;
    return ends_with(word, "key") && !ends_with(word, "monkey") && !is_among(word, no_keys);
}

static bool is_token(struct berth_span word, bool *plural)
{
    for (; word.len >= strlen("token"); word.at++, word.len--) {
        struct berth_span rest = {word.at + strlen("token"), word.len - strlen("token")};
        if (!begins_with(word, "token") || begins_with(rest, "iz") || begins_with(rest, "is"))
            continue;
        *plural = equals(rest, "s");
        return true;
    }
    return false;
}

bool berth_redact_is_secret(struct berth_span name)
{
    struct berth_span word, last = {0};
    bool found = false, token = false, tokens = false, counted = false, plural;
    int words = 0;
    for (size_t at = 0; next_word(name, &at, &word); last = word, words++) {
        counted = counted || is_among(word, counts) || begins_with(word, "max");
        found = found || is_key(word);
        plural = false;
        if (is_token(word, &plural))
            *(plural ? &tokens : &token) = true;
    }
    if (!words || equals(last, "stdin"))
        return false;
    if (has_stem(name) || (is_among(last, passes) && !(words == 1 && equals(last, "pwd"))))
        return true;
    return (found || token || (tokens && !counted)) && !is_among(last, abouts);
}

/* --- words of a command line --- */

static const char *const schemes[] = {"bearer",    "basic", "token", "digest",
                                      "negotiate", "bot",   NULL};

bool berth_redact_is_option(struct berth_span word)
{
    if (word.len < 2 || word.at[0] != '-')
        return false;
    if (word.len == 2)
        return is_letter(word.at[1]);
    if (word.at[1] != '-' || !is_lower(word.at[2]))
        return false;
    size_t i = 2;
    while (i < word.len && (is_lower(word.at[i]) || word.at[i] == '-'))
        i++;
    return i == word.len || word.at[i] == '=';
}

bool berth_redact_wants_value(struct berth_span word)
{
    if (word.len && word.at[0] == '-' && name_len(word) == word.len)
        return berth_redact_is_secret(word);
    if (!word.len || word.at[word.len - 1] != ':')
        return false;
    size_t from = word.len - 1;
    while (from && is_name(word.at[from - 1]))
        from--;
    return berth_redact_is_secret((struct berth_span){word.at + from, word.len - 1 - from});
}

bool berth_redact_is_scheme(struct berth_span word)
{
    return is_among(word, schemes);
}
