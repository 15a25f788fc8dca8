/* SPDX-License-Identifier: Apache-2.0
 * src/core/sweep/left_directories.h - directories of leases on this machine that no lease needs. */
#ifndef BERTH_CORE_SWEEP_LEFT_DIRECTORIES_H
#define BERTH_CORE_SWEEP_LEFT_DIRECTORIES_H

#include "core/berth.h"

/* Removes the directories of leases that have ended, and those that were left half deleted. */
int berth_left_directories_remove(struct berth *b, struct berth_error *err);
#endif
