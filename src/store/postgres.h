/* SPDX-License-Identifier: Apache-2.0
 * src/store/postgres.h - a store that many machines share. */
#ifndef BERTH_STORE_POSTGRES_H
#define BERTH_STORE_POSTGRES_H

struct berth_database;

/* "postgres://user@host/db" and "postgresql://...". libpq reads the password from PGPASSFILE or the
 * environment. */
extern const struct berth_database berth_database_postgres;
extern const struct berth_database berth_database_postgresql;
#endif
