/* SPDX-License-Identifier: Apache-2.0
 * src/store/migrate.c - the tables, as a list of migrations. Never edit a released migration:
 * append a new one. */
#include "store/migrate.h"

#include <stddef.h>

#include "store/db.h"

static const char *const migration_1[] = {
    "CREATE TABLE companies ("
    " id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL UNIQUE,"
    " created_at {bigint} NOT NULL, updated_at {bigint} NOT NULL {table_end}",

    "CREATE TABLE environments ("
    " id TEXT NOT NULL PRIMARY KEY, company_id TEXT NOT NULL REFERENCES companies (id),"
    " name TEXT NOT NULL, description TEXT, driver TEXT NOT NULL, status TEXT NOT NULL,"
    " config TEXT NOT NULL, metadata TEXT, fingerprint TEXT NOT NULL,"
    " deleting INTEGER NOT NULL DEFAULT 0,"
    " created_at {bigint} NOT NULL, updated_at {bigint} NOT NULL {table_end}",
    /* At most one local environment per company. */
    "CREATE UNIQUE INDEX environments_local ON environments (company_id) WHERE driver = 'local'",
    /* For lists of a company, and for lookup by name. */
    "CREATE INDEX environments_by_name ON environments (company_id, name)",

    "CREATE TABLE runs ("
    " id TEXT NOT NULL PRIMARY KEY, company_id TEXT NOT NULL REFERENCES companies (id),"
    " environment_id TEXT, status TEXT NOT NULL, error TEXT, error_code TEXT,"
    " started_at {bigint}, finished_at {bigint},"
    " created_at {bigint} NOT NULL, updated_at {bigint} NOT NULL {table_end}",

    /* due_at is when a sweep must look at the row; a row "stands" while it is set. The CHECK is the
     * invariant of the ledger: a place that may exist belongs to a row that a sweep selects. Rows
     * outlive their environment, so there is no foreign key. */
    "CREATE TABLE leases ("
    " id TEXT NOT NULL PRIMARY KEY, company_id TEXT NOT NULL, environment_id TEXT NOT NULL,"
    " execution_workspace_id TEXT, issue_id TEXT, heartbeat_run_id TEXT,"
    " status TEXT NOT NULL, lease_policy TEXT NOT NULL, provider TEXT, provider_lease_id TEXT,"
    " acquired_at {bigint} NOT NULL, last_used_at {bigint} NOT NULL, expires_at {bigint},"
    " released_at {bigint}, failure_reason TEXT, cleanup_status TEXT, metadata TEXT,"
    " created_at {bigint} NOT NULL, updated_at {bigint} NOT NULL,"
    " version {bigint} NOT NULL, place TEXT NOT NULL, driver TEXT NOT NULL, config TEXT,"
    " fingerprint TEXT, provider_metadata TEXT, owner TEXT, duty TEXT, final_status TEXT,"
    " cleanup_attempts {bigint} NOT NULL DEFAULT 0, cleanup_error TEXT,"
    " acknowledged_at {bigint}, due_at {bigint},"
    " CHECK (due_at IS NOT NULL OR (status IN ('released', 'expired', 'failed')"
    "  AND (place IN ('none', 'gone') OR acknowledged_at IS NOT NULL))) {table_end}",
    "CREATE INDEX leases_standing ON leases (environment_id, due_at) WHERE due_at IS NOT NULL",
    "CREATE UNIQUE INDEX leases_place ON leases (environment_id, provider_lease_id)"
    " WHERE due_at IS NOT NULL AND provider_lease_id IS NOT NULL",
    "CREATE INDEX leases_by_environment ON leases (environment_id, id)",
    "CREATE INDEX leases_by_run ON leases (heartbeat_run_id) WHERE heartbeat_run_id IS NOT NULL",

    "CREATE TABLE activity ("
    " id {serial_key}, company_id TEXT NOT NULL, actor_type TEXT NOT NULL, actor_id TEXT,"
    " action TEXT NOT NULL, entity_type TEXT NOT NULL, entity_id TEXT NOT NULL,"
    " agent_id TEXT, run_id TEXT, details TEXT, created_at {bigint} NOT NULL {serial_table_end}",
    "CREATE INDEX activity_by_entity ON activity (entity_id, id)",

    /* Heartbeats of nodes in a store that machines share; on one machine, nodes lock files. */
    "CREATE TABLE nodes ("
    " id TEXT NOT NULL PRIMARY KEY, host TEXT, pid {bigint}, started_at {bigint} NOT NULL,"
    " beat_at {bigint} NOT NULL {table_end}",
    NULL,
};

