/* SPDX-License-Identifier: Apache-2.0
 * src/store/lease.c - SQL of leases. */
#include "store/lease.h"

#include "store/run.h"

static const char *const status_names[] = {"acquiring", "active", "releasing", "released",
                                           "expired",   "failed", "retained",  NULL};
static const char *const policy_names[] = {
    "ephemeral", "reuse_by_environment", "reuse_by_execution_workspace", "retain_on_failure", NULL};
static const char *const place_names[] = {"none", "live", "parked", "gone", "unknown", NULL};
static const char *const cleanup_names[] = {"null", "pending", "success", "failed", NULL};
static const char *const duty_names[] = {"null", "park", "release", "destroy", NULL};
const struct berth_enum berth_lease_statuses = {"environment lease status", status_names};
const struct berth_enum berth_lease_policies = {"environment lease policy", policy_names};
const struct berth_enum berth_lease_places = {"environment lease place", place_names};
const struct berth_enum berth_lease_cleanups = {"environment lease cleanup status", cleanup_names};
const struct berth_enum berth_lease_duties = {"environment lease duty", duty_names};

#define COLUMNS                                                                                    \
    "id, company_id, environment_id, execution_workspace_id, issue_id, heartbeat_run_id,"          \
    " status, lease_policy, provider, provider_lease_id, acquired_at, last_used_at, expires_at,"   \
    " released_at, failure_reason, cleanup_status, metadata, created_at, updated_at, version,"     \
    " place, driver, config, fingerprint, provider_metadata, owner, duty, final_status,"           \
    " cleanup_attempts, cleanup_error, acknowledged_at, due_at, work_at, home_at"

/* Makes a value of an enum whose first member is stored as SQL's null. */
static struct berth_value nullable(const char *const *names, int value)
{
    return berth_text(value ? names[value] : NULL);
}

struct reader {
    struct berth_arena *arena;
    struct berth_list *out;
};

static int read_enums(struct berth_lease *l, const struct berth_value *row, struct berth_error *err)
{
    static const struct {
        const struct berth_enum *type;
        int column;
    } columns[] = {
        {&berth_lease_statuses, 6}, {&berth_lease_policies, 7}, {&berth_lease_cleanups, 15},
        {&berth_lease_places, 20},  {&berth_lease_duties, 26},  {&berth_lease_statuses, 27},
    };
    int values[sizeof columns / sizeof columns[0]] = {0};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        const struct berth_value *value = &row[columns[i].column];
        if (value->type == BERTH_VALUE_NULL && columns[i].column != 6)
            continue; /* null is the first member, or the column is not used */
        int rc = berth_enum_read(columns[i].type, value, &values[i], err);
        if (rc < 0)
            return rc;
    }
    l->status = (enum berth_lease_status)values[0];
    l->policy = (enum berth_lease_policy)values[1];
    l->cleanup = (enum berth_lease_cleanup)values[2];
    l->place = (enum berth_lease_place)values[3];
    l->duty = (enum berth_lease_duty)values[4];
    l->final_status = (enum berth_lease_status)values[5];
    return BERTH_OK;
}

