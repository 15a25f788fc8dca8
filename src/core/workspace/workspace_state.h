/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_state.h - what is needed to bring a workspace home, kept in a file
 * LEASE in the directory of the site, so that another process can do it after a crash. The lists of
 * the trees are in a file of their own, LEASE.lists-a or -b. The runtime has both beside the store,
 * in workspaces/STORE. */
#ifndef BERTH_CORE_WORKSPACE_WORKSPACE_STATE_H
#define BERTH_CORE_WORKSPACE_WORKSPACE_STATE_H

#include "core/berth.h"
#include "sync/ignore.h"
#include "sync/manifest.h"
#include "sync/merge.h"

/* The repository that was sent with a workspace. */
struct berth_workspace_git {
    bool sent;         /* the place has it */
    const char *ref;   /* the branch of HEAD, as "refs/heads/main"; "": HEAD is a commit */
    const char *head;  /* the commit; "": the branch has none yet */
    const char *index; /* a commit whose tree is the index; "": the index did not travel */
    const char *note;  /* why something did not travel; "": everything did */
};

struct berth_workspace_state {
    struct berth_arena arena; /* holds the texts */
    const char *path;         /* the directory at home, absolute */
    /* The repository and the branch whose worktree `path` is, and the commit at which the branch
     * was when the worktree was made. "": `path` is the user's own directory. */
    const char *repository, *branch, *branch_start;
    bool branch_made;   /* by this push; not stored */
    const char *cwd;    /* the directory in the place */
    const char *token;  /* was written there */
    const char *label;  /* of remote versions that are put beside local ones */
    const char *shared; /* ids of other leases that had the directory, too; one on each line */
    /* How many steps of an earlier merge the push has finished; "": none. */
    const char *recovered;
    const char *warning; /* how the install command failed; "": it did not */
    enum berth_merge_policy policy;
    struct berth_workspace_git git;
    /* Names the file with the two lists, which is written only when they change. "": none. */
    const char *lists;
    bool lists_kept;             /* the file has them already; not stored */
    struct berth_ignore *ignore; /* the rules when it was sent, for all three trees */
    /* The workspace as it was sent, or as it came home. */
    struct berth_tree_manifest base;
    struct berth_tree_manifest copy; /* the directory of the place at that time; or empty */
};
void berth_workspace_state_clear(struct berth_workspace_state *state);
#define auto_workspace_state                                                                       \
    __attribute__((cleanup(berth_workspace_state_clear))) struct berth_workspace_state

/* `states` is the directory. */

/* Stores the state durably, in place of an earlier one. `state->lists` names the lists of that one,
 * if they are known, and then those that were stored. */
int berth_workspace_state_save(const char *states, const char *lease_id,
                               struct berth_workspace_state *state, struct berth_error *err);
/* NOT_FOUND: no workspace was sent to this lease from this machine. */
int berth_workspace_state_load(const char *states, const char *lease_id,
                               struct berth_workspace_state *out, struct berth_error *err);
/* The same without the lists. Until its directory is locked, another process may change a state. */
int berth_workspace_state_peek(const char *states, const char *lease_id,
                               struct berth_workspace_state *out, struct berth_error *err);
/* Lists the ids of other leases to which the directory `path` was sent, by the states that are
 * there.
 */
int berth_workspace_state_others(const char *states, struct berth_arena *arena, const char *path,
                                 const char *lease_id, struct berth_list *out,
                                 struct berth_error *err);
/* Returns the path of a file or directory NAME.SUFFIX of a lease, beside its state, in the arena.
 */
int berth_workspace_state_path(const char *states, struct berth_arena *arena, const char *lease_id,
                               const char *suffix, const char **out, struct berth_error *err);
#endif