static const char *const migration_2[] = {
    "CREATE TABLE secrets ("
    " id TEXT NOT NULL PRIMARY KEY, company_id TEXT NOT NULL REFERENCES companies (id),"
    " key TEXT NOT NULL, name TEXT NOT NULL, description TEXT, status TEXT NOT NULL,"
    " latest_version {bigint} NOT NULL, environment_id TEXT,"
    " created_by_type TEXT, created_by_id TEXT, last_resolved_at {bigint},"
    " last_rotated_at {bigint}, created_at {bigint} NOT NULL, updated_at {bigint} NOT NULL,"
    " UNIQUE (company_id, name), UNIQUE (company_id, key) {table_end}",
    "CREATE INDEX secrets_made_by ON secrets (environment_id) WHERE environment_id IS NOT NULL",

    "CREATE TABLE secret_versions ("
    " secret_id TEXT NOT NULL REFERENCES secrets (id), version {bigint} NOT NULL,"
    " status TEXT NOT NULL, key_id TEXT NOT NULL, sealed TEXT NOT NULL,"
    " created_at {bigint} NOT NULL, PRIMARY KEY (secret_id, version) {table_end}",

    /* The key that new versions are sealed with; at most one row. */
    "CREATE TABLE secret_key ("
    " one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1), key_id TEXT NOT NULL,"
    " updated_at {bigint} NOT NULL {table_end}",
    /* The id of this store in the key file, which several stores may share. */
    "CREATE TABLE store_identity ("
    " one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL {table_end}",

    "CREATE TABLE secret_bindings ("
    " company_id TEXT NOT NULL, target_type TEXT NOT NULL, target_id TEXT NOT NULL,"
    " config_path TEXT NOT NULL, secret_id TEXT NOT NULL REFERENCES secrets (id),"
    " version {bigint}, created_at {bigint} NOT NULL,"
    " PRIMARY KEY (company_id, target_type, target_id, config_path) {table_end}",
    "CREATE INDEX secret_bindings_by_secret ON secret_bindings (secret_id)",

    /* Resolutions of secrets. Rows outlive their secret, so there is no foreign key. */
    "CREATE TABLE secret_events ("
    " id {serial_key}, company_id TEXT NOT NULL, secret_id TEXT NOT NULL, version {bigint},"
    " actor_type TEXT NOT NULL, actor_id TEXT, consumer_type TEXT NOT NULL,"
    " consumer_id TEXT NOT NULL, config_path TEXT, issue_id TEXT, heartbeat_run_id TEXT,"
    " outcome TEXT NOT NULL, error_code TEXT, created_at {bigint} NOT NULL {serial_table_end}",
    "CREATE INDEX secret_events_by_secret ON secret_events (secret_id, id)",
    NULL,
};

static const char *const migration_3[] = {
    /* The node that performs the run; NULL: a program outside berth does. */
    "ALTER TABLE runs ADD COLUMN owner TEXT",
    "CREATE INDEX runs_performed ON runs (owner) WHERE owner IS NOT NULL AND status = 'running'",
    NULL,
};

static const char *const migration_4[] = {
    /* Commands; cause is null until the end. Rows are written late: there is no foreign key. */
    "CREATE TABLE execs ("
    " id TEXT NOT NULL PRIMARY KEY, company_id TEXT NOT NULL, environment_id TEXT NOT NULL,"
    " lease_id TEXT NOT NULL, run_id TEXT, command TEXT NOT NULL, cwd TEXT, cause TEXT,"
    " exit_code {bigint} NOT NULL, signal {bigint} NOT NULL, stdout_bytes {bigint} NOT NULL,"
    " stderr_bytes {bigint} NOT NULL, truncated {bigint} NOT NULL, started_at {bigint} NOT NULL,"
    " finished_at {bigint}, owner TEXT {table_end}",
    /* Execs that run, or whose node was killed. */
    "CREATE INDEX execs_open ON execs (id) WHERE cause IS NULL",
    "CREATE INDEX execs_by_run ON execs (run_id, id) WHERE run_id IS NOT NULL",
    NULL,
};

static const char *const migration_5[] = {
    "CREATE TABLE plugins ("
    " id TEXT NOT NULL PRIMARY KEY, plugin_key TEXT NOT NULL UNIQUE, package_name TEXT NOT NULL,"
    " package_path TEXT NOT NULL, in_place {bigint} NOT NULL, version TEXT NOT NULL,"
    " status TEXT NOT NULL, manifest TEXT NOT NULL, config TEXT NOT NULL, last_error TEXT,"
    " install_order {bigint} NOT NULL, installed_at {bigint} NOT NULL,"
    " updated_at {bigint} NOT NULL, row_version {bigint} NOT NULL {table_end}",
    NULL,
};

