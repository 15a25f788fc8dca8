/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_trip.h - what a push and a pull of a workspace have in common. */
#ifndef BERTH_CORE_WORKSPACE_WORKSPACE_TRIP_H
#define BERTH_CORE_WORKSPACE_WORKSPACE_TRIP_H

#include <berth/workspace.h>

#include "core/workspace/workspace_git.h"
#include "sync/progress.h"

/* Opens the directory at home, waits for its lock, and finishes a merge that a killed process has
 * left there: *recovered is the number of its steps. The lock is dropped when the descriptor is
 * closed. */
int berth_workspace_open_root(const struct berth_git_trip *trip, const char *path,
                              size_t *recovered, struct berth_error *err);

/* A transfer that the caller watches. */
struct berth_workspace_watch {
    struct berth_progress progress;
    berth_workspace_progress_fn *fn;
    void *ctx;
    bool returning;
};
/* Returns the counter of a transfer, or NULL when the caller gave no callback. */
struct berth_progress *berth_workspace_watch(struct berth_workspace_watch *w,
                                             berth_workspace_progress_fn *fn, void *ctx,
                                             bool returning);

/* Finds the other leases that hold the directory, too. Each of them comes home by a merge of its
 * own, so that a file that two of them change becomes a conflict. */
int berth_workspace_find_sharers(struct berth_git_trip *trip, struct berth_list *out,
                                 struct berth_error *err);
#endif
