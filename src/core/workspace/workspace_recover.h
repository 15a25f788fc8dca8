/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_recover.h - merges that killed processes have left half done. */
#ifndef BERTH_CORE_WORKSPACE_WORKSPACE_RECOVER_H
#define BERTH_CORE_WORKSPACE_WORKSPACE_RECOVER_H

#include "core/berth.h"

/* Finishes or undoes the merges of killed processes in the directories that were sent from this
 * machine with this store. One that cannot be finished is logged, and stays. */
int berth_workspace_recover(struct berth *b, struct berth_error *err);
#endif
