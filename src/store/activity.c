/* SPDX-License-Identifier: Apache-2.0
 * src/store/activity.c - SQL of the activity log. */
#include "store/activity.h"

struct reader {
    struct berth_arena *arena;
    struct berth_list *out;
};

#define COLUMNS                                                                                    \
    "id, company_id, actor_type, actor_id, action, entity_type, entity_id, agent_id, run_id,"      \
    " details, created_at"

static int on_activity(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    struct reader *reader = ctx;
    struct berth_arena *arena = reader->arena;
    struct berth_activity *a = berth_arena_alloc(arena, sizeof *a);
    if (!a || !berth_list_add(reader->out, arena, a))
        return berth_arena_check(arena, err);
    a->id = row[0].number;
    a->company_id = berth_row_text(arena, &row[1]);
    a->actor_type = berth_row_text(arena, &row[2]);
    a->actor_id = berth_row_text(arena, &row[3]);
    a->action = berth_row_text(arena, &row[4]);
    a->entity_type = berth_row_text(arena, &row[5]);
    a->entity_id = berth_row_text(arena, &row[6]);
    a->agent_id = berth_row_text(arena, &row[7]);
    a->run_id = berth_row_text(arena, &row[8]);
    a->details_json = berth_row_text(arena, &row[9]);
    a->created_at_ms = row[10].number;
    return berth_arena_check(arena, err);
}

int berth_activity_insert(struct berth_db *db, const struct berth_activity *a,
                          struct berth_error *err)
{
    return berth_db_exec(
        db,
        "{activity_turn} INSERT INTO activity (company_id, actor_type, actor_id, action,"
        " entity_type, entity_id, agent_id, run_id, details, created_at)"
        " SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS TEXT),"
        " CAST($4 AS TEXT), CAST($5 AS TEXT), CAST($6 AS TEXT), CAST($7 AS TEXT),"
        " CAST($8 AS TEXT), CAST($9 AS TEXT), CAST($10 AS {bigint}) {from_turn}",
        NULL, NULL, err, berth_text(a->company_id), berth_text(a->actor_type),
        berth_text(a->actor_id), berth_text(a->action), berth_text(a->entity_type),
        berth_text(a->entity_id), berth_text(a->agent_id), berth_text(a->run_id),
        berth_text(a->details_json), berth_int(a->created_at_ms));
}

int berth_activity_last(struct berth_db *db, int64_t *out, struct berth_error *err)
{
    *out = 0;
    return berth_db_run(db, "SELECT coalesce(max(id), 0) FROM activity", NULL, 0, berth_row_int,
                        out, err);
}

int berth_activity_await_writers(struct berth_db *db, struct berth_error *err)
{
    int rc = berth_db_run(db, "{activity_wait}", NULL, 0, NULL, NULL, err);
    return rc < 0 ? rc : berth_db_run(db, "{activity_alone}", NULL, 0, NULL, NULL, err);
}

int berth_activity_select_after(struct berth_db *db, struct berth_arena *arena,
                                const char *company_id, int64_t after, int64_t last, int limit,
                                struct berth_list *out, struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    return berth_db_exec(db,
                         "SELECT " COLUMNS " FROM activity WHERE id > $1 AND id <= $2"
                         " AND company_id = $3 ORDER BY id LIMIT $4",
                         on_activity, &reader, err, berth_int(after), berth_int(last),
                         berth_text(company_id), berth_int(limit));
}

int berth_activity_select(struct berth_db *db, struct berth_arena *arena,
                          const struct berth_activity_filter *filter, struct berth_list *out,
                          struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    const char *sql =
        filter->entity_id
            ? "SELECT " COLUMNS " FROM activity WHERE id < $1 AND " BERTH_SAME_ID(
                  "entity_id", BERTH_ID_ARG(2)) " AND (CAST($3 AS TEXT) IS NULL OR company_id = "
                                                "$3) ORDER BY id DESC LIMIT $4"
        : filter->company_id ? "SELECT " COLUMNS " FROM activity WHERE company_id = $3 AND id < $1"
                               " AND CAST($2 AS TEXT) IS NULL ORDER BY id DESC LIMIT $4"
                             : "SELECT " COLUMNS
                               " FROM activity WHERE id < $1 AND CAST($2 AS TEXT) IS NULL"
                               " AND CAST($3 AS TEXT) IS NULL ORDER BY id DESC LIMIT $4";
    return berth_db_exec(
        db, sql, on_activity, &reader, err, berth_int(filter->before ? filter->before : INT64_MAX),
        berth_text(filter->entity_id), berth_text(filter->company_id), berth_int(filter->limit));
}
