/* SPDX-License-Identifier: Apache-2.0
 * src/sync/apply.h - carries out the plan of a merge in the local tree, so that a crash at any
 * moment loses nothing. New content is written to ROOT/.berth/merge-ID first. Then a journal of all
 * steps is made durable, and each step is one rename, mkdir, rmdir or chmod. When the process dies
 * in between, berth_apply_recover carries out the steps that are left. The journal lies in a
 * directory of ours, since strangers write in the tree: what a repository or a command puts in
 * .berth there is never carried out.
 *
 * A local path that has changed since its manifest was taken is not touched: the remote version is
 * put beside it and reported. The caller holds a lock that keeps other merges away. */
#ifndef BERTH_SYNC_APPLY_H
#define BERTH_SYNC_APPLY_H

#include "sync/merge.h"

/* Where the content of remote files comes from. */
struct berth_apply_source {
    /* Makes the regular file `name` in a directory, with the content of a remote file. Returns an
     * error when the content does not have the hash of the entry. The mode is set afterwards. */
    int (*fetch)(void *ctx, const struct berth_entry *remote, int directory_fd, const char *name,
                 struct berth_error *err);
    void *ctx;
};

/* What was done. */
struct berth_apply_report {
    struct berth_arena arena;         /* holds the texts */
    struct berth_conflict *conflicts; /* that were found while the steps were carried out */
    size_t conflict_count, conflict_cap;
    size_t recovered; /* steps of an earlier merge, whose process died */
};
void berth_apply_report_clear(struct berth_apply_report *report);
#define auto_apply_report                                                                          \
    __attribute__((cleanup(berth_apply_report_clear))) struct berth_apply_report

/* The tree. */
struct berth_apply_root {
    int fd;
    const char *journals; /* a private directory outside of the tree; it is made when needed */
};

/* Finishes the merge that a killed process left in the tree, if there is one. Called before the
 * manifest of the local tree is taken. */
int berth_apply_recover(const struct berth_apply_root *root, struct berth_apply_report *report,
                        struct berth_error *err);

/* Carries out a plan. On failure the tree is as it was before, unless the process dies or undoing
 * fails too: then berth_apply_recover finishes the merge. */
int berth_apply(const struct berth_apply_root *root, const struct berth_merge *merge,
                const struct berth_apply_source *source, struct berth_apply_report *report,
                struct berth_error *err);
#endif
