/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_setup.h - what a place gets besides the workspace: a program that is
 * installed if it is missing, and directories that do not come home. */
#ifndef BERTH_CORE_WORKSPACE_WORKSPACE_SETUP_H
#define BERTH_CORE_WORKSPACE_WORKSPACE_SETUP_H

#include "core/workspace/workspace_git.h"

/* INVALID: a name cannot be one in the place, or is there twice. */
int berth_workspace_setup_check(const struct berth_workspace_setup *setup, struct berth_error *err);
/* Runs the install command in the place, unless the place has the program. A failure of the command
 * becomes state->warning. */
int berth_workspace_install(struct berth_git_trip *trip, const struct berth_workspace_setup *setup,
                            struct berth_error *err);
/* Makes the directories of the assets in the place like those here. */
int berth_workspace_send_assets(struct berth_git_trip *trip,
                                const struct berth_workspace_setup *setup, struct berth_error *err);
#endif
