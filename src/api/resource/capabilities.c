/* SPDX-License-Identifier: Apache-2.0
 * src/api/resource/capabilities.c - which kinds of places there are: built in, and brought by
 * plugins. */
#include <ctype.h>
#include <string.h>

#include <berth/plugin.h>

#include "api/call.h"
#include "core/company.h"
#include "core/driver.h"
#include "core/plugin/manifest.h"

static void put_flags(struct berth_json_writer *w, bool runs, bool resumes)
{
    berth_json_put_str(w, "status", runs ? "supported" : "unsupported");
    berth_json_put_bool(w, "supportsSavedProbe", true);
    berth_json_put_bool(w, "supportsUnsavedProbe", true);
    berth_json_put_bool(w, "supportsRunExecution", runs);
    berth_json_put_bool(w, "supportsReusableLeases", resumes);
}

/* Returns the provider's key with a capital letter. */
static const char *display_name(struct berth_arena *arena, const char *provider)
{
    char *name = berth_arena_strdup(arena, provider);
    if (name)
        *name = (char)toupper((unsigned char)*name);
    return name;
}

static int put_builtin(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_list providers;
    int rc = berth_registry_providers(c->b->registry, &c->arena, &providers, err);
    for (int i = 0; rc == BERTH_OK && i < providers.count; i++) {
        const char *provider = providers.items[i];
        const struct berth_route *route = berth_registry_find_provider(c->b->registry, provider);
        berth_json_open_in(&c->w, provider, '{');
        put_flags(&c->w, berth_route_can_exec(route), berth_route_can_resume(route));
        berth_json_put_str(&c->w, "displayName", display_name(&c->arena, provider));
        berth_json_put_str(&c->w, "source", "builtin");
        berth_json_close(&c->w, '}');
    }
    return rc;
}

static void put_provider(struct berth_json_writer *w, const struct berth_plugin *p,
                         const struct berth_manifest_driver *d)
{
    berth_json_open_in(w, d->key, '{');
    put_flags(w, true, !d->never_resumes);
    berth_json_put_str(w, "displayName", d->display_name);
    berth_json_put_str(w, "description", d->description);
    berth_json_put_str(w, "source", "plugin");
    berth_json_put_str(w, "pluginKey", p->plugin_key);
    berth_json_put_str(w, "pluginId", p->id);
    berth_json_put_raw(w, "configSchema", d->schema_json);
    berth_json_close(w, '}');
}

/* Its worker is started when it is needed: ready is enough. */
static int put_plugin(struct berth_api_call *c, const struct berth_plugin *p,
                      struct berth_error *err)
{
    auto_json *json = NULL;
    struct berth_issues issues = {.arena = &c->arena}, warnings = {.arena = &c->arena};
    struct berth_manifest *manifest;
    if (p->status != BERTH_PLUGIN_READY)
        return BERTH_OK;
    int rc =
        berth_json_parse(p->manifest_json, strlen(p->manifest_json), BERTH_JSON_OURS, &json, err);
    if (rc == BERTH_OK)
        rc = berth_manifest_read(&c->arena, json, &issues, &warnings, &manifest, err);
    if (rc < 0 && rc != BERTH_E_NO_MEMORY) { /* one that cannot be read does not hide the others */
        berth_log_line(&c->b->log, BERTH_LOG_ERROR, "unreadable plugin left out", "plugin",
                       p->plugin_key, "error", err->message, NULL);
        return BERTH_OK;
    }
    for (int i = 0; rc == BERTH_OK && i < manifest->drivers.count; i++) {
        const struct berth_manifest_driver *d = manifest->drivers.items[i];
        if (d->kind && strcmp(d->kind, "sandbox_provider") == 0)
            put_provider(&c->w, p, d);
    }
    return rc;
}

static int capabilities_get(struct berth_api_call *c, struct berth_error *err)
{
    const char *const *drivers = berth_environment_drivers.names;
    struct berth_company *company;
    struct berth_list plugins;
    int rc = berth_company_get(c->b, &c->arena, c->params[0], &company, err);
    if (rc == BERTH_OK)
        rc = berth_plugin_list(c->b, &c->arena, &plugins, err);
    if (rc < 0)
        return rc;
    berth_json_open(&c->w, '{');
    berth_json_open_in(&c->w, "adapters", '[');
    berth_json_close(&c->w, ']');
    berth_json_open_in(&c->w, "drivers", '{');
    for (int i = 0; drivers[i]; i++)
        berth_json_put_str(&c->w, drivers[i], "supported");
    berth_json_close(&c->w, '}');
    berth_json_open_in(&c->w, "sandboxProviders", '{');
    rc = put_builtin(c, err);
    for (int i = 0; rc == BERTH_OK && i < plugins.count; i++)
        rc = put_plugin(c, plugins.items[i], err);
    berth_json_close(&c->w, '}');
    berth_json_close(&c->w, '}');
    return rc;
}

const struct berth_api_route berth_api_capability_routes[] = {
    {"GET", "/api/companies/:companyId/environments/capabilities", capabilities_get,
     BERTH_API_READ},
    {0},
};
