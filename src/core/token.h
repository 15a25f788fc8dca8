/* SPDX-License-Identifier: Apache-2.0
 * src/core/token.h - what the daemon needs besides berth/token.h. */
#ifndef BERTH_CORE_TOKEN_H
#define BERTH_CORE_TOKEN_H

#include "base/json.h"
#include "core/berth.h"
#include "store/token.h"

#define BERTH_TOKEN_TEXT_SIZE 104 /* "berth_", the id, "_", 32 random bytes; all in hex */

/* Returns whether the text has the form of a token. Does not use the store. */
bool berth_token_well_formed(const char *text);
/* Loads the token's row. UNAUTHORIZED: the token is unknown, revoked or expired, or its run has
 * ended; the message is the same for all of these. Records the time of use, at most once a minute.
 */
int berth_token_check(struct berth *b, struct berth_arena *arena, const char *text,
                      struct berth_token **out, struct berth_error *err);
/* Sets *out to whether the token with this id is still valid. */
int berth_token_alive(struct berth *b, const char *id, bool *out, struct berth_error *err);
/* Sets *out to whether the store has a valid token. */
int berth_token_exists(struct berth *b, bool *out, struct berth_error *err);
void berth_token_json(struct berth_json_writer *w, const struct berth_token *token);
void berth_token_fields(struct berth_json_writer *w, const struct berth_token *token);

/* "environments:manage" ..., in the order of their bits, closed by NULL. */
extern const char *const berth_permissions[];
#endif
