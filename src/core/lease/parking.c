/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/parking.c - see parking.h. */
#include "core/lease/parking.h"

#include <string.h>

#include "base/buf.h"
#include "base/issues.h"
#include "base/limits.h"
#include "core/driver.h"

/* Keys the ledger speaks for; a provider's value under one of them is dropped. */
static const char *const reserved[] = {"driver",
                                       "executionWorkspaceMode",
                                       "pluginId",
                                       "pluginKey",
                                       "driverKey",
                                       "sandboxProviderPlugin",
                                       "provider",
                                       "reuseLease",
                                       "workspaceRealization",
                                       "providerMetadata",
                                       NULL};

static bool is_one_of(const char *key, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(*names, key) == 0)
            return true;
    return false;
}

static bool same_text(const struct berth_json *a, const struct berth_json *b)
{
    return berth_json_is(a, BERTH_JSON_STRING) && b && berth_json_equal(a, b);
}

static bool metadata_matches(const struct berth_json *config, const struct berth_json *metadata)
{
    static const char *const envelope[] = {"provider", "reuseLease", NULL};
    if (!same_text(berth_json_get(metadata, "provider"), berth_json_get(config, "provider")) ||
        !berth_json_true(berth_json_get(metadata, "reuseLease")))
        return false;
    berth_json_each (config, iter) {
        const char *key = berth_json_iter_key(iter);
        if (is_one_of(key, envelope))
            continue;
        const struct berth_json *there = berth_json_get(metadata, key);
        if (!there || !berth_json_equal(there, berth_json_iter_value(iter)))
            return false;
    }
    return true;
}

bool berth_parking_matches(const struct berth_json *config, const char *fingerprint,
                           const struct berth_lease *lease)
{
    if (!lease->provider_lease_id || !*lease->provider_lease_id)
        return false;
    if (lease->fingerprint)
        return fingerprint && strcmp(lease->fingerprint, fingerprint) == 0;
    auto_json *metadata = NULL;
    struct berth_error ignored; /* metadata that cannot be read matches nothing */
    if (!lease->metadata_json ||
        berth_json_parse(lease->metadata_json, strlen(lease->metadata_json), BERTH_JSON_FOREIGN,
                         &metadata, &ignored) < 0)
        return false;
    return metadata_matches(config, metadata);
}

const struct berth_lease *berth_parking_find(const struct berth_json *config,
                                             const char *fingerprint,
                                             const struct berth_list *leases)
{
    for (int i = 0; i < leases->count; i++)
        if (berth_parking_matches(config, fingerprint, leases->items[i]))
            return leases->items[i];
    return NULL;
}

int berth_parking_config_strict(const struct berth_registry *registry, struct berth_arena *arena,
                                const struct berth_json *metadata, struct berth_json **out,
                                struct berth_error *err)
{
    *out = NULL;
    const char *provider = berth_json_str(berth_json_get(metadata, "provider"));
    const struct berth_route *route =
        provider ? berth_registry_find_provider(registry, provider) : NULL;
    if (!route)
        return BERTH_OK;
    const char *text = berth_json_canonical_in(arena, metadata), *normalised;
    if (!text)
        return berth_arena_check(arena, err);
    struct berth_issues issues = {.arena = arena};
    struct berth_call call = {.deadline_ms = INT64_MAX, .cancel_fd = -1, .arena = arena};
    int rc =
        berth_driver_validate(route, &call, text, BERTH_CONFIG_REBUILD, &issues, &normalised, err);
    if (rc == BERTH_OK)
        rc = berth_issues_check(&issues, err);
    if (rc == BERTH_E_UNPROCESSABLE)
        return BERTH_OK; /* not a config of that provider */
    if (rc < 0)
        return rc;
    return berth_json_parse(normalised, strlen(normalised), BERTH_JSON_OURS, out, err);
}

