/* SPDX-License-Identifier: Apache-2.0
 * src/store/dialect.h - the named list of what the two databases spell differently. A statement
 * says {word}; each database puts its own text there when it prepares the statement. */
#ifndef BERTH_STORE_DIALECT_H
#define BERTH_STORE_DIALECT_H

#include <berth/error.h>

/* X(word, SQLite, PostgreSQL) */
#define BERTH_DIALECT_MAP(X)                                                                       \
    /* A whole transaction has the write lock in SQLite; rows are locked in PostgreSQL. */         \
    X("{for_update}", "", "FOR UPDATE")                                                            \
    X("{for_share}", "", "FOR SHARE")                                                              \
    X("{skip_locked}", "", "FOR UPDATE SKIP LOCKED")                                               \
    /* Of the thing $1 names, for those who would otherwise raise a lock that others share. */     \
    X("{turn_lock}", "$1", "pg_advisory_xact_lock(hashtextextended($1, 0))")                       \
    /* Those who write activity share it until their commit; who wants to know that all of them    \
     * are done takes it alone, for a moment. */                                                   \
    X("{activity_share}", "SELECT 1", "SELECT pg_advisory_xact_lock_shared(7220262111505002)")     \
    X("{activity_alone}", "SELECT 1", "SELECT pg_advisory_xact_lock(7220262111505002)")            \
    X("{activity_wait}", "SELECT 1", "SET LOCAL lock_timeout = '100ms'")                           \
    X("{migration_lock}", "SELECT 1", "SELECT pg_advisory_xact_lock(7220262111505001)")            \
    X("{serial_key}", "INTEGER PRIMARY KEY", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY")    \
    /* SQLite compares bytes; a PostgreSQL database sorts as its locale does. */                   \
    X("{byte_order}", "", "COLLATE \"C\"")                                                         \
    X("{bigint}", "INTEGER", "BIGINT")                                                             \
    X("{table_end}", ") STRICT, WITHOUT ROWID", ")")                                               \
    X("{serial_table_end}", ") STRICT", ")")                                                       \
    /* Milliseconds by the clock of the database: the only one that all nodes share. */            \
    X("{db_now_ms}", "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",                 \
      "(extract(epoch FROM clock_timestamp()) * 1000)::bigint")

enum berth_dialect {
    BERTH_DIALECT_SQLITE,
    BERTH_DIALECT_POSTGRES,
};

/* The statement as the database wants it; the caller frees. NULL: no memory. A word that is not in
 * the list is our mistake. */
char *berth_dialect_expand(enum berth_dialect dialect, const char *sql);
#endif
