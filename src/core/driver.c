/* SPDX-License-Identifier: Apache-2.0
 * src/core/driver.c - see driver.h. */
#include "core/driver.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/issues.h"
#include "base/json.h"
#include "base/time.h"

#define ROUTES_MAX 32

struct berth_registry {
    struct berth_route routes[ROUTES_MAX]; /* driver and provider are ours */
    int count;
};

int berth_registry_new(struct berth_registry **out, struct berth_error *err)
{
    *out = calloc(1, sizeof **out);
    return *out ? BERTH_OK : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: drivers.");
}

static void free_driver(struct berth_driver *d)
{
    if (d && d->ops->free)
        d->ops->free(d);
}

void berth_registry_free(struct berth_registry *registry)
{
    if (!registry)
        return;
    for (int i = 0; i < registry->count; i++) {
        free((char *)(uintptr_t)registry->routes[i].driver);
        free((char *)(uintptr_t)registry->routes[i].provider);
        free_driver(registry->routes[i].implementation);
    }
    free(registry);
}

int berth_registry_add(struct berth_registry *registry, const char *driver, const char *provider,
                       struct berth_driver *implementation, struct berth_error *err)
{
    char *driver_copy = strdup(driver), *provider_copy = provider ? strdup(provider) : NULL;
    /* What release parks, only destroy can end. */
    assert(implementation->ops->destroy || !implementation->ops->resume);
    bool full = registry->count == ROUTES_MAX;
    if (!driver_copy || (provider && !provider_copy) || full) {
        free(driver_copy);
        free(provider_copy);
        free_driver(implementation);
        return berth_fail(err, full ? BERTH_E_INTERNAL : BERTH_E_NO_MEMORY,
                          full ? "There are too many drivers." : "Out of memory: drivers.");
    }
    registry->routes[registry->count++] = (struct berth_route){
        .driver = driver_copy, .provider = provider_copy, .implementation = implementation};
    return BERTH_OK;
}

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

static bool same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

const struct berth_route *berth_registry_find(const struct berth_registry *registry,
                                              const char *driver, const char *provider)
{
    for (int i = 0; i < registry->count; i++)
        if (same(registry->routes[i].driver, driver) &&
            same(registry->routes[i].provider, provider))
            return &registry->routes[i];
    return NULL;
}

int berth_registry_builtin(const struct berth_registry *registry, const char *provider,
                           const struct berth_route **out, struct berth_error *err)
{
    *out = berth_registry_find(registry, "sandbox", provider);
    if (*out)
        return BERTH_OK;
    return berth_fail(err, BERTH_E_UNPROCESSABLE,
                      "Sandbox provider \"%s\" is not registered as a built-in provider.",
                      provider);
}

static bool serves(const struct berth_registry *registry, const char *driver)
{
    for (int i = 0; i < registry->count; i++)
        if (same(registry->routes[i].driver, driver))
            return true;
    return false;
}

int berth_registry_route(const struct berth_registry *registry, const char *driver,
                         const char *config_json, const struct berth_route **out,
                         struct berth_error *err)
{
    *out = berth_registry_find(registry, driver, NULL); /* sandboxes as a whole, in tests */
    if (*out)
        return BERTH_OK;
    if (!serves(registry, driver))
        return berth_fail(
            err, BERTH_E_UNPROCESSABLE,
            "Environment driver \"%s\" is not registered in the environment runtime yet.", driver);
    auto_json *config = NULL;
    int rc = berth_json_parse(config_json, strlen(config_json), BERTH_JSON_OURS, &config, err);
    if (rc < 0)
        return rc;
    const char *provider = berth_json_str(berth_json_get(config, "provider"));
    *out = provider ? berth_registry_find(registry, driver, provider) : NULL;
    if (!*out)
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "Sandbox provider \"%s\" is not registered as a built-in provider and no "
                          "matching plugin is available.",
                          provider ? provider : "");
    return BERTH_OK;
}

const char *berth_route_provider(const struct berth_route *route)
{
    return route->provider ? route->provider : route->driver;
}

bool berth_route_can_exec(const struct berth_route *route)
{
    return route->implementation->ops->exec_start != NULL;
}

const char *berth_route_schema(const struct berth_route *route)
{
    const struct berth_driver *d = route->implementation;
    return d->ops->config_schema ? d->ops->config_schema(d) : NULL;
}

bool berth_route_ledger_only(const struct berth_route *route)
{
    return route->implementation->ops->ledger_only;
}

bool berth_route_wants_sole(const struct berth_route *route)
{
    return route->implementation->ops->wants_sole;
}

bool berth_route_can_find(const struct berth_route *route)
{
    return route->implementation->ops->find != NULL;
}

bool berth_route_can_resume(const struct berth_route *route)
{
    return route->implementation->ops->resume != NULL;
}

/* The driver's own name says where an error came from; the message stays as it is. */
static int wrap(const struct berth_route *route, const char *verb, int rc, struct berth_error *err)
{
    return rc < 0 ? berth_wrap(err, "%s: %s", route->implementation->ops->name, verb) : rc;
}

int berth_call_check(const struct berth_call *call, struct berth_error *err)
{
    struct pollfd cancel = {.fd = call->cancel_fd, .events = POLLIN};
    if (call->cancel_fd >= 0 && poll(&cancel, 1, 0) > 0)
        return berth_fail(err, BERTH_E_CANCELLED, "The caller gave up before the call began.");
    if (berth_time_mono_ms() >= call->deadline_ms)
        return berth_fail(err, BERTH_E_TIMEOUT, "The call's deadline had passed before it began.");
    return BERTH_OK;
}

