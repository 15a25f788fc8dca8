/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/place_script.h - runs scripts that read and write bytes in the shell of a
 * place. Where commands have byte streams, these are used, otherwise files in the place. */
#ifndef BERTH_CORE_WORKSPACE_PLACE_SCRIPT_H
#define BERTH_CORE_WORKSPACE_PLACE_SCRIPT_H

#include "core/workspace/place_shell.h"

/* Runs a script. *exit_code is that of the script, or -1. UPSTREAM: it failed; the error has the
 * words that it wrote to standard error. */
int berth_place_script_run(struct berth_place_shell *shell, const struct berth_place_script *script,
                           int *exit_code, struct berth_error *err);

/* A `take` that appends the output to the berth_buf at ctx. */
int berth_place_script_take_text(void *ctx, const struct berth_unpack_source *source,
                                 struct berth_error *err);
#endif
