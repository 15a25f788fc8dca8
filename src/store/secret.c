/* SPDX-License-Identifier: Apache-2.0
 * src/store/secret.c - SQL of secrets, their versions, bindings and events. */
#include "store/secret.h"

static const char *const status_names[] = {"active", "disabled", "archived", NULL};
static const char *const version_names[] = {"current", "previous", "disabled", "destroyed", NULL};
const struct berth_enum berth_secret_statuses = {"secret status", status_names};
const struct berth_enum berth_version_statuses = {"secret version status", version_names};

struct reader {
    struct berth_arena *arena;
    struct berth_list *out;
};

/* --- secrets --- */

#define COLUMNS                                                                                    \
    "s.id, s.company_id, s.key, s.name, s.description, s.status, s.latest_version,"                \
    " s.environment_id, s.created_by_type, s.created_by_id, s.last_resolved_at,"                   \
    " s.last_rotated_at, s.created_at, s.updated_at,"                                              \
    " (SELECT count(*) FROM secret_bindings b WHERE b.secret_id = s.id)"

static int on_secret(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    struct reader *reader = ctx;
    struct berth_arena *arena = reader->arena;
    struct berth_secret *s = berth_arena_alloc(arena, sizeof *s);
    if (!s || !berth_list_add(reader->out, arena, s))
        return berth_arena_check(arena, err);
    int status;
    int rc = berth_enum_read(&berth_secret_statuses, &row[5], &status, err);
    if (rc < 0)
        return rc;
    s->id = berth_row_text(arena, &row[0]);
    s->company_id = berth_row_text(arena, &row[1]);
    s->key = berth_row_text(arena, &row[2]);
    s->name = berth_row_text(arena, &row[3]);
    s->description = berth_row_text(arena, &row[4]);
    s->status = (enum berth_secret_status)status;
    s->latest_version = row[6].number;
    s->environment_id = berth_row_text(arena, &row[7]);
    s->created_by_type = berth_row_text(arena, &row[8]);
    s->created_by_id = berth_row_text(arena, &row[9]);
    s->last_resolved_at_ms = row[10].number;
    s->last_rotated_at_ms = row[11].number;
    s->created_at_ms = row[12].number;
    s->updated_at_ms = row[13].number;
    s->reference_count = row[14].number;
    return berth_arena_check(arena, err);
}

int berth_secret_insert(struct berth_db *db, const struct berth_secret *s, struct berth_error *err)
{
    return berth_db_exec(
        db,
        "INSERT INTO secrets (id, company_id, key, name, description, status, latest_version,"
        " environment_id, created_by_type, created_by_id, last_rotated_at, created_at, updated_at)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        NULL, NULL, err, berth_text(s->id), berth_text(s->company_id), berth_text(s->key),
        berth_text(s->name), berth_text(s->description), berth_text(status_names[s->status]),
        berth_int(s->latest_version), berth_text(s->environment_id), berth_text(s->created_by_type),
        berth_text(s->created_by_id), berth_int_or_null(s->last_rotated_at_ms),
        berth_int(s->created_at_ms), berth_int(s->updated_at_ms));
}

int berth_secret_load(struct berth_db *db, struct berth_arena *arena, const char *id,
                      enum berth_row_lock lock, struct berth_secret **out, struct berth_error *err)
{
    static const char *const sql[] = {
        [BERTH_LOCK_NONE] = "SELECT " COLUMNS " FROM secrets s WHERE s.id = $1",
        [BERTH_LOCK_SHARE] = "SELECT " COLUMNS " FROM secrets s WHERE s.id = $1 {for_share}",
        [BERTH_LOCK_UPDATE] = "SELECT " COLUMNS " FROM secrets s WHERE s.id = $1 {for_update}",
    };
    struct berth_list list = {0};
    struct reader reader = {.arena = arena, .out = &list};
    int rc = berth_db_exec(db, sql[lock], on_secret, &reader, err, berth_text(id));
    *out = list.count ? list.items[0] : NULL;
    return rc;
}

int berth_secret_count_bindings(struct berth_db *db, const char *id, int64_t *out,
                                struct berth_error *err)
{
    *out = 0;
    return berth_db_exec(db, "SELECT count(*) FROM secret_bindings WHERE secret_id = $1",
                         berth_row_int, out, err, berth_text(id));
}

