/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/launch.h - how a program of a plugin is started: with an environment built from
 * nothing, and confined to its own package and state. */
#ifndef BERTH_PLUGIN_LAUNCH_H
#define BERTH_PLUGIN_LAUNCH_H

#include "base/arena.h"
#include "os/process.h"
#include "plugin/cage.h"
#include "plugin/ops.h"

struct berth_launch {
    struct berth_arena arena;
    const char *label; /* a variable of it and of all that it starts, unless they drop it */
    struct berth_process_options options;
    struct berth_plugin_cage cage;
};

/* Blocks: it looks at files, and makes the directory of the state. NOT_FOUND: the entry is not
 * there. DENIED: it lies outside of its package, or is a link that leads out of it. UNPROCESSABLE:
 * node is missing. UNSUPPORTED: it cannot be confined (cage.h). The caller clears *out, also after
 * a failure, and does not move it before. */
int berth_launch_prepare(const char *plugin_id, const struct berth_worker_spec *spec,
                         struct berth_launch *out, struct berth_error *err);
/* What a program of ours gets, besides what a worker gets. */
struct berth_launch_extra {
    const char *const *arguments;    /* closed by NULL */
    const struct berth_mount *files; /* as in struct berth_plugin_cage */
    size_t file_count;
};
/* The same for a program of ours that is not trusted either. */
int berth_launch_prepare_with(const char *plugin_id, const struct berth_worker_spec *spec,
                              const struct berth_launch_extra *extra, struct berth_launch *out,
                              struct berth_error *err);
/* Only looks whether the entry is there, and one that may be. */
int berth_launch_check(const struct berth_worker_spec *spec, struct berth_error *err);
/* The same for another script of ours, as text for node, with one argument. */
int berth_launch_prepare_script(const char *script, const char *argument,
                                const struct berth_worker_spec *spec, struct berth_launch *out,
                                struct berth_error *err);
/* Returns the real path of a program in PATH, in the arena. NOT_FOUND: it is not there. */
int berth_launch_find(struct berth_arena *arena, const char *name, const char **out,
                      struct berth_error *err);
void berth_launch_clear(struct berth_launch *launch);
#endif
