/* SPDX-License-Identifier: Apache-2.0
 * src/store/plugin.h - rows of plugins. */
#ifndef BERTH_STORE_PLUGIN_H
#define BERTH_STORE_PLUGIN_H

#include <berth/plugin.h>

#include "store/row.h"

extern const struct berth_enum berth_plugin_statuses;

/* CONFLICT: a plugin with this key exists. */
int berth_plugin_insert(struct berth_db *db, const struct berth_plugin *plugin,
                        struct berth_error *err);
/* Updates the row if its version is still plugin->row_version. *won says whether it was updated;
 * then plugin->row_version is the new version. */
int berth_plugin_save(struct berth_db *db, struct berth_plugin *plugin, bool *won,
                      struct berth_error *err);
int berth_plugin_remove(struct berth_db *db, const char *id, struct berth_error *err);
/* Loads a plugin by id or key. *out is NULL when there is no such row. */
int berth_plugin_load(struct berth_db *db, struct berth_arena *arena, const char *name,
                      enum berth_row_lock lock, struct berth_plugin **out, struct berth_error *err);
/* Makes other transactions that install or upgrade a plugin wait until the commit. */
int berth_plugin_take_turns(struct berth_db *db, struct berth_error *err);
/* Lists struct berth_plugin in the order of installation. */
int berth_plugin_select(struct berth_db *db, struct berth_arena *arena,
                        const struct berth_page *page, struct berth_list *out,
                        struct berth_error *err);
/* Sets *out to the install_order of the next plugin. */
int berth_plugin_next_order(struct berth_db *db, int64_t *out, struct berth_error *err);
#endif
