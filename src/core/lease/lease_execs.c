/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/lease_execs.c - see lease_execs.h. */
#include "core/lease/lease_execs.h"

#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/map.h"
#include "base/time.h"
#include "core/lock_order.h"
#include "os/pool.h"
#include "os/strays.h"
#include "store/lease.h"
#include "store/store.h"

#define LOOK_MS 5000
#define GRACE_MS 10000 /* twice the usual grace of a command */
#define KILLED_MS 5000

struct berth_lease_execs {
    struct berth_pool *pool;
    struct berth_store *store;
    struct berth_lock lock;
    pthread_cond_t left; /* a command has left */
    int waiters;
    struct berth_lease_exec *first;
    bool timed; /* a look at their leases is due */
};

int berth_lease_execs_new(struct berth_pool *pool, struct berth_store *store,
                          struct berth_lease_execs **out, struct berth_error *err)
{
    struct berth_lease_execs *all = calloc(1, sizeof *all);
    if (!all)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: commands.");
    all->pool = pool;
    all->store = store;
    berth_lock_init(&all->lock, BERTH_RANK_LEASE_EXECS);
    berth_time_cond_init(&all->left);
    *out = all;
    return BERTH_OK;
}

void berth_lease_execs_free(struct berth_lease_execs *all)
{
    if (!all)
        return;
    pthread_cond_destroy(&all->left);
    berth_lock_destroy(&all->lock);
    free(all);
}

static void look_job(void *ctx);

/* Lock held. When no timer can be set, the next command sets it. */
static void look_later(struct berth_lease_execs *all)
{
    struct berth_error ignored;
    if (all->first && !all->timed)
        all->timed = berth_pool_after(all->pool, LOOK_MS, look_job, all, &ignored) == BERTH_OK;
}

void berth_lease_execs_enter(struct berth *b, struct berth_lease_exec *exec)
{
    struct berth_lease_execs *all = b->lease_execs;
    berth_lock_take(&all->lock);
    exec->next = all->first;
    exec->link = &all->first;
    if (exec->next)
        exec->next->link = &exec->next;
    all->first = exec;
    look_later(all);
    berth_lock_drop(&all->lock);
}

void berth_lease_execs_leave(struct berth *b, struct berth_lease_exec *exec)
{
    struct berth_lease_execs *all = b->lease_execs;
    berth_lock_take(&all->lock);
    if (exec->link) {
        *exec->link = exec->next;
        if (exec->next)
            exec->next->link = exec->link;
        exec->link = NULL;
        if (all->waiters)
            pthread_cond_broadcast(&all->left);
    }
    berth_lock_drop(&all->lock);
}

bool berth_lease_execs_work(struct berth *b, const char *lease_id)
{
    struct berth_lease_execs *all = b->lease_execs;
    bool some = false;
    berth_lock_take(&all->lock);
    for (const struct berth_lease_exec *e = all->first; e && !some; e = e->next)
        some = !e->moves_files && strcmp(e->lease_id.text, lease_id) == 0;
    berth_lock_drop(&all->lock);
    return some;
}

/* Lock held. Asks the commands of the lease to end. Returns whether there are any. */
static bool ask_all(struct berth_lease_execs *all, const char *lease_id)
{
    bool some = false;
    for (struct berth_lease_exec *e = all->first; e; e = e->next)
        if (strcmp(e->lease_id.text, lease_id) == 0) {
            e->end(e);
            some = true;
        }
    return some;
}

void berth_lease_execs_tell(struct berth *b, const char *lease_id)
{
    struct berth_lease_execs *all = b->lease_execs;
    berth_lock_take(&all->lock);
    (void)ask_all(all, lease_id);
    berth_lock_drop(&all->lock);
}

/* Returns false when some have not left in time. */
static bool await_left(struct berth_lease_execs *all, const char *lease_id, int64_t wait_ms)
{
    struct timespec until = berth_time_until(wait_ms);
    int timed_out = 0;
    bool some;
    berth_lock_take(&all->lock);
    all->waiters++;
    while ((some = ask_all(all, lease_id)) && !timed_out)
        timed_out = berth_lock_wait_until(&all->lock, &all->left, &until);
    all->waiters--;
    berth_lock_drop(&all->lock);
    return !some;
}

/* Kills their processes on this machine, whatever grace they were promised. */
static void kill_all(struct berth_lease_execs *all, const char *lease_id)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_list labels = {0};
    berth_lock_take(&all->lock);
    for (const struct berth_lease_exec *e = all->first; e; e = e->next)
        if (strcmp(e->lease_id.text, lease_id) == 0)
            (void)berth_list_add(&labels, &arena, berth_arena_strdup(&arena, e->label));
    berth_lock_drop(&all->lock);
    if (berth_list_add(&labels, &arena, NULL) && !arena.failed)
        (void)berth_strays_end((const char *const *)(void *)labels.items);
}

bool berth_lease_execs_end(struct berth *b, const char *lease_id)
{
    struct berth_lease_execs *all = b->lease_execs;
    bool ended = await_left(all, lease_id, GRACE_MS);
    if (!ended) {
        kill_all(all, lease_id);
        ended = await_left(all, lease_id, KILLED_MS);
    }
    return ended;
}

/* --- leases that another process has ended --- */

/* Collects the ids of all leases in which a command runs. Without memory, only some. */
static void list_leases(struct berth_lease_execs *all, struct berth_map *out)
{
    berth_lock_take(&all->lock);
    all->timed = false;
    for (const struct berth_lease_exec *e = all->first; e; e = e->next)
        (void)berth_map_put(out, e->lease_id.text, all);
    berth_lock_drop(&all->lock);
}

struct lease_look {
    struct berth_arena arena;
    const char *id;
    struct berth_lease *lease;
};

static int tx_look(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct lease_look *look = ctx;
    return berth_lease_load(db, &look->arena, look->id, &look->lease, err);
}

/* A lease that cannot be read now is looked at again later. */
static bool is_over(struct berth_lease_execs *all, const char *lease_id)
{
    struct lease_look look = {.id = lease_id};
    struct berth_error ignored;
    int rc = berth_store_read(all->store, tx_look, &look, &ignored);
    const struct berth_lease *l = look.lease;
    bool over = rc == BERTH_OK && (!l || l->status != BERTH_LEASE_ACTIVE ||
                                   l->expires_at_ms <= berth_time_steady_ms());
    berth_arena_clear(&look.arena);
    return over;
}

static void look_job(void *ctx)
{
    struct berth_lease_execs *all = ctx;
    struct berth_map leases = BERTH_MAP_INIT;
    const char *id;
    list_leases(all, &leases);
    for (size_t at = 0; berth_map_next(&leases, &at, &id);) {
        if (!is_over(all, id))
            continue;
        berth_lock_take(&all->lock);
        (void)ask_all(all, id);
        berth_lock_drop(&all->lock);
    }
    berth_map_clear(&leases);
    berth_lock_take(&all->lock);
    look_later(all);
    berth_lock_drop(&all->lock);
}
