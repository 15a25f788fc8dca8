/* SPDX-License-Identifier: Apache-2.0
 * src/core/registry.c - which implementation serves which driver; see driver.h. Routes to plugins
 * come while the program runs, and stay until its end: calls may be on their way. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <berth/plugin.h>

#include "base/auto.h"
#include "base/budget.h"
#include "base/limits.h"
#include "base/issues.h"
#include "core/berth.h"
#include "core/driver.h"
#include "core/plugin/manifest.h"
#include "os/engine.h"

#define ROUTES_MAX 32

/* A route to one driver of a plugin. */
struct way {
    struct way *next;
    struct berth_route route;
    struct berth_route_plugin plugin;
    char *schema;
    bool current; /* the plugin still says so */
};

struct berth_registry {
    struct berth_route routes[ROUTES_MAX]; /* driver and provider are ours */
    int count;
    struct berth_engine *engine; /* ends after the drivers, with the commands they left running */
    struct berth_workers *workers;
    struct berth_budget *inputs; /* of commands in the places of plugins */
    int64_t start_ms, ready_ms, poll_ms;
    pthread_rwlock_t lock; /* of the ways */
    struct way *ways;
};

int berth_registry_new(struct berth_registry **out, struct berth_error *err)
{
    auto_free struct berth_registry *registry = calloc(1, sizeof *registry);
    if (!registry)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: drivers.");
    int rc = berth_engine_new(&registry->engine, err);
    if (rc == BERTH_OK)
        rc = berth_budget_new(BERTH_INPUTS_BYTES_MAX, &registry->inputs, err);
    if (rc < 0) {
        berth_engine_free(registry->engine);
        return rc;
    }
    pthread_rwlock_init(&registry->lock, NULL);
    *out = take_ptr(registry);
    return BERTH_OK;
}

struct berth_engine *berth_registry_engine(const struct berth_registry *registry)
{
    return registry->engine;
}

static void free_driver(struct berth_driver *d)
{
    if (d && d->ops->free)
        d->ops->free(d);
}

static void free_route(struct berth_route *route)
{
    free((char *)(uintptr_t)route->driver);
    free((char *)(uintptr_t)route->provider);
    free_driver(route->implementation);
}

static void free_way(struct way *way)
{
    free_route(&way->route);
    free((char *)(uintptr_t)way->plugin.id);
    free((char *)(uintptr_t)way->plugin.key);
    free((char *)(uintptr_t)way->plugin.driver_key);
    free(way->schema);
    free(way);
}

void berth_registry_free(struct berth_registry *registry)
{
    if (!registry)
        return;
    for (int i = 0; i < registry->count; i++)
        free_route(&registry->routes[i]);
    for (struct way *way = registry->ways, *next; way; way = next) {
        next = way->next;
        free_way(way);
    }
    berth_engine_free(registry->engine);
    berth_budget_free(registry->inputs);
    pthread_rwlock_destroy(&registry->lock);
    free(registry);
}

int berth_registry_add(struct berth_registry *registry, const char *driver, const char *provider,
                       struct berth_driver *implementation, struct berth_error *err)
{
    char *driver_copy = strdup(driver), *provider_copy = provider ? strdup(provider) : NULL;
    assert(implementation->ops && implementation->traits);
    bool full = registry->count == ROUTES_MAX;
    if (!driver_copy || (provider && !provider_copy) || full) {
        free(driver_copy);
        free(provider_copy);
        free_driver(implementation);
        return berth_fail(err, full ? BERTH_E_INTERNAL : BERTH_E_NO_MEMORY,
                          full ? "There are too many drivers." : "Out of memory: drivers.");
    }
    registry->routes[registry->count++] = (struct berth_route){.driver = driver_copy,
                                                               .kind = berth_driver_kind(driver),
                                                               .provider = provider_copy,
                                                               .implementation = implementation};
    return BERTH_OK;
}

/* --- plugins --- */

