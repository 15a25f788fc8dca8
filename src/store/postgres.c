/* SPDX-License-Identifier: Apache-2.0
 * src/store/postgres.c - implements db.h with a connection of libpq.
 * Transactions that write are READ COMMITTED: they lock the rows that they depend on ({for_update},
 * {for_share}), or compare the version when they update. */
#include "store/postgres.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/time.h"
#include "store/db.h"
#include "store/dialect.h"

#define COLUMNS_MAX 48
#define OID_INT8 20
#define OID_INT4 23
#define POLL_STEP_MS 250 /* after which a deadline on the movable clock is looked at again */
#define TEXT_OF(number) #number
#define NUMBER_TEXT(number) TEXT_OF(number)
/* For the server, so that it does not work on, or keep locks for, a client that has given up. */
#define SESSION_LIMITS                                                                             \
    "SET statement_timeout = " NUMBER_TEXT(                                                        \
        BERTH_STORE_STATEMENT_MS_MAX) ";"                                                          \
                                      "SET idle_in_transaction_session_timeout = " NUMBER_TEXT(    \
                                          BERTH_STORE_IDLE_MS_MAX)

struct postgres_db {
    struct berth_db base;
    PGconn *conn;
    struct berth_map
        statements; /* SQL before expansion -> name of the prepared statement, on the heap */
    int prepared;   /* statements prepared so far, for their names */
    int64_t written;
};

/* Returns the length of the first line. Messages of libpq end with a newline; some have several
 * lines. */
static int line_length(const char *text)
{
    return (int)strcspn(text, "\n");
}

static int fail_connection(struct postgres_db *db, struct berth_error *err)
{
    const char *text = PQerrorMessage(db->conn);
    db->base.broken = true;
    if (db->base.silent) {
        (void)berth_fail(err, BERTH_E_UNAVAILABLE,
                         "PostgreSQL does not answer. Check its server, or try again later.");
        err->os_errno = ETIMEDOUT;
        return err->code;
    }
    return berth_fail(err, BERTH_E_UNAVAILABLE, "PostgreSQL cannot be reached: %.*s",
                      line_length(text), text);
}

static int fail_result(struct postgres_db *db, const PGresult *result, struct berth_error *err)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (PQstatus(db->conn) != CONNECTION_OK || !state)
        return fail_connection(db, err);
    db->base.conflict = strcmp(state, "40001") == 0 || strcmp(state, "40P01") == 0;
    int code = BERTH_E_INTERNAL;
    if (strcmp(state, "23505") == 0)
        code = BERTH_E_CONFLICT;
    else if (strncmp(state, "57", 2) == 0 || strncmp(state, "53", 2) == 0 ||
             strcmp(state, "55P03") == 0 || strcmp(state, "25P03") == 0 || db->base.conflict)
        code = BERTH_E_UNAVAILABLE;
    else if (strncmp(state, "28", 2) == 0 || strcmp(state, "42501") == 0)
        code = BERTH_E_DENIED;
    if (strncmp(state, "57P", 3) == 0 || strcmp(state, "25P03") == 0)
        db->base.broken = true; /* the server is going down, or has closed the connection */
    if (code == BERTH_E_CONFLICT)
        return berth_fail(err, code, "The store refuses this: %s.", text);
    return berth_fail(err, code, "PostgreSQL failed: %s (%s).", text, state);
}

static int result_finish(struct postgres_db *db, PGresult *result, struct berth_error *err)
{
    ExecStatusType status = PQresultStatus(result);
    int rc = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ? BERTH_OK
                                                                     : fail_result(db, result, err);
    PQclear(result);
    return rc;
}

/* Waits until the socket is ready. Returns false when the deadline has passed. After the deadline
 * it waits for a moment more: this process may have been suspended while the server was ready. */
static bool socket_wait(PGconn *conn, short events, int64_t deadline_ms)
{
    struct pollfd fd = {.fd = PQsocket(conn), .events = events};
    for (bool late = false;;) {
        int64_t left_ms = deadline_ms - berth_time_mono_ms();
        int got = poll(&fd, 1, left_ms > 0 && left_ms < POLL_STEP_MS ? (int)left_ms : POLL_STEP_MS);
        if (got > 0 || (got < 0 && errno != EINTR))
            return true; /* libpq finds out what it is */
        if (late)
            return false;
        late = deadline_ms <= berth_time_mono_ms();
    }
}

/* Waits until PQgetResult does not block. Returns false when the connection is lost or silent. */
static bool result_wait(struct postgres_db *db, int64_t deadline_ms)
{
    int unsent = PQflush(db->conn);
    while (unsent > 0 || (unsent == 0 && PQisBusy(db->conn))) {
        db->base.silent =
            !socket_wait(db->conn, (short)(unsent ? POLLIN | POLLOUT : POLLIN), deadline_ms);
        if (db->base.silent || !PQconsumeInput(db->conn))
            return false;
        if (unsent)
            unsent = PQflush(db->conn);
    }
    return unsent == 0;
}

