/* SPDX-License-Identifier: Apache-2.0
 * src/core/plugin/plugin_change.h - what plugin.c and package.c share. Not for others. */
#ifndef BERTH_CORE_PLUGIN_PLUGIN_CHANGE_H
#define BERTH_CORE_PLUGIN_PLUGIN_CHANGE_H

#include "core/plugin/plugin.h"

struct berth_db;

/* A change of one row, by compare-and-set. */
struct berth_plugin_change {
    struct berth *b;
    struct berth_arena *arena;
    const char *name;
    int (*decide)(struct berth_plugin_change *change, struct berth_plugin *plugin,
                  struct berth_error *err);
    const char *action; /* of the activity */
    const struct berth_actor *actor;
    const char *reason, *config_json;
    const struct berth_plugin *package; /* what an upgrade brings */
    struct berth_plugin *plugin;
};

int berth_plugin_tx_change(struct berth_db *db, void *ctx, struct berth_error *err);

/* Plugins serve every company, so each hears of what is done to them. */
int berth_plugin_tell(struct berth_db *db, struct berth_arena *arena, const struct berth_plugin *p,
                      const char *action, const struct berth_actor *actor, struct berth_error *err);
int berth_plugin_not_found(const char *name, struct berth_error *err);
/* An object, NULL as an empty one; canonical, in the arena. */
int berth_plugin_check_config(struct berth_arena *arena, const char *json, const char **out,
                              struct berth_error *err);
void berth_plugins_reread(struct berth *b); /* the rows as they are now */
void berth_plugins_stop(struct berth *b, const char *id);

/* NAME, or NAME/INNER, beside the logs; in the arena. NULL: *err says why. */
const char *berth_plugins_directory(const struct berth *b, struct berth_arena *arena,
                                    const char *name, const char *inner, struct berth_error *err);
/* Passable for the users that workers run as, when we can choose one; what is in it is not theirs.
 */
int berth_plugins_make_passable(const char *path, struct berth_error *err);
const char *berth_plugin_log_file(const struct berth *b, struct berth_arena *arena, const char *id,
                                  struct berth_error *err);
#endif
