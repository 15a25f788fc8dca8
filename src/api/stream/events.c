/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/events.c - see events.h. */
#include "api/stream/events.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/quick.h"
#include "api/state.h"
#include "api/stream/live.h"
#include "api/stream/stream.h"
#include "base/container.h"
#include "base/id.h"
#include "base/limits.h"
#include "core/activity.h"
#include "core/company.h"

#define LOOK_MS 100
#define PAGE_ROWS 50
#define PAGE_BYTES_MAX (4 * 1024 * 1024)

struct berth_api_listener;

/* Used on the loop's thread only. */
struct berth_api_events {
    struct berth_api *api;
    struct berth_api_listener *listeners;
    int count;
    int64_t settled; /* the last entry that is known to have all before it; -1: not known yet */
    bool looking;    /* a job is at it */
    bool closing;    /* no more listeners are accepted */
    int64_t found;   /* by the job; -1: nothing */
    struct berth_post post;
    struct berth_timer timer;
};

struct berth_api_listener {
    struct berth_api_stream s; /* first */
    struct berth_api_events *events;
    struct berth_api_listener *next, **link;
    char company_id[BERTH_ID_SIZE];
    char turn[BERTH_API_TURN_SIZE]; /* of its call */
    int64_t at;    /* the last entry that it was told; -1: it wants those from now on */
    int looks;     /* that must still end until one has begun after this listener came */
    bool gone;     /* its reader is */
    bool reading;  /* a job is at work, and the rest is its */
    int64_t until; /* that the job reads to */
    bool failed;
    struct berth_buf page;
    struct berth_post post;
};

static struct berth_api_listener *of_stream(struct berth_api_stream *s)
{
    return (struct berth_api_listener *)s;
}

static struct berth_api_listener *of_post(struct berth_post *post)
{
    return berth_container_of(post, struct berth_api_listener, post);
}

/* --- a page of entries, on the pool --- */

static void on_page(struct berth_post *post);

static void put_entry(struct berth_buf *out, const struct berth_activity *a)
{
    struct berth_json_writer w = {.buf = out};
    berth_buf_printf(out, "id: %lld\nevent: activity.logged\ndata: ", (long long)a->id);
    berth_activity_json(&w, a);
    berth_buf_puts(out, "\n\n");
}

static void read_job(void *ctx)
{
    struct berth_api_listener *l = ctx;
    struct berth *b = l->events->api->b;
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_error err;
    struct berth_list found;
    int rc =
        berth_activity_after(b, &arena, l->company_id, l->at, l->until, PAGE_ROWS, &found, &err);
    for (int i = 0; rc == BERTH_OK && i < found.count; i++)
        put_entry(&l->page, found.items[i]);
    l->failed = rc < 0 || l->page.failed;
    if (!l->failed && found.count == PAGE_ROWS)
        l->at = ((const struct berth_activity *)found.items[found.count - 1])->id;
    else if (!l->failed)
        l->at = l->until;
    l->post.run = on_page;
    (void)berth_engine_post(b->engine, &l->post, &err); /* its loop runs */
}

/* --- on the loop's thread --- */

static void free_listener(struct berth_api_listener *l)
{
    berth_buf_clear(&l->page);
    *l->link = l->next;
    if (l->next)
        l->next->link = l->link;
    if (--l->events->count == 0)
        l->events->settled = -1; /* without listeners the store is not read */
    struct berth_api *api = l->events->api;
    free(l);
    berth_api_count_stream(api, -1);
}

/* Begins the stream after the entry `settled` and sends its id, so that a client that reconnects
 * before the first event misses nothing. */
static void begin_at(struct berth_api_listener *l, int64_t settled)
{
    char text[64];
    int len =
        snprintf(text, sizeof text, "id: %lld\nevent: ready\ndata: {}\n\n", (long long)settled);
    l->at = settled;
    berth_api_stream_put(&l->s, text, (size_t)len);
}

/* Tells a client that has seen entries which this store does not have: it was restored from an
 * older copy, or is another one. What the client knows is not what happened. */
static void reset_to(struct berth_api_listener *l, int64_t settled)
{
    char text[160];
    int len =
        snprintf(text, sizeof text,
                 "id: %lld\nevent: reset\ndata: {\"reason\":\"The store has no entry %lld: read "
                 "everything anew.\"}\n\n",
                 (long long)settled, (long long)l->at);
    l->at = settled;
    berth_api_stream_put(&l->s, text, (size_t)len);
}

/* Sends the new entries, unless earlier ones are still being sent. */
static void read_on(struct berth_api_listener *l)
{
    struct berth_error none;
    int64_t settled = l->events->settled;
    if (!l->s.x || l->reading || settled < 0)
        return;
    if (l->at < 0)
        begin_at(l, settled);
    else if (l->at > settled && !l->looks)
        reset_to(l, settled);
    if (!l->s.x || l->at >= settled || berth_api_stream_full(&l->s))
        return;
    l->until = settled;
    l->reading = berth_api_quick(l->events->api->quick, l->turn, read_job, l, &none) == BERTH_OK;
}

static void on_page(struct berth_post *post)
{
    struct berth_api_listener *l = of_post(post);
    l->reading = false;
    if (!l->s.x) { /* else on_gone is still to come */
        if (l->gone)
            free_listener(l);
        return;
    }
    if (!l->failed && l->page.len)
        berth_api_stream_put(&l->s, l->page.data, l->page.len);
    berth_buf_clear(&l->page);
    l->page = (struct berth_buf)BERTH_BUF_INIT(PAGE_BYTES_MAX);
    if (!l->failed) /* else the next look tries again */
        read_on(l);
}

