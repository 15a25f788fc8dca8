/* SPDX-License-Identifier: Apache-2.0
 * src/store/db.h - the operations that SQLite and PostgreSQL implement. */
#ifndef BERTH_STORE_DB_H
#define BERTH_STORE_DB_H

#include <stdbool.h>
#include <stdint.h>

#include <berth/error.h>

struct berth_db;

enum berth_value_type {
    BERTH_VALUE_NULL,
    BERTH_VALUE_INT,
    BERTH_VALUE_TEXT,
};

struct berth_value {
    enum berth_value_type type;
    int64_t number;
    const char *text; /* NUL-terminated; in a row it lives as long as the callback */
};

static inline struct berth_value berth_int(int64_t number)
{
    return (struct berth_value){.type = BERTH_VALUE_INT, .number = number};
}

/* Makes a text value; NULL becomes SQL's null. */
static inline struct berth_value berth_text(const char *text)
{
    return (struct berth_value){.type = text ? BERTH_VALUE_TEXT : BERTH_VALUE_NULL, .text = text};
}

/* Makes a number; 0 becomes SQL's null. */
static inline struct berth_value berth_int_or_null(int64_t number)
{
    return (struct berth_value){.type = number ? BERTH_VALUE_INT : BERTH_VALUE_NULL,
                                .number = number};
}

typedef int berth_row_fn(void *ctx, const struct berth_value *row, struct berth_error *err);

enum berth_access {
    BERTH_READ,
    BERTH_WRITE,
};

/* Operations of one connection, which one thread uses at a time. SQL uses $1, $2 ..., RETURNING,
 * ON CONFLICT and the {words} of dialect.h; times are int64 ms, JSON is text. `run` returns
 * CONFLICT when a unique index refuses the row, and UNAVAILABLE when trying again may help. */
struct berth_db_ops {
    const char *name;
    int (*begin)(struct berth_db *db, enum berth_access access, struct berth_error *err);
    int (*run)(struct berth_db *db, const char *sql, const struct berth_value *args, int nargs,
               berth_row_fn *on_row, void *ctx, struct berth_error *err);
    int (*commit)(struct berth_db *db, struct berth_error *err);
    void (*rollback)(struct berth_db *db); /* also after a failed commit */
    /* Returns the rows written since the connection was opened, or -1 outside a transaction. The
     * caller can see whether a failed function wrote rows, or whether the database ended the
     * transaction. */
    int64_t (*written)(const struct berth_db *db);
    void (*free)(struct berth_db *db);
};

struct berth_db {
    const struct berth_db_ops *ops; /* an implementation embeds this as its first member */
    bool broken;                    /* the connection must be closed */
    bool silent;                    /* and this because the server did not answer in time */
    bool unhurried;                 /* statements may take any time: migrations */
    bool conflict; /* a serialisation conflict or deadlock: run the transaction again */
};

/* A kind of database; builtin.c lists them. `where` is the address without the scheme. */
struct berth_database {
    const char *scheme;
    bool one_writer; /* a writer thread commits in batches; else a pool of connections */
    /* Checks the address without connecting. NULL: any address is valid. */
    int (*check)(const char *where, struct berth_error *err);
    /* Checks `where`, creates missing files, and sets *canonical to the address that
     * `open` gets; the caller frees it. Called once per store. */
    int (*prepare)(const char *where, char **canonical, struct berth_error *err);
    /* The error has os_errno ETIMEDOUT when the server did not answer in time. */
    int (*open)(const char *where, enum berth_access access, struct berth_db **out,
                struct berth_error *err);
};

/* SQL that compares ids of runs or leases, for WHERE or ON. SQLite finds the rows by an index on
 * the digits that hold the time (base/id.h), so that new rows are neighbours in the index. `arg` is
 * a column, or a parameter as BERTH_ID_ARG(1). */
#define BERTH_SAME_ID(column, arg)                                                                 \
    "substr(" column ", 10, 14) = substr(" arg ", 10, 14) AND " column " = " arg
#define BERTH_ID_ARG(n) "CAST($" #n " AS TEXT)"

#define BERTH_DB_ARGS_MAX 40

/* Runs one statement; `on_row` may be NULL. */
int berth_db_run(struct berth_db *db, const char *sql, const struct berth_value *args, int nargs,
                 berth_row_fn *on_row, void *ctx, struct berth_error *err);
/* Does the same with the arguments in the call:
 *   berth_db_exec(db, sql, NULL, NULL, err, berth_text(id), berth_int(now)) */
#define berth_db_exec(db, sql, on_row, ctx, err, ...)                                              \
    berth_db_run(db, sql, (const struct berth_value[]){__VA_ARGS__},                               \
                 (int)(sizeof(struct berth_value[]){__VA_ARGS__} / sizeof(struct berth_value)),    \
                 on_row, ctx, err)

/* Row callbacks: berth_row_int stores the first column in an int64_t, berth_row_count counts rows
 * in an int. */
berth_row_fn berth_row_int;
berth_row_fn berth_row_count;
#endif
