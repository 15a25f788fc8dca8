/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/npm.h - how npm is started to fetch a package: confined as a worker, because packages
 * have ways to make npm run their code. It may write only the directory that it installs into. */
#ifndef BERTH_PLUGIN_NPM_H
#define BERTH_PLUGIN_NPM_H

#include "base/buf.h"
#include "plugin/launch.h"

#define BERTH_NPM_FILES 5

/* Not moved while it is in use. {0} is empty. */
struct berth_npm {
    struct berth_launch launch; /* launch.options start npm */
    bool prepared;              /* `launch` is in use */
    struct berth_arena arena;
    struct berth_buf texts[BERTH_NPM_FILES]; /* of `files` */
    struct berth_mount files[BERTH_NPM_FILES];
    size_t file_count;
    struct berth_list env; /* variables of npm, closed by NULL */
};

/* Prepares an install of `spec`, a name or NAME@VERSION, into cage->state. `spec` is borrowed until
 * npm has been started. NOT_FOUND: npm is not in PATH. The caller clears *n, also after a failure.
 */
int berth_npm_prepare(struct berth_npm *n, const char *spec, const struct berth_worker_spec *cage,
                      struct berth_error *err);
/* Removes what npm needed only while it ran. */
int berth_npm_tidy(const char *directory, struct berth_error *err);
void berth_npm_clear(struct berth_npm *n);
#define auto_npm __attribute__((cleanup(berth_npm_clear))) struct berth_npm
#endif
