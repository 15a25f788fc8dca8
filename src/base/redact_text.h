/* SPDX-License-Identifier: Apache-2.0
 * src/base/redact_text.h - what redact.c, redact_name.c and redact_text.c share. Only they and
 * their test include it. */
#ifndef BERTH_BASE_REDACT_TEXT_H
#define BERTH_BASE_REDACT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct berth_span {
    const char *at;
    size_t len;
};

/* --- names and words: redact_name.c --- */

/* Returns whether a value of this name is a secret. Case does not matter. A name is split into
 * words at a hump (apiKey, APIKey), a digit or any other byte that is not a letter.
 *   - secret, password, passwd, passphrase, authorization, cookie, credential, creds, bearer, jwt,
 *     apikey, accesskey, privatekey, connectionstring and some *pass count anywhere in the name,
 *     also with `-` or `_` in between;
 *   - key(s) counts as a word or the end of one (API_KEY, sshkey), but not in English words that
 *     end so (MONKEY, hotkey), and not at the beginning of one (KEYBOARD, KEYFILE);
 *   - token(s) counts anywhere in a word except in tokenize and its forms, and not where tokens are
 *     counted (MAX_TOKENS);
 *   - pass, pw, pwd count as the last word, except PWD alone.
 * A last word that describes a key or token makes it harmless (key-repeat, KEY_FILE, TOKEN_LIMIT).
 * `stdin` as the last word makes every name harmless: --password-stdin takes no value. */
bool berth_redact_is_secret(struct berth_span name);
/* Returns whether a secret follows this word of a command: --token, X-Api-Key: */
bool berth_redact_wants_value(struct berth_span word);
/* Returns whether the word is an option like `-v` or `--verbose`. A secret may begin with a dash,
 * too, so other words with a dash are not options. */
bool berth_redact_is_option(struct berth_span word);
/* Returns whether the word is Bearer, Basic or the like: the secret is the next word. */
bool berth_redact_is_scheme(struct berth_span word);

/* --- texts: redact_text.c --- */

/* Returns where the first secret of the text begins, or its length when it contains none. The text
 * contains no NUL. Takes linear time. */
size_t berth_redact_find(struct berth_span text);

/* --- bytes, in every locale the same --- */

static inline bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static inline bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static inline bool is_letter(char c)
{
    return is_upper(c) || is_lower(c);
}

static inline bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool is_run(char c)
{
    return is_letter(c) || is_digit(c) || c == '_' || c == '-';
}

static inline bool is_name(char c)
{
    return is_run(c) || c == '.';
}

static inline bool is_quote(char c)
{
    return c == '"' || c == '\'';
}

static inline bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static inline bool is_one_of(char c, const char *set)
{
    return c && strchr(set, c);
}

static inline bool begins_with(struct berth_span text, const char *lower)
{
    size_t i = 0;
    for (; lower[i]; i++)
        if (i == text.len || (is_upper(text.at[i]) ? text.at[i] + 32 : text.at[i]) != lower[i])
            return false;
    return true;
}

/* Returns the length of the name that the text begins with. */
static inline size_t name_len(struct berth_span text)
{
    size_t len = 0;
    while (len < text.len && is_name(text.at[len]))
        len++;
    return len;
}
#endif
