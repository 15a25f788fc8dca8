/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/stage.h - files through which the files of a place travel: in the temporary directory
 * of a worker, which can do with them whatever it wants. */
#ifndef BERTH_PLUGIN_STAGE_H
#define BERTH_PLUGIN_STAGE_H

#include <sys/types.h>

#include "base/arena.h"
#include "driver/workers.h"

/* Makes an empty file in the directory tmp/ of a worker's state. `uid` is the worker's user; 0:
 * this process's own. Files that a killed process has left there are removed first. */
int berth_plugin_stage_make(const char *state, uid_t uid, struct berth_arena *arena,
                            struct berth_worker_stage *out, struct berth_error *err);
#endif