void berth_registry_set_workers(struct berth_registry *registry, struct berth_workers *workers,
                                int64_t start_ms, int64_t ready_ms, int64_t poll_ms)
{
    registry->workers = workers;
    registry->start_ms = start_ms;
    registry->ready_ms = ready_ms;
    registry->poll_ms = poll_ms;
}

struct berth_workers *berth_registry_workers(const struct berth_registry *registry)
{
    return registry->workers;
}

static struct way *new_way(const struct berth_registry *registry, const struct berth_plugin *p,
                           const struct berth_manifest_driver *driver, bool sandbox,
                           struct berth_error *err)
{
    struct way *way = calloc(1, sizeof *way);
    char *provider = NULL;
    int made = sandbox ? asprintf(&provider, "%s", driver->key)
                       : asprintf(&provider, "plugin:%s:%s", p->plugin_key, driver->key);
    if (!way || made < 0) {
        free(way);
        (void)berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: plugins.");
        return NULL;
    }
    way->plugin.id = strdup(p->id);
    way->plugin.key = strdup(p->plugin_key);
    way->plugin.driver_key = strdup(driver->key);
    way->schema = strdup(driver->schema_json);
    enum berth_route_kind kind = sandbox ? BERTH_ROUTE_PROVIDER : BERTH_ROUTE_PLUGIN;
    way->route = (struct berth_route){.driver = strdup(berth_driver_word(kind)),
                                      .kind = kind,
                                      .provider = provider,
                                      .plugin = &way->plugin};
    bool whole = way->plugin.id && way->plugin.key && way->plugin.driver_key && way->schema &&
                 way->route.driver;
    struct berth_worker_route what = {.engine = registry->engine,
                                      .workers = registry->workers,
                                      .inputs = registry->inputs,
                                      .plugin_id = p->id,
                                      .plugin_key = p->plugin_key,
                                      .driver_key = driver->key,
                                      .schema_json = driver->schema_json,
                                      .sandbox = sandbox,
                                      .start_ms = registry->start_ms,
                                      .ready_ms = registry->ready_ms,
                                      .poll_ms = registry->poll_ms};
    int rc = whole ? berth_builtins.new_worker(&what, &way->route.implementation, err)
                   : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: plugins.");
    if (rc == BERTH_OK)
        return way;
    free_way(way);
    return NULL;
}

/* Lock held for writing. The way that is there, or a new one. */
static int set_way(struct berth_registry *registry, const struct berth_plugin *p,
                   const struct berth_manifest_driver *driver, bool sandbox,
                   struct berth_error *err)
{
    enum berth_route_kind kind = sandbox ? BERTH_ROUTE_PROVIDER : BERTH_ROUTE_PLUGIN;
    struct way *way = registry->ways;
    while (way && (strcmp(way->plugin.id, p->id) != 0 || way->route.kind != kind ||
                   strcmp(way->plugin.driver_key, driver->key) != 0 ||
                   strcmp(way->schema, driver->schema_json) != 0))
        way = way->next;
    if (!way) {
        way = new_way(registry, p, driver, sandbox, err);
        if (!way)
            return err->code;
        way->next = registry->ways;
        registry->ways = way;
    }
    way->plugin.status = (int)p->status;
    way->plugin.never_resumes = driver->never_resumes;
    way->plugin.never_carries = driver->never_carries;
    way->current = true;
    return BERTH_OK;
}

static int set_plugin(struct berth_registry *registry, const struct berth_plugin *p,
                      struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    auto_json *json = NULL;
    struct berth_issues issues = {.arena = &arena}, warnings = {.arena = &arena};
    struct berth_manifest *manifest;
    int rc =
        berth_json_parse(p->manifest_json, strlen(p->manifest_json), BERTH_JSON_OURS, &json, err);
    if (rc == BERTH_OK)
        rc = berth_manifest_read(&arena, json, &issues, &warnings, &manifest, err);
    for (int i = 0; rc == BERTH_OK && i < manifest->drivers.count; i++) {
        const struct berth_manifest_driver *d = manifest->drivers.items[i];
        if (d->kind && strcmp(d->kind, "sandbox_provider") == 0)
            rc = set_way(registry, p, d, true, err);
        if (rc == BERTH_OK)
            rc = set_way(registry, p, d, false, err);
    }
    return rc;
}

