/* SPDX-License-Identifier: Apache-2.0
 * src/api/sync.c - see sync.h. */
#include "api/sync.h"

#include <stddef.h>

#include "api/caller.h"
#include "core/workspace/workspace.h"

static int sync_finish(struct berth_api_call *c, struct berth_api_sync *out,
                       struct berth_error *err)
{
    if (out->path[0] != '/')
        return berth_fail(err, BERTH_E_INVALID, "The path of a workspace must be absolute.");
    (void)berth_list_add(&out->exclude, &c->arena, NULL);
    out->sync = (struct berth_run_sync){
        .path = out->path,
        .exclude = (const char *const *)(void *)out->exclude.items,
        .on_conflict = (enum berth_merge_policy)out->on_conflict,
        .branch = out->branch,
        .no_restore = out->no_restore,
        .mass_deletion = out->mass_deletion,
    };
    return berth_arena_check(&c->arena, err);
}

int berth_api_sync_read(struct berth_api_call *c, const char *json, struct berth_api_sync *out,
                        struct berth_error *err)
{
    const struct berth_api_field fields[] = {
        {"path", BERTH_API_TEXT, offsetof(struct berth_api_sync, path), .required = true},
        {"exclude", BERTH_API_TEXTS, offsetof(struct berth_api_sync, exclude)},
        {"onConflict", BERTH_API_WORD, offsetof(struct berth_api_sync, on_conflict),
         .words = berth_merge_policies.names},
        {"branch", BERTH_API_TEXT, offsetof(struct berth_api_sync, branch), .nullable = true},
        {"noRestore", BERTH_API_FLAG, offsetof(struct berth_api_sync, no_restore)},
        {"massDeletion", BERTH_API_FLAG, offsetof(struct berth_api_sync, mass_deletion)},
        {0}};
    int rc = berth_api_allow_local(c, true, err);
    if (rc == BERTH_OK)
        rc = berth_api_object(c, json, fields, out, err);
    return rc < 0 ? rc : sync_finish(c, out, err);
}
