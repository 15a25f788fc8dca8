/* SPDX-License-Identifier: Apache-2.0
 * src/store/dialect.h - lists SQL that the two databases spell differently. A statement contains
 * {word}; each database replaces it by its own text when it prepares the statement. */
#ifndef BERTH_STORE_DIALECT_H
#define BERTH_STORE_DIALECT_H

#include <berth/error.h>

/* X(word, SQLite, PostgreSQL) */
#define BERTH_DIALECT_MAP(X)                                                                       \
    /* SQLite locks the file for the whole transaction; PostgreSQL locks rows. */                  \
    X("{for_update}", "", "FOR UPDATE")                                                            \
    X("{for_share}", "", "FOR SHARE")                                                              \
    X("{skip_locked}", "", "FOR UPDATE SKIP LOCKED")                                               \
    /* Locks the id $1. Prevents deadlocks of transactions that would upgrade a shared lock. */    \
    X("{turn_lock}", "$1", "pg_advisory_xact_lock(hashtextextended($1, 0))")                       \
    /* Writers of activity share this lock until they commit. Taking it alone waits for all of     \
     * them. */                                                                                    \
    X("{activity_turn}", "",                                                                       \
      "WITH turn AS (SELECT pg_advisory_xact_lock_shared(7220262111505002))")                      \
    X("{from_turn}", "", "FROM turn")                                                              \
    X("{activity_alone}", "SELECT 1", "SELECT pg_advisory_xact_lock(7220262111505002)")            \
    X("{activity_wait}", "SELECT 1", "SET LOCAL lock_timeout = '100ms'")                           \
    X("{migration_lock}", "SELECT 1", "SELECT pg_advisory_xact_lock(7220262111505001)")            \
    X("{serial_key}", "INTEGER PRIMARY KEY", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY")    \
    /* SQLite compares bytes; PostgreSQL sorts by the locale of the database. */                   \
    X("{byte_order}", "", "COLLATE \"C\"")                                                         \
    /* Begins a statement, on one line, that PostgreSQL does not need. */                          \
    X("{only_sqlite}", "", "SELECT 1 WHERE false -- ")                                             \
    /* The key that a table is stored by. */                                                       \
    X("{row_key}", "rowid", "id")                                                                  \
    X("{bigint}", "INTEGER", "BIGINT")                                                             \
    X("{table_end}", ") STRICT, WITHOUT ROWID", ")")                                               \
    X("{serial_table_end}", ") STRICT", ")")                                                       \
    /* Milliseconds by the clock of the database, which all nodes share. */                        \
    X("{db_now_ms}", "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",                 \
      "(extract(epoch FROM clock_timestamp()) * 1000)::bigint")

enum berth_dialect {
    BERTH_DIALECT_SQLITE,
    BERTH_DIALECT_POSTGRES,
};

/* Returns the statement for this database; the caller frees it. NULL: no memory. Asserts that every
 * {word} is in the list. */
char *berth_dialect_expand(enum berth_dialect dialect, const char *sql);
#endif
