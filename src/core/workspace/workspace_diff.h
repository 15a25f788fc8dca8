/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_diff.h - shows what a merge changes in the files at home, as one
 * unified diff of limited size. */
#ifndef BERTH_CORE_WORKSPACE_WORKSPACE_DIFF_H
#define BERTH_CORE_WORKSPACE_WORKSPACE_DIFF_H

#include "core/workspace/transport.h"
#include "sync/merge.h"

#define BERTH_WORKSPACE_DIFF_BYTES_MAX ((size_t)256 * 1024)

/* Appends the difference. `t` has listed the place; the content of files that are shown is fetched.
 * `scratch` is a directory here, which is made and removed. *cut: some of it is left out. */
int berth_workspace_diff(const struct berth_merge *plan, struct berth_transport *t, int root_fd,
                         const char *scratch, struct berth_buf *out, bool *cut,
                         struct berth_error *err);
#endif
