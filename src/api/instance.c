/* SPDX-License-Identifier: Apache-2.0
 * src/api/instance.c - what is about no company: is it well, which version is it, and what
 * can it be asked. */
#include <berth/berth.h>

#include "api/call.h"
#include "api/openapi.h"
#include "api/state.h"

static int get_health(struct berth_api_call *c, struct berth_error *err)
{
    (void)err;
    berth_json_open(&c->w, '{');
    berth_json_put_str(&c->w, "status", "ok");
    berth_json_put_str(&c->w, "version", berth_version());
    berth_json_put_bool(&c->w, "recovering", atomic_load(&c->api->recovering));
    berth_json_close(&c->w, '}');
    return BERTH_OK;
}

static int get_openapi(struct berth_api_call *c, struct berth_error *err)
{
    (void)err;
    berth_buf_append(&c->out, berth_api_openapi, berth_api_openapi_len);
    return BERTH_OK;
}

/* By which a place may reach us: it tries them in this order. */
static int get_urls(struct berth_api_call *c, struct berth_error *err)
{
    pthread_mutex_lock(&c->api->lives_lock);
    const char *urls = berth_arena_strdup(&c->arena, c->api->urls_json ? c->api->urls_json : "[]");
    pthread_mutex_unlock(&c->api->lives_lock);
    berth_json_open(&c->w, '{');
    berth_json_put_raw(&c->w, "urls", urls);
    berth_json_close(&c->w, '}');
    return berth_arena_check(&c->arena, err);
}

const struct berth_api_route berth_api_instance_routes[] = {
    {"GET", "/api/runtime-urls", get_urls, BERTH_API_READ},
    {"GET", "/api/health", get_health, BERTH_API_OPEN},
    {"GET", "/api/openapi.json", get_openapi, BERTH_API_OPEN},
    {0},
};
