/* SPDX-License-Identifier: Apache-2.0
 * src/store/token.c - SQL of tokens. */
#include "store/token.h"

static const char *const kind_names[] = {"operator", "agent", "run", NULL};
const struct berth_enum berth_token_kinds = {"token kind", kind_names};

#define COLUMNS                                                                                    \
    "id, name, kind, company_id, permissions, agent_id, run_id, lease_id, hash, created_at,"       \
    " expires_at, revoked_at, last_used_at"
/* True unless the run of the token has ended or its row is deleted. */
#define LASTS                                                                                      \
    "(run_id IS NULL OR EXISTS (SELECT 1 FROM runs WHERE " BERTH_SAME_ID(                          \
        "runs.id",                                                                                 \
        "tokens.run_id") " AND runs.status IN ('queued', 'running', 'scheduled_retry')))"
#define SELECT "SELECT " COLUMNS ", CASE WHEN " LASTS " THEN 0 ELSE 1 END FROM tokens"
#define OF_USE "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $1) AND " LASTS

struct reader {
    struct berth_arena *arena;
    struct berth_list *out;
};

static int on_token(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    struct reader *reader = ctx;
    struct berth_arena *arena = reader->arena;
    struct berth_token *t = berth_arena_alloc(arena, sizeof *t);
    if (!t || !berth_list_add(reader->out, arena, t))
        return berth_arena_check(arena, err);
    int kind;
    int rc = berth_enum_read(&berth_token_kinds, &row[2], &kind, err);
    if (rc < 0)
        return rc;
    *t = (struct berth_token){.id = berth_row_text(arena, &row[0]),
                              .name = berth_row_text(arena, &row[1]),
                              .kind = (enum berth_token_kind)kind,
                              .company_id = berth_row_text(arena, &row[3]),
                              .permissions = (unsigned)row[4].number,
                              .agent_id = berth_row_text(arena, &row[5]),
                              .run_id = berth_row_text(arena, &row[6]),
                              .lease_id = berth_row_text(arena, &row[7]),
                              .hash = berth_row_text(arena, &row[8]),
                              .created_at_ms = row[9].number,
                              .expires_at_ms = row[10].number,
                              .revoked_at_ms = row[11].number,
                              .last_used_at_ms = row[12].number,
                              .run_ended = row[13].number != 0};
    return berth_arena_check(arena, err);
}

int berth_token_insert(struct berth_db *db, const struct berth_token *t, struct berth_error *err)
{
    return berth_db_exec(
        db,
        "INSERT INTO tokens (" COLUMNS ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,"
        " $12, $13)",
        NULL, NULL, err, berth_text(t->id), berth_text(t->name), berth_text(kind_names[t->kind]),
        berth_text(t->company_id), berth_int(t->permissions), berth_text(t->agent_id),
        berth_text(t->run_id), berth_text(t->lease_id), berth_text(t->hash),
        berth_int(t->created_at_ms), berth_int_or_null(t->expires_at_ms),
        berth_int_or_null(t->revoked_at_ms), berth_int_or_null(t->last_used_at_ms));
}

int berth_token_load(struct berth_db *db, struct berth_arena *arena, const char *id,
                     struct berth_token **out, struct berth_error *err)
{
    struct berth_list list = {0};
    struct reader reader = {.arena = arena, .out = &list};
    int rc = berth_db_exec(db, SELECT " WHERE id = $1", on_token, &reader, err, berth_text(id));
    *out = list.count ? list.items[0] : NULL;
    return rc;
}

#define PAGE                                                                                       \
    " AND (CAST($2 AS TEXT) IS NULL OR company_id = $2)"                                           \
    " AND (CAST($3 AS TEXT) IS NULL OR id < $3) ORDER BY id DESC LIMIT $4"

int berth_token_select(struct berth_db *db, struct berth_arena *arena,
                       const struct berth_token_filter *filter, int64_t now_ms,
                       struct berth_list *out, struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    const char *sql =
        filter->all ? SELECT " WHERE CAST($1 AS {bigint}) > 0" PAGE : SELECT " WHERE " OF_USE PAGE;
    return berth_db_exec(db, sql, on_token, &reader, err, berth_int(now_ms),
                         berth_text(filter->company_id), berth_text(filter->before),
                         berth_int(filter->limit));
}

int berth_token_set_revoked(struct berth_db *db, const char *id, int64_t now_ms,
                            struct berth_error *err)
{
    return berth_db_exec(db,
                         "UPDATE tokens SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL",
                         NULL, NULL, err, berth_text(id), berth_int(now_ms));
}

int berth_token_set_used(struct berth_db *db, const char *id, int64_t now_ms,
                         struct berth_error *err)
{
    return berth_db_exec(db, "UPDATE tokens SET last_used_at = $2 WHERE id = $1", NULL, NULL, err,
                         berth_text(id), berth_int(now_ms));
}

int berth_token_count(struct berth_db *db, int64_t now_ms, int64_t *out, struct berth_error *err)
{
    *out = 0;
    return berth_db_exec(db, "SELECT count(*) FROM tokens WHERE " OF_USE, berth_row_int, out, err,
                         berth_int(now_ms));
}
