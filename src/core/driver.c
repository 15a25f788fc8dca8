/* SPDX-License-Identifier: Apache-2.0
 * src/core/driver.c - see driver.h. */
#include "core/driver.h"

#include <assert.h>
#include <poll.h>

#include "base/issues.h"
#include "base/time.h"

const char *berth_route_provider(const struct berth_route *route)
{
    return route->provider ? route->provider : route->driver;
}

bool berth_route_can_exec(const struct berth_route *route)
{
    return route->implementation->ops->exec_start != NULL;
}

bool berth_route_can_find(const struct berth_route *route, struct berth_call *call)
{
    struct berth_driver *d = route->implementation;
    const struct berth_driver_finder *finder = d->traits->finder;
    return finder && (!finder->can_find || finder->can_find(d, call));
}

bool berth_route_can_carry(const struct berth_route *route, struct berth_call *call)
{
    struct berth_driver *d = route->implementation;
    const struct berth_driver_carrier *carrier = d->traits->carrier;
    return carrier && !(route->plugin && route->plugin->never_carries) &&
           carrier->can_carry(d, call);
}

bool berth_route_can_resume(const struct berth_route *route)
{
    return route->implementation->ops->resume && !(route->plugin && route->plugin->never_resumes);
}

/* The driver's own name says where an error came from; the message stays as it is. */
static int wrap(const struct berth_route *route, const char *verb, int rc, struct berth_error *err)
{
    return rc < 0 ? berth_wrap(err, "%s: %s", berth_route_traits(route)->name, verb) : rc;
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
                          const char *config_json, enum berth_config_use use,
                          struct berth_issues *issues, const char **normalised,
                          struct berth_error *err)
{
    struct berth_driver *d = route->implementation;
    *normalised = config_json;
    if (!d->ops->validate)
        return BERTH_OK;
    int rc = d->ops->validate(d, call, config_json, use, issues, normalised, err);
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
    out->untouched = rc < 0;
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
    out->untouched = rc < 0;
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
                         enum berth_release_mode mode, struct berth_error *err)
{
    struct berth_driver *d = route->implementation;
    int rc = berth_call_check(call, err);
    if (rc == BERTH_OK)
        rc = d->ops->release(d, call, who, place, mode, err);
    return wrap(route, mode == BERTH_RELEASE_DESTROY ? "destroy" : "release", rc, err);
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

int berth_driver_send(const struct berth_route *route, struct berth_call *call,
                      const struct berth_place_request *who, const struct berth_place *place,
                      const char *path, int fd, struct berth_error *err)
{
    struct berth_driver *d = route->implementation;
    int rc = berth_call_check(call, err);
    if (rc == BERTH_OK)
        rc = d->traits->carrier->send(d, call, who, place, path, fd, err);
    return wrap(route, "send a file", rc, err);
}

int berth_driver_fetch(const struct berth_route *route, struct berth_call *call,
                       const struct berth_place_request *who, const struct berth_place *place,
                       const char *path, int64_t size, int fd, struct berth_error *err)
{
    struct berth_driver *d = route->implementation;
    int rc = berth_call_check(call, err);
    if (rc == BERTH_OK)
        rc = d->traits->carrier->fetch(d, call, who, place, path, size, fd, err);
    return wrap(route, "fetch a file", rc, err);
}

int berth_driver_find(const struct berth_route *route, struct berth_call *call,
                      const struct berth_place_request *who, berth_found_fn *each, void *ctx,
                      struct berth_error *err)
{
    struct berth_driver *d = route->implementation;
    assert(d->traits->finder);
    int rc = berth_call_check(call, err);
    if (rc == BERTH_OK)
        rc = d->traits->finder->find(d, call, who, each, ctx, err);
    return wrap(route, "find", rc, err);
}