static const char *const migration_6[] = {
    /* company_id is null for tokens of all companies; hash is of the random part. */
    "CREATE TABLE tokens ("
    " id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL,"
    " company_id TEXT REFERENCES companies (id), permissions {bigint} NOT NULL, agent_id TEXT,"
    " run_id TEXT, lease_id TEXT, hash TEXT NOT NULL, created_at {bigint} NOT NULL,"
    " expires_at {bigint}, revoked_at {bigint}, last_used_at {bigint} {table_end}",
    NULL,
};

static const char *const migration_7[] = {
    /* Requests with an idempotency key, which must not be performed twice. */
    "CREATE TABLE requests ("
    " id TEXT NOT NULL PRIMARY KEY, caller TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL,"
    " owner TEXT NOT NULL, status {bigint} NOT NULL, answer TEXT, created_at {bigint} NOT NULL,"
    " UNIQUE (caller, key) {table_end}",
    "CREATE INDEX requests_by_age ON requests (created_at)",
    NULL,
};

static const char *const migration_8[] = {
    /* The order in which the leases of an environment are listed. */
    "DROP INDEX leases_by_environment",
    "CREATE INDEX leases_by_use ON leases (environment_id, last_used_at, created_at, id)",
    NULL,
};

static const char *const migration_9[] = {
    /* What an operator allows the worker of a plugin, as a JSON object. */
    "ALTER TABLE plugins ADD COLUMN settings TEXT NOT NULL DEFAULT '{}'",
    NULL,
};

static const char *const migration_10[] = {
    /* Ids of runs and leases no longer begin with the time, so lists need another order. */
    "CREATE INDEX leases_by_age ON leases (created_at, id)",
    "CREATE INDEX runs_by_age ON runs (company_id, created_at, id)",
    NULL,
};

/* The columns after the id, for SQLite. An IN with three values would build a table of them for
 * each row that is written. */
#define LEASE_COLUMNS                                                                              \
    "company_id TEXT NOT NULL, environment_id TEXT NOT NULL,"                                      \
    " execution_workspace_id TEXT, issue_id TEXT, heartbeat_run_id TEXT,"                          \
    " status TEXT NOT NULL, lease_policy TEXT NOT NULL, provider TEXT, provider_lease_id TEXT,"    \
    " acquired_at INTEGER NOT NULL, last_used_at INTEGER NOT NULL, expires_at INTEGER,"            \
    " released_at INTEGER, failure_reason TEXT, cleanup_status TEXT, metadata TEXT,"               \
    " created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,"                                   \
    " version INTEGER NOT NULL, place TEXT NOT NULL, driver TEXT NOT NULL, config TEXT,"           \
    " fingerprint TEXT, provider_metadata TEXT, owner TEXT, duty TEXT, final_status TEXT,"         \
    " cleanup_attempts INTEGER NOT NULL DEFAULT 0, cleanup_error TEXT,"                            \
    " acknowledged_at INTEGER, due_at INTEGER,"                                                    \
    " CHECK (due_at IS NOT NULL OR"                                                                \
    "  ((status = 'released' OR status = 'expired' OR status = 'failed')"                          \
    "   AND (place IN ('none', 'gone') OR acknowledged_at IS NOT NULL)))) STRICT"

static const char *const migration_11[] = {
    /* The leases of SQLite were sorted by id, and random ids scattered what belongs together over
     * the file. Now they are in the order of insertion, and an index finds them by id. PostgreSQL
     * has always kept them so. */
    "{only_sqlite}CREATE TABLE leases_new (id TEXT NOT NULL PRIMARY KEY, " LEASE_COLUMNS,
    "{only_sqlite}INSERT INTO leases_new SELECT * FROM leases ORDER BY created_at, id",
    "{only_sqlite}DROP TABLE leases",
    "{only_sqlite}ALTER TABLE leases_new RENAME TO leases",
    "{only_sqlite}CREATE INDEX leases_standing ON leases (environment_id, due_at)"
    " WHERE due_at IS NOT NULL",
    "{only_sqlite}CREATE UNIQUE INDEX leases_place ON leases (environment_id, provider_lease_id)"
    " WHERE due_at IS NOT NULL AND provider_lease_id IS NOT NULL",
    "{only_sqlite}CREATE INDEX leases_by_run ON leases (heartbeat_run_id)"
    " WHERE heartbeat_run_id IS NOT NULL",
    "{only_sqlite}CREATE INDEX leases_by_use ON leases"
    " (environment_id, last_used_at, created_at, id)",
    "{only_sqlite}CREATE INDEX leases_by_age ON leases (created_at, id)",
    NULL,
};

