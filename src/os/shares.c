/* SPDX-License-Identifier: Apache-2.0
 * src/os/shares.c - see shares.h. One mutex guards everything; jobs run outside it. The pool below
 * gets a job only when a thread is free for it, so its own queue stays short. */
#include "os/shares.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/map.h"

/* A provider or a company, while a share of it exists. */
struct share_key {
    int refs;
    int running, queued; /* jobs, over all of its shares */
    char map_key[];      /* a letter for the kind, then the name */
};

struct berth_share {
    struct berth_shares *all;
    struct share_key *provider, *company; /* or NULL */
    int refs;                             /* those who opened it, and its jobs */
    struct berth_job *head, **tail;
    struct berth_share *next; /* in the turn; set while `head` is */
    char map_key[];
};

/* A thread's worth of work. The pool's job is in it, so that starting one needs no memory. */
struct share_slot {
    struct berth_job job;
    struct berth_share *share;
    struct berth_job *what;
    struct share_slot *next;
};

struct berth_shares {
    pthread_mutex_t lock;
    struct berth_pool *pool;
    struct berth_shares_limits limits;
    int running, queued;
    bool warm; /* the pool has a thread: berth_pool_put may be used */
    struct berth_map keys, shares;
    struct berth_share *turn, **turn_end; /* shares with waiting jobs, next one first */
    struct share_slot *slots, *free_slots;
};

static void slot_run(void *ctx);

int berth_shares_new(const struct berth_shares_limits *limits, struct berth_shares **out,
                     struct berth_error *err)
{
    auto_free struct berth_shares *all = calloc(1, sizeof *all);
    auto_free struct share_slot *slots = calloc((size_t)limits->threads, sizeof *slots);
    if (!all || !slots)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: pool.");
    int rc = berth_pool_new(limits->threads, &all->pool, err);
    if (rc < 0)
        return rc;
    pthread_mutex_init(&all->lock, NULL);
    all->limits = *limits;
    all->turn_end = &all->turn;
    for (int i = 0; i < limits->threads; i++) {
        slots[i].job = (struct berth_job){.fn = slot_run, .ctx = &slots[i]};
        slots[i].next = all->free_slots;
        all->free_slots = &slots[i];
    }
    all->slots = take_ptr(slots);
    *out = take_ptr(all);
    return BERTH_OK;
}

void berth_shares_free(struct berth_shares *all)
{
    if (!all)
        return;
    berth_pool_free(all->pool); /* each job that ends starts the next one */
    berth_map_clear(&all->keys);
    berth_map_clear(&all->shares);
    pthread_mutex_destroy(&all->lock);
    free(all->slots);
    free(all);
}

/* --- shares and their keys; lock held --- */

static struct share_key *key_hold(struct berth_shares *all, char kind, const char *name)
{
    size_t size = strlen(name) + 2;
    auto_free struct share_key *fresh = calloc(1, sizeof *fresh + size);
    if (!fresh)
        return NULL;
    (void)snprintf(fresh->map_key, size, "%c%s", kind, name);
    struct share_key *key = berth_map_get(&all->keys, fresh->map_key);
    if (!key && berth_map_put(&all->keys, fresh->map_key, fresh))
        key = take_ptr(fresh);
    if (key)
        key->refs++;
    return key;
}

static void key_drop(struct berth_shares *all, struct share_key *key)
{
    if (!key || --key->refs)
        return;
    (void)berth_map_remove(&all->keys, key->map_key);
    free(key);
}

static void share_drop(struct berth_share *share)
{
    struct berth_shares *all = share->all;
    if (--share->refs)
        return;
    (void)berth_map_remove(&all->shares, share->map_key);
    key_drop(all, share->provider);
    key_drop(all, share->company);
    free(share);
}

/* Makes the share with its keys and one reference. Returns NULL without memory. */
static struct berth_share *share_new(struct berth_shares *all, const char *provider,
                                     const char *company, const char *map_key)
{
    size_t size = strlen(map_key) + 1;
    struct berth_share *share = calloc(1, sizeof *share + size);
    if (!share)
        return NULL;
    share->all = all;
    share->refs = 1;
    share->tail = &share->head;
    memcpy(share->map_key, map_key, size);
    if (provider)
        share->provider = key_hold(all, 'p', provider);
    if (company)
        share->company = key_hold(all, provider ? 'c' : 'n', company);
    if ((!provider || share->provider) && (!company || share->company) &&
        berth_map_put(&all->shares, share->map_key, share))
        return share;
    share_drop(share);
    return NULL;
}

static void run_nothing(void *ctx)
{
    (void)ctx;
}

int berth_share_open(struct berth_shares *all, const char *provider, const char *company,
                     struct berth_share **out, struct berth_error *err)
{
    auto_free char *map_key = NULL;
    if (asprintf(&map_key, "%c%s\n%c%s", provider ? '+' : '-', provider ? provider : "",
                 company ? '+' : '-', company ? company : "") < 0) {
        map_key = NULL;
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: pool.");
    }
    pthread_mutex_lock(&all->lock);
    int rc = all->warm ? BERTH_OK : berth_pool_submit(all->pool, run_nothing, NULL, err);
    all->warm = rc == BERTH_OK;
    struct berth_share *share = rc < 0 ? NULL : berth_map_get(&all->shares, map_key);
    if (share)
        share->refs++;
    else if (rc == BERTH_OK)
        share = share_new(all, provider, company, map_key);
    pthread_mutex_unlock(&all->lock);
    if (rc == BERTH_OK && !share)
        rc = berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: pool.");
    if (rc == BERTH_OK)
        *out = share;
    return rc;
}

