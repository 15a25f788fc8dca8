/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_site.c - see workspace_site.h: the site of a runtime. */
#include "core/workspace/workspace_site.h"

#include <stdlib.h>

#include "base/arena.h"
#include "core/driver.h"
#include "core/lease/lease.h"
#include "core/lease/lease_directory.h"
#include "core/lease/lease_work.h"
#include "core/lease/node.h"

static struct berth *runtime_of(struct berth_workspace_site *site)
{
    return ((struct berth_runtime_site *)site)->b;
}

static int runtime_look(struct berth_workspace_site *site, const char *lease_id, bool *has_work,
                        struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_lease *lease;
    int rc = berth_lease_get(runtime_of(site), &arena, lease_id, &lease, err);
    *has_work = rc == BERTH_OK && lease->work_at_ms;
    return rc;
}

static int runtime_is_near(struct berth_workspace_site *site, const char *lease_id, bool *near,
                           struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_lease *lease;
    const struct berth_route *route;
    int rc = berth_lease_begin_use(runtime_of(site), &arena, lease_id, &lease, &route, err);
    *near = rc == BERTH_OK && berth_route_traits(route)->in_place;
    return rc;
}

static int runtime_open_shell(struct berth_workspace_site *site, struct berth_arena *arena,
                              const char *lease_id, const char *directory, int cancel_fd,
                              struct berth_place_shell *out, struct berth_error *err)
{
    return berth_place_shell_init(out, runtime_of(site), arena, lease_id, directory, cancel_fd,
                                  err);
}

static int runtime_mark(struct berth_workspace_site *site, const char *lease_id,
                        enum berth_work_mark mark, struct berth_error *err)
{
    struct berth *b = runtime_of(site);
    return mark == BERTH_WORK_SENDING ? berth_lease_work_send(b, lease_id, err)
                                      : berth_lease_work_begin(b, lease_id, err);
}

static int runtime_reopen(struct berth_workspace_site *site, const char *lease_id,
                          struct berth_lease_work_seen *seen, struct berth_error *err)
{
    struct berth *b = runtime_of(site);
    int rc = berth_node_claim(b->node, lease_id, err);
    if (rc < 0)
        return rc;
    rc = berth_lease_work_reopen(b, lease_id, seen, err);
    if (rc < 0)
        berth_node_unclaim(b->node, lease_id);
    return rc;
}

static int runtime_mark_home(struct berth_workspace_site *site, const char *lease_id,
                             int64_t seen_ms, struct berth_error *err)
{
    return berth_lease_work_end(runtime_of(site), lease_id, seen_ms, err);
}

static int runtime_give_back(struct berth_workspace_site *site, const char *lease_id, bool reopened,
                             struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_release_request request = BERTH_RELEASE_REQUEST_INIT;
    berth_node_unclaim(runtime_of(site)->node, lease_id);
    request.lease_id = lease_id;
    return reopened ? berth_lease_release(runtime_of(site), &arena, &request, NULL, err) : BERTH_OK;
}

static const struct berth_workspace_site_ops runtime_ops = {
    .look = runtime_look,
    .is_near = runtime_is_near,
    .open_shell = runtime_open_shell,
    .mark = runtime_mark,
    .reopen = runtime_reopen,
    .mark_home = runtime_mark_home,
    .give_back = runtime_give_back,
};

int berth_runtime_site_init(struct berth_runtime_site *site, struct berth *b,
                            struct berth_error *err)
{
    *site = (struct berth_runtime_site){.base = {.ops = &runtime_ops, .engine = b->engine}, .b = b};
    int rc = berth_lease_directories(b, "workspaces", &site->states, err);
    site->base.states = site->states;
    return rc;
}

void berth_runtime_site_clear(struct berth_runtime_site *site)
{
    free(site->states);
}

const char *berth_workspace_journals(const struct berth_workspace_site *site,
                                     struct berth_arena *arena)
{
    return berth_arena_printf(arena, "%s/merges", site->states);
}
