/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_git.h - the repository of a workspace. Its .git never crosses: the
 * place gets a repository of its own from a bundle, with the same branch, commit and index. On the
 * way home its commits are first fetched to refs/berth/LABEL. After the files, the index and the
 * branch follow, if the branch here is where it was and the place only added to it. Commits that
 * cannot be joined stay at refs/berth/LABEL, and the report says so.
 *
 * The steps home can be repeated: after a crash the next pull does those that are left. */
#ifndef BERTH_CORE_WORKSPACE_WORKSPACE_GIT_H
#define BERTH_CORE_WORKSPACE_WORKSPACE_GIT_H

#include "core/workspace/git_command.h"
#include "core/workspace/workspace_site.h"
#include "core/workspace/workspace_state.h"

struct berth_json_writer;

/* The repository at home. */
struct berth_home_git {
    struct berth_git git;
    const char *directory;                                /* .git, or where it points to */
    const char *index, *objects, *exclude, *shallow_file; /* paths of its files */
    const char *format;                                   /* of ids: "sha1" or "sha256" */
    const char *shallow;                                  /* ids without parents here; or "" */
    const char *scratch; /* a directory for objects that are not part of it yet */
    /* An empty directory, which git takes for the working tree when it writes an index. Otherwise
     * it would read files that are as new as the index, and run the filters of these files. */
    const char *empty;
};

/* One workspace on its way. */
struct berth_git_trip {
    struct berth_workspace_site *site;
    struct berth_arena *arena;
    const char *lease_id;
    const char *journals;                                  /* as in struct berth_apply_root */
    void (*hide)(void *hide_ctx, char *bytes, size_t len); /* as in struct berth_workspace_push */
    void *hide_ctx;
    int cancel_fd;
    bool in_place; /* the place is a directory on this machine */
    struct berth_workspace_state *state;
    struct berth_home_git home; /* home.git.engine is NULL: no repository */
};

/* Finds the repository at home. home.git.engine stays NULL when there is none. */
int berth_workspace_git_open(struct berth_git_trip *trip, struct berth_error *err);
/* Reads the repository at home into the trip and into state->git, and adds to the rules of the
 * state what the repository ignores. Without a repository, or when git cannot read it, only files
 * travel; state->git.note says why. */
int berth_workspace_git_read(struct berth_git_trip *trip, struct berth_error *err);
/* Gives the place its repository, after the files. `fresh`: the place was empty before. Without git
 * in the place, only files travel; state->git.note says so. */
int berth_workspace_git_send(struct berth_git_trip *trip, bool fresh, struct berth_error *err);

/* What became of the repository of a place. */
struct berth_git_return {
    const char *head, *ref, *index; /* in the place; or NULL */
    struct berth_list refs;         /* branches, tags, ... of the place; struct place_ref */
    bool has_more_refs;             /* than are listed */
    struct berth_list nested;       /* paths of repositories that stay in the place */
    const char *label;    /* in the names of refs here: that of the state, or that and a number */
    const char *state;    /* for the report; NULL: there is nothing to say */
    const char *kept_ref; /* where its commits are, unless the branch has them; or NULL */
    struct berth_list kept_refs; /* where its other branches, its tags, notes and stashes are */
    const char *note;            /* what was not done, and why; or NULL */
    bool imported;               /* its objects are here */
};

/* Finishes the exchange of an index that a killed process left. Called before anything is read. */
void berth_workspace_git_recover(const char *path);
/* Reads the repository of the place, and fetches its new commits to refs/berth. With `look_only`
 * nothing is fetched. UPSTREAM: the commits could not be fetched. */
int berth_workspace_git_fetch(struct berth_git_trip *trip, bool look_only,
                              struct berth_git_return *out, struct berth_error *err);
/* Takes over the index and the branch, after the files. */
int berth_workspace_git_join(struct berth_git_trip *trip, struct berth_git_return *r,
                             struct berth_error *err);
/* Writes the member "git" of a report, if there is something to say. */
void berth_workspace_git_json(const struct berth_git_trip *trip, const struct berth_git_return *r,
                              struct berth_json_writer *w);

/* --- for both directions --- */

/* Makes an empty repository at home.scratch that sees the objects at home. */
int berth_workspace_git_scratch(struct berth_git_trip *trip, struct berth_error *err);
/* Removes it. */
void berth_workspace_git_forget_scratch(struct berth_git_trip *trip);
/* Prints those of the commits `ids`, one in each line, that the repository at home has. */
int berth_workspace_git_present(struct berth_git_trip *trip, const struct berth_buf *ids,
                                struct berth_buf *out, struct berth_error *err);
/* Makes a commit in the scratch repository whose tree is the index at home, as it is now. *out is
 * NULL when the index cannot be a tree, because of an unfinished merge. */
int berth_workspace_git_index_commit(struct berth_git_trip *trip, const char *head,
                                     const char **out, struct berth_error *err);
/* Returns the branch and the commit of HEAD at home; "" where there is none. */
int berth_workspace_git_head(struct berth_git_trip *trip, const char **ref, const char **head,
                             struct berth_error *err);
/* Returns OK for an error of git that only keeps the repository from travelling, and stores its
 * text in *note; else returns the error. */
int berth_workspace_git_excuse(struct berth_git_trip *trip, int rc, const char **note,
                               struct berth_error *err);
/* Runs a script in the directory of the place, which is its first argument. */
struct berth_place_script;
int berth_workspace_git_script(struct berth_git_trip *trip, struct berth_place_script *script,
                               const char *const *args, int *exit_code, struct berth_error *err);

/* Words for commit-tree: with the same tree and parent, both sides make the same commit. */
#define BERTH_GIT_INDEX_MESSAGE "index"
#define BERTH_GIT_INDEX_DATE "@0 +0000"
#endif
