/* SPDX-License-Identifier: Apache-2.0
 * src/core/plugin/plugin_settings.h - what an operator allows the worker of a plugin, as a JSON
 * object in the plugin's row. Its members:
 *   env           variables for the worker by name: a text is the value, null takes it from this
 *                 process
 *   unixSockets   null: the worker may not use Unix sockets; else a list of the paths of sockets of
 *                 this machine that it may use, besides its own */
#ifndef BERTH_CORE_PLUGIN_PLUGIN_SETTINGS_H
#define BERTH_CORE_PLUGIN_PLUGIN_SETTINGS_H

#include <berth/common.h>

/* Replaces the members of `settings_json` that `change_json` has, and returns the result in the
 * arena. INVALID: a member is not known, or its value is not allowed. */
int berth_plugin_settings_change(struct berth_arena *arena, const char *settings_json,
                                 const char *change_json, const char **out,
                                 struct berth_error *err);

/* Returns the variables of the settings as "NAME=value", closed by NULL, in the arena. Variables
 * that this process does not have are left out. */
int berth_plugin_settings_env(struct berth_arena *arena, const char *settings_json,
                              const char *const **out, struct berth_error *err);
/* Returns the paths of the sockets that the settings allow, closed by NULL, in the arena. *out is
 * NULL when the worker may not use Unix sockets. */
int berth_plugin_settings_sockets(struct berth_arena *arena, const char *settings_json,
                                  const char *const **out, struct berth_error *err);
#endif
