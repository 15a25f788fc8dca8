/* SPDX-License-Identifier: Apache-2.0
 * src/core/plugin/plugin.h - plugins as this runtime sees them: which rows there are, and the
 * routes to the places that their workers make. */
#ifndef BERTH_CORE_PLUGIN_PLUGIN_H
#define BERTH_CORE_PLUGIN_PLUGIN_H

#include <berth/plugin.h>

#include "core/berth.h"

struct berth_plugins; /* safe to share between threads */

int berth_plugins_open(struct berth *b, struct berth_plugins **out, struct berth_error *err);
/* Begins to stop all workers, and kills those that still run after wait_ms. Does not wait. */
void berth_plugins_halt(struct berth_plugins *plugins, int64_t wait_ms);
void berth_plugins_close(struct berth_plugins *plugins); /* ends their workers; NULL is fine */

/* Updates the registry's routes from the rows, unless that was done within the last second. Not
 * inside a transaction. A failure shows when a plugin is needed. */
void berth_plugins_refresh(struct berth *b);

/* Returns whether `source` is a directory; otherwise it is the name of a package. */
bool berth_plugin_is_path(const char *source);

void berth_plugin_json(struct berth_json_writer *w, const struct berth_plugin *plugin);
void berth_worker_json(struct berth_json_writer *w, const struct berth_worker_status *status);

/* Lists a part of the plugins, as berth_plugin_list does. */
int berth_plugin_list_page(struct berth *b, struct berth_arena *arena,
                           const struct berth_page *page, struct berth_list *out,
                           struct berth_error *err);

/* --- for package.c --- */

/* Reads the rows again, whatever their age. */
void berth_plugins_reread(struct berth *b);
/* Stops the plugin's worker. */
void berth_plugins_stop(struct berth *b, const char *id);
/* Returns NAME, or NAME/INNER, beside the logs; in the arena. NAME NULL: the directory that all of
 * them are in. On failure it fills *err and returns NULL. */
const char *berth_plugins_directory(const struct berth *b, struct berth_arena *arena,
                                    const char *name, const char *inner, struct berth_error *err);
/* Makes a directory with mode 0700, or gives an existing one that mode. As root on a machine
 * without cages the mode is 0711, because the workers then run as other users and pass through it.
 */
int berth_plugins_make_directory(const char *path, struct berth_error *err);
const char *berth_plugin_log_file(const struct berth *b, struct berth_arena *arena, const char *id,
                                  struct berth_error *err);
#endif
