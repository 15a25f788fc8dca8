/* SPDX-License-Identifier: Apache-2.0
 * src/store/sqlite.h - a store in one file, for one machine. */
#ifndef BERTH_STORE_SQLITE_H
#define BERTH_STORE_SQLITE_H

struct berth_database;

extern const struct berth_database berth_database_sqlite; /* "sqlite:PATH" */

/* For programs, before their first store: SQLite's statistics of its memory cost a global lock at
 * every allocation. It holds for the whole process, so a library leaves it to its host. */
void berth_sqlite_tune_process(void);
#endif
