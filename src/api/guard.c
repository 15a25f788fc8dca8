/* SPDX-License-Identifier: Apache-2.0
 * src/api/guard.c - see guard.h. */
#include "api/guard.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/quick.h"
#include "base/container.h"
#include "base/map.h"
#include "core/token.h"
#include "os/engine.h"

#define LOOK_MS 2000 /* a token may be revoked elsewhere */

struct berth_api_guard {
    struct berth *b;
    struct berth_shares *quick;
    struct berth_api_guarded *first;
    struct berth_timer timer;
    /* The post is on its way. Apart from the flags below: the compiler may read those as one word.
     */
    _Atomic bool asked;
    struct berth_post post; /* of a look that was asked for */
    bool looking, again, closed;
};

struct token {
    char id[BERTH_ID_SIZE];
    bool dead;
};

struct look {
    struct berth_api_guard *guard;
    struct berth_post post;
    struct berth_map by_id; /* of those below: there may be as many as streams */
    int count, dead;
    struct token tokens[];
};

static void free_look(struct look *look)
{
    berth_map_clear(&look->by_id);
    free(look);
}

static void look_later(struct berth_api_guard *g)
{
    if (g->first && !g->closed)
        berth_timer_set(g->b->engine, &g->timer, LOOK_MS);
}

static void look_now(struct berth_api_guard *g);

static void on_looked(struct berth_post *post)
{
    struct look *look = berth_container_of(post, struct look, post);
    struct berth_api_guard *g = look->guard;
    g->looking = false;
    for (struct berth_api_guarded *s = g->first, *next; s && look->dead; s = next) {
        const struct token *token = berth_map_get(&look->by_id, s->token_id);
        next = s->next;
        if (!token || !token->dead)
            continue;
        s->end(s);
    }
    free_look(look);
    if (g->again)
        look_now(g);
    else
        look_later(g);
}

static void look_job(void *ctx)
{
    struct look *look = ctx;
    struct berth *b = look->guard->b;
    struct berth_error none;
    for (int i = 0; i < look->count; i++) {
        bool alive; /* a store that is away ends nothing */
        look->tokens[i].dead =
            berth_token_alive(b, look->tokens[i].id, &alive, &none) == BERTH_OK && !alive;
        look->dead += look->tokens[i].dead;
    }
    (void)berth_engine_post(b->engine, &look->post, &none); /* its loop runs */
}

/* Not twice at a time. */
static void look_now(struct berth_api_guard *g)
{
    struct berth_error none;
    int count = 0;
    for (const struct berth_api_guarded *s = g->first; s; s = s->next)
        count++;
    g->again = g->looking; /* what has just happened may not be seen */
    if (!count || g->looking || g->closed)
        return;
    struct look *look = calloc(1, sizeof *look + (size_t)count * sizeof look->tokens[0]);
    if (!look) {
        look_later(g);
        return;
    }
    look->guard = g;
    look->post.run = on_looked;
    for (const struct berth_api_guarded *s = g->first; s; s = s->next) {
        struct token *token = &look->tokens[look->count];
        if (berth_map_get(&look->by_id, s->token_id) ||
            !berth_map_put(&look->by_id, s->token_id, token)) /* without memory at the next look */
            continue;
        memcpy(token->id, s->token_id, sizeof token->id);
        look->count++;
    }
    g->looking = berth_api_quick(g->quick, NULL, look_job, look, &none) == BERTH_OK;
    if (g->looking)
        return;
    free_look(look);
    look_later(g);
}

static void on_timer(struct berth_timer *timer)
{
    look_now(berth_container_of(timer, struct berth_api_guard, timer));
}

static void on_asked(struct berth_post *post)
{
    struct berth_api_guard *g = berth_container_of(post, struct berth_api_guard, post);
    atomic_store(&g->asked, false);
    look_now(g);
}

int berth_api_guard_new(struct berth *b, struct berth_shares *quick, struct berth_api_guard **out,
                        struct berth_error *err)
{
    struct berth_api_guard *g = calloc(1, sizeof *g);
    if (!g)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: API.");
    g->b = b;
    g->quick = quick;
    g->timer.run = on_timer;
    g->post.run = on_asked;
    *out = g;
    return BERTH_OK;
}

void berth_api_guard_add(struct berth_api_guard *g, struct berth_api_guarded *s)
{
    bool first = !g->first;
    s->next = g->first;
    s->link = &g->first;
    if (s->next)
        s->next->link = &s->next;
    g->first = s;
    if (first && !g->looking)
        look_later(g);
}

void berth_api_guard_remove(struct berth_api_guarded *s)
{
    if (!s->link)
        return;
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
    s->link = NULL;
}

void berth_api_guard_look(struct berth_api_guard *g)
{
    struct berth_error none;
    if (g && !atomic_exchange(&g->asked, true))
        (void)berth_engine_post(g->b->engine, &g->post, &none); /* its loop runs */
}

static void close_here(void *ctx)
{
    struct berth_api_guard *g = ctx;
    g->closed = true;
    berth_timer_clear(g->b->engine, &g->timer);
}

void berth_api_guard_stop(struct berth_api_guard *g)
{
    struct berth_error none;
    if (g)
        (void)berth_engine_do(g->b->engine, close_here, g, &none);
}

void berth_api_guard_free(struct berth_api_guard *g)
{
    free(g);
}