static int on_lease(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    struct reader *reader = ctx;
    struct berth_arena *arena = reader->arena;
    struct berth_lease *l = berth_arena_alloc(arena, sizeof *l);
    if (!l || !berth_list_add(reader->out, arena, l))
        return berth_arena_check(arena, err);
    l->id = berth_row_text(arena, &row[0]);
    l->company_id = berth_row_text(arena, &row[1]);
    l->environment_id = berth_row_text(arena, &row[2]);
    l->execution_workspace_id = berth_row_text(arena, &row[3]);
    l->issue_id = berth_row_text(arena, &row[4]);
    l->heartbeat_run_id = berth_row_text(arena, &row[5]);
    l->provider = berth_row_text(arena, &row[8]);
    l->provider_lease_id = berth_row_text(arena, &row[9]);
    l->acquired_at_ms = row[10].number;
    l->last_used_at_ms = row[11].number;
    l->expires_at_ms = row[12].number;
    l->released_at_ms = row[13].number;
    l->failure_reason = berth_row_text(arena, &row[14]);
    l->metadata_json = berth_row_text(arena, &row[16]);
    l->created_at_ms = row[17].number;
    l->updated_at_ms = row[18].number;
    l->version = row[19].number;
    l->driver = berth_row_text(arena, &row[21]);
    l->config_json = berth_row_text(arena, &row[22]);
    l->fingerprint = berth_row_text(arena, &row[23]);
    l->provider_metadata_json = berth_row_text(arena, &row[24]);
    l->owner = berth_row_text(arena, &row[25]);
    l->cleanup_attempts = row[28].number;
    l->cleanup_error = berth_row_text(arena, &row[29]);
    l->acknowledged_at_ms = row[30].number;
    l->due_at_ms = row[31].number;
    l->work_at_ms = row[32].number;
    l->home_at_ms = row[33].number;
    struct berth_error trouble;
    if (read_enums(l, row, &trouble) < 0)
        l->trouble = berth_arena_strdup(arena, trouble.message);
    return berth_arena_check(arena, err);
}

int berth_lease_insert(struct berth_db *db, const struct berth_lease *l, struct berth_error *err)
{
    return berth_db_exec(
        db,
        "INSERT INTO leases (" COLUMNS ")"
        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,"
        " $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34)",
        NULL, NULL, err, berth_text(l->id), berth_text(l->company_id),
        berth_text(l->environment_id), berth_text(l->execution_workspace_id),
        berth_text(l->issue_id), berth_text(l->heartbeat_run_id),
        berth_text(status_names[l->status]), berth_text(policy_names[l->policy]),
        berth_text(l->provider), berth_text(l->provider_lease_id), berth_int(l->acquired_at_ms),
        berth_int(l->last_used_at_ms), berth_int_or_null(l->expires_at_ms),
        berth_int_or_null(l->released_at_ms), berth_text(l->failure_reason),
        nullable(cleanup_names, (int)l->cleanup), berth_text(l->metadata_json),
        berth_int(l->created_at_ms), berth_int(l->updated_at_ms), berth_int(l->version),
        berth_text(place_names[l->place]), berth_text(l->driver), berth_text(l->config_json),
        berth_text(l->fingerprint), berth_text(l->provider_metadata_json), berth_text(l->owner),
        nullable(duty_names, (int)l->duty), nullable(status_names, (int)l->final_status),
        berth_int(l->cleanup_attempts), berth_text(l->cleanup_error),
        berth_int_or_null(l->acknowledged_at_ms), berth_int_or_null(l->due_at_ms),
        berth_int_or_null(l->work_at_ms), berth_int_or_null(l->home_at_ms));
}

static int lease_load(struct berth_db *db, struct berth_arena *arena, const char *sql,
                      const char *id, struct berth_lease **out, struct berth_error *err)
{
    struct berth_list list = {0};
    struct reader reader = {.arena = arena, .out = &list};
    int rc = berth_db_exec(db, sql, on_lease, &reader, err, berth_text(id));
    *out = list.count ? list.items[0] : NULL;
    if (rc == BERTH_OK && *out && (*out)->trouble)
        rc = berth_fail(err, BERTH_E_INTERNAL, "%s", (*out)->trouble);
    return rc;
}

int berth_lease_load(struct berth_db *db, struct berth_arena *arena, const char *id,
                     struct berth_lease **out, struct berth_error *err)
{
    return lease_load(db, arena,
                      "SELECT " COLUMNS " FROM leases WHERE " BERTH_SAME_ID("id", BERTH_ID_ARG(1)),
                      id, out, err);
}

