/* SPDX-License-Identifier: Apache-2.0
 * src/core/plugin/plugin_change.c - see plugin_change.h. */
#include "core/plugin/plugin_change.h"

#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/time.h"
#include "core/activity.h"
#include "store/company.h"
#include "store/plugin.h"

int berth_plugin_not_found(const char *name, struct berth_error *err)
{
    return berth_fail(err, BERTH_E_NOT_FOUND, "Plugin not found: %.200s", name);
}

int berth_plugin_tell(struct berth_db *db, struct berth_arena *arena, const struct berth_plugin *p,
                      const char *action, const struct berth_actor *actor, struct berth_error *err)
{
    struct berth_list companies;
    auto_buf details = BERTH_BUF_INIT(BERTH_METADATA_BYTES_MAX);
    struct berth_json_writer w = {.buf = &details};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "pluginKey", p->plugin_key);
    berth_json_put_str(&w, "packageName", p->package_name);
    berth_json_put_str(&w, "version", p->version);
    berth_json_put_str(&w, "status", berth_plugin_status_name(p->status));
    berth_json_close(&w, '}');
    int rc = berth_buf_check(&details, "Activity details", err);
    if (rc == BERTH_OK)
        rc = berth_company_select(db, arena, NULL, &companies, err);
    for (int i = 0; rc == BERTH_OK && i < companies.count; i++) {
        const struct berth_company *company = companies.items[i];
        struct berth_entity entity = {.company_id = company->id, .type = "plugin", .id = p->id};
        rc = berth_activity_of(db, &entity, action, actor, berth_buf_str(&details), err);
    }
    return rc;
}

int berth_plugin_tx_change(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct berth_plugin_change *c = ctx;
    bool won;
    int rc = berth_plugin_load(db, c->arena, c->name, BERTH_LOCK_UPDATE, &c->plugin, err);
    if (rc == BERTH_OK && !c->plugin)
        rc = berth_plugin_not_found(c->name, err);
    if (rc == BERTH_OK)
        rc = c->decide(c, c->plugin, err);
    if (rc < 0)
        return rc;
    c->plugin->updated_at_ms = berth_time_wall_ms();
    rc = berth_plugin_save(db, c->plugin, &won, err);
    if (rc == BERTH_OK && !won)
        rc = berth_fail(err, BERTH_E_CONFLICT, "Plugin %s was changed meanwhile.", c->name);
    return rc < 0 ? rc : berth_plugin_tell(db, c->arena, c->plugin, c->action, c->actor, err);
}

int berth_plugin_check_config(struct berth_arena *arena, const char *json, const char **out,
                              struct berth_error *err)
{
    auto_json *config = NULL;
    size_t len = json ? strlen(json) : 0;
    *out = "{}";
    if (!json)
        return BERTH_OK;
    if (len > BERTH_CONFIG_BYTES_MAX)
        return berth_fail(err, BERTH_E_TOO_LARGE, "The config is longer than %d bytes.",
                          BERTH_CONFIG_BYTES_MAX);
    int rc = berth_json_parse(json, len, BERTH_JSON_OURS, &config, err);
    if (rc == BERTH_OK && !berth_json_is(config, BERTH_JSON_OBJECT))
        rc = berth_fail(err, BERTH_E_INVALID, "The config of a plugin is a JSON object.");
    if (rc < 0)
        return rc;
    *out = berth_json_canonical_in(arena, config);
    return berth_arena_check(arena, err);
}
