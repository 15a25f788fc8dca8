/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/lease_work.c - see lease_work.h. */
#include "core/lease/lease_work.h"

#include "base/arena.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "core/activity.h"
#include "core/lease/lease.h"
#include "core/lease/lease_execs.h"
#include "core/lease/ledger.h"
#include "core/lease/node.h"
#include "store/exec.h"
#include "store/store.h"

#define REOPEN_MS (INT64_C(3600) * 1000)

struct work_change {
    struct berth *b;
    struct berth_arena *arena;
    const char *lease_id;
    const struct berth_actor *actor;
    int64_t seen_ms;                   /* berth_lease_work_end */
    bool again;                        /* the row changed meanwhile */
    struct berth_lease_work_seen seen; /* berth_lease_work_reopen */
};

static int work_load(struct berth_db *db, struct work_change *w, struct berth_lease **out,
                     struct berth_error *err)
{
    w->again = w->seen.reopened = false;
    int rc = berth_lease_load(db, w->arena, w->lease_id, out, err);
    return rc == BERTH_OK && !*out ? berth_lease_not_found(err) : rc;
}

static int work_save(struct berth_db *db, struct work_change *w, struct berth_lease *l,
                     struct berth_error *err)
{
    bool won;
    l->updated_at_ms = berth_time_wall_ms();
    int rc = berth_lease_save(db, l, &won, err);
    w->again = rc == BERTH_OK && !won;
    return rc;
}

static void renew_mark(struct berth_lease *l)
{
    int64_t now_ms = berth_time_wall_ms();
    l->work_at_ms = now_ms > l->work_at_ms ? now_ms : l->work_at_ms + 1;
}

static int tx_begin(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct work_change *w = ctx;
    struct berth_lease *l;
    int rc = work_load(db, w, &l, err);
    if (rc < 0)
        return rc;
    if (l->status != BERTH_LEASE_ACTIVE)
        return berth_lease_not_active(l, err);
    if (l->home_at_ms == BERTH_LEASE_SENDING)
        l->home_at_ms = 0;
    renew_mark(l);
    return work_save(db, w, l, err);
}

static int tx_renew(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct work_change *w = ctx;
    struct berth_lease *l;
    int rc = work_load(db, w, &l, err);
    if (rc < 0 || (!l->work_at_ms && !l->home_at_ms))
        return rc;
    if (l->status != BERTH_LEASE_ACTIVE)
        return berth_lease_not_active(l, err);
    renew_mark(l);
    return work_save(db, w, l, err);
}

static int tx_send(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct work_change *w = ctx;
    struct berth_lease *l;
    int rc = work_load(db, w, &l, err);
    if (rc < 0 || (!l->work_at_ms && l->home_at_ms == BERTH_LEASE_SENDING))
        return rc;
    if (l->work_at_ms)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "The place of lease %s holds work that did not come home. Fetch it with "
                          "\"berth workspace pull %s\" first.",
                          l->id, l->id);
    l->home_at_ms = BERTH_LEASE_SENDING;
    return work_save(db, w, l, err);
}

/* Returns whether a command of any process works in the place. The row of a command of another
 * process is written some milliseconds after its start. */
static int find_commands(struct berth_db *db, const struct work_change *w, bool *some,
                         struct berth_error *err)
{
    int64_t elsewhere = 0;
    int rc = berth_exec_count_open(db, w->lease_id, berth_node_id(w->b->node), &elsewhere, err);
    *some = elsewhere || berth_lease_execs_work(w->b, w->lease_id);
    return rc;
}

static int tx_end(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct work_change *w = ctx;
    struct berth_lease *l;
    bool busy;
    int rc = work_load(db, w, &l, err);
    if (rc == BERTH_OK)
        rc = find_commands(db, w, &busy, err);
    if (rc < 0)
        return rc;
    l->home_at_ms = berth_time_wall_ms();
    if (!busy && (w->seen_ms == BERTH_LEASE_SEEN_ANY || w->seen_ms == l->work_at_ms))
        l->work_at_ms = 0;
    if (!l->work_at_ms && l->status == BERTH_LEASE_RETAINED) /* nothing keeps the place any more */
        l->expires_at_ms = l->due_at_ms = berth_time_steady_ms();
    return work_save(db, w, l, err);
}

