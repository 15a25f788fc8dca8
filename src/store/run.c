/* SPDX-License-Identifier: Apache-2.0
 * src/store/run.c - SQL of runs. */
#include "store/run.h"

static const char *const status_names[] = {"queued", "running",   "scheduled_retry", "succeeded",
                                           "failed", "cancelled", "timed_out",       NULL};
const struct berth_enum berth_run_statuses = {"run status", status_names};

#define COLUMNS                                                                                    \
    "id, company_id, environment_id, status, error, error_code, started_at, finished_at,"          \
    " created_at, updated_at, owner, workspace"
#define COLUMNS_OF_ONE COLUMNS ", workspace_diff"

struct reader {
    struct berth_arena *arena;
    struct berth_list *out;
    bool one; /* the row has COLUMNS_OF_ONE */
};

static int on_run(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    struct reader *reader = ctx;
    struct berth_arena *arena = reader->arena;
    struct berth_run *run = berth_arena_alloc(arena, sizeof *run);
    if (!run || !berth_list_add(reader->out, arena, run))
        return berth_arena_check(arena, err);
    int status;
    int rc = berth_enum_read(&berth_run_statuses, &row[3], &status, err);
    if (rc < 0)
        return rc;
    run->id = berth_row_text(arena, &row[0]);
    run->company_id = berth_row_text(arena, &row[1]);
    run->environment_id = berth_row_text(arena, &row[2]);
    run->status = (enum berth_run_status)status;
    run->error = berth_row_text(arena, &row[4]);
    run->error_code = berth_row_text(arena, &row[5]);
    run->started_at_ms = row[6].number;
    run->finished_at_ms = row[7].number;
    run->created_at_ms = row[8].number;
    run->updated_at_ms = row[9].number;
    run->owner = berth_row_text(arena, &row[10]);
    run->workspace_json = berth_row_text(arena, &row[11]);
    run->workspace_diff = reader->one ? berth_row_text(arena, &row[12]) : NULL;
    return berth_arena_check(arena, err);
}

int berth_run_insert(struct berth_db *db, const struct berth_run *run, struct berth_error *err)
{
    return berth_db_exec(db,
                         "INSERT INTO runs (id, company_id, environment_id, status, started_at,"
                         " created_at, updated_at, owner) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                         NULL, NULL, err, berth_text(run->id), berth_text(run->company_id),
                         berth_text(run->environment_id), berth_text(status_names[run->status]),
                         berth_int_or_null(run->started_at_ms), berth_int(run->created_at_ms),
                         berth_int(run->updated_at_ms), berth_text(run->owner));
}

int berth_run_select_performed(struct berth_db *db, struct berth_arena *arena,
                               struct berth_list *out, struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    return berth_db_run(db,
                        "SELECT " COLUMNS " FROM runs WHERE owner IS NOT NULL"
                        " AND status = 'running'",
                        NULL, 0, on_run, &reader, err);
}

int berth_run_load(struct berth_db *db, struct berth_arena *arena, const char *id,
                   struct berth_run **out, struct berth_error *err)
{
    struct berth_list list = {0};
    struct reader reader = {.arena = arena, .out = &list, .one = true};
    int rc = berth_db_exec(
        db, "SELECT " COLUMNS_OF_ONE " FROM runs WHERE " BERTH_SAME_ID("id", BERTH_ID_ARG(1)),
        on_run, &reader, err, berth_text(id));
    *out = list.count ? list.items[0] : NULL;
    return rc;
}

int berth_run_select(struct berth_db *db, struct berth_arena *arena,
                     const struct berth_run_filter *filter, struct berth_list *out,
                     struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    return berth_db_exec(db,
                         "SELECT " COLUMNS " FROM runs WHERE company_id = $1"
                         " AND (CAST($2 AS TEXT) IS NULL OR status = $2)"
                         " AND (CAST($4 AS TEXT) IS NULL OR (created_at, id) <"
                         "  (SELECT created_at, id FROM runs WHERE " BERTH_SAME_ID(
                             "id", BERTH_ID_ARG(4)) " AND company_id = $1))"
                                                    " ORDER BY created_at DESC, id DESC LIMIT $3",
                         on_run, &reader, err, berth_text(filter->company_id),
                         berth_text(filter->status < 0 ? NULL : status_names[filter->status]),
                         berth_int(filter->limit), berth_text(filter->before));
}

int berth_run_save(struct berth_db *db, const struct berth_run *run, bool *won,
                   struct berth_error *err)
{
    int rows = 0;
    int rc = berth_db_exec(
        db,
        "UPDATE runs SET status = $2, error = $3, error_code = $4, started_at = $5,"
        " finished_at = $6, updated_at = $7, workspace = $8, workspace_diff = $9"
        " WHERE " BERTH_SAME_ID(
            "id", BERTH_ID_ARG(1)) " AND status NOT IN ('succeeded', 'failed', 'cancelled', "
                                   "'timed_out') RETURNING 1",
        berth_row_count, &rows, err, berth_text(run->id), berth_text(status_names[run->status]),
        berth_text(run->error), berth_text(run->error_code), berth_int_or_null(run->started_at_ms),
        berth_int_or_null(run->finished_at_ms), berth_int(run->updated_at_ms),
        berth_text(run->workspace_json), berth_text(run->workspace_diff));
    *won = rows > 0;
    return rc;
}
