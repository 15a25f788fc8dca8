/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/transport_open.c - chooses the transport of a workspace. */
#include "core/workspace/transport.h"
#include "core/workspace/workspace_git.h"

int berth_transport_open(struct berth_git_trip *trip, const char *below,
                         struct berth_transport **out, struct berth_error *err)
{
    struct berth_workspace_site *site = trip->site;
    const char *blobs;
    int rc = site->ops->is_near(site, trip->lease_id, &trip->in_place, err);
    if (rc < 0)
        return rc;
    if (trip->in_place)
        return berth_transport_directory_new(trip->state->cwd, below, trip->journals,
                                             trip->cancel_fd, out, err);
    rc = berth_workspace_state_path(site->states, trip->arena, trip->lease_id, ".blobs", &blobs,
                                    err);
    return rc < 0 ? rc
                  : berth_transport_shell_new(site, trip->arena, trip->lease_id, trip->state->cwd,
                                              below, blobs, trip->cancel_fd, out, err);
}

void berth_transport_close(struct berth_transport **t)
{
    if (*t)
        (*t)->ops->free(*t);
}
