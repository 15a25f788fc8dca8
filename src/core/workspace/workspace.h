/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace.h - workspaces for the rest of core/, the API and the command line.
 * From the moment a directory is in a place until its changes are home, the row of the lease says
 * so (work_at), and the place is not given away. */
#ifndef BERTH_CORE_WORKSPACE_WORKSPACE_H
#define BERTH_CORE_WORKSPACE_WORKSPACE_H

#include <berth/workspace.h>

#include "core/berth.h"
#include "base/json.h"
#include "store/row.h"

/* The words of enum berth_merge_policy. */
extern const struct berth_enum berth_merge_policies;

/* Does what berth_workspace_push does, into a directory of the place that realize has answered. */
int berth_workspace_send(struct berth *b, struct berth_arena *arena,
                         const struct berth_workspace_push *push, const char *cwd,
                         struct berth_workspace_report *out, struct berth_error *err);
/* Writes the members of a report that say what else was found: "sharedWith", "recovered" if an
 * earlier merge was finished, and "warning" if a program could not be installed. */
void berth_workspace_put_findings(struct berth_json_writer *w,
                                  const struct berth_workspace_report *report);
#endif
