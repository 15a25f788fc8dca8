/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_setup.h - the setup of a place: a program that is installed if it is
 * missing, and assets, which are directories that do not come home. */
#ifndef BERTH_CORE_WORKSPACE_WORKSPACE_SETUP_H
#define BERTH_CORE_WORKSPACE_WORKSPACE_SETUP_H

#include "core/workspace/workspace_git.h"

/* Returns INVALID when the adapter or a key is not valid, or two assets have the same key. */
int berth_workspace_setup_check(const struct berth_workspace_setup *setup, struct berth_error *err);
/* Refuses a directory that contains the data of berth: its keys would travel, and a deletion in the
 * place would delete them here. `path` is real. */
int berth_workspace_refuse_data(const struct berth_workspace_site *site, const char *path,
                                struct berth_error *err);
/* Runs the install command in the place, unless the place has the program. A failure of the command
 * becomes state->warning. */
int berth_workspace_install(struct berth_git_trip *trip, const struct berth_workspace_setup *setup,
                            struct berth_error *err);

/* The assets of a push, which are opened before anything is sent. */
struct berth_workspace_assets {
    const struct berth_workspace_setup *setup;
    struct berth_asset_source *sources;
    int count;        /* of the sources that are open */
    const char *copy; /* a directory for what links lead to; removed at the end; or NULL */
};
int berth_workspace_assets_open(struct berth_git_trip *trip,
                                const struct berth_workspace_setup *setup,
                                struct berth_workspace_assets *out, struct berth_error *err);
/* Makes the directories of the assets in the place like those here. */
int berth_workspace_assets_send(struct berth_git_trip *trip,
                                const struct berth_workspace_assets *assets,
                                struct berth_error *err);
void berth_workspace_assets_close(struct berth_workspace_assets *assets); /* twice is fine */
#define auto_workspace_assets                                                                      \
    __attribute__((cleanup(berth_workspace_assets_close))) struct berth_workspace_assets
#endif
