/* SPDX-License-Identifier: Apache-2.0
 * src/store/plugin.h - plugins as rows. */
#ifndef BERTH_STORE_PLUGIN_H
#define BERTH_STORE_PLUGIN_H

#include <berth/plugin.h>

#include "store/row.h"

extern const struct berth_enum berth_plugin_statuses;

/* CONFLICT when the key is taken. */
int berth_plugin_insert(struct berth_db *db, const struct berth_plugin *plugin,
                        struct berth_error *err);
/* Where the row still has that version; plugin->row_version is the new one then. */
int berth_plugin_save(struct berth_db *db, struct berth_plugin *plugin, bool *won,
                      struct berth_error *err);
int berth_plugin_remove(struct berth_db *db, const char *id, struct berth_error *err);
/* By id or key; NULL: there is none. */
int berth_plugin_load(struct berth_db *db, struct berth_arena *arena, const char *name,
                      enum berth_row_lock lock, struct berth_plugin **out, struct berth_error *err);
/* Until the commit nobody else installs or upgrades one. */
int berth_plugin_take_turns(struct berth_db *db, struct berth_error *err);
/* A list of struct berth_plugin in the order in which they were installed. */
int berth_plugin_select(struct berth_db *db, struct berth_arena *arena, struct berth_list *out,
                        struct berth_error *err);
/* What the next one's install_order is. */
int berth_plugin_next_order(struct berth_db *db, int64_t *out, struct berth_error *err);
#endif