static void on_room(struct berth_api_stream *s)
{
    read_on(of_stream(s));
}

static void on_stalled(struct berth_api_stream *s)
{
    static const char text[] =
        "event: dropped\ndata: {\"reason\":\"The reader did not follow: come "
        "back with the last id.\"}\n\n";
    berth_api_stream_put(s, text, sizeof text - 1);
}

static void on_gone(struct berth_api_stream *s)
{
    struct berth_api_listener *l = of_stream(s);
    l->gone = true;
    if (!l->reading)
        free_listener(l);
}

/* --- the one look --- */

static void on_looked(struct berth_post *post)
{
    struct berth_api_events *e = berth_container_of(post, struct berth_api_events, post);
    e->looking = false;
    if (e->count && e->found > e->settled)
        e->settled = e->found;
    for (struct berth_api_listener *l = e->listeners, *next; l; l = next) {
        next = l->next;
        l->looks -= l->looks > 0 && e->found >= 0;
        read_on(l);
    }
    if (e->count && !e->closing)
        berth_timer_set(e->api->b->engine, &e->timer, LOOK_MS);
}

static void look_job(void *ctx)
{
    struct berth_api_events *e = ctx;
    struct berth_error err;
    int64_t settled;
    e->found = berth_activity_settled(e->api->b, &settled, &err) == BERTH_OK ? settled : -1;
    e->post.run = on_looked;
    (void)berth_engine_post(e->api->b->engine, &e->post, &err); /* its loop runs */
}

static void look(struct berth_api_events *e)
{
    struct berth_error none;
    if (e->looking || e->closing || !e->count)
        return;
    e->looking = berth_api_quick(e->api->quick, NULL, look_job, e, &none) == BERTH_OK;
    if (!e->looking)
        berth_timer_set(e->api->b->engine, &e->timer, LOOK_MS);
}

static void on_timer(struct berth_timer *timer)
{
    look(berth_container_of(timer, struct berth_api_events, timer));
}

int berth_api_events_new(struct berth_api *api, struct berth_api_events **out,
                         struct berth_error *err)
{
    struct berth_api_events *e = calloc(1, sizeof *e);
    if (!e)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: API.");
    *e = (struct berth_api_events){.api = api, .settled = -1, .timer = {.run = on_timer}};
    *out = e;
    return BERTH_OK;
}

void berth_api_events_free(struct berth_api_events *events)
{
    free(events);
}

static void run_close(void *ctx)
{
    struct berth_api_events *e = ctx;
    e->closing = true;
    berth_timer_clear(e->api->b->engine, &e->timer);
    for (struct berth_api_listener *l = e->listeners, *next; l; l = next) {
        next = l->next;
        if (!l->s.x)
            continue;
        berth_api_stream_end(&l->s);
        on_gone(&l->s);
    }
}

void berth_api_events_close(struct berth_api_events *events)
{
    struct berth_error none;
    if (events)
        (void)berth_engine_do(events->api->b->engine, run_close, events, &none);
}

/* --- the route --- */

static void on_start(struct berth_post *post)
{
    struct berth_api_listener *l = of_post(post);
    struct berth_api_events *e = l->events;
    l->link = &e->listeners;
    l->next = e->listeners;
    if (l->next)
        l->next->link = &l->next;
    e->listeners = l;
    e->count++;
    l->looks = e->looking ? 2 : 1; /* one that is under way may have read before the client came */
    berth_api_stream_begin(&l->s, "text/event-stream");
    if (e->closing && l->s.x) {
        berth_api_stream_end(&l->s);
        on_gone(&l->s);
        return;
    }
    look(e);
}

/* From now on; or behind the entry that ?after= or Last-Event-ID names. */
static int watch(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_company *company;
    int64_t after;
    int rc = berth_company_get(c->b, &c->arena, c->params[0], &company, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_number(c, "after", 0, INT64_MAX, -1, &after, err);
    if (rc == BERTH_OK)
        rc = berth_api_last_event(c, &after, err);
    if (rc < 0)
        return rc;
    struct berth_api_listener *l = calloc(1, sizeof *l);
    if (!l)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: stream.");
    l->events = c->api->events;
    l->at = after;
    l->page = (struct berth_buf)BERTH_BUF_INIT(PAGE_BYTES_MAX);
    (void)snprintf(l->company_id, sizeof l->company_id, "%s", company->id);
    (void)snprintf(l->turn, sizeof l->turn, "%s", c->turn);
    l->s = (struct berth_api_stream){.x = c->x,
                                     .engine = c->b->engine,
                                     .events = true,
                                     .on_room = on_room,
                                     .on_stalled = on_stalled,
                                     .on_gone = on_gone};
    berth_api_stream_let_in(&l->s, c);
    l->post.run = on_start;
    berth_api_count_stream(c->api, 1);
    rc = berth_engine_post(c->b->engine, &l->post, err);
    if (rc == BERTH_OK)
        return BERTH_API_PASSED_ON;
    berth_api_count_stream(c->api, -1);
    free(l);
    return rc;
}

const struct berth_api_route berth_api_event_routes[] = {
    {"GET", "/api/companies/:companyId/events", watch, BERTH_API_READ, .live = true,
     .query = "after"},
    {0},
};