/* An index by the digits of an id that hold the time, then by the id. */
#define BY_ID_TIME(column) "(substr(" column ", 10, 14), " column ")"

/* The indexes that a table of leases needs again after it was copied, for SQLite. */
#define LEASE_INDEXES                                                                              \
    "{only_sqlite}CREATE UNIQUE INDEX leases_id ON leases " BY_ID_TIME("id"),                      \
        "{only_sqlite}CREATE INDEX leases_standing ON leases (environment_id, due_at)"             \
        " WHERE due_at IS NOT NULL",                                                               \
        "{only_sqlite}CREATE UNIQUE INDEX leases_place ON leases"                                  \
        " (environment_id, provider_lease_id)"                                                     \
        " WHERE due_at IS NOT NULL AND provider_lease_id IS NOT NULL",                             \
        "{only_sqlite}CREATE INDEX leases_by_run ON leases " BY_ID_TIME(                           \
            "heartbeat_run_id") " WHERE heartbeat_run_id IS NOT NULL"

static const char *const migration_12[] = {
    /* An index on random ids changes a page of its own for each row. The digits in the middle of
     * the ids of runs and leases hold the time (base/id.h), so the indexes of SQLite begin with
     * these. PostgreSQL does not lose by random keys, and keeps its primary keys. */
    "{only_sqlite}CREATE TABLE leases_new (id TEXT NOT NULL, " LEASE_COLUMNS,
    "{only_sqlite}INSERT INTO leases_new SELECT * FROM leases ORDER BY created_at, id",
    "{only_sqlite}DROP TABLE leases",
    "{only_sqlite}ALTER TABLE leases_new RENAME TO leases",
    LEASE_INDEXES,
    "{only_sqlite}CREATE INDEX leases_by_use ON leases"
    " (environment_id, last_used_at, created_at, id)",
    "{only_sqlite}CREATE INDEX leases_by_age ON leases (created_at, id)",

    "{only_sqlite}CREATE TABLE runs_new ("
    " id TEXT NOT NULL, company_id TEXT NOT NULL REFERENCES companies (id),"
    " environment_id TEXT, status TEXT NOT NULL, error TEXT, error_code TEXT,"
    " started_at INTEGER, finished_at INTEGER,"
    " created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, owner TEXT) STRICT",
    "{only_sqlite}INSERT INTO runs_new SELECT * FROM runs ORDER BY created_at, id",
    "{only_sqlite}DROP TABLE runs",
    "{only_sqlite}ALTER TABLE runs_new RENAME TO runs",
    "{only_sqlite}CREATE UNIQUE INDEX runs_id ON runs " BY_ID_TIME("id"),
    "{only_sqlite}CREATE INDEX runs_performed ON runs (owner)"
    " WHERE owner IS NOT NULL AND status = 'running'",
    "{only_sqlite}CREATE INDEX runs_by_age ON runs (company_id, created_at, id)",

    "{only_sqlite}DROP INDEX execs_by_run",
    "{only_sqlite}CREATE INDEX execs_by_run ON execs (substr(run_id, 10, 14), run_id, id)"
    " WHERE run_id IS NOT NULL",
    "{only_sqlite}DROP INDEX activity_by_entity",
    "{only_sqlite}CREATE INDEX activity_by_entity ON activity"
    " (substr(entity_id, 10, 14), entity_id, id)",
    NULL,
};

/* For pages of a company's environments, whose rows may be large. */
static const char *const migration_13[] = {
    "CREATE INDEX environments_by_change ON environments (company_id, updated_at, created_at, id)",
    NULL};

/* For the activity of one company, whatever the others do. */
static const char *const migration_14[] = {
    "CREATE INDEX activity_by_company ON activity (company_id, id)", NULL};

/* For the leases of one company, likewise. */
static const char *const migration_15[] = {
    "CREATE INDEX leases_by_company ON leases (company_id, created_at, id)", NULL};

/* Makes writing a lease cheaper. Few leases share a millisecond, so lists sort these by id
 * themselves; the list of all companies takes the newest leases of each (store/lease.c). */
