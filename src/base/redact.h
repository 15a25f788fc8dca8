/* SPDX-License-Identifier: Apache-2.0
 * src/base/redact.h - hides secrets in the words of a command that is stored and shown. It goes by
 * names and shapes, so it is a second line of defence: crypto/mask.h masks values that are known to
 * be secret. When in doubt it hides. */
#ifndef BERTH_BASE_REDACT_H
#define BERTH_BASE_REDACT_H

#include <berth/common.h>

/* Returns the words of argv in one line, each quoted for sh. A word is shown up to its first
 * secret, and BERTH_REDACTED replaces the rest of that word: all of it, because a script, a JSON
 * text or a URL is not parsed. No quote, blank or newline ends a secret: `x password="two
 * words" y` is shown as `x password=***REDACTED***`. A secret is
 *   - the value after a secret name and `=` or `:`, or after an option of such a name and a blank;
 *   - a password in a URL, and a user name in a URL that is as long and mixed as a token;
 *   - a token of OpenAI or GitHub, or a JWT.
 * The whole word is hidden after an option (--token), a header (X-Api-Key:) or an assignment
 * (API_KEY =) that is a word of its own, unless the word is an option; when it is Bearer or another
 * scheme, the next word is hidden, too.
 * Takes time linear in the length of argv. Returns NULL and sets arena->failed when memory runs
 * out. */
const char *berth_redact_command(struct berth_arena *arena, const char *const *argv);
#endif