int berth_lease_load_locked(struct berth_db *db, struct berth_arena *arena, const char *id,
                            struct berth_lease **out, struct berth_error *err)
{
    return lease_load(db, arena,
                      "SELECT " COLUMNS
                      " FROM leases WHERE " BERTH_SAME_ID("id", BERTH_ID_ARG(1)) " {for_update}",
                      id, out, err);
}

int berth_lease_save(struct berth_db *db, struct berth_lease *l, bool *won, struct berth_error *err)
{
    int64_t before = db->ops->written(db);
    int rc = berth_db_exec(
        db,
        "UPDATE leases SET status = $3, provider_lease_id = $4, acquired_at = $5,"
        " last_used_at = $6, expires_at = $7, released_at = $8, failure_reason = $9,"
        " cleanup_status = $10, metadata = $11, updated_at = $12, place = $13,"
        " provider_metadata = $14, owner = $15, duty = $16, final_status = $17,"
        " cleanup_attempts = $18, cleanup_error = $19, acknowledged_at = $20, due_at = $21,"
        " work_at = $22, home_at = $23, version = version + 1 WHERE " BERTH_SAME_ID(
            "id", BERTH_ID_ARG(1)) " AND version = $2",
        NULL, NULL, err, berth_text(l->id), berth_int(l->version),
        berth_text(status_names[l->status]), berth_text(l->provider_lease_id),
        berth_int(l->acquired_at_ms), berth_int(l->last_used_at_ms),
        berth_int_or_null(l->expires_at_ms), berth_int_or_null(l->released_at_ms),
        berth_text(l->failure_reason), nullable(cleanup_names, (int)l->cleanup),
        berth_text(l->metadata_json), berth_int(l->updated_at_ms),
        berth_text(place_names[l->place]), berth_text(l->provider_metadata_json),
        berth_text(l->owner), nullable(duty_names, (int)l->duty),
        nullable(status_names, (int)l->final_status), berth_int(l->cleanup_attempts),
        berth_text(l->cleanup_error), berth_int_or_null(l->acknowledged_at_ms),
        berth_int_or_null(l->due_at_ms), berth_int_or_null(l->work_at_ms),
        berth_int_or_null(l->home_at_ms));
    *won = rc == BERTH_OK && db->ops->written(db) != before;
    if (*won)
        l->version++;
    return rc;
}

int berth_lease_touch(struct berth_db *db, const char *id, int64_t now_ms, struct berth_error *err)
{
    return berth_db_exec(db,
                         "UPDATE leases SET last_used_at = $2 WHERE " BERTH_SAME_ID(
                             "id", BERTH_ID_ARG(1)) " AND status = 'active'"
                                                    " AND last_used_at < $2",
                         NULL, NULL, err, berth_text(id), berth_int(now_ms));
}

/* Says whether rows with this status always stand, as the CHECK of the table requires. */
static bool is_open(int status)
{
    return status == BERTH_LEASE_ACQUIRING || status == BERTH_LEASE_ACTIVE ||
           status == BERTH_LEASE_RELEASING || status == BERTH_LEASE_RETAINED;
}

#define LAST_USED_FIRST " ORDER BY last_used_at DESC, created_at DESC, id DESC"

