/* SPDX-License-Identifier: Apache-2.0
 * src/core/place_share.c - see place_share.h. */
#include "core/place_share.h"

#include <stdio.h>

#include "base/auto.h"

/* Opens the share of one route. environment_id NULL: the environment has no id yet. */
static int share_open(struct berth *b, const struct berth_route *route, const char *environment_id,
                      const char *company_id, struct berth_share **out, struct berth_error *err)
{
    if (berth_route_traits(route)->ledger_only)
        return berth_share_open(b->providers, NULL, company_id, out, err);
    if (route->provider)
        return berth_share_open(b->providers, route->provider, company_id, out, err);
    auto_free char *own = NULL;
    if (asprintf(&own, "%s %s", route->driver, environment_id ? environment_id : "") < 0) {
        own = NULL;
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: pool.");
    }
    return berth_share_open(b->providers, own, company_id, out, err);
}

/* Finds the route of a driver and its config; NULL: none is known. */
static const struct berth_route *route_find(struct berth *b, const char *driver,
                                            const char *config_json)
{
    const struct berth_route *route;
    struct berth_error ignored; /* the call itself reports it */
    return config_json && berth_registry_route(b->registry, driver, config_json, &route,
                                               &ignored) == BERTH_OK
               ? route
               : NULL;
}

int berth_place_share_config(struct berth *b, const char *company_id, const char *driver,
                             const char *config_json, struct berth_share **out,
                             struct berth_error *err)
{
    const struct berth_route *route = route_find(b, driver, config_json);
    return route ? share_open(b, route, NULL, company_id, out, err)
                 : berth_share_open(b->providers, driver, company_id, out, err);
}

int berth_place_share_environment(struct berth *b, const struct berth_environment *e,
                                  struct berth_share **out, struct berth_error *err)
{
    const char *driver = berth_environment_drivers.names[e->driver];
    const struct berth_route *route = route_find(b, driver, e->config_json);
    return route ? share_open(b, route, e->id, e->company_id, out, err)
                 : berth_share_open(b->providers, driver, e->company_id, out, err);
}

int berth_place_share_lease(struct berth *b, const struct berth_lease *l, struct berth_share **out,
                            struct berth_error *err)
{
    const struct berth_route *route = berth_registry_find_builtin(b->registry, l->driver);
    return route ? share_open(b, route, l->environment_id, l->company_id, out, err)
                 : berth_share_open(b->providers, l->provider ? l->provider : l->driver,
                                    l->company_id, out, err);
}

bool berth_place_is_ledger_only(struct berth *b, const struct berth_environment *e)
{
    const struct berth_route *route =
        route_find(b, berth_environment_drivers.names[e->driver], e->config_json);
    return route && berth_route_traits(route)->ledger_only;
}
