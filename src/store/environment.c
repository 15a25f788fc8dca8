/* SPDX-License-Identifier: Apache-2.0
 * src/store/environment.c - SQL of environments. */
#include "store/environment.h"

#define X(name, word, kind) word,
static const char *const driver_names[] = {BERTH_DRIVER_WORDS(X) NULL};
#undef X
#define X(name, word, kind) BERTH_ROUTE_##kind,
const enum berth_route_kind berth_driver_kinds[] = {BERTH_DRIVER_WORDS(X)};
#undef X
static const char *const status_names[] = {"active", "archived", NULL};
const struct berth_enum berth_environment_drivers = {"environment driver", driver_names};
const struct berth_enum berth_environment_statuses = {"environment status", status_names};

enum berth_route_kind berth_driver_kind(const char *word)
{
    int driver = berth_enum_find(&berth_environment_drivers, word);
    return driver < 0 ? BERTH_ROUTE_BUILTIN : berth_driver_kinds[driver];
}

const char *berth_driver_word(enum berth_route_kind kind)
{
    int driver = 0;
    while (berth_driver_kinds[driver] != kind)
        driver++;
    return driver_names[driver];
}

#define COLUMNS                                                                                    \
    "e.id, e.company_id, e.name, e.description, e.driver, e.status, e.config, e.metadata,"         \
    " e.fingerprint, e.deleting, e.created_at, e.updated_at"

struct reader {
    struct berth_arena *arena;
    struct berth_list *out;
};

static int on_environment(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    struct reader *reader = ctx;
    struct berth_arena *arena = reader->arena;
    struct berth_environment *e = berth_arena_alloc(arena, sizeof *e);
    if (!e || !berth_list_add(reader->out, arena, e))
        return berth_arena_check(arena, err);
    e->id = berth_row_text(arena, &row[0]);
    e->company_id = berth_row_text(arena, &row[1]);
    e->name = berth_row_text(arena, &row[2]);
    e->description = berth_row_text(arena, &row[3]);
    int driver = 0, status = 0;
    struct berth_error trouble;
    int rc = berth_enum_read(&berth_environment_drivers, &row[4], &driver, &trouble);
    if (rc == BERTH_OK)
        rc = berth_enum_read(&berth_environment_statuses, &row[5], &status, &trouble);
    if (rc < 0)
        e->trouble = berth_arena_strdup(arena, trouble.message);
    e->driver = (enum berth_environment_driver)driver;
    e->status = (enum berth_environment_status)status;
    e->config_json = berth_row_text(arena, &row[6]);
    e->metadata_json = berth_row_text(arena, &row[7]);
    e->fingerprint = berth_row_text(arena, &row[8]);
    e->deleting = row[9].number != 0;
    e->created_at_ms = row[10].number;
    e->updated_at_ms = row[11].number;
    return berth_arena_check(arena, err);
}

int berth_environment_insert(struct berth_db *db, const struct berth_environment *e,
                             struct berth_error *err)
{
    return berth_db_exec(
        db,
        "INSERT INTO environments (id, company_id, name, description, driver, status, config,"
        " metadata, fingerprint, deleting, created_at, updated_at)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        NULL, NULL, err, berth_text(e->id), berth_text(e->company_id), berth_text(e->name),
        berth_text(e->description), berth_text(driver_names[e->driver]),
        berth_text(status_names[e->status]), berth_text(e->config_json),
        berth_text(e->metadata_json), berth_text(e->fingerprint), berth_int(e->deleting),
        berth_int(e->created_at_ms), berth_int(e->updated_at_ms));
}

int berth_environment_load(struct berth_db *db, struct berth_arena *arena, const char *id,
                           enum berth_row_lock lock, struct berth_environment **out,
                           struct berth_error *err)
{
    static const char *const sql[] = {
        [BERTH_LOCK_NONE] = "SELECT " COLUMNS " FROM environments e WHERE e.id = $1",
        [BERTH_LOCK_SHARE] = "SELECT " COLUMNS " FROM environments e WHERE e.id = $1 {for_share}",
        [BERTH_LOCK_UPDATE] = "SELECT " COLUMNS " FROM environments e WHERE e.id = $1 {for_update}",
    };
    struct berth_list list = {0};
    struct reader reader = {.arena = arena, .out = &list};
    int rc = berth_db_exec(db, sql[lock], on_environment, &reader, err, berth_text(id));
    *out = list.count ? list.items[0] : NULL;
    if (rc == BERTH_OK && *out && (*out)->trouble)
        rc = berth_fail(err, BERTH_E_INTERNAL, "%s", (*out)->trouble);
    return rc;
}

