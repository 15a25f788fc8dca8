/* SPDX-License-Identifier: Apache-2.0
 * src/core/token.h - what the daemon needs besides berth/token.h. */
#ifndef BERTH_CORE_TOKEN_H
#define BERTH_CORE_TOKEN_H

#include "base/json.h"
#include "core/berth.h"
#include "store/token.h"

#define BERTH_TOKEN_TEXT_SIZE 104 /* "berth_", the id, "_", 32 random bytes; all in hex */

/* Could the text be a token at all? Nobody has to look it up if not. */
bool berth_token_well_formed(const char *text);
/* Whose it is. UNAUTHORIZED: nobody's, revoked, expired, or its run is over; the text is the same
 * for all. That it was used is written down, once a minute. */
int berth_token_check(struct berth *b, struct berth_arena *arena, const char *text,
                      struct berth_token **out, struct berth_error *err);
/* Is the one of this id still of use? */
int berth_token_alive(struct berth *b, const char *id, bool *out, struct berth_error *err);
/* Is there one that lets somebody in? */
int berth_token_exists(struct berth *b, bool *out, struct berth_error *err);
void berth_token_json(struct berth_json_writer *w, const struct berth_token *token);
void berth_token_fields(struct berth_json_writer *w, const struct berth_token *token);

/* "environments:manage" ..., in the order of their bits, closed by NULL. */
extern const char *const berth_permissions[];
#endif
