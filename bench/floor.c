/* SPDX-License-Identifier: Apache-2.0
 * bench/floor.c - see floor.h. */
#include "floor.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef BERTH_WITH_POSTGRES
#include <libpq-fe.h>
#endif

#include "base/auto.h"

#define BODY_BYTES 300

struct floor {
    int (*commit)(struct floor *f, struct berth_error *err);
    void (*close)(struct floor *f);
    char body[BODY_BYTES + 1], version[64];
    struct samples all;
    int64_t spent_ns;
};

static void prepare_floor(struct floor *f)
{
    memset(f->body, 'b', BODY_BYTES);
}

/* --- SQLite --- */

struct sqlite_floor {
    struct floor base;
    sqlite3 *handle;
    sqlite3_stmt *begin, *insert, *commit;
};

static int fail_sqlite(struct sqlite_floor *f, struct berth_error *err)
{
    return berth_fail(err, BERTH_E_INTERNAL, "bare SQLite: %s", sqlite3_errmsg(f->handle));
}

static int sqlite_commit(struct floor *base, struct berth_error *err)
{
    struct sqlite_floor *f = (struct sqlite_floor *)base;
    sqlite3_stmt *const steps[] = {f->begin, f->insert, f->commit};
    (void)sqlite3_bind_text(f->insert, 1, base->body, BODY_BYTES, SQLITE_STATIC);
    for (int i = 0; i < 3; i++) {
        if (sqlite3_step(steps[i]) != SQLITE_DONE)
            return fail_sqlite(f, err);
        (void)sqlite3_reset(steps[i]);
    }
    return BERTH_OK;
}

static void sqlite_close(struct floor *base)
{
    struct sqlite_floor *f = (struct sqlite_floor *)base;
    (void)sqlite3_finalize(f->begin);
    (void)sqlite3_finalize(f->insert);
    (void)sqlite3_finalize(f->commit);
    (void)sqlite3_close(f->handle);
}

static int sqlite_start(struct sqlite_floor *f, const char *path, struct berth_error *err)
{
    if (sqlite3_open_v2(path, &f->handle,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK ||
        sqlite3_exec(f->handle,
                     "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                     "CREATE TABLE bare (id INTEGER PRIMARY KEY, body TEXT NOT NULL)",
                     NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(f->handle, "BEGIN IMMEDIATE", -1, &f->begin, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(f->handle, "INSERT INTO bare (body) VALUES (?1)", -1, &f->insert,
                           NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(f->handle, "COMMIT", -1, &f->commit, NULL) != SQLITE_OK)
        return fail_sqlite(f, err);
    return BERTH_OK;
}

int floor_open_sqlite(const char *directory, struct floor **out, struct berth_error *err)
{
    struct sqlite_floor *f = calloc(1, sizeof *f);
    auto_free char *path = NULL;
    if (!f || asprintf(&path, "%s/bare.db", directory) < 0) {
        free(f);
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: floor.");
    }
    prepare_floor(&f->base);
    f->base.commit = sqlite_commit;
    f->base.close = sqlite_close;
    (void)snprintf(f->base.version, sizeof f->base.version, "SQLite %s", sqlite3_libversion());
    int rc = sqlite_start(f, path, err);
    if (rc < 0)
        floor_close(&f->base);
    else
        *out = &f->base;
    return rc;
}

/* --- PostgreSQL --- */

#ifdef BERTH_WITH_POSTGRES
struct postgres_floor {
    struct floor base;
    PGconn *conn;
    unsigned at;
};

static int finish(struct postgres_floor *f, PGresult *result, struct berth_error *err)
{
    int rc =
        PQresultStatus(result) == PGRES_COMMAND_OK
            ? BERTH_OK
            : berth_fail(err, BERTH_E_UNAVAILABLE, "bare PostgreSQL: %s", PQerrorMessage(f->conn));
    PQclear(result);
    return rc;
}

/* One round trip: outside a transaction block a statement commits by itself. */
static int postgres_commit(struct floor *base, struct berth_error *err)
{
    struct postgres_floor *f = (struct postgres_floor *)base;
    char id[16];
    (void)snprintf(id, sizeof id, "%u", f->at++ % 1024);
    const char *const values[] = {id, base->body};
    return finish(f, PQexecPrepared(f->conn, "bare", 2, values, NULL, NULL, 0), err);
}

static void postgres_close(struct floor *base)
{
    struct postgres_floor *f = (struct postgres_floor *)base;
    if (PQstatus(f->conn) == CONNECTION_OK)
        PQclear(PQexec(f->conn, "DROP TABLE IF EXISTS bench_bare"));
    PQfinish(f->conn);
}

static int postgres_start(struct postgres_floor *f, struct berth_error *err)
{
    int rc = finish(f, PQexec(f->conn, "SET client_min_messages = warning"), err);
    if (rc == BERTH_OK)
        rc = finish(f, PQexec(f->conn, "DROP TABLE IF EXISTS bench_bare"), err);
    if (rc == BERTH_OK)
        rc = finish(f,
                    PQexec(f->conn, "CREATE TABLE bench_bare (id INTEGER PRIMARY KEY,"
                                    " body TEXT NOT NULL)"),
                    err);
    if (rc == BERTH_OK)
        rc = finish(f,
                    PQprepare(f->conn, "bare",
                              "INSERT INTO bench_bare (id, body) VALUES ($1, $2)"
                              " ON CONFLICT (id) DO UPDATE SET body = excluded.body",
                              0, NULL),
                    err);
    return rc;
}

int floor_open_postgres(const char *address, struct floor **out, struct berth_error *err)
{
    struct postgres_floor *f = calloc(1, sizeof *f);
    if (!f)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: floor.");
    prepare_floor(&f->base);
    f->base.commit = postgres_commit;
    f->base.close = postgres_close;
    f->conn = PQconnectdb(address);
    int version = PQserverVersion(f->conn);
    (void)snprintf(f->base.version, sizeof f->base.version, "PostgreSQL %d.%d", version / 10000,
                   version % 10000);
    int rc = postgres_start(f, err);
    if (rc < 0)
        floor_close(&f->base);
    else
        *out = &f->base;
    return rc;
}
#else
int floor_open_postgres(const char *address, struct floor **out, struct berth_error *err)
{
    (void)address, (void)out;
    return berth_fail(err, BERTH_E_UNSUPPORTED, "This build has no PostgreSQL.");
}
#endif

/* --- both --- */

void floor_close(struct floor *f)
{
    if (!f)
        return;
    f->close(f);
    samples_clear(&f->all);
    free(f);
}

int floor_run(struct floor *f, int64_t ns, struct samples *out, struct berth_error *err)
{
    int64_t start = now_ns(), before = start, end = start + ns;
    while (before < end) {
        int rc = f->commit(f, err);
        int64_t after = now_ns();
        if (rc == BERTH_OK)
            rc = samples_add(out, after - before, err);
        if (rc == BERTH_OK)
            rc = samples_add(&f->all, after - before, err);
        if (rc < 0)
            return rc;
        before = after;
    }
    f->spent_ns += before - start;
    return BERTH_OK;
}

const char *floor_version(const struct floor *f)
{
    return f->version;
}

struct samples *floor_samples(struct floor *f)
{
    return &f->all;
}

double floor_per_second(const struct floor *f)
{
    return f->spent_ns ? (double)f->all.count * 1e9 / (double)f->spent_ns : 0;
}
