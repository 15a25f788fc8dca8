/* SPDX-License-Identifier: Apache-2.0
 * src/store/migrate.h - brings the tables to the version this program knows. */
#ifndef BERTH_STORE_MIGRATE_H
#define BERTH_STORE_MIGRATE_H

#include <berth/error.h>

struct berth_db;

/* Applies the missing migrations, each in its own transaction. Processes that start together wait
 * for each other. UNSUPPORTED: the store is newer than this program. */
int berth_store_migrate(struct berth_db *db, struct berth_error *err);
int berth_store_version(void); /* the newest migration */
#endif
