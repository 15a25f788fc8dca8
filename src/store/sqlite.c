/* SPDX-License-Identifier: Apache-2.0
 * src/store/sqlite.c - implements db.h with a SQLite connection: WAL, synchronous=FULL. */
#include "store/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/auto.h"
#include "base/failpoint.h"
#include "base/limits.h"
#include "base/map.h"
#include "os/fs.h"
#include "store/db.h"
#include "store/dialect.h"

#define COLUMNS_MAX 48
#define BUSY_STEP_US_MAX 4000
#define APPLICATION_ID 0x62727468 /* "brth", in the file's header */

struct sqlite_db {
    struct berth_db base;
    sqlite3 *handle;
    struct berth_map statements; /* SQL before expansion -> sqlite3_stmt */
    int64_t busy_us;             /* how long this statement has waited for the lock */
};

static int fail_sqlite(struct sqlite_db *db, struct berth_error *err)
{
    const char *text = sqlite3_errmsg(db->handle);
    int extended = sqlite3_extended_errcode(db->handle);
    switch (extended & 0xff) {
    case SQLITE_CONSTRAINT:
        return berth_fail(err, BERTH_E_CONFLICT, "The store refuses this: %s.", text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return berth_fail(err, BERTH_E_UNAVAILABLE,
                          "The store is busy: another process has held its write lock for %d s.",
                          BERTH_STORE_BUSY_MS_MAX / 1000);
    case SQLITE_NOMEM:
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: store.");
    case SQLITE_FULL:
    disk_full:
        return berth_fail(err, BERTH_E_UNAVAILABLE,
                          "The disk that holds the store is full: make room and try again.");
    case SQLITE_IOERR:
        /* IOERR_SHMSIZE: the -shm file cannot grow; SQLite does not set ENOSPC then. */
        if (sqlite3_system_errno(db->handle) == ENOSPC || extended == SQLITE_IOERR_SHMSIZE ||
            sqlite3_system_errno(db->handle) == EDQUOT)
            goto disk_full;
        return berth_fail(err, BERTH_E_UNAVAILABLE,
                          "The store cannot be read or written (%s, code %d).", text, extended);
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return berth_fail(err, BERTH_E_DENIED, "The store is not writable by this user (%s).",
                          text);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return berth_fail(err, BERTH_E_INTERNAL,
                          "The store is damaged or no berth store (%s): restore it from a backup, "
                          "or name another with --store.",
                          text);
    case SQLITE_CANTOPEN:
        /* Also when this process has no descriptor left, so it says nothing about rows. */
        return berth_fail(err, BERTH_E_UNAVAILABLE, "The store cannot be opened (%s).", text);
    default:
        return berth_fail(err, BERTH_E_INTERNAL, "The store failed: %s (code %d).", text, extended);
    }
}

/* Waits for the lock, in short steps with jitter: a commit takes less than a millisecond. The steps
 * of SQLite's own handler grow to 100 ms, which is too slow for several processes. */
static int on_busy(void *ctx, int count)
{
    struct sqlite_db *db = ctx;
    if (count == 0)
        db->busy_us = 0;
    if (db->busy_us > (int64_t)BERTH_STORE_BUSY_MS_MAX * 1000)
        return 0;
    int64_t step_us = count < 6 ? INT64_C(100) << count : BUSY_STEP_US_MAX;
    unsigned char jitter;
    sqlite3_randomness(1, &jitter);
    step_us = step_us / 2 + step_us * jitter / 256;
    struct timespec wait = {.tv_nsec = step_us * 1000};
    (void)nanosleep(&wait, NULL);
    db->busy_us += step_us;
    return 1;
}

static int sqlite_statement(struct sqlite_db *db, const char *sql, sqlite3_stmt **out,
                            struct berth_error *err)
{
    *out = berth_map_get(&db->statements, sql);
    if (*out)
        return BERTH_OK;
    auto_free char *text = berth_dialect_expand(BERTH_DIALECT_SQLITE, sql);
    if (!text)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: statement.");
    if (sqlite3_prepare_v3(db->handle, text, -1, SQLITE_PREPARE_PERSISTENT, out, NULL) != SQLITE_OK)
        return fail_sqlite(db, err);
    if (!berth_map_put(&db->statements, sql, *out)) {
        (void)sqlite3_finalize(*out);
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: statement.");
    }
    return BERTH_OK;
}

static int bind(sqlite3_stmt *stmt, int index, const struct berth_value *value)
{
    switch (value->type) {
    case BERTH_VALUE_INT:
        return sqlite3_bind_int64(stmt, index, value->number);
    case BERTH_VALUE_TEXT:
        return sqlite3_bind_text(stmt, index, value->text, -1, SQLITE_STATIC);
    case BERTH_VALUE_NULL:
        break;
    }
    return sqlite3_bind_null(stmt, index);
}

static void read_row(sqlite3_stmt *stmt, struct berth_value row[COLUMNS_MAX])
{
    int columns = sqlite3_column_count(stmt);
    for (int i = 0; i < columns && i < COLUMNS_MAX; i++) {
        switch (sqlite3_column_type(stmt, i)) {
        case SQLITE_NULL:
            row[i] = berth_text(NULL);
            break;
        case SQLITE_INTEGER:
            row[i] = berth_int(sqlite3_column_int64(stmt, i));
            break;
        default:
            row[i] = berth_text((const char *)sqlite3_column_text(stmt, i));
        }
    }
}

static int sqlite_run(struct berth_db *base, const char *sql, const struct berth_value *args,
                      int nargs, berth_row_fn *on_row, void *ctx, struct berth_error *err)
{
    struct sqlite_db *db = (struct sqlite_db *)base;
    sqlite3_stmt *stmt;
    int rc = sqlite_statement(db, sql, &stmt, err);
    if (rc < 0)
        return rc;
    for (int i = 0; i < nargs; i++)
        if (bind(stmt, i + 1, &args[i]) != SQLITE_OK)
            rc = fail_sqlite(db, err);
    while (rc == BERTH_OK) {
        int step = sqlite3_step(stmt);
        if (step == SQLITE_DONE)
            break;
        if (step != SQLITE_ROW) {
            rc = fail_sqlite(db, err);
        } else if (on_row) {
            struct berth_value row[COLUMNS_MAX];
            read_row(stmt, row);
            rc = on_row(ctx, row, err);
        }
    }
    (void)sqlite3_reset(stmt);
    (void)sqlite3_clear_bindings(stmt);
    return rc;
}

static int sqlite_begin(struct berth_db *base, enum berth_access access, struct berth_error *err)
{
    return sqlite_run(base, access == BERTH_WRITE ? "BEGIN IMMEDIATE" : "BEGIN", NULL, 0, NULL,
                      NULL, err);
}

static int sqlite_commit(struct berth_db *base, struct berth_error *err)
{
    return sqlite_run(base, "COMMIT", NULL, 0, NULL, NULL, err);
}

static void sqlite_rollback(struct berth_db *base)
{
    struct sqlite_db *db = (struct sqlite_db *)base;
    if (sqlite3_get_autocommit(db->handle))
        return; /* SQLite has rolled back by itself, for example on a full disk */
    struct berth_error ignored;
    if (sqlite_run(base, "ROLLBACK", NULL, 0, NULL, NULL, &ignored) < 0)
        base->broken = true;
}

static int64_t sqlite_written(const struct berth_db *base)
{
    sqlite3 *handle = ((const struct sqlite_db *)base)->handle;
    return sqlite3_get_autocommit(handle) ? -1 : sqlite3_total_changes64(handle);
}

static void sqlite_free(struct berth_db *base)
{
    struct sqlite_db *db = (struct sqlite_db *)base;
    size_t at = 0;
    for (sqlite3_stmt *stmt; (stmt = berth_map_next(&db->statements, &at, NULL));)
        (void)sqlite3_finalize(stmt);
    berth_map_clear(&db->statements);
    (void)sqlite3_close(db->handle);
    free(db);
}

static const struct berth_db_ops sqlite_ops = {
    .name = "sqlite",
    .begin = sqlite_begin,
    .run = sqlite_run,
    .commit = sqlite_commit,
    .rollback = sqlite_rollback,
    .written = sqlite_written,
    .free = sqlite_free,
};

static int sqlite_configure(struct sqlite_db *db, struct berth_error *err)
{
    /* SQLite does not call the busy handler when two processes switch a new file to WAL. */
    int rc = SQLITE_BUSY;
    for (int tries = 0; rc == SQLITE_BUSY && on_busy(db, tries); tries++)
        rc = sqlite3_exec(db->handle,
                          "PRAGMA page_size = 2048;" /* for a new file: commits are small */
                          "PRAGMA journal_mode = WAL",
                          NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db->handle,
                          "PRAGMA synchronous = FULL;"
                          "PRAGMA foreign_keys = ON;"
                          "PRAGMA trusted_schema = OFF;"
                          "PRAGMA temp_store = MEMORY",
                          NULL, NULL, NULL);
    return rc == SQLITE_OK ? BERTH_OK : fail_sqlite(db, err);
}

static int64_t ask_number(struct sqlite_db *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    int64_t number = -1;
    if (sqlite3_prepare_v2(db->handle, sql, -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW)
        number = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_finalize(stmt);
    return number;
}

/* Sets the application id of a new file. Refuses the database of another program. */
static int claim_file(struct sqlite_db *db, struct berth_error *err)
{
    /* Tables first: another process sets the id and then creates its tables. */
    int64_t tables = ask_number(db, "SELECT count(*) FROM sqlite_master");
    int64_t id = ask_number(db, "PRAGMA application_id");
    if (id < 0 || tables < 0)
        return fail_sqlite(db, err);
    if (id == APPLICATION_ID)
        return BERTH_OK;
    if (id != 0 || tables != 0)
        return berth_fail(err, BERTH_E_INVALID,
                          "This SQLite file belongs to another program: name another store.");
    char sql[64];
    (void)snprintf(sql, sizeof sql, "PRAGMA application_id = %d", APPLICATION_ID);
    return sqlite3_exec(db->handle, sql, NULL, NULL, NULL) == SQLITE_OK ? BERTH_OK
                                                                        : fail_sqlite(db, err);
}

static int sqlite_open(const char *where, enum berth_access access, struct berth_db **out,
                       struct berth_error *err)
{
    struct sqlite_db *db = calloc(1, sizeof *db);
    if (!db)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: store.");
    db->base.ops = &sqlite_ops;
    /* A reader opens for writing, too, since it may have to create the -shm file. The VFS is named,
     * since a program that embeds the library may change the default. */
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    int rc = BERTH_OK;
    if (sqlite3_open_v2(where, &db->handle, flags, "unix") != SQLITE_OK) {
        rc = db->handle ? fail_sqlite(db, err)
                        : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: store.");
    } else {
        (void)sqlite3_busy_handler(db->handle, on_busy, db);
        rc = sqlite_configure(db, err);
        if (rc == BERTH_OK && access == BERTH_WRITE)
            rc = claim_file(db, err);
        if (rc == BERTH_OK && access == BERTH_READ &&
            sqlite3_exec(db->handle, "PRAGMA query_only = ON", NULL, NULL, NULL) != SQLITE_OK)
            rc = fail_sqlite(db, err);
    }
    if (rc < 0) {
        sqlite_free(&db->base);
        return berth_wrap(err, "open %s", where);
    }
    *out = &db->base;
    return BERTH_OK;
}

/* Refuses a file that is not a database of this user alone. */
static int sqlite_check_file(const char *where, const struct stat *st, struct berth_error *err)
{
    if (!S_ISREG(st->st_mode))
        return berth_fail(err, BERTH_E_INVALID,
                          "The store %s is not a file: name the database file itself, for example "
                          "sqlite:%s/berth.db",
                          where, where);
    /* -wal, nodes/ and the lock of the daemon are found by the name of the file, so processes that
     * use different names do not see each other, and damage it. */
    if (st->st_nlink > 1)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "The store %s has %lu names (hard links), and may have only one: remove "
                          "the others, or copy the file.",
                          where, (unsigned long)st->st_nlink);
    return BERTH_OK;
}

/* Refuses a directory in which every user could put files in the place of ours, or before us. The
 * files themselves are private, so others may read it. */
static int sqlite_check_directory(const char *path, struct berth_error *err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return berth_fail_errno(err, "Cannot open the directory %s of the store", path);
    if (st.st_mode & S_IWOTH)
        return berth_fail(err, BERTH_E_DENIED,
                          "Every user can write to the directory %s of the store (mode %o): keep "
                          "the store in a directory of its own, or run chmod o-w %s.",
                          path, (unsigned)st.st_mode & ALLPERMS, path);
    return BERTH_OK;
}

/* Creates the file with mode 0600 and its directory with 0700 if they do not exist. SQLite gives
 * -wal and -shm the mode of the file. */
static int sqlite_prepare(const char *where, char **canonical, struct berth_error *err)
{
    auto_free char *copy = strdup(where);
    if (!copy)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: store.");
    const char *directory = dirname(copy);
    struct stat st;
    int rc = berth_fs_refuse_root("store", where, err);
    if (rc == BERTH_OK)
        rc = berth_fs_mkdirs(directory, 0700, err);
    if (rc == BERTH_OK && stat(where, &st) == 0)
        rc = sqlite_check_file(where, &st, err);
    if (rc == BERTH_OK)
        rc = sqlite_check_directory(directory, err);
    if (rc < 0)
        return rc;
    /* Opens only a new file: closing a descriptor of a database that this process has open would
     * drop the locks of SQLite on it. */
    auto_close int fd = open(where, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && (errno != EEXIST || access(where, R_OK | W_OK) < 0))
        return berth_fail_errno(err, "Cannot open the store %s", where);
    /* An absolute path without symbolic links: one name per store, in any working directory. */
    *canonical = realpath(where, NULL);
    return *canonical ? BERTH_OK : berth_fail_errno(err, "Cannot open the store %s", where);
}

void berth_sqlite_tune_process(void)
{
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

const struct berth_database berth_database_sqlite = {
    .scheme = "sqlite",
    .one_writer = true,
    .prepare = sqlite_prepare,
    .open = sqlite_open,
};
