/* SPDX-License-Identifier: Apache-2.0
 * src/store/sqlite.h - a store in one file, for one machine. */
#ifndef BERTH_STORE_SQLITE_H
#define BERTH_STORE_SQLITE_H

struct berth_database;

extern const struct berth_database berth_database_sqlite; /* "sqlite:PATH" */

/* Turns off SQLite's memory statistics, which take a global lock at every allocation. A program
 * calls it before its first store. It applies to the whole process, so the library does not. */
void berth_sqlite_tune_process(void);
#endif