static const char *const migration_16[] = {
    "DROP INDEX leases_by_age",
    "DROP INDEX leases_by_use",
    "DROP INDEX leases_by_company",
    "{only_sqlite}CREATE TABLE leases_new (id TEXT NOT NULL, " LEASE_COLUMNS,
    "{only_sqlite}INSERT INTO leases_new SELECT * FROM leases ORDER BY rowid",
    "{only_sqlite}DROP TABLE leases",
    "{only_sqlite}ALTER TABLE leases_new RENAME TO leases",
    LEASE_INDEXES,
    "CREATE INDEX leases_by_use ON leases (environment_id, last_used_at) WHERE due_at IS NULL",
    "CREATE INDEX leases_by_company ON leases (company_id, created_at)",
    "{only_sqlite}DROP INDEX activity_by_entity",
    "{only_sqlite}CREATE INDEX activity_by_entity ON activity (substr(entity_id, 10, 14))",
    NULL,
};

/* The secrets that an environment was bound to when a lease captured its config. Of leases that
 * stand already, the events tell what their environments have resolved. */
static const char *const migration_17[] = {
    "CREATE TABLE lease_secrets ("
    " lease_id TEXT NOT NULL, config_path TEXT NOT NULL, secret_id TEXT NOT NULL,"
    " PRIMARY KEY (lease_id, config_path, secret_id) {table_end}",
    "INSERT INTO lease_secrets (lease_id, config_path, secret_id)"
    " SELECT l.id, e.config_path, e.secret_id FROM"
    " (SELECT DISTINCT consumer_id, config_path, secret_id FROM secret_events"
    "  WHERE consumer_type = 'environment' AND outcome = 'success' AND config_path IS NOT NULL) e"
    " JOIN leases l ON l.environment_id = e.consumer_id WHERE l.due_at IS NOT NULL",
    NULL,
};

/* work_at: since when a place may hold work that is not home. home_at: when such work last came
 * home. workspace: what became of the
 * workspace of a run, as JSON. workspace_diff: what changed there, as a unified diff. */
static const char *const migration_18[] = {
    "ALTER TABLE leases ADD COLUMN work_at {bigint}",
    "ALTER TABLE leases ADD COLUMN home_at {bigint}",
    "ALTER TABLE runs ADD COLUMN workspace TEXT",
    "ALTER TABLE runs ADD COLUMN workspace_diff TEXT",
    NULL,
};

static const char *const *const migrations[] = {
    migration_1,  migration_2,  migration_3,  migration_4,  migration_5,  migration_6,
    migration_7,  migration_8,  migration_9,  migration_10, migration_11, migration_12,
    migration_13, migration_14, migration_15, migration_16, migration_17, migration_18};

int berth_store_version(void)
{
    return (int)(sizeof migrations / sizeof migrations[0]);
}

static int current_version(struct berth_db *db, int64_t *version, struct berth_error *err)
{
    *version = 0;
    int rc = berth_db_run(db, "{migration_lock}", NULL, 0, NULL, NULL, err);
    if (rc == BERTH_OK)
        rc = berth_db_run(db, "CREATE TABLE IF NOT EXISTS berth_schema (version {bigint} NOT NULL)",
                          NULL, 0, NULL, NULL, err);
    if (rc == BERTH_OK)
        rc = berth_db_run(db, "SELECT max(version) FROM berth_schema", NULL, 0, berth_row_int,
                          version, err);
    return rc;
}

/* Applies the next migration. *more says whether there was one to apply. */
static int migrate_step(struct berth_db *db, bool *more, struct berth_error *err)
{
    int64_t version;
    int rc = current_version(db, &version, err);
    if (rc < 0)
        return rc;
    if (version > berth_store_version())
        return berth_fail(err, BERTH_E_UNSUPPORTED,
                          "The store has schema version %lld, this program knows up to %d: use a "
                          "newer berth. Nothing was changed.",
                          (long long)version, berth_store_version());
    *more = version < berth_store_version();
    if (!*more)
        return BERTH_OK;
    for (const char *const *sql = migrations[version]; *sql; sql++) {
        rc = berth_db_run(db, *sql, NULL, 0, NULL, NULL, err);
        if (rc < 0)
            return berth_wrap(err, "migration %lld", (long long)version + 1);
    }
    return berth_db_exec(db, "INSERT INTO berth_schema (version) VALUES ($1)", NULL, NULL, err,
                         berth_int(version + 1));
}

int berth_store_migrate(struct berth_db *db, struct berth_error *err)
{
    bool more = true;
    int rc = BERTH_OK;
    db->unhurried = true; /* an index on many rows, or another program that migrates */
    while (rc == BERTH_OK && more) {
        rc = db->ops->begin(db, BERTH_WRITE, err);
        if (rc < 0)
            break;
        rc = migrate_step(db, &more, err);
        if (rc == BERTH_OK)
            rc = db->ops->commit(db, err);
        if (rc < 0)
            db->ops->rollback(db);
    }
    db->unhurried = false;
    return rc;
}
