/* SPDX-License-Identifier: Apache-2.0
 * src/store/exec.c - SQL of execs. */
#include "store/exec.h"

static const char *const cause_names[] = {"exited",    "signalled", "timeout",
                                          "cancelled", "lost",      NULL};
const struct berth_enum berth_end_causes = {"cause", cause_names};

#define COLUMNS                                                                                    \
    "id, company_id, environment_id, lease_id, run_id, command, cwd, cause, exit_code, signal,"    \
    " stdout_bytes, stderr_bytes, truncated, started_at, finished_at, owner"

struct reader {
    struct berth_arena *arena;
    struct berth_list *out;
};

static int on_exec(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    struct reader *reader = ctx;
    struct berth_arena *arena = reader->arena;
    struct berth_exec_record *x = berth_arena_alloc(arena, sizeof *x);
    if (!x || !berth_list_add(reader->out, arena, x))
        return berth_arena_check(arena, err);
    int cause = BERTH_END_EXITED;
    x->ended = row[7].type == BERTH_VALUE_TEXT;
    int rc = x->ended ? berth_enum_read(&berth_end_causes, &row[7], &cause, err) : BERTH_OK;
    if (rc < 0)
        return rc;
    x->id = berth_row_text(arena, &row[0]);
    x->company_id = berth_row_text(arena, &row[1]);
    x->environment_id = berth_row_text(arena, &row[2]);
    x->lease_id = berth_row_text(arena, &row[3]);
    x->run_id = berth_row_text(arena, &row[4]);
    x->command = berth_row_text(arena, &row[5]);
    x->cwd = berth_row_text(arena, &row[6]);
    x->end = (struct berth_exec_end){.cause = (enum berth_end_cause)cause,
                                     .exit_code = (int)row[8].number,
                                     .signal = (int)row[9].number,
                                     .bytes = {(uint64_t)row[10].number, (uint64_t)row[11].number},
                                     .started_at_ms = row[13].number,
                                     .finished_at_ms = row[14].number};
    x->truncated = row[12].number != 0;
    x->owner = berth_row_text(arena, &row[15]);
    return berth_arena_check(arena, err);
}

int berth_exec_put(struct berth_db *db, const struct berth_exec_record *x, struct berth_error *err)
{
    const struct berth_exec_end *end = &x->end;
    return berth_db_exec(
        db,
        "INSERT INTO execs (" COLUMNS ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,"
        " $13, $14, $15, $16) ON CONFLICT (id) DO UPDATE SET cause = $8, exit_code = $9, signal = "
        "$10,"
        " stdout_bytes = $11, stderr_bytes = $12, truncated = $13, started_at = $14, finished_at = "
        "$15"
        " WHERE excluded.cause IS NOT NULL",
        NULL, NULL, err, berth_text(x->id), berth_text(x->company_id),
        berth_text(x->environment_id), berth_text(x->lease_id), berth_text(x->run_id),
        berth_text(x->command), berth_text(x->cwd),
        berth_text(x->ended ? cause_names[end->cause] : NULL), berth_int(end->exit_code),
        berth_int(end->signal), berth_int((int64_t)end->bytes[0]),
        berth_int((int64_t)end->bytes[1]), berth_int(x->truncated), berth_int(end->started_at_ms),
        berth_int_or_null(end->finished_at_ms), berth_text(x->owner));
}

int berth_exec_load(struct berth_db *db, struct berth_arena *arena, const char *id,
                    struct berth_exec_record **out, struct berth_error *err)
{
    struct berth_list list = {0};
    struct reader reader = {.arena = arena, .out = &list};
    int rc = berth_db_exec(db, "SELECT " COLUMNS " FROM execs WHERE id = $1", on_exec, &reader, err,
                           berth_text(id));
    *out = list.count ? list.items[0] : NULL;
    return rc;
}

int berth_exec_select(struct berth_db *db, struct berth_arena *arena, const char *run_id,
                      const char *before, int limit, struct berth_list *out,
                      struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    return berth_db_exec(db,
                         "SELECT " COLUMNS " FROM execs WHERE run_id = $1"
                         " AND (CAST($2 AS TEXT) IS NULL OR id < $2) ORDER BY id DESC LIMIT $3",
                         on_exec, &reader, err, berth_text(run_id), berth_text(before),
                         berth_int(limit));
}

int berth_exec_load_next(struct berth_db *db, struct berth_arena *arena, const char *run_id,
                         const char *after, struct berth_exec_record **out, struct berth_error *err)
{
    struct berth_list list = {0};
    struct reader reader = {.arena = arena, .out = &list};
    int rc = berth_db_exec(db,
                           "SELECT " COLUMNS " FROM execs WHERE run_id = $1 AND id > $2"
                           " ORDER BY id LIMIT 1",
                           on_exec, &reader, err, berth_text(run_id), berth_text(after));
    *out = list.count ? list.items[0] : NULL;
    return rc;
}

int berth_exec_select_open(struct berth_db *db, struct berth_arena *arena, struct berth_list *out,
                           struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    return berth_db_run(db, "SELECT " COLUMNS " FROM execs WHERE cause IS NULL", NULL, 0, on_exec,
                        &reader, err);
}

int berth_exec_set_lost(struct berth_db *db, const char *id, int64_t now_ms,
                        struct berth_error *err)
{
    return berth_db_exec(db,
                         "UPDATE execs SET cause = 'lost', exit_code = -1, finished_at = $2"
                         " WHERE id = $1 AND cause IS NULL",
                         NULL, NULL, err, berth_text(id), berth_int(now_ms));
}
