/* SPDX-License-Identifier: Apache-2.0
 * src/sync/merge.h - decides what the return of a workspace changes. Three manifests go in: the
 * baseline, which is the workspace as it was sent; the remote tree, as the run left it; and the
 * local tree, as it is now. What only one side changed is taken. A deletion is taken only where the
 * local tree equals the baseline. What both sides changed differently is a conflict, and the policy
 * decides. The same manifests always give the same plan. Nothing is read or written here. */
#ifndef BERTH_SYNC_MERGE_H
#define BERTH_SYNC_MERGE_H

#include <berth/workspace.h>

#include "base/limits.h"
#include "base/map.h"
#include "sync/manifest.h"

#define BERTH_MERGE_LABEL_BYTES_MAX 32

/* In the order in which changes are applied. */
enum berth_change_kind {
    BERTH_CHANGE_OPEN_DIRECTORY,   /* its owner may not write to it; SET_MODE closes it again */
    BERTH_CHANGE_REMOVE,           /* a local file or link */
    BERTH_CHANGE_REMOVE_DIRECTORY, /* unless something is left in it, such as an excluded file */
    BERTH_CHANGE_MAKE_DIRECTORY,
    BERTH_CHANGE_PUT, /* a remote file or link; replaces the local one, if `local` is set */
    BERTH_CHANGE_SET_MODE,
};

/* One step of a plan. The entries belong to the manifests. */
struct berth_change {
    enum berth_change_kind kind;
    const char *path;                 /* in the local tree */
    const struct berth_entry *remote; /* what is put; else NULL */
    const struct berth_entry *local;  /* what is at `path` before; NULL: nothing */
    uint16_t mode;                    /* afterwards, of files and directories */
};

enum berth_conflict_kind {
    BERTH_CONFLICT_CONTENT,       /* both changed or created a file or link */
    BERTH_CONFLICT_MODE,          /* both changed the mode; the content is merged */
    BERTH_CONFLICT_KIND,          /* a directory on one side, a file or link on the other */
    BERTH_CONFLICT_DELETED_HERE,  /* the local tree deleted what the remote one changed */
    BERTH_CONFLICT_DELETED_THERE, /* the remote tree deleted what the local one changed */
};

struct berth_conflict {
    enum berth_conflict_kind kind;
    const char *path;
    const char *beside; /* where the remote version is put; NULL: nowhere */
};

/* A plan. Must not outlive the manifests that it was made of. */
struct berth_merge {
    struct berth_arena arena; /* holds paths that are in no manifest */
    struct berth_change *changes;
    size_t count, cap;
    struct berth_conflict *conflicts;
    size_t conflict_count, conflict_cap;
    size_t added, updated, deleted; /* files and links */
    size_t base_count;              /* files and links of the baseline */
    int64_t bytes;                  /* of the files that are put */
    struct berth_map beside;        /* the paths of remote versions that are put beside */
    enum berth_merge_policy policy;
    const char *label;
    const struct berth_tree_manifest *base, *remote, *local;
};
void berth_merge_clear(struct berth_merge *merge);
#define auto_merge __attribute__((cleanup(berth_merge_clear))) struct berth_merge

/* Makes the plan. All files are hashed. `label` names the run in the paths of remote versions that
 * are put beside local ones: NAME.remote-LABEL. CONFLICT: the policy is FAIL, and there are
 * conflicts; `out` lists them. INVALID: the remote tree has a name that never crosses. */
int berth_merge_plan(const struct berth_tree_manifest *base,
                     const struct berth_tree_manifest *remote,
                     const struct berth_tree_manifest *local, enum berth_merge_policy policy,
                     const char *label, struct berth_merge *out, struct berth_error *err);

/* Returns whether the plan deletes more than half of the baseline's files, and more than ten. */
bool berth_merge_deletes_most(const struct berth_merge *merge);

/* Writes to `out` the path number `nth` (from 1) for a remote version beside `path`: the name gets
 * ".remote-LABEL", and "-2", "-3"... from the second on. A name that would become too long is cut.
 * Returns false when the path would be too long. */
bool berth_merge_beside(const char *path, const char *label, unsigned nth,
                        char out[BERTH_TREE_PATH_BYTES_MAX + 1]);

/* Returns the word for a kind of conflict, such as "deleted-here". */
const char *berth_conflict_word(enum berth_conflict_kind kind);
#endif