int berth_parking_config_loose(const struct berth_registry *registry, struct berth_arena *arena,
                               const struct berth_json *metadata, struct berth_json **out,
                               struct berth_error *err)
{
    *out = NULL;
    const char *provider = berth_json_str(berth_json_get(metadata, "provider"));
    if (!provider)
        return BERTH_OK;
    const struct berth_route *route = berth_registry_find_provider(registry, provider);
    if (route && !route->plugin)
        return berth_parking_config_strict(registry, arena, metadata, out, err);
    struct berth_json *config = berth_json_copy(metadata);
    bool reuse = berth_json_true(berth_json_get(metadata, "reuseLease"));
    if (!config || !berth_json_set(config, "reuseLease", berth_json_new_bool(reuse))) {
        berth_json_free(config);
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: config.");
    }
    *out = config;
    return BERTH_OK;
}

/* Copies the members of `from` that `take` wants into `to`. */
static bool merge(struct berth_json *to, const struct berth_json *from,
                  bool (*take)(const char *key, const struct berth_json *value))
{
    berth_json_each (from, iter) {
        const char *key = berth_json_iter_key(iter);
        const struct berth_json *value = berth_json_iter_value(iter);
        if (take(key, value) && !berth_json_set(to, key, berth_json_copy(value)))
            return false;
    }
    return true;
}

static bool not_reserved(const char *key, const struct berth_json *value)
{
    (void)value;
    return !is_one_of(key, reserved);
}

/* A provider may report the effective value of what the config leaves unset. */
static bool is_set(const char *key, const struct berth_json *value)
{
    (void)key;
    return berth_json_type(value) != BERTH_JSON_NULL;
}

/* The ledger's own keys alone: the way of every lease that makes nothing, so without a tree. */
static int own_metadata(struct berth_arena *arena, const char *driver, const char *workspace_mode,
                        const char **out, struct berth_error *err)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_METADATA_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "driver", driver);
    berth_json_put_str(&w, "executionWorkspaceMode", workspace_mode);
    berth_json_close(&w, '}');
    int rc = berth_buf_check(&buf, "Metadata", err);
    if (rc < 0)
        return rc;
    *out = berth_arena_copy(arena, berth_buf_str(&buf), buf.len);
    return berth_arena_check(arena, err);
}

/* What says which plugin made the place. The driver `plugin` keeps the provider's words apart. */
static bool put_plugin(struct berth_json *to, const struct berth_route_plugin *p, bool apart,
                       const struct berth_json *provider_words)
{
    if (!p)
        return true;
    if (!berth_json_set(to, "pluginId", berth_json_new_str(p->id)) ||
        !berth_json_set(to, "pluginKey", berth_json_new_str(p->key)))
        return false;
    if (!apart)
        return berth_json_set(to, "sandboxProviderPlugin", berth_json_new_bool(true));
    return berth_json_set(to, "driverKey", berth_json_new_str(p->driver_key)) &&
           (!provider_words ||
            berth_json_set(to, "providerMetadata", berth_json_copy(provider_words)));
}

int berth_lease_metadata(struct berth_arena *arena, const struct berth_route *route,
                         const char *driver, const char *workspace_mode,
                         const struct berth_json *config, const struct berth_json *provider_words,
                         const char **out, struct berth_error *err)
{
    const struct berth_route_plugin *plugin = route ? route->plugin : NULL;
    bool apart = plugin && route->kind == BERTH_ROUTE_PLUGIN;
    if (!config && !provider_words && !plugin)
        return own_metadata(arena, driver, workspace_mode, out, err);
    auto_json *merged = berth_json_new_object();
    bool ok =
        merged &&
        (apart || (merge(merged, provider_words, not_reserved) && merge(merged, config, is_set))) &&
        put_plugin(merged, plugin, apart, provider_words) &&
        berth_json_set(merged, "driver", berth_json_new_str(driver)) &&
        berth_json_set(merged, "executionWorkspaceMode", berth_json_new_str(workspace_mode));
    *out = ok ? berth_json_canonical_in(arena, merged) : NULL;
    if (!*out)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: metadata.");
    return BERTH_OK;
}
