/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_branch.h - a workspace that is a branch of a repository. What
 * travels is a worktree of its own, beside the state of the lease: several places can work on one
 * repository, and the user's files stay as they are. When the work is home, what is not committed
 * becomes a commit, and the worktree is removed. The branch stays. */
#ifndef BERTH_CORE_WORKSPACE_WORKSPACE_BRANCH_H
#define BERTH_CORE_WORKSPACE_WORKSPACE_BRANCH_H

#include "core/workspace/workspace_git.h"

struct berth_json_writer;

/* Makes the worktree state->path on state->branch, in place of one that a killed push has left. A
 * new branch begins at the commit that is checked out in state->repository. Sets
 * state->branch_start and *note: what does not travel; or NULL. UNPROCESSABLE: the repository or
 * the name does not allow it. CONFLICT: the branch is checked out elsewhere. */
int berth_workspace_branch_begin(struct berth_git_trip *trip, const char **note,
                                 struct berth_error *err);
/* Undoes berth_workspace_branch_begin, after the push has failed. */
void berth_workspace_branch_undo(struct berth_git_trip *trip);
/* Makes the worktree again if it is not there: the work came home before. *made: it was made. */
int berth_workspace_branch_reopen(struct berth_git_trip *trip, bool *made, struct berth_error *err);

/* What the branch has after the work came home. */
struct berth_branch_return {
    const char *head; /* the commit of the branch; NULL: the work is not home */
    int64_t commits;  /* new ones */
};
/* Commits what is not committed in the worktree. CONFLICT: a part of it cannot be committed. */
int berth_workspace_branch_commit(struct berth_git_trip *trip, struct berth_branch_return *out,
                                  struct berth_error *err);
/* Removes the worktree. One that cannot be removed goes with the state of the lease. */
void berth_workspace_branch_close(struct berth_git_trip *trip);
/* Writes the member "branch" of a report. */
void berth_workspace_branch_json(const struct berth_workspace_state *state,
                                 const struct berth_branch_return *r, struct berth_json_writer *w);
#endif
