/* SPDX-License-Identifier: Apache-2.0
 * src/api/resource/metrics.c - GET /metrics, as Prometheus reads it. */
#include "core/lease/lease.h"
#include "core/metrics.h"

#include <string.h>

#include <berth/plugin.h>

#include "api/call.h"
#include "api/state.h"
#include "store/lease.h"
#include "store/store.h"

static void head(struct berth_buf *out, const char *name, const char *type, const char *help)
{
    berth_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void number(struct berth_buf *out, const char *name, const char *type, const char *help,
                   int64_t value)
{
    head(out, name, type, help);
    berth_buf_printf(out, "%s %lld\n", name, (long long)value);
}

/* Values of labels are ours or a provider's key. */
static void put_text(struct berth_buf *out, const char *text)
{
    for (; text && *text; text++)
        berth_buf_printf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c",
                         *text == '\n' ? ' ' : *text);
}

static void put_leases(struct berth_buf *out, const struct berth_list *tallies)
{
    int64_t parked = 0, owed = 0;
    head(out, "berth_leases", "gauge", "Leases that are open, parked or owe clean-up.");
    for (int i = 0; i < tallies->count; i++) {
        const struct berth_lease_tally *t = tallies->items[i];
        berth_buf_printf(out, "berth_leases{status=\"%s\",place=\"%s\",driver=\"", t->status,
                         t->place);
        put_text(out, t->driver);
        berth_buf_puts(out, "\",provider=\"");
        put_text(out, t->provider);
        berth_buf_printf(out, "\"} %lld\n", (long long)t->count);
        parked += strcmp(t->place, "parked") == 0 ? t->count : 0;
        owed += t->owed;
    }
    number(out, "berth_places_parked", "gauge", "Places that are stopped and kept.", parked);
    number(out, "berth_places_owed", "gauge", "Places whose clean-up is owed.", owed);
}

static void put_histogram(struct berth_buf *out, const char *name, const char *help,
                          const struct berth_histogram *h)
{
    uint64_t count = 0;
    head(out, name, "histogram", help);
    for (int i = 0; i < BERTH_HISTOGRAM_BUCKETS; i++) {
        count += atomic_load(&h->counts[i]);
        berth_buf_printf(out, "%s_bucket{le=\"%.4f\"} %llu\n", name,
                         (double)berth_histogram_bounds_us[i] / 1e6, (unsigned long long)count);
    }
    count += atomic_load(&h->counts[BERTH_HISTOGRAM_BUCKETS]);
    berth_buf_printf(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.6f\n%s_count %llu\n", name,
                     (unsigned long long)count, name, (double)atomic_load(&h->sum_us) / 1e6, name,
                     (unsigned long long)count);
}

static int put_workers(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_list plugins;
    int rc = berth_plugin_list(c->b, &c->arena, &plugins, err);
    head(&c->out, "berth_worker_crashes_total", "counter", "Ends of workers that nobody wanted.");
    for (int i = 0; rc == BERTH_OK && i < plugins.count; i++) {
        const struct berth_plugin *p = plugins.items[i];
        struct berth_worker_status status;
        struct berth_error none;
        if (berth_plugin_worker(c->b, &c->arena, p->id, &status, &none) < 0)
            continue;
        berth_buf_puts(&c->out, "berth_worker_crashes_total{plugin=\"");
        put_text(&c->out, p->plugin_key);
        berth_buf_printf(&c->out, "\"} %d\n", status.crashes_in_all);
    }
    return rc;
}

static int metrics_get(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_list tallies;
    struct berth_store_stats store = berth_store_stats(c->b->store);
    struct berth_buf *out = &c->out;
    int rc = berth_lease_tallies(c->b, &c->arena, &tallies, err);
    if (rc < 0)
        return rc;
    c->type = "text/plain; version=0.0.4; charset=utf-8";
    put_leases(out, &tallies);
    put_histogram(out, "berth_acquire_seconds", "From a request to an active lease.",
                  &c->b->metrics->all[BERTH_METRIC_ACQUIRE]);
    put_histogram(out, "berth_exec_seconds", "From a command's start to its end.",
                  &c->b->metrics->all[BERTH_METRIC_EXEC]);
    put_histogram(out, "berth_release_seconds", "From a release to its answer.",
                  &c->b->metrics->all[BERTH_METRIC_RELEASE]);
    number(out, "berth_store_commits_total", "counter", "Commits of the store.", store.commits);
    number(out, "berth_store_requests_total", "counter", "Changes that these commits carried.",
           store.requests);
    number(out, "berth_store_retries_total", "counter", "Transactions that were tried again.",
           store.retries);
    struct berth_http_stats http = berth_http_server_stats(c->api->server);
    number(out, "berth_http_connections", "gauge", "Open connections.", http.connections);
    number(out, "berth_http_streams", "gauge", "Open streams of events and logs.", http.streams);
    number(out, "berth_http_requests_total", "counter", "Requests so far.", http.requests);
    return put_workers(c, err);
}

const struct berth_api_route berth_api_metrics_routes[] = {
    {"GET", "/metrics", metrics_get, BERTH_API_INSTANCE},
    {0},
};
