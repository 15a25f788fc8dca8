/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/trip_model.h - what must be at home after the changes of a place came home, as
 * DESIGN.md, section 6, says. Shares no code with src/sync. */
#ifndef BERTH_TESTS_TRIP_MODEL_H
#define BERTH_TESTS_TRIP_MODEL_H

#include <berth/workspace.h>

#include "trip_trees.h"

struct trip_model {
    const struct trip_tree *base, *remote, *local;
    enum berth_merge_policy policy;
    struct trip_tree want; /* at home afterwards, unless the merge is refused */
    int conflicts;
    int added, updated, deleted; /* files and links */
    int sent;                    /* files and links of `base` */
    int besides;
    char beside[TRIP_THINGS_MAX][TRIP_PATH_SIZE]; /* where remote versions are put */
};

/* Fills in what follows from the trees and the policy. */
void trip_model_make(struct trip_model *m);
/* Returns whether the merge must be refused. */
bool trip_model_refuses(const struct trip_model *m, bool mass_deletion);
#endif