int berth_lease_select(struct berth_db *db, struct berth_arena *arena,
                       const struct berth_lease_filter *filter, struct berth_list *out,
                       struct berth_error *err)
{
    /* Rows after the cursor, in the order of the list. The cursor has to be of the same
     * environment, run or company: otherwise it would tell when a foreign lease was made or used.
     */
#define USED_BEFORE                                                                                \
    "(CAST($6 AS TEXT) IS NULL OR (last_used_at, created_at, id) <"                                \
    " (SELECT last_used_at, created_at, id FROM leases WHERE " BERTH_SAME_ID(                      \
        "id", BERTH_ID_ARG(6)) " AND environment_id = $1))"
#define CREATED_BEFORE(whose)                                                                      \
    " AND (CAST($6 AS TEXT) IS NULL OR (created_at, id) <"                                         \
    " (SELECT created_at, id FROM leases WHERE " BERTH_SAME_ID("id", BERTH_ID_ARG(6)) whose "))"
#define OF_COMPANY " AND (CAST($3 AS TEXT) IS NULL OR company_id = $3)"
#define NEWEST_FIRST " ORDER BY created_at DESC, id DESC"
#define MATCHES " AND (CAST($2 AS TEXT) IS NULL OR status = $2)" OF_COMPANY
#define OF_ENVIRONMENT(n) " AND (CAST($" #n " AS TEXT) IS NULL OR environment_id = $" #n ")"
    /* Each statement compares the first columns of an index; the other conditions filter. The
     * standing rows of an environment are in one index, all others in another. */
    static const char *const by_environment =
        "SELECT " COLUMNS " FROM leases WHERE {row_key} IN (SELECT * FROM"
        " (SELECT {row_key} FROM leases WHERE environment_id = $1 AND due_at IS NULL" MATCHES
        "  AND $4 = 0 AND " USED_BEFORE LAST_USED_FIRST " LIMIT $5) AS ended"
        " UNION ALL SELECT {row_key} FROM leases WHERE environment_id = $1"
        "  AND due_at IS NOT NULL" MATCHES " AND " USED_BEFORE ")" LAST_USED_FIRST " LIMIT $5";
    static const char *const standing_by_environment =
        "SELECT " COLUMNS " FROM leases WHERE environment_id = $1 AND due_at IS NOT NULL" MATCHES
        " AND $4 = 1"
        " AND " USED_BEFORE LAST_USED_FIRST " LIMIT $5";
    static const char *const by_run =
        "SELECT " COLUMNS " FROM leases WHERE heartbeat_run_id IS NOT NULL"
        " AND " BERTH_SAME_ID("heartbeat_run_id", BERTH_ID_ARG(1)) MATCHES OF_ENVIRONMENT(
            7) " AND ($4 = 0 OR due_at IS NOT NULL)" CREATED_BEFORE(" AND heartbeat_run_id = $1")
            NEWEST_FIRST " LIMIT $5";
    static const char *const standing =
        "SELECT " COLUMNS
        " FROM leases WHERE due_at IS NOT NULL AND $4 = 1" MATCHES OF_ENVIRONMENT(1)
            CREATED_BEFORE(OF_COMPANY) NEWEST_FIRST " LIMIT $5";
    static const char *const newest_of_company =
        "SELECT " COLUMNS " FROM leases WHERE company_id = $3 AND $4 = 0" MATCHES OF_ENVIRONMENT(1)
            CREATED_BEFORE(OF_COMPANY) NEWEST_FIRST " LIMIT $5";
    /* No index is by age alone: this takes the newest rows of each company, and sorts those. */
    static const char *const newest =
        "SELECT " COLUMNS " FROM leases WHERE CAST($1 AS TEXT) IS NULL AND {row_key} IN"
        " (SELECT l.{row_key} FROM companies CROSS JOIN leases l WHERE l.{row_key} IN"
        "  (SELECT {row_key} FROM leases WHERE company_id = companies.id" MATCHES
        "   AND $4 = 0" CREATED_BEFORE(OF_COMPANY) NEWEST_FIRST " LIMIT $5))" NEWEST_FIRST
                                                                " LIMIT $5";
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    bool stands = filter->standing_only || is_open(filter->status);
    const char *status = filter->status < 0 ? NULL : status_names[filter->status];
    if (filter->run_id)
        return berth_db_exec(db, by_run, on_lease, &reader, err, berth_text(filter->run_id),
                             berth_text(status), berth_text(filter->company_id), berth_int(stands),
                             berth_int(filter->limit), berth_text(filter->before),
                             berth_text(filter->environment_id));
    const char *sql = filter->environment_id && !filter->company_id
                          ? (stands ? standing_by_environment : by_environment)
                      : stands             ? standing
                      : filter->company_id ? newest_of_company
                                           : newest;
    return berth_db_exec(db, sql, on_lease, &reader, err, berth_text(filter->environment_id),
                         berth_text(status), berth_text(filter->company_id), berth_int(stands),
                         berth_int(filter->limit), berth_text(filter->before));
}
#undef USED_BEFORE
#undef CREATED_BEFORE
#undef OF_COMPANY
#undef NEWEST_FIRST
#undef MATCHES
#undef OF_ENVIRONMENT