int berth_secret_find(struct berth_db *db, struct berth_arena *arena, const char *company_id,
                      const char *name, const char *key, struct berth_secret **out,
                      struct berth_error *err)
{
    struct berth_list list = {0};
    struct reader reader = {.arena = arena, .out = &list};
    int rc = berth_db_exec(db,
                           name ? "SELECT " COLUMNS " FROM secrets s WHERE s.company_id = $1"
                                  " AND s.name = $2"
                                : "SELECT " COLUMNS " FROM secrets s WHERE s.company_id = $1"
                                  " AND s.key = $2",
                           on_secret, &reader, err, berth_text(company_id),
                           berth_text(name ? name : key));
    *out = list.count ? list.items[0] : NULL;
    return rc;
}

int berth_secret_select(struct berth_db *db, struct berth_arena *arena, const char *company_id,
                        const struct berth_page *page, struct berth_list *out,
                        struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    return berth_db_exec(db,
                         "SELECT " COLUMNS " FROM secrets s WHERE s.company_id = $1"
                         " AND (CAST($2 AS TEXT) IS NULL OR s.name > (SELECT c.name FROM secrets c"
                         "  WHERE c.id = $2 AND c.company_id = $1))"
                         " ORDER BY s.name LIMIT $3",
                         on_secret, &reader, err, berth_text(company_id), berth_page_before(page),
                         berth_page_limit(page));
}

int berth_secret_select_made_by(struct berth_db *db, struct berth_arena *arena,
                                const char *environment_id, struct berth_list *out,
                                struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    return berth_db_exec(
        db, "SELECT " COLUMNS " FROM secrets s WHERE s.environment_id = $1 ORDER BY s.id",
        on_secret, &reader, err, berth_text(environment_id));
}

int berth_secret_save(struct berth_db *db, const struct berth_secret *s, struct berth_error *err)
{
    return berth_db_exec(
        db,
        "UPDATE secrets SET key = $2, name = $3, description = $4, status = $5,"
        " latest_version = $6, environment_id = $7, last_rotated_at = $8, updated_at = $9"
        " WHERE id = $1",
        NULL, NULL, err, berth_text(s->id), berth_text(s->key), berth_text(s->name),
        berth_text(s->description), berth_text(status_names[s->status]),
        berth_int(s->latest_version), berth_text(s->environment_id),
        berth_int_or_null(s->last_rotated_at_ms), berth_int(s->updated_at_ms));
}

int berth_secret_touch(struct berth_db *db, const char *id, int64_t now_ms, struct berth_error *err)
{
    return berth_db_exec(db, "UPDATE secrets SET last_resolved_at = $2 WHERE id = $1", NULL, NULL,
                         err, berth_text(id), berth_int(now_ms));
}

int berth_secret_remove(struct berth_db *db, const char *id, struct berth_error *err)
{
    static const char *const statements[] = {"DELETE FROM secret_versions WHERE secret_id = $1",
                                             "DELETE FROM secrets WHERE id = $1"};
    int rc = BERTH_OK;
    for (size_t i = 0; rc == BERTH_OK && i < sizeof statements / sizeof statements[0]; i++)
        rc = berth_db_exec(db, statements[i], NULL, NULL, err, berth_text(id));
    return rc;
}

int berth_secret_count_captures(struct berth_db *db, const char *company_id, const char *secret_id,
                                int64_t *out, struct berth_error *err)
{
    /* LIKE suffices: a UUID does not occur by chance. The "|| ''" keeps the databases from walking
     * all leases of the company instead of those that stand. */
    *out = 0;
    return berth_db_exec(db,
                         "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"
                         " AND company_id || '' = $1"
                         " AND config LIKE '%' || CAST($2 AS TEXT) || '%'",
                         berth_row_int, out, err, berth_text(company_id), berth_text(secret_id));
}

/* --- versions --- */

#define VERSION_COLUMNS "secret_id, version, status, key_id, sealed, created_at"

static int on_version(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    struct reader *reader = ctx;
    struct berth_arena *arena = reader->arena;
    struct berth_secret_version *v = berth_arena_alloc(arena, sizeof *v);
    if (!v || !berth_list_add(reader->out, arena, v))
        return berth_arena_check(arena, err);
    int status;
    int rc = berth_enum_read(&berth_version_statuses, &row[2], &status, err);
    if (rc < 0)
        return rc;
    v->secret_id = berth_row_text(arena, &row[0]);
    v->version = row[1].number;
    v->status = (enum berth_version_status)status;
    v->key_id = berth_row_text(arena, &row[3]);
    v->sealed = berth_row_text(arena, &row[4]);
    v->created_at_ms = row[5].number;
    return berth_arena_check(arena, err);
}