int berth_environment_take_turns(struct berth_db *db, const char *id, struct berth_error *err)
{
    return berth_db_exec(db, "SELECT {turn_lock}", NULL, NULL, err, berth_text(id));
}

static const char *name_or_null(const struct berth_enum *type, int value)
{
    return value < 0 ? NULL : type->names[value];
}

int berth_environment_select(struct berth_db *db, struct berth_arena *arena,
                             const struct berth_environment_filter *filter, struct berth_list *out,
                             struct berth_error *err)
{
    /* The columns that an index starts with are compared without OR, so that it is used. */
#define REST                                                                                       \
    " AND (CAST($3 AS TEXT) IS NULL OR e.driver = $3)"                                             \
    " AND (CAST($4 AS TEXT) IS NULL OR e.status = $4)"                                             \
    " AND (CAST($5 AS TEXT) IS NULL OR (e.updated_at, e.created_at, e.id) <"                       \
    "  (SELECT b.updated_at, b.created_at, b.id FROM environments b WHERE b.id = $5"               \
    "  AND b.company_id = e.company_id))"
#define NEWEST_FIRST " ORDER BY e.updated_at DESC, e.created_at DESC, e.id DESC LIMIT $6"
    /* The same order. "+ 0" keeps SQLite from walking all rows of the company. */
    static const char *const by_name =
        "SELECT " COLUMNS " FROM environments e WHERE e.company_id = $1 AND e.name = $2"
        " AND e.created_at > 0" REST " ORDER BY e.updated_at + 0 DESC, e.created_at DESC, e.id DESC"
        " LIMIT $6";
    static const char *const by_company =
        "SELECT " COLUMNS " FROM environments e WHERE e.company_id = $1"
        " AND CAST($2 AS TEXT) IS NULL AND e.created_at > 0" REST NEWEST_FIRST;
    static const char *const all =
        "SELECT " COLUMNS " FROM environments e WHERE CAST($1 AS TEXT) IS NULL"
        " AND (CAST($2 AS TEXT) IS NULL OR e.name = $2)" REST NEWEST_FIRST;
#undef REST
#undef NEWEST_FIRST
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    const char *sql = !filter->company_id ? all : filter->name ? by_name : by_company;
    return berth_db_exec(db, sql, on_environment, &reader, err, berth_text(filter->company_id),
                         berth_text(filter->name),
                         berth_text(name_or_null(&berth_environment_drivers, filter->driver)),
                         berth_text(name_or_null(&berth_environment_statuses, filter->status)),
                         berth_text(filter->before),
                         berth_int(filter->limit ? filter->limit : INT64_MAX));
}

int berth_environment_select_drained(struct berth_db *db, struct berth_arena *arena,
                                     struct berth_list *out, struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    return berth_db_run(db,
                        "SELECT " COLUMNS " FROM environments e WHERE e.deleting = 1 AND NOT EXISTS"
                        " (SELECT 1 FROM leases l WHERE l.environment_id = e.id"
                        "  AND l.due_at IS NOT NULL)",
                        NULL, 0, on_environment, &reader, err);
}

int berth_environment_save(struct berth_db *db, const struct berth_environment *e,
                           struct berth_error *err)
{
    return berth_db_exec(
        db,
        "UPDATE environments SET name = $2, description = $3, driver = $4, status = $5,"
        " config = $6, metadata = $7, fingerprint = $8, deleting = $9, updated_at = $10"
        " WHERE id = $1",
        NULL, NULL, err, berth_text(e->id), berth_text(e->name), berth_text(e->description),
        berth_text(driver_names[e->driver]), berth_text(status_names[e->status]),
        berth_text(e->config_json), berth_text(e->metadata_json), berth_text(e->fingerprint),
        berth_int(e->deleting), berth_int(e->updated_at_ms));
}

int berth_environment_remove(struct berth_db *db, const char *id, struct berth_error *err)
{
    return berth_db_exec(db, "DELETE FROM environments WHERE id = $1", NULL, NULL, err,
                         berth_text(id));
}
