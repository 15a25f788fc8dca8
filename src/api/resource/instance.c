/* SPDX-License-Identifier: Apache-2.0
 * src/api/resource/instance.c - what is about no company: is it well, which version is it, and what
 * can it be asked. */
#include <berth/berth.h>

#include "api/call.h"
#include "api/openapi.h"
#include "api/state.h"
#include "base/limits.h"
#include "base/time.h"
#include "core/id_prefix.h"
#include "core/sweep/sweep.h"
#include "store/store.h"

/* Returns what a caller may know: names of hosts, users and files only at the socket. */
static const char *shown_trouble(const struct berth_api_call *c,
                                 const struct berth_store_health *store)
{
    return !c->x || berth_http_exchange_peer(c->x)->local ? store->trouble
                                                          : "The store does not answer.";
}

/* Says what is known. Runs on the loop's thread, so that it answers whatever hangs. */
static int get_health(struct berth_api_call *c, struct berth_error *err)
{
    (void)err;
    struct berth_store_health store = berth_store_health(c->b->store);
    char since[BERTH_TIME_ISO_SIZE];
    berth_time_iso(store.since_ms, since);
    berth_json_open(&c->w, '{');
    berth_json_put_str(&c->w, "status", store.answers ? "ok" : "degraded");
    berth_json_put_str(&c->w, "version", berth_version());
    berth_json_put_bool(&c->w, "recovering", atomic_load(&c->api->recovering));
    berth_json_open_in(&c->w, "store", '{');
    berth_json_put_bool(&c->w, "answers", store.answers);
    if (!store.answers) {
        berth_json_put_str(&c->w, "since", since);
        berth_json_put_str(&c->w, "error", shown_trouble(c, &store));
    }
    berth_json_close(&c->w, '}');
    berth_json_close(&c->w, '}');
    return BERTH_OK;
}

static int get_openapi(struct berth_api_call *c, struct berth_error *err)
{
    (void)err;
    c->fixed = berth_api_openapi;
    c->fixed_len = berth_api_openapi_len;
    return BERTH_OK;
}

/* By which a place may reach us: it tries them in this order. */
static int get_urls(struct berth_api_call *c, struct berth_error *err)
{
    berth_lock_take(&c->api->lives_lock);
    const char *urls = berth_arena_strdup(&c->arena, c->api->urls_json ? c->api->urls_json : "[]");
    berth_lock_drop(&c->api->lives_lock);
    berth_json_open(&c->w, '{');
    berth_json_put_raw(&c->w, "urls", urls);
    berth_json_close(&c->w, '}');
    return berth_arena_check(&c->arena, err);
}

/* Who may not look at them does not hear of their ids. */
static int may_find(const struct berth_api_call *c, enum berth_kind kind, struct berth_error *err)
{
    bool board = c->caller.kind == BERTH_TOKEN_OPERATOR;
    if (kind == BERTH_KIND_TOKEN && (c->caller.company_id || !board))
        return berth_fail(err, BERTH_E_DENIED, "Instance access required");
    if (kind == BERTH_KIND_SECRET && !board)
        return berth_fail(err, BERTH_E_DENIED, "Board access required");
    if (kind == BERTH_KIND_LEASE && !(c->caller.permissions & BERTH_MAY_ENVIRONMENTS))
        return berth_fail(err, BERTH_E_DENIED, "Missing permission: environments:manage");
    return BERTH_OK;
}

/* From the beginning of an id to the whole of it, as people write them. */
static int instance_find(struct berth_api_call *c, struct berth_error *err)
{
    static const char *const words[] = {"company", "environment", "lease", "run",
                                        "secret",  "token",       NULL};
    static const enum berth_kind kinds[] = {BERTH_KIND_COMPANY, BERTH_KIND_ENVIRONMENT,
                                            BERTH_KIND_LEASE,   BERTH_KIND_RUN,
                                            BERTH_KIND_SECRET,  BERTH_KIND_TOKEN};
    const char *prefix = berth_api_query(c, "prefix"), *company_id, *id;
    int word;
    int rc = berth_api_query_word(c, "kind", words, &word, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_id(c, "companyId", &company_id, err);
    if (rc < 0)
        return rc;
    if (word < 0 || !prefix) {
        berth_issues_add(&c->issues, word < 0 ? "kind" : "prefix", "Required");
        return berth_fail(err, BERTH_E_INVALID, "Validation error");
    }
    rc = may_find(c, kinds[word], err);
    if (rc < 0)
        return rc;
    if (c->caller.company_id)
        company_id = c->caller.company_id;
    rc = berth_id_prefix_find(c->b, &c->arena, kinds[word], company_id, prefix, &id, err);
    if (rc < 0)
        return rc;
    berth_json_open(&c->w, '{');
    berth_json_put_str(&c->w, "id", id);
    berth_json_close(&c->w, '}');
    return BERTH_OK;
}

/* ?waitMs=2000: for providers; what takes longer goes on by itself. */
static int sweep(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_sweep_options options = BERTH_SWEEP_OPTIONS_INIT;
    struct berth_sweep_report report;
    int rc = berth_api_query_number(c, "waitMs", 0, BERTH_TTL_MS_MAX, options.wait_ms,
                                    &options.wait_ms, err);
    if (rc == BERTH_OK)
        rc = berth_api_body(c, berth_api_nothing, NULL, NULL, err);
    if (rc == BERTH_OK)
        rc = berth_sweep(c->b, &options, &report, err);
    if (rc == BERTH_OK)
        berth_sweep_json(&c->w, &report);
    return rc;
}

const struct berth_api_route berth_api_instance_routes[] = {
    {"GET", "/api/runtime-urls", get_urls, BERTH_API_READ},
    {"GET", "/api/find", instance_find, BERTH_API_READ, .query = "kind prefix companyId"},
    {"POST", "/api/sweep", sweep, BERTH_API_INSTANCE, .slow = true, .query = "waitMs"},
    {"GET", "/api/health", get_health, BERTH_API_OPEN, .here = true},
    {"GET", "/api/openapi.json", get_openapi, BERTH_API_OPEN},
    {0},
};
