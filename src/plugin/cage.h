/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/cage.h - what the programs of plugins see of this machine, and the user that they run
 * as. */
#ifndef BERTH_PLUGIN_CAGE_H
#define BERTH_PLUGIN_CAGE_H

#include "base/limits.h"
#include "os/cage.h"
#include "os/confine.h"
#include "plugin/ops.h"

/* Not moved while it is in use: its parts point to each other. */
struct berth_plugin_cage {
    struct berth_arena *arena; /* of what it points to */
    /* Files that the program reads besides its package, or NULL: kind BERTH_MOUNT_TEXT, with the
     * path that they have on this machine as `source`. Set by the caller. */
    const struct berth_mount *files;
    size_t file_count;
    const char *package, *state; /* real paths */
    struct berth_confinement confinement;
    struct berth_cage cage;
    gid_t groups[BERTH_SOCKETS_MAX];
    char text[BERTH_CONFINE_TEXT_SIZE]; /* what is enforced, for people */
};

/* Makes the directory of the state and fills *l, whose arena and files are set. `node` is the real
 * path of node, or NULL when the program is not a script. UNSUPPORTED: programs cannot be confined
 * on this machine, and the operator has not allowed that they run unconfined. UNPROCESSABLE: the
 * worker's user could not read the package. DENIED: the package contains files of berth, or its
 * path is not a real path any more. */
int berth_plugin_cage_make(struct berth_plugin_cage *l, const char *plugin_id,
                           const struct berth_worker_spec *spec, const char *node,
                           struct berth_error *err);
#endif
