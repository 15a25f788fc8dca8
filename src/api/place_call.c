/* SPDX-License-Identifier: Apache-2.0
 * src/api/place_call.c - see place_call.h. */
#include "api/place_call.h"

#include "api/caller.h"
#include "api/state.h"
#include "base/time.h"
#include "core/place_share.h"

#define LOOK_MS 1000            /* how often a wait looks at the clock */
#define INSTANCE "the instance" /* the company of operations that are no company's */

static void count_place_calls(struct berth_api *api, int by)
{
    berth_lock_take(&api->lives_lock);
    api->place_calls += by;
    pthread_cond_broadcast(&api->lives_changed);
    berth_lock_drop(&api->lives_lock);
}

bool berth_api_await_place_calls(struct berth_api *api, int64_t end_ms)
{
    int64_t left_ms = 1;
    berth_lock_take(&api->lives_lock);
    while (api->place_calls && left_ms > 0) {
        left_ms = end_ms - berth_time_mono_ms();
        struct timespec until = berth_time_until(left_ms < LOOK_MS ? left_ms : LOOK_MS);
        if (left_ms > 0)
            (void)berth_lock_wait_until(&api->lives_lock, &api->lives_changed, &until);
    }
    bool ended = !api->place_calls;
    berth_lock_drop(&api->lives_lock);
    return ended;
}

static void place_call_run(void *ctx)
{
    struct berth_api_call *c = ctx;
    struct berth_api *api = c->api; /* the call may be freed when it is answered */
    struct berth_error err = {0};
    /* The call may have waited long for its thread. */
    int rc = berth_is_closing(c->b)
                 ? berth_fail(&err, BERTH_E_UNAVAILABLE, "The daemon is stopping: ask again later.")
                 : berth_api_check_token(c, &err);
    berth_api_end_call(c, rc < 0 ? rc : c->then(c, &err), &err);
    count_place_calls(api, -1);
}

/* Closes the share. */
static int place_call_submit(struct berth_api_call *c, struct berth_share *share,
                             berth_api_handler *next, struct berth_error *err)
{
    c->then = next;
    count_place_calls(c->api, 1);
    int rc = berth_share_submit(share, place_call_run, c, err);
    berth_share_close(share);
    if (rc == BERTH_OK)
        return BERTH_API_KEPT;
    count_place_calls(c->api, -1);
    return rc;
}

int berth_api_at_environment(struct berth_api_call *c, const struct berth_environment *e,
                             berth_api_handler *next, struct berth_error *err)
{
    struct berth_share *share;
    if (!c->x)
        return next(c, err);
    int rc = berth_place_share_environment(c->b, e, &share, err);
    return rc < 0 ? rc : place_call_submit(c, share, next, err);
}

int berth_api_at_lease(struct berth_api_call *c, const struct berth_lease *l,
                       berth_api_handler *next, struct berth_error *err)
{
    struct berth_share *share;
    if (!c->x)
        return next(c, err);
    int rc = berth_place_share_lease(c->b, l, &share, err);
    return rc < 0 ? rc : place_call_submit(c, share, next, err);
}

int berth_api_at_config(struct berth_api_call *c, const char *company_id, const char *driver,
                        const char *config_json, berth_api_handler *next, struct berth_error *err)
{
    struct berth_share *share;
    if (!c->x)
        return next(c, err);
    int rc = berth_place_share_config(c->b, company_id, driver, config_json, &share, err);
    return rc < 0 ? rc : place_call_submit(c, share, next, err);
}

int berth_api_at_length(struct berth_api_call *c, const char *company_id, berth_api_handler *next,
                        struct berth_error *err)
{
    struct berth_share *share;
    if (!c->x)
        return next(c, err);
    int rc = berth_share_open(c->b->providers, NULL, company_id, &share, err);
    return rc < 0 ? rc : place_call_submit(c, share, next, err);
}

/* A param of such a route is the id of a plugin, whose worker may hang. */
int berth_api_at_instance(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_share *share;
    int rc = berth_share_open(c->b->providers, c->params[0], INSTANCE, &share, err);
    return rc < 0 ? rc : place_call_submit(c, share, c->route->handle, err);
}
