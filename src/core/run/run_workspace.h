/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/run_workspace.h - the workspace of a run: to the place before its command, home
 * after it. */
#ifndef BERTH_CORE_RUN_RUN_WORKSPACE_H
#define BERTH_CORE_RUN_RUN_WORKSPACE_H

#include <berth/run.h>

#include "core/berth.h"
#include "core/run/masking.h"

/* One run whose workspace moves. */
struct berth_run_way {
    const struct berth_run_request *request;
    const char *lease_id;
    void (*hide)(void *hide_ctx, char *bytes, size_t len); /* overwrites the run's secrets */
    void *hide_ctx;
    int cancel_fd;
};

/* Sends a directory to the directory `cwd` of the place of a lease. *warning is that of the report.
 */
int berth_run_workspace_send(struct berth *b, struct berth_arena *arena,
                             const struct berth_run_way *way, const char *run_id, const char *cwd,
                             const char **warning, struct berth_error *err);

/* What became of the changes. The texts are in the arena. */
struct berth_run_return {
    bool kept;         /* they stay in the place */
    const char *error; /* why, unless that was asked for; or NULL */
    const char *json;  /* as the run shows it; NULL: no memory */
    const char *diff;  /* what changed here, without the secrets of the command; or NULL */
};
/* Brings the changes home, unless the request wants them left. The command has ended, or was not
 * started; `masking` has its secrets. The changes stay in the place when way->cancel_fd becomes
 * readable; what has ended the command is read from it first. */
void berth_run_workspace_return(struct berth *b, struct berth_arena *arena,
                                const struct berth_run_way *way, struct berth_masking *masking,
                                const char *warning, struct berth_run_return *out);
/* Returns the report, as JSON, of work that stays in the place. `why` is NULL when that was asked
 * for, and `warning` when there is none. `way` is NULL when the texts have no secrets to hide.
 * NULL: out of memory. */
const char *berth_run_workspace_kept(struct berth_arena *arena, const struct berth_run_way *way,
                                     const char *lease_id, const char *path, const char *why,
                                     const char *warning);
#endif