void berth_share_close(struct berth_share *share)
{
    if (!share)
        return;
    pthread_mutex_t *lock = &share->all->lock;
    pthread_mutex_lock(lock);
    share_drop(share);
    pthread_mutex_unlock(lock);
}

/* --- jobs; lock held --- */

static void key_count(struct share_key *key, int running, int queued)
{
    if (!key)
        return;
    key->running += running;
    key->queued += queued;
}

static void share_count(struct berth_share *share, int running, int queued)
{
    share->all->running += running;
    share->all->queued += queued;
    key_count(share->provider, running, queued);
    key_count(share->company, running, queued);
}

static bool share_may_run(const struct berth_share *share)
{
    const struct berth_shares *all = share->all;
    int room = all->limits.threads - all->running - (share->provider ? all->limits.reserved : 0);
    return room > 0 &&
           (!share->provider || share->provider->running * BERTH_PROVIDER_SHARE_PART < room) &&
           (!share->company || share->company->running < room * BERTH_COMPANY_SHARE_PARTS);
}

static void turn_add(struct berth_share *share)
{
    share->next = NULL;
    *share->all->turn_end = share;
    share->all->turn_end = &share->next;
}

/* Removes the first share that may run from the turn and returns it, or NULL. */
static struct berth_share *turn_take(struct berth_shares *all)
{
    for (struct berth_share **at = &all->turn; *at; at = &(*at)->next) {
        struct berth_share *share = *at;
        if (!share_may_run(share))
            continue;
        *at = share->next;
        if (!*at)
            all->turn_end = at;
        return share;
    }
    return NULL;
}

/* Starts every waiting job that may run now. */
static void shares_dispatch(struct berth_shares *all)
{
    for (struct berth_share *share; all->free_slots && (share = turn_take(all));) {
        struct share_slot *slot = all->free_slots;
        all->free_slots = slot->next;
        slot->share = share;
        slot->what = share->head;
        share->head = slot->what->next;
        if (share->head)
            turn_add(share);
        else
            share->tail = &share->head;
        share_count(share, 1, -1);
        berth_pool_put(all->pool, &slot->job);
    }
}

/* On a thread of the pool. */
static void slot_run(void *ctx)
{
    struct share_slot *slot = ctx;
    struct berth_shares *all = slot->share->all;
    struct berth_job *job = slot->what;
    bool owned = job->owned; /* the owner of any other may free it while it runs */
    job->fn(job->ctx);
    if (owned)
        free(job);
    pthread_mutex_lock(&all->lock);
    share_count(slot->share, -1, 0);
    share_drop(slot->share);
    slot->next = all->free_slots;
    all->free_slots = slot;
    shares_dispatch(all);
    pthread_mutex_unlock(&all->lock);
}

static int share_full(const struct berth_share *share, struct berth_error *err)
{
    const struct berth_shares *all = share->all;
    const struct share_key *p = share->provider, *c = share->company;
    int max = all->limits.key_queued_max;
    if (p && p->queued >= max)
        return berth_fail(err, BERTH_E_UNAVAILABLE,
                          "Too many requests wait for %s. Try again later.", p->map_key + 1);
    if (c && c->queued >= max)
        return berth_fail(err, BERTH_E_UNAVAILABLE,
                          "Too many requests of this company wait. Try again later.");
    if (all->queued >= all->limits.queued_max)
        return berth_fail(err, BERTH_E_UNAVAILABLE, "Too many requests wait. Try again later.");
    return BERTH_OK;
}

static void share_add(struct berth_share *share, struct berth_job *job)
{
    job->next = NULL;
    if (!share->head)
        turn_add(share);
    *share->tail = job;
    share->tail = &job->next;
    share->refs++;
    share_count(share, 0, 1);
    shares_dispatch(share->all);
}

/* --- for everybody --- */

int berth_share_submit(struct berth_share *share, berth_job_fn *fn, void *ctx,
                       struct berth_error *err)
{
    auto_free struct berth_job *job = calloc(1, sizeof *job);
    if (!job)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: job.");
    *job = (struct berth_job){.fn = fn, .ctx = ctx, .owned = true};
    pthread_mutex_lock(&share->all->lock);
    int rc = share_full(share, err);
    struct berth_shares *all = share->all;
    if (rc == BERTH_OK)
        share_add(share, take_ptr(job));
    pthread_mutex_unlock(&all->lock);
    return rc;
}

void berth_share_put(struct berth_share *share, struct berth_job *job)
{
    struct berth_shares *all = share->all;
    pthread_mutex_lock(&all->lock);
    share_add(share, job);
    pthread_mutex_unlock(&all->lock);
}

int berth_share_check(struct berth_share *share, struct berth_error *err)
{
    pthread_mutex_lock(&share->all->lock);
    int rc = share_full(share, err);
    pthread_mutex_unlock(&share->all->lock);
    return rc;
}

int berth_shares_queued(struct berth_shares *all)
{
    pthread_mutex_lock(&all->lock);
    int queued = all->queued;
    pthread_mutex_unlock(&all->lock);
    return queued;
}