static int tx_discard(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct work_change *w = ctx;
    struct berth_lease *l;
    int rc = work_load(db, w, &l, err);
    if (rc < 0 || !l->work_at_ms)
        return rc;
    l->work_at_ms = l->home_at_ms = 0;
    rc = work_save(db, w, l, err);
    return rc < 0 || w->again
               ? rc
               : berth_activity_of_lease(db, l, "environment.work_discarded", w->actor, err);
}

static int tx_reopen(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct work_change *w = ctx;
    struct berth_lease *l;
    bool busy;
    int rc = work_load(db, w, &l, err);
    if (rc == BERTH_OK)
        rc = find_commands(db, w, &busy, err);
    if (rc < 0)
        return rc;
    w->seen.mark_ms = busy ? 0 : l->work_at_ms;
    w->seen.partial = l->home_at_ms == BERTH_LEASE_SENDING;
    if (l->status == BERTH_LEASE_ACTIVE && l->expires_at_ms > berth_time_steady_ms())
        return BERTH_OK;
    if (l->status == BERTH_LEASE_ACTIVE && !l->work_at_ms)
        return berth_lease_expired(l, err);
    if ((l->status != BERTH_LEASE_RETAINED && l->status != BERTH_LEASE_ACTIVE) || !l->work_at_ms)
        return berth_lease_not_active(l, err);
    if (l->status == BERTH_LEASE_RETAINED)
        berth_ledger_enter(l, BERTH_LEASE_ACTIVE);
    l->owner = berth_node_id(w->b->node);
    l->expires_at_ms = l->due_at_ms = berth_time_steady_ms() + REOPEN_MS;
    w->seen.reopened = true;
    return work_save(db, w, l, err);
}

static int work_change(struct work_change *w, const char *lease_id, berth_tx_fn *fn,
                       struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_id id;
    if (berth_id_parse(lease_id, "Lease", &id, err) < 0)
        return berth_lease_not_found(err);
    w->arena = &arena;
    w->lease_id = id.text;
    for (int tries = 0; tries < BERTH_STORE_RETRIES_MAX; tries++) {
        int rc = berth_store_tx(w->b->store, fn, w, err);
        if (rc < 0 || !w->again)
            return rc;
    }
    return berth_fail(err, BERTH_E_CONFLICT, "The lease keeps changing: try again.");
}

int berth_lease_work_send(struct berth *b, const char *lease_id, struct berth_error *err)
{
    struct work_change w = {.b = b};
    return work_change(&w, lease_id, tx_send, err);
}

int berth_lease_work_begin(struct berth *b, const char *lease_id, struct berth_error *err)
{
    struct work_change w = {.b = b};
    return work_change(&w, lease_id, tx_begin, err);
}

int berth_lease_work_renew(struct berth *b, const struct berth_lease *lease,
                           struct berth_error *err)
{
    struct work_change w = {.b = b};
    return lease->work_at_ms || lease->home_at_ms ? work_change(&w, lease->id, tx_renew, err)
                                                  : BERTH_OK;
}

int berth_lease_work_end(struct berth *b, const char *lease_id, int64_t seen_ms,
                         struct berth_error *err)
{
    struct work_change w = {.b = b, .seen_ms = seen_ms};
    return work_change(&w, lease_id, tx_end, err);
}

int berth_lease_discard_work(struct berth *b, const char *lease_id, const struct berth_actor *actor,
                             struct berth_error *err)
{
    struct work_change w = {.b = b, .actor = actor};
    return work_change(&w, lease_id, tx_discard, err);
}

int berth_lease_work_reopen(struct berth *b, const char *lease_id,
                            struct berth_lease_work_seen *out, struct berth_error *err)
{
    struct work_change w = {.b = b};
    int rc = work_change(&w, lease_id, tx_reopen, err);
    *out = rc == BERTH_OK ? w.seen : (struct berth_lease_work_seen){0};
    return rc;
}
