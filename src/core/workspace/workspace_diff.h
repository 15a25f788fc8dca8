/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_diff.h - shows what a merge changes in the files at home, as one
 * unified diff of limited size. */
#ifndef BERTH_CORE_WORKSPACE_WORKSPACE_DIFF_H
#define BERTH_CORE_WORKSPACE_WORKSPACE_DIFF_H

#include "core/workspace/transport.h"
#include "sync/merge.h"

/* Appends the difference, at most pull->diff_max bytes. `t` has listed the place, and
 * gathered the files of the plan unless the pull is a dry run. `scratch` is a directory here, which
 * is made and removed. *cut: some of it is left out. */
int berth_workspace_diff(const struct berth_workspace_pull *pull, const struct berth_merge *plan,
                         struct berth_transport *t, int root_fd, const char *scratch,
                         struct berth_buf *out, bool *cut, struct berth_error *err);
#endif