int berth_lease_select_parked(struct berth_db *db, struct berth_arena *arena,
                              const char *environment_id, const char *fingerprint,
                              struct berth_list *out, struct berth_error *err)
{
    static const char *const ours =
        "SELECT " COLUMNS " FROM leases WHERE environment_id = $1 AND due_at IS NOT NULL"
        " AND place = 'parked' AND owner IS NULL AND fingerprint = $2"
        " AND status IN ('released', 'expired', 'failed')" LAST_USED_FIRST " LIMIT 1 {skip_locked}";
    static const char *const of_others =
        "SELECT " COLUMNS " FROM leases WHERE environment_id = $1 AND due_at IS NOT NULL"
        " AND place = 'parked' AND owner IS NULL AND fingerprint IS NULL" LAST_USED_FIRST
        " {skip_locked}";
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    int rc = berth_db_exec(db, ours, on_lease, &reader, err, berth_text(environment_id),
                           berth_text(fingerprint));
    if (rc == BERTH_OK && out->count == 0)
        rc = berth_db_exec(db, of_others, on_lease, &reader, err, berth_text(environment_id));
    return rc;
}

int berth_lease_count_standing(struct berth_db *db, const char *environment_id, int64_t *out,
                               struct berth_error *err)
{
    *out = 0;
    return berth_db_exec(db,
                         "SELECT count(*) FROM leases WHERE environment_id = $1"
                         " AND due_at IS NOT NULL",
                         berth_row_int, out, err, berth_text(environment_id));
}

int berth_lease_count_of_provider(struct berth_db *db, const char *driver, const char *provider,
                                  int64_t *out, struct berth_error *err)
{
    *out = 0;
    return berth_db_exec(db,
                         "SELECT count(*) FROM leases WHERE due_at IS NOT NULL AND driver = $1"
                         " AND provider = $2",
                         berth_row_int, out, err, berth_text(driver), berth_text(provider));
}

static int on_tally(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    struct reader *reader = ctx;
    struct berth_lease_tally *t = berth_arena_alloc(reader->arena, sizeof *t);
    if (!t || !berth_list_add(reader->out, reader->arena, t))
        return berth_arena_check(reader->arena, err);
    *t = (struct berth_lease_tally){.status = berth_row_text(reader->arena, &row[0]),
                                    .driver = berth_row_text(reader->arena, &row[1]),
                                    .provider = berth_row_text(reader->arena, &row[2]),
                                    .place = berth_row_text(reader->arena, &row[3]),
                                    .count = row[4].number,
                                    .owed = row[5].number};
    return berth_arena_check(reader->arena, err);
}

int berth_lease_tally(struct berth_db *db, struct berth_arena *arena, struct berth_list *out,
                      struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    return berth_db_run(db,
                        "SELECT status, driver, provider, place, count(*),"
                        " sum(CASE WHEN cleanup_status IN ('pending', 'failed') THEN 1 ELSE 0 END)"
                        " FROM leases WHERE due_at IS NOT NULL"
                        " GROUP BY status, driver, provider, place"
                        " ORDER BY status, driver, provider, place",
                        NULL, 0, on_tally, &reader, err);
}

int berth_lease_count_owed(struct berth_db *db, int64_t *out, struct berth_error *err)
{
    *out = 0;
    return berth_db_run(db,
                        "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"
                        " AND cleanup_status IN ('pending', 'failed')",
                        NULL, 0, berth_row_int, out, err);
}

