/* SPDX-License-Identifier: Apache-2.0
 * include/berth/workspace.h - sends a directory to the place of a lease, and brings its changes
 * home. */
#ifndef BERTH_WORKSPACE_H
#define BERTH_WORKSPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <berth/common.h>

/* What happens to a path that changed here and, differently, in the place. */
enum berth_merge_policy {
    BERTH_MERGE_KEEP_BOTH, /* the local version stays, the remote one is put beside it */
    BERTH_MERGE_REMOTE,    /* the remote version replaces the local one, except by a deletion */
    BERTH_MERGE_LOCAL,     /* the local version stays, the remote one is dropped */
    BERTH_MERGE_FAIL,      /* the merge is refused; the place is kept */
};

/* How far a transfer is. */
struct berth_workspace_progress {
    bool returning;             /* the changes come home; otherwise the directory is sent */
    size_t files, files_total;  /* that travel */
    int64_t bytes, bytes_total; /* of their content */
};
/* Called by any thread, at most ten times a second. Must not block. */
typedef void berth_workspace_progress_fn(void *ctx, const struct berth_workspace_progress *now);

/* A directory that the place gets besides the workspace, such as the settings of an agent. */
struct berth_workspace_asset {
    const char *key;            /* its name in the place: letters, digits, ".", "_" and "-" */
    const char *path;           /* a directory on this machine */
    bool follow_links;          /* send what links lead to, instead of the links */
    const char *const *exclude; /* as in struct berth_workspace_push */
};

/* What a place gets before its first command. Nothing of it comes home. */
struct berth_workspace_setup {
    /* The assets are in .paperclip-runtime/ADAPTER/KEY below the workspace. Whatever a command
     * changed in them is undone by the next push. NULL: "agent". */
    const char *adapter;
    const struct berth_workspace_asset *assets;
    int asset_count;
    /* A command for the shell of the place, which installs a program. It runs in "/" before the
     * workspace is sent, for up to 5 minutes. When it fails, the push goes on with a warning.
     * NULL: nothing is installed. */
    const char *install_command;
    const char *detect_command; /* not installed if the place has this program; or NULL */
};

/* A directory to send. Initialise with BERTH_WORKSPACE_PUSH_INIT. */
struct berth_workspace_push {
    const char *lease_id; /* active */
    const char *path;     /* a directory on this machine */
    /* Patterns of paths that stay here, in the syntax of gitignore; they win over .gitignore and
     * .berthignore. Closed by NULL; or NULL. */
    const char *const *exclude;
    enum berth_merge_policy on_conflict; /* when the changes come home */
    /* The name of a branch of the repository at `path`. A worktree on that branch is sent instead
     * of the directory, whose files stay as they are. A new branch begins at the commit that is
     * checked out. When the changes come home, what is not committed becomes a commit. NULL: the
     * directory itself is sent. */
    const char *branch;
    /* An id, whose first eight digits name remote versions (NAME.remote-ID) and commits
     * (refs/berth/ID) at home. NULL: the id of the lease. */
    const char *label;
    struct berth_workspace_setup setup;
    /* Overwrites secrets in a text that others wrote before it is stored or shown; or NULL. */
    void (*hide)(void *hide_ctx, char *bytes, size_t len);
    void *hide_ctx;
    berth_workspace_progress_fn *on_progress; /* or NULL */
    void *ctx;                                /* for on_progress */
    bool dry_run;  /* only count what would be sent; the lease is not used */
    int cancel_fd; /* readable: give up; -1: never */
};
#define BERTH_WORKSPACE_PUSH_INIT                                                                  \
    {                                                                                              \
        .cancel_fd = -1                                                                            \
    }

/* How to bring changes home. Initialise with BERTH_WORKSPACE_PULL_INIT. */
struct berth_workspace_pull {
    const char *lease_id; /* active, or retained with work */
    int on_conflict;      /* enum berth_merge_policy; -1: as when the directory was sent */
    bool mass_deletion;   /* also delete more than half of the files, and more than ten */
    bool dry_run;         /* only report what would change */
    size_t diff_max;      /* bytes of a unified diff of the files; 0: the report has none */
    /* Overwrites secrets in the content and the path of a file before the difference shows it, and
     * in the texts of the report; or NULL. */
    void (*hide)(void *hide_ctx, char *bytes, size_t len);
    void *hide_ctx;
    int cancel_fd;
    berth_workspace_progress_fn *on_progress; /* or NULL */
    void *ctx;                                /* for on_progress */
};
#define BERTH_WORKSPACE_PULL_INIT                                                                  \
    {                                                                                              \
        .on_conflict = -1, .cancel_fd = -1                                                         \
    }

/* What was moved. The texts are in the arena of the call. */
struct berth_workspace_report {
    const char *cwd;                /* push: the directory in the place */
    size_t files;                   /* push: of the workspace */
    int64_t bytes;                  /* push: of these files; pull: of the files that came home */
    size_t skipped;                 /* sockets, pipes and devices, which stay where they are */
    size_t added, updated, deleted; /* pull: files and links */
    size_t conflicts;
    size_t recovered; /* steps of an earlier merge that was interrupted, and was finished now */
    /* Ids of other leases that hold the directory, too, and whose work is not home. */
    struct berth_list shared_with;
    const char *note;    /* push: why the repository did not travel as a whole; or NULL */
    const char *warning; /* how the install command failed; or NULL */
    const char *json;    /* pull: all of it but the difference as an object, as a run shows it */
    const char *diff;    /* pull: the difference, if it was wanted; else NULL */
    const char *json_with_diff; /* pull: `json` and the difference, as the API answers */
};

/* Sends a directory to the place of a lease; the place's directory becomes like it, apart from what
 * the rules exclude. If it is a git repository, the place gets one with the same branch, commit and
 * index. CONFLICT: the lease is not active, or holds work that is not home yet.
 * UNPROCESSABLE: the directory cannot be a workspace. */
BERTH_API int berth_workspace_push(struct berth *b, struct berth_arena *arena,
                                   const struct berth_workspace_push *push,
                                   struct berth_workspace_report *out, struct berth_error *err);
/* Brings the changes home. The directory is changed completely or, after an error, not at all.
 * Commits of the place are fetched; the branch moves to them if it is still where it was and they
 * only add to it. Otherwise they are at refs/berth/LABEL, and the report says so.
 * CONFLICT: the place was replaced, too much would be deleted, or the policy refuses. The work
 * stays in the place then. NOT_FOUND: nothing was sent to this lease from this machine. */
BERTH_API int berth_workspace_pull(struct berth *b, struct berth_arena *arena,
                                   const struct berth_workspace_pull *pull,
                                   struct berth_workspace_report *out, struct berth_error *err);
#endif