/* Returns the last result of what was sent; the caller clears it. NULL: the connection is lost or
 * silent. `sent` is what libpq returned for sending it. */
static PGresult *postgres_result(struct postgres_db *db, int sent)
{
    int64_t deadline_ms =
        db->base.unhurried ? INT64_MAX : berth_time_mono_ms() + BERTH_STORE_ANSWER_MS_MAX;
    PGresult *last = NULL;
    while (sent && result_wait(db, deadline_ms)) {
        PGresult *next = PQgetResult(db->conn);
        if (!next)
            return last;
        if (PQresultStatus(last) != PGRES_FATAL_ERROR || !last) {
            PQclear(last);
            last = next;
        } else {
            PQclear(next); /* the first error counts */
        }
    }
    PQclear(last);
    return NULL;
}

static int simple(struct postgres_db *db, const char *sql, struct berth_error *err)
{
    return result_finish(db, postgres_result(db, PQsendQuery(db->conn, sql)), err);
}

/* Sets *name to the prepared statement, which is kept until the connection is closed. */
static int postgres_statement(struct postgres_db *db, const char *sql, const char **name,
                              struct berth_error *err)
{
    *name = berth_map_get(&db->statements, sql);
    if (*name)
        return BERTH_OK;
    auto_free char *text = berth_dialect_expand(BERTH_DIALECT_POSTGRES, sql);
    auto_free char *fresh = NULL;
    if (!text || asprintf(&fresh, "berth_%d", db->prepared) < 0)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: statement.");
    PGresult *prepared = postgres_result(db, PQsendPrepare(db->conn, fresh, text, 0, NULL));
    int rc = result_finish(db, prepared, err);
    if (rc < 0)
        return rc;
    db->prepared++;
    if (!berth_map_put(&db->statements, sql, fresh))
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: statement.");
    *name = take_ptr(fresh);
    return BERTH_OK;
}

static void read_row(const PGresult *result, int at, struct berth_value row[COLUMNS_MAX])
{
    int columns = PQnfields(result);
    for (int i = 0; i < columns && i < COLUMNS_MAX; i++) {
        const char *text = PQgetvalue(result, at, i);
        Oid type = PQftype(result, i);
        if (PQgetisnull(result, at, i))
            row[i] = berth_text(NULL);
        else if (type == OID_INT8 || type == OID_INT4)
            row[i] = berth_int(strtoll(text, NULL, 10));
        else
            row[i] = berth_text(text);
    }
}

static int postgres_run(struct berth_db *base, const char *sql, const struct berth_value *args,
                        int nargs, berth_row_fn *on_row, void *ctx, struct berth_error *err)
{
    struct postgres_db *db = (struct postgres_db *)base;
    const char *name;
    int rc = postgres_statement(db, sql, &name, err);
    if (rc < 0)
        return rc;
    const char *values[BERTH_DB_ARGS_MAX];
    char numbers[BERTH_DB_ARGS_MAX][24];
    for (int i = 0; i < nargs; i++) {
        values[i] = args[i].type == BERTH_VALUE_TEXT ? args[i].text : NULL;
        if (args[i].type == BERTH_VALUE_INT) {
            (void)snprintf(numbers[i], sizeof numbers[i], "%lld", (long long)args[i].number);
            values[i] = numbers[i];
        }
    }
    PGresult *result =
        postgres_result(db, PQsendQueryPrepared(db->conn, name, nargs, values, NULL, NULL, 0));
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        return result_finish(db, result, err);
    db->written += strtoll(PQcmdTuples(result), NULL, 10);
    for (int i = 0; on_row && rc == BERTH_OK && i < PQntuples(result); i++) {
        struct berth_value row[COLUMNS_MAX];
        read_row(result, i, row);
        rc = on_row(ctx, row, err);
    }
    PQclear(result);
    return rc;
}

static int postgres_begin(struct berth_db *base, enum berth_access access, struct berth_error *err)
{
    struct postgres_db *db = (struct postgres_db *)base;
    db->base.conflict = false;
    int rc = simple(db,
                    access == BERTH_WRITE ? "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
                                          : "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
                    err);
    if (rc == BERTH_OK && base->unhurried)
        rc = simple(db, "SET LOCAL statement_timeout = 0", err);
    return rc;
}

static int postgres_commit(struct berth_db *base, struct berth_error *err)
{
    struct postgres_db *db = (struct postgres_db *)base;
    PGresult *result = postgres_result(db, PQsendQuery(db->conn, "COMMIT"));
    /* The tag is ROLLBACK when an earlier error has aborted the transaction. */
    if (PQresultStatus(result) == PGRES_COMMAND_OK && strcmp(PQcmdStatus(result), "COMMIT") != 0) {
        PQclear(result);
        return berth_fail(err, BERTH_E_INTERNAL, "PostgreSQL rolled the transaction back.");
    }
    return result_finish(db, result, err);
}

