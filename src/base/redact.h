/* SPDX-License-Identifier: Apache-2.0
 * src/base/redact.h - what may be shown of commands and environments: BERTH_REDACTED stands where a
 * secret stood. It goes by names and shapes and so is a second line of defence; values that are
 * known to be secret are masked by crypto/mask.h. In doubt a value is hidden. */
#ifndef BERTH_BASE_REDACT_H
#define BERTH_BASE_REDACT_H

#include <stdbool.h>

#include <berth/common.h>

/* Does what stands under this name count as a secret? Case never matters, and a name is read as
 * words, which end at a hump (apiKey, APIKey), a digit or any other byte that is no letter.
 *   - secret, password, passwd, passphrase, authorization, cookie, credential, creds, bearer, jwt,
 *     apikey, accesskey, privatekey, connectionstring and some *pass: anywhere in the name, also
 *     with `-` or `_` in between;
 *   - key(s): a word or the end of one (API_KEY, sshkey), but no English word that only ends so
 *     (MONKEY, hotkey); not the beginning of one (KEYBOARD, KEYFILE);
 *   - token(s): anywhere in a word but in tokenize and its kin, and not where tokens are counted
 *     (MAX_TOKENS);
 *   - pass, pw, pwd: as the last word, but not PWD alone.
 * A last word that only speaks about a key or token takes the secrecy off it (key-repeat, KEY_FILE,
 * TOKEN_LIMIT), and `stdin` takes it off everything: --password-stdin has no value. */
bool berth_redact_is_secret_name(const char *name);

/* One line for people, quoted as sh wants it. Hidden are, in every word and in texts inside of
 * words (scripts, JSON, URLs): values of secret names after `=`, `:` or as an option's next word;
 * what follows Bearer and its like there; passwords in URLs; and what looks like a token of OpenAI
 * or GitHub, or like a JWT. NULL: no memory, which the arena remembers. */
const char *berth_redact_command(struct berth_arena *arena, const char *const *argv);

/* "NAME=value" with the whole value hidden when the name is secret or a token's shape is in it; in
 * other values what berth_redact_command hides inside of a word. Not quoted. NULL: no memory. */
const char *berth_redact_variable(struct berth_arena *arena, const char *pair);
#endif
