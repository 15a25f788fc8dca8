/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/lease_directory.h - the directory that a lease has on this machine:
 * leases/STORE/ID beside the store. Commands of a driver in place run there, unless they name
 * another directory. It is made when it is first needed, and removed when the lease has ended. */
#ifndef BERTH_CORE_LEASE_LEASE_DIRECTORY_H
#define BERTH_CORE_LEASE_LEASE_DIRECTORY_H

#include "core/berth.h"

/* Closes the name of a worktree of the user's repository, beside the state of a workspace. */
#define BERTH_LEASE_WORKTREE_SUFFIX ".tree"

/* Returns the directory of the store in "leases", "trash" or "workspaces", which the caller frees.
 */
int berth_lease_directories(const struct berth *b, const char *name, char **out,
                            struct berth_error *err);
/* Returns the path, in the arena. Makes nothing. */
int berth_lease_directory(const struct berth *b, struct berth_arena *arena, const char *lease_id,
                          const char **out, struct berth_error *err);
/* Removes the state of the workspace of a lease that has ended, if there is one
 * (core/workspace/workspace_state.h). */
void berth_lease_workspace_discard(struct berth *b, const char *lease_id);
/* The same in a directory for workspaces that is not the runtime's. */
void berth_lease_workspace_remove(const char *workspaces, const char *lease_id);
/* Removes the directory of a lease that has ended, if there is one: takes it out of the way now,
 * and deletes it on the pool. What fails is left for the sweep. */
void berth_lease_directory_discard(struct berth *b, const char *lease_id);
#endif