int berth_version_insert(struct berth_db *db, const struct berth_secret_version *v,
                         struct berth_error *err)
{
    return berth_db_exec(db,
                         "INSERT INTO secret_versions (" VERSION_COLUMNS ")"
                         " VALUES ($1, $2, $3, $4, $5, $6)",
                         NULL, NULL, err, berth_text(v->secret_id), berth_int(v->version),
                         berth_text(version_names[v->status]), berth_text(v->key_id),
                         berth_text(v->sealed), berth_int(v->created_at_ms));
}

int berth_version_load(struct berth_db *db, struct berth_arena *arena, const char *secret_id,
                       int64_t version, struct berth_secret_version **out, struct berth_error *err)
{
    struct berth_list list = {0};
    struct reader reader = {.arena = arena, .out = &list};
    int rc = berth_db_exec(db,
                           "SELECT " VERSION_COLUMNS " FROM secret_versions"
                           " WHERE secret_id = $1 AND version = $2",
                           on_version, &reader, err, berth_text(secret_id), berth_int(version));
    *out = list.count ? list.items[0] : NULL;
    return rc;
}

int berth_version_retire(struct berth_db *db, const char *secret_id, struct berth_error *err)
{
    return berth_db_exec(db,
                         "UPDATE secret_versions SET status = 'previous'"
                         " WHERE secret_id = $1 AND status = 'current'",
                         NULL, NULL, err, berth_text(secret_id));
}

int berth_version_select_other_key(struct berth_db *db, struct berth_arena *arena,
                                   const char *key_id, const struct berth_secret_version *after,
                                   int64_t limit, struct berth_list *out, struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    return berth_db_exec(db,
                         "SELECT " VERSION_COLUMNS " FROM secret_versions WHERE key_id <> $1"
                         " AND (secret_id, version) > ($2, $3)"
                         " ORDER BY secret_id, version LIMIT $4 {for_update}",
                         on_version, &reader, err, berth_text(key_id), berth_text(after->secret_id),
                         berth_int(after->version), berth_int(limit));
}

int berth_version_reseal(struct berth_db *db, const struct berth_secret_version *v,
                         struct berth_error *err)
{
    return berth_db_exec(db,
                         "UPDATE secret_versions SET key_id = $3, sealed = $4"
                         " WHERE secret_id = $1 AND version = $2",
                         NULL, NULL, err, berth_text(v->secret_id), berth_int(v->version),
                         berth_text(v->key_id), berth_text(v->sealed));
}

/* --- the key that is in use --- */

static int on_id(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    struct reader *reader = ctx;
    char *id = berth_arena_strdup(reader->arena, row[0].text);
    (void)berth_list_add(reader->out, reader->arena, id);
    return berth_arena_check(reader->arena, err);
}

/* Runs a statement that selects one id. *out is NULL when it selects no row. */
static int load_id(struct berth_db *db, struct berth_arena *arena, const char *sql,
                   const char **out, struct berth_error *err)
{
    struct berth_list list = {0};
    struct reader reader = {.arena = arena, .out = &list};
    int rc = berth_db_run(db, sql, NULL, 0, on_id, &reader, err);
    *out = list.count ? list.items[0] : NULL;
    return rc;
}

int berth_secret_key_load(struct berth_db *db, struct berth_arena *arena, enum berth_row_lock lock,
                          const char **out, struct berth_error *err)
{
    static const char *const sql[] = {
        [BERTH_LOCK_NONE] = "SELECT key_id FROM secret_key WHERE one = 1",
        [BERTH_LOCK_SHARE] = "SELECT key_id FROM secret_key WHERE one = 1 {for_share}",
        [BERTH_LOCK_UPDATE] = "SELECT key_id FROM secret_key WHERE one = 1 {for_update}",
    };
    return load_id(db, arena, sql[lock], out, err);
}

