/* SPDX-License-Identifier: Apache-2.0
 * src/core/plugin/plugin_change.h - changes of plugin rows. For plugin.c and package.c only. */
#ifndef BERTH_CORE_PLUGIN_PLUGIN_CHANGE_H
#define BERTH_CORE_PLUGIN_PLUGIN_CHANGE_H

#include <berth/plugin.h>

#include "core/berth.h"

struct berth_db;

/* One change of a row, by compare-and-set. */
struct berth_plugin_change {
    struct berth *b;
    struct berth_arena *arena;
    const char *name;
    int (*decide)(struct berth_plugin_change *change, struct berth_plugin *plugin,
                  struct berth_error *err);
    const char *action; /* of the activity */
    const struct berth_actor *actor;
    const char *reason, *config_json, *settings_json;
    const struct berth_plugin *package; /* what an upgrade brings */
    struct berth_plugin *plugin;
};

int berth_plugin_tx_change(struct berth_db *db, void *ctx, struct berth_error *err);

/* Writes an activity entry for every company, since plugins serve all of them. */
int berth_plugin_tell(struct berth_db *db, struct berth_arena *arena, const struct berth_plugin *p,
                      const char *action, const struct berth_actor *actor, struct berth_error *err);
int berth_plugin_not_found(const char *name, struct berth_error *err);
/* Checks that the text is a JSON object; NULL counts as {}. *out is canonical, in the arena. */
int berth_plugin_check_config(struct berth_arena *arena, const char *json, const char **out,
                              struct berth_error *err);
#endif
