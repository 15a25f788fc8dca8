/* SPDX-License-Identifier: Apache-2.0
 * src/sync/apply_steps.h - the steps of a merge as its journal keeps them. */
#ifndef BERTH_SYNC_APPLY_STEPS_H
#define BERTH_SYNC_APPLY_STEPS_H

#include "sync/merge.h"

enum berth_step_state {
    BERTH_STEP_OPEN,
    BERTH_STEP_DONE,
    BERTH_STEP_SKIPPED, /* there was nothing to do, or the local path had changed */
};

/* A change, with what is needed to tell whether it was carried out. */
struct berth_step {
    enum berth_change_kind kind;
    const char *path;
    uint16_t mode;          /* afterwards, of files and directories */
    bool replaces;          /* `old` is set: what is at the path before */
    struct berth_entry old; /* as the manifest of the local tree has it */
    uint64_t inode;         /* PUT: of the new file or link */
    /* These are not part of the journal. */
    enum berth_step_state state;
    int64_t size, mtime_ns; /* PUT: of the new file or link */
    const char *placed;     /* where the new file, link or directory is */
};

struct berth_steps {
    struct berth_arena arena; /* holds the texts */
    const char *label;        /* of the merge */
    struct berth_step *items;
    size_t count;
};
void berth_steps_clear(struct berth_steps *steps);
#define auto_steps __attribute__((cleanup(berth_steps_clear))) struct berth_steps

/* Makes the steps of a plan, in its order. They point into the plan and its manifests. */
int berth_steps_of_merge(const struct berth_merge *merge, struct berth_steps *out,
                         struct berth_error *err);

void berth_steps_write(const struct berth_steps *steps, struct berth_buf *out);
/* Reads what berth_steps_write wrote. A NUL follows the bytes. INVALID: it is damaged. */
int berth_steps_parse(const char *bytes, size_t len, struct berth_steps *out,
                      struct berth_error *err);
#endif