static int unsupported(const struct berth_route *route, const char *what, struct berth_error *err)
{
    return berth_fail(err, BERTH_E_UNSUPPORTED, "Environment driver \"%s\" does not support %s.",
                      route->driver, what);
}

int berth_driver_validate(const struct berth_route *route, struct berth_call *call,
                          const char *config_json, struct berth_issues *issues,
                          const char **normalised, struct berth_error *err)
{
    struct berth_driver *d = route->implementation;
    *normalised = config_json;
    if (!d->ops->validate)
        return BERTH_OK;
    int rc = d->ops->validate(d, call, config_json, issues, normalised, err);
    if (rc == BERTH_OK && !*normalised && issues->list.count == 0)
        return berth_fail(err, BERTH_E_UNPROCESSABLE, "Invalid environment config.");
    return wrap(route, "validate", rc, err);
}

int berth_driver_probe(const struct berth_route *route, struct berth_call *call,
                       const struct berth_place_request *who, struct berth_probe *out,
                       struct berth_error *err)
{
    struct berth_driver *d = route->implementation;
    *out = (struct berth_probe){0};
    if (!d->ops->probe)
        return unsupported(route, "probing", err);
    int rc = berth_call_check(call, err);
    if (rc == BERTH_OK)
        rc = d->ops->probe(d, call, who, out, err);
    return wrap(route, "probe", rc, err);
}

int berth_driver_acquire(const struct berth_route *route, struct berth_call *call,
                         const struct berth_place_request *who, struct berth_place *out,
                         struct berth_error *err)
{
    struct berth_driver *d = route->implementation;
    *out = (struct berth_place){0};
    assert(who->lease_id && who->config_json);
    int rc = berth_call_check(call, err);
    if (rc == BERTH_OK)
        rc = d->ops->acquire(d, call, who, out, err);
    return wrap(route, "acquire", rc, err);
}

int berth_driver_resume(const struct berth_route *route, struct berth_call *call,
                        const struct berth_place_request *who, const struct berth_place *place,
                        struct berth_place *out, struct berth_error *err)
{
    struct berth_driver *d = route->implementation;
    *out = (struct berth_place){0};
    if (!d->ops->resume)
        return unsupported(route, "lease resume", err);
    int rc = berth_call_check(call, err);
    if (rc == BERTH_OK)
        rc = d->ops->resume(d, call, who, place, out, err);
    return wrap(route, "resume", rc, err);
}

int berth_driver_realize(const struct berth_route *route, struct berth_call *call,
                         const struct berth_place_request *who, const struct berth_place *place,
                         const struct berth_workspace *workspace, struct berth_realized *out,
                         struct berth_error *err)
{
    struct berth_driver *d = route->implementation;
    *out = (struct berth_realized){0};
    if (!d->ops->realize)
        return unsupported(route, "workspace realization", err);
    int rc = berth_call_check(call, err);
    if (rc == BERTH_OK)
        rc = d->ops->realize(d, call, who, place, workspace, out, err);
    return wrap(route, "realize", rc, err);
}

int berth_driver_release(const struct berth_route *route, struct berth_call *call,
                         const struct berth_place_request *who, const struct berth_place *place,
                         struct berth_error *err)
{
    struct berth_driver *d = route->implementation;
    int rc = berth_call_check(call, err);
    if (rc == BERTH_OK)
        rc = d->ops->release(d, call, who, place, err);
    return wrap(route, "release", rc, err);
}

int berth_driver_destroy(const struct berth_route *route, struct berth_call *call,
                         const struct berth_place_request *who, const struct berth_place *place,
                         struct berth_error *err)
{
    struct berth_driver *d = route->implementation;
    if (!d->ops->destroy)
        return berth_driver_release(route, call, who, place, err);
    int rc = berth_call_check(call, err);
    if (rc == BERTH_OK)
        rc = d->ops->destroy(d, call, who, place, err);
    return wrap(route, "destroy", rc, err);
}

int berth_driver_exec_start(const struct berth_route *route, struct berth_call *call,
                            const struct berth_place_request *who, const struct berth_place *place,
                            const struct berth_command *command,
                            const struct berth_exec_handlers *handlers, struct berth_running **out,
                            struct berth_error *err)
{
    struct berth_driver *d = route->implementation;
    if (!d->ops->exec_start)
        return unsupported(route, "running commands", err);
    int rc = berth_call_check(call, err);
    if (rc == BERTH_OK)
        rc = d->ops->exec_start(d, call, who, place, command, handlers, out, err);
    return wrap(route, "exec", rc, err);
}

int berth_driver_exec_settle(const struct berth_route *route, struct berth_call *call,
                             const struct berth_place_request *who, const struct berth_place *place,
                             const char *exec_id, struct berth_exec_end *end,
                             struct berth_error *err)
{
    struct berth_driver *d = route->implementation;
    if (!d->ops->exec_settle)
        return BERTH_OK;
    int rc = berth_call_check(call, err);
    if (rc == BERTH_OK)
        rc = d->ops->exec_settle(d, call, who, place, exec_id, end, err);
    return wrap(route, "settle", rc, err);
}

int berth_driver_find(const struct berth_route *route, struct berth_call *call,
                      const struct berth_place_request *who, berth_found_fn *each, void *ctx,
                      struct berth_error *err)
{
    struct berth_driver *d = route->implementation;
    assert(d->ops->find);
    int rc = berth_call_check(call, err);
    if (rc == BERTH_OK)
        rc = d->ops->find(d, call, who, each, ctx, err);
    return wrap(route, "find", rc, err);
}
