/* SPDX-License-Identifier: Apache-2.0
 * src/api/sync.h - the description of a workspace in a request. */
#ifndef BERTH_API_SYNC_H
#define BERTH_API_SYNC_H

#include <berth/run.h>

#include "api/call.h"

/* A workspace, and the fields as the request has them. */
struct berth_api_sync {
    struct berth_run_sync sync;
    const char *path, *branch;
    struct berth_list exclude;
    int on_conflict;
    bool no_restore, mass_deletion;
};

/* Reads the member `workspace` of a run. DENIED: the caller may not name directories of the
 * daemon's machine. */
int berth_api_sync_read(struct berth_api_call *c, const char *json, struct berth_api_sync *out,
                        struct berth_error *err);
#endif
