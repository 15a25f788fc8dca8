/* SPDX-License-Identifier: Apache-2.0
 * src/core/paths.h - where berth keeps its files. The caller owns every path. */
#ifndef BERTH_CORE_PATHS_H
#define BERTH_CORE_PATHS_H

#include "core/berth.h"

/* Returns $XDG_DATA_HOME/berth, else ~/.local/share/berth. */
int berth_data_directory(char **out, struct berth_error *err);
/* Refuses root in the data directory of another user (berth_fs_refuse_root), if the store is not a
 * file. Its keys, logs and journals are in the data directory in that case. */
int berth_data_directory_check(const struct berth_store *store, struct berth_error *err);
/* Returns the address of the user's own store, a SQLite file in the data directory. */
int berth_default_store(char **out, struct berth_error *err);
/* Returns where the key of a store's secrets is unless an option says otherwise. Beside a store
 * that is a file: secrets.key for berth.db, NAME.key for any other NAME. Otherwise secrets.key in
 * the data directory. */
int berth_key_file(const struct berth_store *store, char **out, struct berth_error *err);
/* Returns the directory NAME beside the store, or in the data directory when the store is not a
 * file. */
int berth_directory(const struct berth *b, const char *name, char **out, struct berth_error *err);
#endif