int berth_secret_key_insert(struct berth_db *db, const char *key_id, int64_t now_ms,
                            struct berth_error *err)
{
    return berth_db_exec(db,
                         "INSERT INTO secret_key (one, key_id, updated_at) VALUES (1, $1, $2)"
                         " ON CONFLICT (one) DO NOTHING",
                         NULL, NULL, err, berth_text(key_id), berth_int(now_ms));
}

int berth_version_select_keys(struct berth_db *db, struct berth_arena *arena,
                              struct berth_list *out, struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    return berth_db_run(db, "SELECT DISTINCT key_id FROM secret_versions", NULL, 0, on_id, &reader,
                        err);
}

int berth_store_identity_load(struct berth_db *db, struct berth_arena *arena, const char **out,
                              struct berth_error *err)
{
    return load_id(db, arena, "SELECT id FROM store_identity WHERE one = 1", out, err);
}

int berth_store_identity(struct berth_db *db, struct berth_arena *arena, const char *fresh,
                         const char **out, struct berth_error *err)
{
    int rc = berth_db_exec(db,
                           "INSERT INTO store_identity (one, id) VALUES (1, $1)"
                           " ON CONFLICT (one) DO NOTHING",
                           NULL, NULL, err, berth_text(fresh));
    return rc < 0 ? rc : berth_store_identity_load(db, arena, out, err);
}

int berth_secret_key_save(struct berth_db *db, const char *key_id, int64_t now_ms,
                          struct berth_error *err)
{
    return berth_db_exec(db, "UPDATE secret_key SET key_id = $1, updated_at = $2 WHERE one = 1",
                         NULL, NULL, err, berth_text(key_id), berth_int(now_ms));
}

/* --- bindings --- */

int berth_binding_remove_all(struct berth_db *db, const char *company_id, const char *target_type,
                             const char *target_id, struct berth_error *err)
{
    return berth_db_exec(db,
                         "DELETE FROM secret_bindings WHERE company_id = $1 AND target_type = $2"
                         " AND target_id = $3",
                         NULL, NULL, err, berth_text(company_id), berth_text(target_type),
                         berth_text(target_id));
}

int berth_binding_insert(struct berth_db *db, const struct berth_binding *b,
                         struct berth_error *err)
{
    return berth_db_exec(db,
                         "INSERT INTO secret_bindings (company_id, target_type, target_id,"
                         " config_path, secret_id, version, created_at)"
                         " VALUES ($1, $2, $3, $4, $5, $6, $7)",
                         NULL, NULL, err, berth_text(b->company_id), berth_text(b->target_type),
                         berth_text(b->target_id), berth_text(b->config_path),
                         berth_text(b->secret_id), berth_int_or_null(b->version),
                         berth_int(b->created_at_ms));
}

static int on_binding(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    struct reader *reader = ctx;
    struct berth_arena *arena = reader->arena;
    struct berth_binding *b = berth_arena_alloc(arena, sizeof *b);
    if (!b || !berth_list_add(reader->out, arena, b))
        return berth_arena_check(arena, err);
    b->company_id = berth_row_text(arena, &row[0]);
    b->target_type = berth_row_text(arena, &row[1]);
    b->target_id = berth_row_text(arena, &row[2]);
    b->config_path = berth_row_text(arena, &row[3]);
    b->secret_id = berth_row_text(arena, &row[4]);
    b->version = row[5].number;
    b->created_at_ms = row[6].number;
    return berth_arena_check(arena, err);
}

int berth_binding_select(struct berth_db *db, struct berth_arena *arena, const char *secret_id,
                         struct berth_list *out, struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    return berth_db_exec(db,
                         "SELECT company_id, target_type, target_id, config_path, secret_id,"
                         " version, created_at FROM secret_bindings WHERE secret_id = $1"
                         " ORDER BY target_type, target_id, config_path",
                         on_binding, &reader, err, berth_text(secret_id));
}

int berth_binding_exists(struct berth_db *db, const struct berth_binding *b, bool *out,
                         struct berth_error *err)
{
    int rows = 0;
    int rc = berth_db_exec(db,
                           "SELECT 1 FROM secret_bindings WHERE company_id = $1"
                           " AND target_type = $2 AND target_id = $3 AND config_path = $4"
                           " AND secret_id = $5",
                           berth_row_count, &rows, err, berth_text(b->company_id),
                           berth_text(b->target_type), berth_text(b->target_id),
                           berth_text(b->config_path), berth_text(b->secret_id));
    *out = rows > 0;
    return rc;
}