int berth_lease_count_owed_of(struct berth_db *db, const char *environment_id, int64_t *out,
                              struct berth_error *err)
{
    *out = 0;
    return berth_db_exec(db,
                         "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"
                         " AND environment_id = $1 AND cleanup_status IN ('pending', 'failed')",
                         berth_row_int, out, err, berth_text(environment_id));
}

int berth_lease_place_holder(struct berth_db *db, const char *environment_id,
                             const char *provider_lease_id, const char *but, bool *held,
                             struct berth_error *err)
{
    int rows = 0;
    int rc = berth_db_exec(db,
                           "SELECT 1 FROM leases WHERE environment_id = $1"
                           " AND provider_lease_id = $2 AND due_at IS NOT NULL AND id <> $3",
                           berth_row_count, &rows, err, berth_text(environment_id),
                           berth_text(provider_lease_id), berth_text(but));
    *held = rows > 0;
    return rc;
}

/* Sets `trouble` for a row that cannot be read, so that the sweep can go on with the others. */
static int on_standing(void *ctx, const struct berth_value *row, struct berth_error *err)
{
    struct reader *reader = ctx;
    struct berth_arena *arena = reader->arena;
    struct berth_standing *s = berth_arena_alloc(arena, sizeof *s);
    if (!s || !berth_list_add(reader->out, arena, s))
        return berth_arena_check(arena, err);
    s->id = berth_row_text(arena, &row[0]);
    s->environment_id = berth_row_text(arena, &row[1]);
    s->owner = berth_row_text(arena, &row[2]);
    s->driver = berth_row_text(arena, &row[3]);
    s->due_at_ms = row[6].number;
    s->outdated = row[9].number != 0;
    s->version = row[10].number;
    s->provider = berth_row_text(arena, &row[11]);
    s->run_id = berth_row_text(arena, &row[7]);
    s->run_owner = berth_row_text(arena, &row[12]);
    s->has_work = row[13].type != BERTH_VALUE_NULL;
    s->run_status = row[7].type == BERTH_VALUE_NULL ? BERTH_RUN_STATUS_NONE : BERTH_RUN_STATUS_GONE;
    int status = 0, place = 0;
    struct berth_error trouble;
    int rc = berth_enum_read(&berth_lease_statuses, &row[4], &status, &trouble);
    if (rc == BERTH_OK)
        rc = berth_enum_read(&berth_lease_places, &row[5], &place, &trouble);
    if (rc == BERTH_OK && row[8].type == BERTH_VALUE_TEXT)
        rc = berth_enum_read(&berth_run_statuses, &row[8], &s->run_status, &trouble);
    s->status = (enum berth_lease_status)status;
    s->place = (enum berth_lease_place)place;
    if (rc < 0)
        s->trouble = berth_arena_strdup(arena, trouble.message);
    return berth_arena_check(arena, err);
}

int berth_lease_select_standing(struct berth_db *db, struct berth_arena *arena,
                                struct berth_list *out, struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct reader reader = {.arena = arena, .out = out};
    return berth_db_run(
        db,
        "SELECT l.id, l.environment_id, l.owner, l.driver, l.status, l.place,"
        " l.due_at, l.heartbeat_run_id, r.status,"
        " CASE WHEN e.id IS NULL OR e.status <> 'active'"
        "  OR l.fingerprint <> e.fingerprint THEN 1 ELSE 0 END, l.version, l.provider,"
        " r.owner, l.work_at"
        " FROM leases l LEFT JOIN runs r ON " BERTH_SAME_ID(
            "r.id", "l.heartbeat_run_id") " LEFT JOIN environments e ON e.id = l.environment_id"
                                          " WHERE l.due_at IS NOT NULL ORDER BY l.due_at",
        NULL, 0, on_standing, &reader, err);
}