static void postgres_rollback(struct berth_db *base)
{
    struct postgres_db *db = (struct postgres_db *)base;
    struct berth_error ignored;
    bool conflict = base->conflict;
    if (!base->broken && PQtransactionStatus(db->conn) != PQTRANS_IDLE &&
        simple(db, "ROLLBACK", &ignored) < 0)
        base->broken = true;
    base->conflict = conflict;
}

static int64_t postgres_written(const struct berth_db *base)
{
    const struct postgres_db *db = (const struct postgres_db *)base;
    return PQtransactionStatus(db->conn) == PQTRANS_INTRANS ? db->written : -1;
}

static void postgres_free(struct berth_db *base)
{
    struct postgres_db *db = (struct postgres_db *)base;
    size_t at = 0;
    for (char *name; (name = berth_map_next(&db->statements, &at, NULL));)
        free(name);
    berth_map_clear(&db->statements);
    PQfinish(db->conn);
    free(db);
}

static const struct berth_db_ops postgres_ops = {
    .name = "postgres",
    .begin = postgres_begin,
    .run = postgres_run,
    .commit = postgres_commit,
    .rollback = postgres_rollback,
    .written = postgres_written,
    .free = postgres_free,
};

/* Drops notices, which libpq would print on stderr. Errors arrive as results of statements. */
static void ignore_notice(void *ctx, const char *text)
{
    (void)ctx, (void)text;
}

/* Waits until the connection stands or has failed. */
static int postgres_connect(struct postgres_db *db, struct berth_error *err)
{
    int64_t deadline_ms = berth_time_mono_ms() + BERTH_STORE_CONNECT_MS_MAX;
    PostgresPollingStatusType want = PGRES_POLLING_WRITING;
    while (PQstatus(db->conn) != CONNECTION_BAD && want != PGRES_POLLING_OK &&
           want != PGRES_POLLING_FAILED) {
        db->base.silent =
            !socket_wait(db->conn, want == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline_ms);
        if (db->base.silent)
            break;
        want = PQconnectPoll(db->conn);
    }
    if (want != PGRES_POLLING_OK)
        return fail_connection(db, err);
    (void)PQsetNoticeProcessor(db->conn, ignore_notice, NULL);
    if (PQsetnonblocking(db->conn, 1) < 0)
        return fail_connection(db, err);
    return simple(db, SESSION_LIMITS, err);
}

static int postgres_open(const char *where, enum berth_access access, struct berth_db **out,
                         struct berth_error *err)
{
    (void)access;
    struct postgres_db *db = calloc(1, sizeof *db);
    auto_free char *url = NULL;
    if (!db || asprintf(&url, "postgres:%s", where) < 0) {
        free(db);
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: store.");
    }
    db->base.ops = &postgres_ops;
    /* Detects a lost host within 30 s; the kernel's default is about 15 minutes. */
    const char *const names[] = {"dbname",
                                 "application_name",
                                 "client_encoding",
                                 "keepalives_idle",
                                 "keepalives_interval",
                                 "keepalives_count",
                                 "tcp_user_timeout",
                                 NULL};
    const char *const values[] = {url, "berth", "UTF8", "10", "5", "3", "30000", NULL};
    db->conn = PQconnectStartParams(names, values, 1);
    int rc = db->conn ? postgres_connect(db, err)
                      : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: store.");
    if (rc < 0) {
        postgres_free(&db->base);
        return rc;
    }
    *out = &db->base;
    return BERTH_OK;
}

/* Refuses a password in the address, which argv, shell histories and process lists would show. */
static int check_address(const char *where, struct berth_error *err)
{
    auto_free char *url = NULL;
    if (asprintf(&url, "postgres:%s", where) < 0)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: store.");
    char *why = NULL;
    PQconninfoOption *options = PQconninfoParse(url, &why);
    if (!options) {
        int rc = berth_fail(err, BERTH_E_INVALID,
                            "The store's address is not one PostgreSQL knows. Write "
                            "postgres://user@host:port/database.");
        PQfreemem(why);
        return rc;
    }
    int rc = BERTH_OK;
    for (const PQconninfoOption *o = options; o->keyword; o++)
        if (o->dispchar[0] == '*' && o->val &&
            o->val[0]) /* an option that libpq marks as a password */
            rc = berth_fail(err, BERTH_E_INVALID,
                            "The store's address must not hold a password: put it into the file "
                            "that PGPASSFILE names (~/.pgpass).");
    PQconninfoFree(options);
    return rc;
}

static int postgres_prepare(const char *where, char **canonical, struct berth_error *err)
{
    int rc = check_address(where, err);
    if (rc < 0)
        return rc;
    *canonical = strdup(where);
    return *canonical ? BERTH_OK : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: store.");
}

const struct berth_database berth_database_postgres = {.scheme = "postgres",
                                                       .check = check_address,
                                                       .prepare = postgres_prepare,
                                                       .open = postgres_open};
const struct berth_database berth_database_postgresql = {.scheme = "postgresql",
                                                         .check = check_address,
                                                         .prepare = postgres_prepare,
                                                         .open = postgres_open};
