/* SPDX-License-Identifier: Apache-2.0
 * src/store/exec.c - SQL of execs. */
#include "store/exec.h"

static const char *const cause_names[] = {"exited",    "signalled", "timeout",
                                          "cancelled", "lost",      NULL};
const struct berth_enum berth_end_causes = {"cause", cause_names};

#define TEXT(key, member)                                                                          \
    {                                                                                              \
        key, offsetof(struct berth_exec_record, member)                                            \
    }
const struct berth_exec_text berth_exec_texts[BERTH_EXEC_TEXTS] = {
    TEXT("id", id),
    TEXT("companyId", company_id),
    TEXT("environmentId", environment_id),
    TEXT("leaseId", lease_id),
    TEXT("runId", run_id),
    TEXT("command", command),
    TEXT("cwd", cwd),
    TEXT("owner", owner),
};

#define NUMBER(key, member, type)                                                                  \
    {                                                                                              \
        key, offsetof(struct berth_exec_record, member), type                                      \
    }
const struct berth_exec_number berth_exec_numbers[BERTH_EXEC_NUMBERS] = {
    NUMBER("exitCode", end.exit_code, 'i'),
    NUMBER("signal", end.signal, 'i'),
    NUMBER("stdoutBytes", end.bytes[BERTH_STDOUT], 'u'),
    NUMBER("stderrBytes", end.bytes[BERTH_STDERR], 'u'),
    NUMBER("truncated", truncated, 'b'),
    NUMBER("startedAt", end.started_at_ms, 't'),
    NUMBER("finishedAt", end.finished_at_ms, 't'),
};

/* The texts, the cause, then the numbers. */
#define COLUMNS                                                                                    \
    "id, company_id, environment_id, lease_id, run_id, command, cwd, owner, cause,"                \
    " exit_code, signal, stdout_bytes, stderr_bytes, truncated, started_at, finished_at"
#define COLUMN_CAUSE BERTH_EXEC_TEXTS
#define COLUMN_NUMBERS (BERTH_EXEC_TEXTS + 1)
#define COLUMN_COUNT (COLUMN_NUMBERS + BERTH_EXEC_NUMBERS)

const char **berth_exec_text_at(struct berth_exec_record *x, const struct berth_exec_text *field)
{
    return (const char **)(void *)((char *)x + field->offset);
}

int64_t berth_exec_number_get(const struct berth_exec_record *x,
                              const struct berth_exec_number *field)
{
    const void *at = (const char *)x + field->offset;
    switch (field->type) {
    case 'i':
        return *(const int *)at;
    case 'b':
        return *(const bool *)at;
    case 'u':
        return (int64_t) * (const uint64_t *)at;
    default:
        return *(const int64_t *)at;
    }
}

void berth_exec_number_set(struct berth_exec_record *x, const struct berth_exec_number *field,
                           int64_t value)
{
    void *at = (char *)x + field->offset;
    switch (field->type) {
    case 'i':
        *(int *)at = (int)value;
        break;
    case 'b':
        *(bool *)at = value != 0;
        break;
    case 'u':
        *(uint64_t *)at = (uint64_t)value;
        break;
    default:
        *(int64_t *)at = value;
    }
}

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
    const struct berth_value *cause_value = &row[COLUMN_CAUSE];
    int cause = BERTH_END_EXITED;
    x->ended = cause_value->type == BERTH_VALUE_TEXT;
    int rc = x->ended ? berth_enum_read(&berth_end_causes, cause_value, &cause, err) : BERTH_OK;
    if (rc < 0)
        return rc;
    x->end.cause = (enum berth_end_cause)cause;
    for (int i = 0; i < BERTH_EXEC_TEXTS; i++)
        *berth_exec_text_at(x, &berth_exec_texts[i]) = berth_row_text(arena, &row[i]);
    for (int i = 0; i < BERTH_EXEC_NUMBERS; i++)
        berth_exec_number_set(x, &berth_exec_numbers[i], row[COLUMN_NUMBERS + i].number);
    return berth_arena_check(arena, err);
}

int berth_exec_put(struct berth_db *db, const struct berth_exec_record *record,
                   struct berth_error *err)
{
    struct berth_exec_record x = *record;
    struct berth_value args[COLUMN_COUNT];
    for (int i = 0; i < BERTH_EXEC_TEXTS; i++)
        args[i] = berth_text(*berth_exec_text_at(&x, &berth_exec_texts[i]));
    args[COLUMN_CAUSE] = berth_text(x.ended ? cause_names[x.end.cause] : NULL);
    for (int i = 0; i < BERTH_EXEC_NUMBERS; i++)
        args[COLUMN_NUMBERS + i] = berth_int(berth_exec_number_get(&x, &berth_exec_numbers[i]));
    args[COLUMN_COUNT - 1] = berth_int_or_null(x.end.finished_at_ms);
    return berth_db_run(db,
                        "INSERT INTO execs (" COLUMNS
                        ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,"
                        " $15, $16) ON CONFLICT (id) DO UPDATE SET cause = $9, exit_code = $10,"
                        " signal = $11, stdout_bytes = $12, stderr_bytes = $13, truncated = $14,"
                        " started_at = $15, finished_at = $16 WHERE excluded.cause IS NOT NULL",
                        args, COLUMN_COUNT, NULL, NULL, err);
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
    return berth_db_exec(
        db,
        "SELECT " COLUMNS " FROM execs WHERE run_id IS NOT NULL AND " BERTH_SAME_ID(
            "run_id",
            BERTH_ID_ARG(1)) " AND (CAST($2 AS TEXT) IS NULL OR id < $2) ORDER BY id DESC LIMIT $3",
        on_exec, &reader, err, berth_text(run_id), berth_text(before), berth_int(limit));
}

int berth_exec_load_next(struct berth_db *db, struct berth_arena *arena, const char *run_id,
                         const char *after, struct berth_exec_record **out, struct berth_error *err)
{
    struct berth_list list = {0};
    struct reader reader = {.arena = arena, .out = &list};
    int rc =
        berth_db_exec(db,
                      "SELECT " COLUMNS " FROM execs WHERE run_id IS NOT NULL AND " BERTH_SAME_ID(
                          "run_id", BERTH_ID_ARG(1)) " AND id > $2"
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

int berth_exec_count_open(struct berth_db *db, const char *lease_id, const char *but_node,
                          int64_t *out, struct berth_error *err)
{
    return berth_db_exec(db,
                         "SELECT count(*) FROM execs WHERE cause IS NULL AND lease_id = $1"
                         " AND owner <> $2",
                         berth_row_int, out, err, berth_text(lease_id), berth_text(but_node));
}

int berth_exec_select_overdue(struct berth_db *db, struct berth_arena *arena, int64_t before_ms,
                              struct berth_list *out, struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    return berth_db_exec(db,
                         "SELECT " COLUMNS " FROM execs WHERE cause IS NULL AND EXISTS"
                         " (SELECT 1 FROM leases l WHERE " BERTH_SAME_ID(
                             "l.id", "execs.lease_id") " AND l.released_at < $1)",
                         on_exec, &reader, err, berth_int(before_ms));
}

int berth_exec_set_lost(struct berth_db *db, const char *id, int64_t now_ms,
                        struct berth_error *err)
{
    return berth_db_exec(db,
                         "UPDATE execs SET cause = 'lost', exit_code = -1, finished_at = $2"
                         " WHERE id = $1 AND cause IS NULL",
                         NULL, NULL, err, berth_text(id), berth_int(now_ms));
}
