/* SPDX-License-Identifier: Apache-2.0
 * src/store/request.c - SQL of requests. */
#include "store/request.h"

#define COLUMNS "id, caller, key, digest, owner, status, answer, created_at"

struct reader {
    struct berth_arena *arena;
    struct berth_request_row *out;
};

static int on_request(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    struct reader *reader = ctx;
    struct berth_arena *arena = reader->arena;
    struct berth_request_row *r = berth_arena_alloc(arena, sizeof *r);
    if (!r)
        return berth_arena_check(arena, err);
    *r = (struct berth_request_row){.id = berth_row_text(arena, &row[0]),
                                    .caller = berth_row_text(arena, &row[1]),
                                    .key = berth_row_text(arena, &row[2]),
                                    .digest = berth_row_text(arena, &row[3]),
                                    .owner = berth_row_text(arena, &row[4]),
                                    .status = row[5].number,
                                    .answer = berth_row_text(arena, &row[6]),
                                    .created_at_ms = row[7].number};
    reader->out = r;
    return berth_arena_check(arena, err);
}

int berth_request_insert(struct berth_db *db, const struct berth_request_row *r,
                         struct berth_error *err)
{
    return berth_db_exec(db,
                         "INSERT INTO requests (" COLUMNS
                         ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
                         " ON CONFLICT DO NOTHING",
                         NULL, NULL, err, berth_text(r->id), berth_text(r->caller),
                         berth_text(r->key), berth_text(r->digest), berth_text(r->owner),
                         berth_int(r->status), berth_text(r->answer), berth_int(r->created_at_ms));
}

int berth_request_load(struct berth_db *db, struct berth_arena *arena, const char *caller,
                       const char *key, struct berth_request_row **out, struct berth_error *err)
{
    struct reader reader = {.arena = arena};
    int rc = berth_db_exec(db,
                           "SELECT " COLUMNS " FROM requests WHERE caller = $1 AND key = $2"
                           " {for_update}",
                           on_request, &reader, err, berth_text(caller), berth_text(key));
    *out = reader.out;
    return rc;
}

int berth_request_finish(struct berth_db *db, const char *id, int64_t status, const char *answer,
                         struct berth_error *err)
{
    return berth_db_exec(db, "UPDATE requests SET status = $2, answer = $3 WHERE id = $1", NULL,
                         NULL, err, berth_text(id), berth_int(status), berth_text(answer));
}

int berth_request_take_over(struct berth_db *db, const char *id, const char *new_id,
                            const char *owner, struct berth_error *err)
{
    return berth_db_exec(db, "UPDATE requests SET id = $2, owner = $3 WHERE id = $1", NULL, NULL,
                         err, berth_text(id), berth_text(new_id), berth_text(owner));
}

int berth_request_delete(struct berth_db *db, const char *id, struct berth_error *err)
{
    return berth_db_exec(db, "DELETE FROM requests WHERE id = $1", NULL, NULL, err, berth_text(id));
}

int berth_request_delete_before(struct berth_db *db, int64_t created_at_ms, struct berth_error *err)
{
    return berth_db_exec(db, "DELETE FROM requests WHERE created_at < $1 AND status <> 0", NULL,
                         NULL, err, berth_int(created_at_ms));
}