int berth_registry_set_plugins(struct berth_registry *registry, const struct berth_list *plugins,
                               struct berth_error *err)
{
    int rc = BERTH_OK;
    pthread_rwlock_wrlock(&registry->lock);
    for (struct way *way = registry->ways; way; way = way->next)
        way->current = false;
    for (int i = 0; i < plugins->count; i++) { /* one that cannot be read hides no other */
        const struct berth_plugin *p = plugins->items[i];
        struct berth_error trouble;
        if (p->status != BERTH_PLUGIN_UNINSTALLED && set_plugin(registry, p, &trouble) < 0 &&
            rc == BERTH_OK)
            rc = berth_fail(err, trouble.code, "Plugin \"%s\": %s", p->plugin_key, trouble.message);
    }
    pthread_rwlock_unlock(&registry->lock);
    return rc;
}

/* --- looking up --- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int berth_registry_providers(const struct berth_registry *registry, struct berth_arena *arena,
                             struct berth_list *out, struct berth_error *err)
{
    *out = (struct berth_list){0};
    for (int i = 0; i < registry->count; i++)
        if (registry->routes[i].provider)
            (void)berth_list_add(out, arena, (char *)(uintptr_t)registry->routes[i].provider);
    if (out->count)
        qsort(out->items, (size_t)out->count, sizeof *out->items, by_name);
    return berth_arena_check(arena, err);
}

static bool registry_same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static const struct berth_route *find_builtin(const struct berth_registry *registry,
                                              const char *driver, const char *provider)
{
    for (int i = 0; i < registry->count; i++)
        if (registry_same(registry->routes[i].driver, driver) &&
            registry_same(registry->routes[i].provider, provider))
            return &registry->routes[i];
    return NULL;
}

const struct berth_route *berth_registry_find(const struct berth_registry *registry,
                                              const char *driver, const char *provider)
{
    const struct berth_route *found = find_builtin(registry, driver, provider);
    if (found || !provider)
        return found;
    pthread_rwlock_rdlock((pthread_rwlock_t *)(uintptr_t)&registry->lock);
    for (const struct way *way = registry->ways; way && !found; way = way->next)
        if (way->current && registry_same(way->route.driver, driver) &&
            registry_same(way->route.provider, provider))
            found = &way->route;
    pthread_rwlock_unlock((pthread_rwlock_t *)(uintptr_t)&registry->lock);
    return found;
}

const struct berth_route *berth_registry_find_builtin(const struct berth_registry *registry,
                                                      const char *driver)
{
    return find_builtin(registry, driver, NULL);
}

const struct berth_route *berth_registry_find_provider(const struct berth_registry *registry,
                                                       const char *provider)
{
    return berth_registry_find(registry, berth_driver_word(BERTH_ROUTE_PROVIDER), provider);
}

bool berth_registry_in_place(const struct berth_registry *registry, const char *driver)
{
    const struct berth_route *route = find_builtin(registry, driver, NULL);
    return route && berth_route_traits(route)->in_place;
}

const struct berth_route *berth_registry_find_by(const struct berth_registry *registry,
                                                 const char *driver,
                                                 const struct berth_json *config)
{
    const struct berth_route *whole = find_builtin(registry, driver, NULL);
    if (whole)
        return whole;
    const char *provider = berth_json_str(berth_json_get(config, "provider"));
    const char *key = berth_json_str(berth_json_get(config, "pluginKey"));
    const char *inner = berth_json_str(berth_json_get(config, "driverKey"));
    char name[600];
    if (berth_driver_kind(driver) == BERTH_ROUTE_PLUGIN) {
        int len = key && inner ? snprintf(name, sizeof name, "plugin:%s:%s", key, inner) : -1;
        provider = len > 0 && len < (int)sizeof name ? name : NULL;
    }
    return provider ? berth_registry_find(registry, driver, provider) : NULL;
}

int berth_registry_builtin(const struct berth_registry *registry, const char *provider,
                           const struct berth_route **out, struct berth_error *err)
{
    *out = find_builtin(registry, berth_driver_word(BERTH_ROUTE_PROVIDER), provider);
    if (*out)
        return BERTH_OK;
    return berth_fail(err, BERTH_E_UNPROCESSABLE,
                      "Sandbox provider \"%s\" is not registered as a built-in provider.",
                      provider);
}

static bool registry_serves(const struct berth_registry *registry, const char *driver)
{
    if (registry->workers && berth_driver_kind(driver) != BERTH_ROUTE_BUILTIN)
        return true;
    for (int i = 0; i < registry->count; i++)
        if (registry_same(registry->routes[i].driver, driver))
            return true;
    return false;
}

int berth_route_check(const struct berth_route *route, struct berth_error *err)
{
    const struct berth_route_plugin *p = route->plugin;
    if (!p || p->status == BERTH_PLUGIN_READY)
        return BERTH_OK;
    if (route->kind == BERTH_ROUTE_PLUGIN)
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "Plugin environment driver \"%s:%s\" is not ready.", p->key,
                          p->driver_key);
    return berth_fail(err, BERTH_E_UNPROCESSABLE,
                      "Sandbox provider \"%s\" is installed via plugin \"%s\", but that plugin is "
                      "currently %s.",
                      p->driver_key, p->key,
                      berth_plugin_status_name((enum berth_plugin_status)p->status));
}

static bool has_plugin(const struct berth_registry *registry, const char *key)
{
    bool found = false;
    pthread_rwlock_rdlock((pthread_rwlock_t *)(uintptr_t)&registry->lock);
    for (const struct way *way = registry->ways; way; way = way->next)
        found |= way->current && strcmp(way->plugin.key, key) == 0;
    pthread_rwlock_unlock((pthread_rwlock_t *)(uintptr_t)&registry->lock);
    return found;
}

static int no_route(const struct berth_registry *registry, const char *driver,
                    const struct berth_json *config, struct berth_error *err)
{
    const char *provider = berth_json_str(berth_json_get(config, "provider"));
    const char *key = berth_json_str(berth_json_get(config, "pluginKey"));
    const char *inner = berth_json_str(berth_json_get(config, "driverKey"));
    if (berth_driver_kind(driver) != BERTH_ROUTE_PLUGIN)
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "Sandbox provider \"%s\" is not registered as a built-in provider and no "
                          "matching plugin is available.",
                          provider ? provider : "");
    if (key && inner && has_plugin(registry, key))
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "Plugin \"%s\" does not declare environment driver \"%s\".", key, inner);
    return berth_fail(err, BERTH_E_UNPROCESSABLE,
                      "Plugin environment driver \"%s:%s\" is not ready.", key ? key : "",
                      inner ? inner : "");
}

int berth_registry_route(const struct berth_registry *registry, const char *driver,
                         const char *config_json, const struct berth_route **out,
                         struct berth_error *err)
{
    *out = find_builtin(registry, driver, NULL); /* sandboxes as a whole, in tests */
    if (*out)
        return BERTH_OK;
    if (!registry_serves(registry, driver))
        return berth_fail(
            err, BERTH_E_UNPROCESSABLE,
            "Environment driver \"%s\" is not registered in the environment runtime yet.", driver);
    auto_json *config = NULL;
    int rc = berth_json_parse(config_json, strlen(config_json), BERTH_JSON_OURS, &config, err);
    if (rc < 0)
        return rc;
    *out = berth_registry_find_by(registry, driver, config);
    return *out ? berth_route_check(*out, err) : no_route(registry, driver, config, err);
}
