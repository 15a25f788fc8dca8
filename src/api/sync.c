/* SPDX-License-Identifier: Apache-2.0
 * src/api/sync.c - see sync.h. */
#include "api/sync.h"

#include <stddef.h>

#include "api/caller.h"
#include "core/workspace/workspace.h"

/* Returns the texts of a list as an array that NULL closes. */
static const char *const *close_list(struct berth_api_call *c, struct berth_list *list)
{
    (void)berth_list_add(list, &c->arena, NULL);
    return (const char *const *)(void *)list->items;
}

static int check_path(const char *path, const char *what, struct berth_error *err)
{
    return path[0] == '/'
               ? BERTH_OK
               : berth_fail(err, BERTH_E_INVALID, "The path of %s must be absolute.", what);
}

static int read_asset(struct berth_api_call *c, const char *json, struct berth_workspace_asset *out,
                      struct berth_error *err)
{
    struct asset {
        const char *key, *path;
        bool follow_links;
        struct berth_list exclude;
    } asset = {0};
    static const struct berth_api_field fields[] = {
        {"key", BERTH_API_TEXT, offsetof(struct asset, key), .required = true},
        {"localDir", BERTH_API_TEXT, offsetof(struct asset, path), .required = true},
        {"followSymlinks", BERTH_API_FLAG, offsetof(struct asset, follow_links)},
        {"exclude", BERTH_API_TEXTS, offsetof(struct asset, exclude)},
        {0}};
    int rc = berth_api_object(c, json, fields, &asset, err);
    if (rc == BERTH_OK)
        rc = check_path(asset.path, "an asset", err);
    if (rc < 0)
        return rc;
    *out = (struct berth_workspace_asset){asset.key, asset.path, asset.follow_links,
                                          close_list(c, &asset.exclude)};
    return BERTH_OK;
}

static int read_assets(struct berth_api_call *c, const struct berth_list *texts,
                       struct berth_workspace_setup *out, struct berth_error *err)
{
    struct berth_workspace_asset *all =
        berth_arena_alloc(&c->arena, ((size_t)texts->count + 1) * sizeof *all);
    int rc = berth_arena_check(&c->arena, err);
    for (int i = 0; rc == BERTH_OK && i < texts->count; i++)
        rc = read_asset(c, texts->items[i], &all[i], err);
    out->assets = all;
    out->asset_count = texts->count;
    return rc;
}

int berth_api_sync_build(struct berth_api_call *c, struct berth_api_sync *fields,
                         struct berth_run_sync *out, struct berth_error *err)
{
    *out = (struct berth_run_sync){
        .path = fields->path,
        .exclude = close_list(c, &fields->exclude),
        .on_conflict = (enum berth_merge_policy)fields->on_conflict,
        .branch = fields->branch,
        .setup = {.adapter = fields->adapter,
                  .install_command = fields->install_command,
                  .detect_command = fields->detect_command},
        .no_restore = fields->no_restore,
        .mass_deletion = fields->mass_deletion,
    };
    int rc = check_path(fields->path, "a workspace", err);
    if (rc == BERTH_OK)
        rc = read_assets(c, &fields->assets, &out->setup, err);
    return rc < 0 ? rc : berth_arena_check(&c->arena, err);
}

int berth_api_sync_read(struct berth_api_call *c, const char *json, struct berth_run_sync *out,
                        struct berth_error *err)
{
    struct whole {
        struct berth_api_sync in;
    } whole = {0};
    const struct berth_api_field fields[] = {
        BERTH_API_SYNC_FIELDS(struct whole, in),
        {"noRestore", BERTH_API_FLAG, offsetof(struct whole, in.no_restore)},
        {"massDeletion", BERTH_API_FLAG, offsetof(struct whole, in.mass_deletion)},
        {0}};
    int rc = berth_api_allow_local(c, true, err);
    if (rc == BERTH_OK)
        rc = berth_api_object(c, json, fields, &whole, err);
    return rc < 0 ? rc : berth_api_sync_build(c, &whole.in, out, err);
}