/* --- what leases captured --- */

int berth_lease_capture_secrets(struct berth_db *db, const char *company_id,
                                const char *environment_id, const char *lease_id,
                                struct berth_error *err)
{
    return berth_db_exec(db,
                         "INSERT INTO lease_secrets (lease_id, config_path, secret_id)"
                         " SELECT CAST($1 AS TEXT), config_path, secret_id FROM secret_bindings"
                         " WHERE company_id = $2 AND target_type = 'environment'"
                         " AND target_id = $3",
                         NULL, NULL, err, berth_text(lease_id), berth_text(company_id),
                         berth_text(environment_id));
}

int berth_lease_copy_secrets(struct berth_db *db, const char *from_lease_id, const char *lease_id,
                             struct berth_error *err)
{
    return berth_db_exec(db,
                         "INSERT INTO lease_secrets (lease_id, config_path, secret_id)"
                         " SELECT CAST($1 AS TEXT), config_path, secret_id FROM lease_secrets"
                         " WHERE lease_id = $2",
                         NULL, NULL, err, berth_text(lease_id), berth_text(from_lease_id));
}

int berth_lease_has_secret(struct berth_db *db, const char *lease_id, const char *config_path,
                           const char *secret_id, bool *out, struct berth_error *err)
{
    int rows = 0;
    int rc = berth_db_exec(db,
                           "SELECT 1 FROM lease_secrets WHERE lease_id = $1 AND config_path = $2"
                           " AND secret_id = $3",
                           berth_row_count, &rows, err, berth_text(lease_id),
                           berth_text(config_path), berth_text(secret_id));
    *out = rows > 0;
    return rc;
}

/* --- events --- */

int berth_secret_event_insert(struct berth_db *db, const struct berth_secret_event *e,
                              struct berth_error *err)
{
    return berth_db_exec(
        db,
        "INSERT INTO secret_events (company_id, secret_id, version, actor_type, actor_id,"
        " consumer_type, consumer_id, config_path, issue_id, heartbeat_run_id, outcome,"
        " error_code, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        NULL, NULL, err, berth_text(e->company_id), berth_text(e->secret_id),
        berth_int_or_null(e->version), berth_text(e->actor_type), berth_text(e->actor_id),
        berth_text(e->consumer_type), berth_text(e->consumer_id), berth_text(e->config_path),
        berth_text(e->issue_id), berth_text(e->heartbeat_run_id),
        berth_text(e->success ? "success" : "failure"), berth_text(e->error_code),
        berth_int(e->created_at_ms));
}

static int on_event(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    struct reader *reader = ctx;
    struct berth_arena *arena = reader->arena;
    struct berth_secret_event *e = berth_arena_alloc(arena, sizeof *e);
    if (!e || !berth_list_add(reader->out, arena, e))
        return berth_arena_check(arena, err);
    e->id = row[0].number;
    e->company_id = berth_row_text(arena, &row[1]);
    e->secret_id = berth_row_text(arena, &row[2]);
    e->version = row[3].number;
    e->actor_type = berth_row_text(arena, &row[4]);
    e->actor_id = berth_row_text(arena, &row[5]);
    e->consumer_type = berth_row_text(arena, &row[6]);
    e->consumer_id = berth_row_text(arena, &row[7]);
    e->config_path = berth_row_text(arena, &row[8]);
    e->issue_id = berth_row_text(arena, &row[9]);
    e->heartbeat_run_id = berth_row_text(arena, &row[10]);
    e->success = row[11].type == BERTH_VALUE_TEXT && row[11].text[0] == 's';
    e->error_code = berth_row_text(arena, &row[12]);
    e->created_at_ms = row[13].number;
    return berth_arena_check(arena, err);
}

int berth_secret_event_select(struct berth_db *db, struct berth_arena *arena, const char *secret_id,
                              int64_t before, int64_t limit, struct berth_list *out,
                              struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    return berth_db_exec(db,
                         "SELECT id, company_id, secret_id, version, actor_type, actor_id,"
                         " consumer_type, consumer_id, config_path, issue_id, heartbeat_run_id,"
                         " outcome, error_code, created_at FROM secret_events"
                         " WHERE secret_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3",
                         on_event, &reader, err, berth_text(secret_id),
                         berth_int(before ? before : INT64_MAX), berth_int(limit));
}
