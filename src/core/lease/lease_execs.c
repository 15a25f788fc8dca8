/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/lease_execs.c - see roster.h. */
#include "core/lease/lease_execs.h"

#include <string.h>

#include "base/time.h"
#include "core/lease/lease.h"
#include "os/pool.h"
#include "os/strays.h"

#define LOOK_MS 5000
#define GRACE_MS 10000 /* twice what a command usually has */
#define KILLED_MS 5000

static void look_job(void *ctx);

/* Lock held. Without a timer the next command sets it. */
static void set_timer(struct berth *b)
{
    struct berth_error ignored;
    if (b->roster && !b->roster_set)
        b->roster_set = berth_pool_after(b->pool, LOOK_MS, look_job, b, &ignored) == BERTH_OK;
}

void berth_lease_execs_enter(struct berth *b, struct berth_lease_exec *entry)
{
    pthread_mutex_lock(&b->roster_lock);
    entry->next = b->roster;
    entry->link = &b->roster;
    if (entry->next)
        entry->next->link = &entry->next;
    b->roster = entry;
    set_timer(b);
    pthread_mutex_unlock(&b->roster_lock);
}

void berth_lease_execs_leave(struct berth *b, struct berth_lease_exec *entry)
{
    pthread_mutex_lock(&b->roster_lock);
    if (entry->link) {
        *entry->link = entry->next;
        if (entry->next)
            entry->next->link = entry->link;
        entry->link = NULL;
        if (b->roster_waiters)
            pthread_cond_broadcast(&b->roster_changed);
    }
    pthread_mutex_unlock(&b->roster_lock);
}

/* Lock held. Are there any? */
static bool end_all(struct berth *b, const char *lease_id)
{
    bool some = false;
    for (struct berth_lease_exec *e = b->roster; e; e = e->next)
        if (strcmp(e->lease_id.text, lease_id) == 0) {
            e->end(e);
            some = true;
        }
    return some;
}

void berth_lease_execs_tell(struct berth *b, const char *lease_id)
{
    pthread_mutex_lock(&b->roster_lock);
    (void)end_all(b, lease_id);
    pthread_mutex_unlock(&b->roster_lock);
}

/* False: some have not left in time. */
static bool await_end(struct berth *b, const char *lease_id, int64_t wait_ms)
{
    struct timespec until = berth_time_until(wait_ms);
    int timed_out = 0;
    bool some;
    pthread_mutex_lock(&b->roster_lock);
    b->roster_waiters++;
    while ((some = end_all(b, lease_id)) && !timed_out)
        timed_out = pthread_cond_timedwait(&b->roster_changed, &b->roster_lock, &until);
    b->roster_waiters--;
    pthread_mutex_unlock(&b->roster_lock);
    return !some;
}

/* Whatever grace they were promised. */
static void kill_all(struct berth *b, const char *lease_id)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_list labels = {0};
    pthread_mutex_lock(&b->roster_lock);
    for (const struct berth_lease_exec *e = b->roster; e; e = e->next)
        if (strcmp(e->lease_id.text, lease_id) == 0)
            (void)berth_list_add(&labels, &arena, berth_arena_strdup(&arena, e->label));
    pthread_mutex_unlock(&b->roster_lock);
    if (berth_list_add(&labels, &arena, NULL) && !arena.failed)
        (void)berth_strays_end((const char *const *)(void *)labels.items);
}

bool berth_lease_execs_end(struct berth *b, const char *lease_id)
{
    if (await_end(b, lease_id, GRACE_MS))
        return true;
    kill_all(b, lease_id);
    return await_end(b, lease_id, KILLED_MS);
}

/* --- what others have done to their leases --- */

/* Of all of them, each once; without memory of some. */
static void list_leases(struct berth *b, struct berth_map *out)
{
    pthread_mutex_lock(&b->roster_lock);
    b->roster_set = false;
    for (const struct berth_lease_exec *e = b->roster; e; e = e->next)
        (void)berth_map_put(out, e->lease_id.text, b);
    pthread_mutex_unlock(&b->roster_lock);
}

/* One that cannot be read is looked at again later. */
static bool is_over(struct berth *b, const char *lease_id)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_lease *l;
    struct berth_error err;
    int rc = berth_lease_get(b, &arena, lease_id, &l, &err);
    if (rc < 0)
        return rc == BERTH_E_NOT_FOUND;
    return l->status != BERTH_LEASE_ACTIVE || l->expires_at_ms <= berth_time_wall_ms();
}

static void look_job(void *ctx)
{
    struct berth *b = ctx;
    struct berth_map leases = BERTH_MAP_INIT;
    const char *id;
    list_leases(b, &leases);
    for (size_t at = 0; berth_map_next(&leases, &at, &id);) {
        if (is_over(b, id))
            berth_lease_execs_tell(b, id);
    }
    berth_map_clear(&leases);
    pthread_mutex_lock(&b->roster_lock);
    set_timer(b);
    pthread_mutex_unlock(&b->roster_lock);
}
