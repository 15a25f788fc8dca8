/* SPDX-License-Identifier: Apache-2.0
 * src/store/token.h - rows of tokens. */
#ifndef BERTH_STORE_TOKEN_H
#define BERTH_STORE_TOKEN_H

#include <berth/token.h>

#include "store/row.h"

extern const struct berth_enum berth_token_kinds;

struct berth_token {
    const char *id, *name;
    enum berth_token_kind kind;
    const char *company_id; /* NULL: all companies */
    unsigned permissions;
    const char *agent_id, *run_id, *lease_id; /* or NULL */
    const char *hash;                         /* of the random part, in hex */
    int64_t created_at_ms, expires_at_ms, revoked_at_ms, last_used_at_ms; /* 0: never */
    bool run_ended; /* or its row is deleted */
};

int berth_token_insert(struct berth_db *db, const struct berth_token *token,
                       struct berth_error *err);
/* *out is NULL when there is no such row. */
int berth_token_load(struct berth_db *db, struct berth_arena *arena, const char *id,
                     struct berth_token **out, struct berth_error *err);
/* Lists struct berth_token, newest first: those that are valid at `now_ms`, or all. */
int berth_token_select(struct berth_db *db, struct berth_arena *arena,
                       const struct berth_token_filter *filter, int64_t now_ms,
                       struct berth_list *out, struct berth_error *err);
/* Sets revoked_at unless it is set. */
int berth_token_set_revoked(struct berth_db *db, const char *id, int64_t now_ms,
                            struct berth_error *err);
int berth_token_set_used(struct berth_db *db, const char *id, int64_t now_ms,
                         struct berth_error *err);
/* Counts the tokens that are valid at `now_ms`. */
int berth_token_count(struct berth_db *db, int64_t now_ms, int64_t *out, struct berth_error *err);
#endif
