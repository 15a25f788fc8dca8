/* SPDX-License-Identifier: Apache-2.0
 * src/core/driver.h - finds the implementation for an environment, and calls it. Only this file's
 * functions (and the contract tests) call through the vtable. */
#ifndef BERTH_CORE_DRIVER_H
#define BERTH_CORE_DRIVER_H

#include <berth/driver.h>

#include "base/arena.h"
#include "base/json.h"
#include "store/environment.h"

/* Of a route that leads to the worker of a plugin. */
struct berth_route_plugin {
    const char *id, *key, *driver_key;
    _Atomic int status; /* enum berth_plugin_status, as far as we know */
    _Atomic bool never_resumes, never_carries;
    /* How much text one argument of a command may have, and how many such arguments a command, as
     * far as earlier commands have shown; 0: nothing is known. */
    _Atomic size_t part_bytes;
    _Atomic int part_count;
};

/* One way to a place. */
struct berth_route {
    const char *driver; /* the word of the API */
    enum berth_route_kind kind;
    const char *provider; /* of a sandbox; of a plugin "plugin:KEY:DRIVER"; else NULL */
    struct berth_driver *implementation;
    struct berth_route_plugin *plugin; /* or NULL */
};
static inline const struct berth_driver_traits *berth_route_traits(const struct berth_route *route)
{
    return route->implementation->traits;
}

/* Makes a registry without drivers, and the engine that its drivers run commands on. */
int berth_registry_new(struct berth_registry **out, struct berth_error *err);
struct berth_engine;
/* Returns the engine, which lives until the registry is freed. */
struct berth_engine *berth_registry_engine(const struct berth_registry *registry);
/* The built-in sandbox providers, sorted. */
int berth_registry_providers(const struct berth_registry *registry, struct berth_arena *arena,
                             struct berth_list *out, struct berth_error *err);
/* Whatever the status of its plugin is; lives as long as the registry. */
const struct berth_route *berth_registry_find(const struct berth_registry *registry,
                                              const char *driver, const char *provider);
/* Finds the route of a driver that is found by its word. NULL: it is not registered. */
const struct berth_route *berth_registry_find_builtin(const struct berth_registry *registry,
                                                      const char *driver);
/* Finds the route of a provider of sandboxes. */
const struct berth_route *berth_registry_find_provider(const struct berth_registry *registry,
                                                       const char *provider);
/* Returns whether places of the driver are this machine itself: only an operator of the instance
 * may use them. */
bool berth_registry_in_place(const struct berth_registry *registry, const char *driver);
/* Finds the route by a stored config, which names the provider. Returns NULL when no route fits. */
const struct berth_route *berth_registry_find_by(const struct berth_registry *registry,
                                                 const char *driver,
                                                 const struct berth_json *config);
/* Sets the workers that the routes of plugins use. Call it before the first plugin is set. */
struct berth_workers;
void berth_registry_set_workers(struct berth_registry *registry, struct berth_workers *workers,
                                int64_t start_ms, int64_t ready_ms, int64_t poll_ms);
struct berth_workers *berth_registry_workers(const struct berth_registry *registry);
/* Sets all the plugins: a list of struct berth_plugin. */
int berth_registry_set_plugins(struct berth_registry *registry, const struct berth_list *plugins,
                               struct berth_error *err);
/* Finds the route of a built-in sandbox provider; UNPROCESSABLE for any other. */
int berth_registry_builtin(const struct berth_registry *registry, const char *provider,
                           const struct berth_route **out, struct berth_error *err);
/* Finds the route for a driver and its stored config. UNPROCESSABLE: no implementation is known. */
int berth_registry_route(const struct berth_registry *registry, const char *driver,
                         const char *config_json, const struct berth_route **out,
                         struct berth_error *err);

/* Returns UNPROCESSABLE when the route's plugin cannot be used now. */
int berth_route_check(const struct berth_route *route, struct berth_error *err);

/* Returns the provider's name in a lease's row. */
const char *berth_route_provider(const struct berth_route *route);
bool berth_route_can_find(const struct berth_route *route, struct berth_call *call);
/* Returns whether the provider moves whole files by itself. May wait for a worker to start. */
bool berth_route_can_carry(const struct berth_route *route, struct berth_call *call);
bool berth_route_can_resume(const struct berth_route *route);
bool berth_route_can_exec(const struct berth_route *route);

/* Returns TIMEOUT or CANCELLED when the call must not begin any more. */
int berth_call_check(const struct berth_call *call, struct berth_error *err);

int berth_driver_validate(const struct berth_route *route, struct berth_call *call,
                          const char *config_json, enum berth_config_use use,
                          struct berth_issues *issues, const char **normalised,
                          struct berth_error *err);
int berth_driver_probe(const struct berth_route *route, struct berth_call *call,
                       const struct berth_place_request *who, struct berth_probe *out,
                       struct berth_error *err);
int berth_driver_acquire(const struct berth_route *route, struct berth_call *call,
                         const struct berth_place_request *who, struct berth_place *out,
                         struct berth_error *err);
int berth_driver_resume(const struct berth_route *route, struct berth_call *call,
                        const struct berth_place_request *who, const struct berth_place *place,
                        struct berth_place *out, struct berth_error *err);
int berth_driver_realize(const struct berth_route *route, struct berth_call *call,
                         const struct berth_place_request *who, const struct berth_place *place,
                         const struct berth_workspace *workspace, struct berth_realized *out,
                         struct berth_error *err);
int berth_driver_release(const struct berth_route *route, struct berth_call *call,
                         const struct berth_place_request *who, const struct berth_place *place,
                         enum berth_release_mode mode, struct berth_error *err);
/* Starts a command. UNSUPPORTED: the driver cannot run commands, and nothing else runs it then. */
int berth_driver_exec_start(const struct berth_route *route, struct berth_call *call,
                            const struct berth_place_request *who, const struct berth_place *place,
                            const struct berth_command *command,
                            const struct berth_exec_handlers *handlers, struct berth_running **out,
                            struct berth_error *err);
/* Asks the place how a command ended. *end stays as it is when the driver cannot ask. */
int berth_driver_exec_settle(const struct berth_route *route, struct berth_call *call,
                             const struct berth_place_request *who, const struct berth_place *place,
                             const char *exec_id, struct berth_exec_end *end,
                             struct berth_error *err);
/* Move a file as berth_driver_carrier says. Only for a route that can carry. */
int berth_driver_send(const struct berth_route *route, struct berth_call *call,
                      const struct berth_place_request *who, const struct berth_place *place,
                      const char *path, int fd, struct berth_error *err);
int berth_driver_fetch(const struct berth_route *route, struct berth_call *call,
                       const struct berth_place_request *who, const struct berth_place *place,
                       const char *path, int64_t size, int fd, struct berth_error *err);
int berth_driver_find(const struct berth_route *route, struct berth_call *call,
                      const struct berth_place_request *who, berth_found_fn *each, void *ctx,
                      struct berth_error *err);
#endif
