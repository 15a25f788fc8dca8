/* SPDX-License-Identifier: Apache-2.0
 * src/store/db.h - what SQLite and PostgreSQL do differently, and nothing more. */
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

/* NULL gives SQL's null. */
static inline struct berth_value berth_text(const char *text)
{
    return (struct berth_value){.type = text ? BERTH_VALUE_TEXT : BERTH_VALUE_NULL, .text = text};
}

/* Times and counts for which 0 means "none". */
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

/* SQL uses $1, $2 ..., RETURNING, ON CONFLICT and the {words} of dialect.h; times are int64 ms,
 * JSON is text. A db is one connection, used by one thread at a time.
 * run: CONFLICT when a unique index refuses, UNAVAILABLE when trying again may help. */
struct berth_db_ops {
    const char *name;
    int (*begin)(struct berth_db *db, enum berth_access access, struct berth_error *err);
    int (*run)(struct berth_db *db, const char *sql, const struct berth_value *args, int nargs,
               berth_row_fn *on_row, void *ctx, struct berth_error *err);
    int (*commit)(struct berth_db *db, struct berth_error *err);
    void (*rollback)(struct berth_db *db); /* also after a failed commit */
    /* Rows written since the connection was opened, -1 outside of a transaction: tells whether a
     * failed function left any, or made the database end the transaction by itself. */
    int64_t (*written)(const struct berth_db *db);
    void (*free)(struct berth_db *db);
};

struct berth_db {
    const struct berth_db_ops *ops; /* an implementation embeds this as its first member */
    bool broken;                    /* the connection is of no more use */
    bool conflict; /* the last failure was a serialisation conflict or deadlock: run it again */
};

/* One kind of store; builtin.c lists them. `where` is what follows the scheme. */
struct berth_database {
    const char *scheme;
    bool one_writer; /* one transaction writes at a time, in batches; else there is a pool */
    /* Is it an address that may be named? Touches nothing; NULL: any is. */
    int (*check)(const char *where, struct berth_error *err);
    /* Checks `where`, makes what must exist first, and answers the name by which the store is
     * opened from then on, the caller's; called once per store. */
    int (*prepare)(const char *where, char **canonical, struct berth_error *err);
    int (*open)(const char *where, enum berth_access access, struct berth_db **out,
                struct berth_error *err);
};

#define BERTH_DB_ARGS_MAX 40

/* Runs one statement; `on_row` may be NULL. */
int berth_db_run(struct berth_db *db, const char *sql, const struct berth_value *args, int nargs,
                 berth_row_fn *on_row, void *ctx, struct berth_error *err);
/* The same, with the arguments written where they are used:
 *   berth_db_exec(db, sql, NULL, NULL, err, berth_text(id), berth_int(now)) */
#define berth_db_exec(db, sql, on_row, ctx, err, ...)                                              \
    berth_db_run(db, sql, (const struct berth_value[]){__VA_ARGS__},                               \
                 (int)(sizeof(struct berth_value[]){__VA_ARGS__} / sizeof(struct berth_value)),    \
                 on_row, ctx, err)

/* Row callbacks for small answers: the first column as a number into an int64_t, and the number of
 * rows into an int. */
berth_row_fn berth_row_int;
berth_row_fn berth_row_count;
#endif
