/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/late_place.c - see late_place.h. What cannot be written down now is tried again;
 * only the end of the runtime lets go of it, with a word in the log. */
#include "core/lease/late_place.h"

#include <stdlib.h>

#include "base/failpoint.h"
#include "base/lock.h"
#include "core/lease/ledger.h"
#include "core/lease/node.h"
#include "core/lock_order.h"
#include "os/pool.h"
#include "os/shares.h"
#include "store/store.h"

#define RETRY_MS 1000

struct berth_late_place {
    struct berth_late_place *next;
    struct berth *b;
    struct berth_arena arena;
    const char *lease_id;
    struct berth_place place;
    bool clean;              /* its id repeats no secret */
    bool settles;            /* its end is asked for at once, else by a sweep */
    struct berth_lease *row; /* to be settled, or NULL */
};

static void late_free(struct berth_late_place *late)
{
    berth_arena_clear(&late->arena);
    free(late);
}

/* --- one of them --- */

static int tx_record(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct berth_late_place *late = ctx;
    struct berth_lease *row;
    bool won;
    late->row = NULL;
    int rc = berth_ledger_late_place(db, &late->arena, late->lease_id, &late->place, err);
    if (rc < 0 || !late->settles)
        return rc;
    rc = berth_lease_load(db, &late->arena, late->lease_id, &row, err);
    if (rc < 0 || !row || row->place != BERTH_PLACE_LIVE || row->owner ||
        row->status == BERTH_LEASE_ACTIVE)
        return rc;                              /* another row answers for the place */
    if (row->status == BERTH_LEASE_ACQUIRING) { /* the acquire's failure is not stored yet */
        berth_ledger_enter_releasing(row, BERTH_LEASE_FAILED);
        row->failure_reason = "The provider made the place after the acquire had given up.";
    }
    berth_ledger_take(late->b, row, BERTH_DUTY_DESTROY);
    rc = berth_lease_save(db, row, &won, err);
    if (rc == BERTH_OK && won)
        late->row = row;
    return rc;
}

/* Checks the late place's id, and removes secrets from its metadata. UPSTREAM: the id contains a
 * secret or cannot be stored. The place then stays unknown, as if it had not been reported. */
static int late_clean(struct berth_late_place *late, struct berth_error *err)
{
    struct berth_lease *row;
    if (late->clean)
        return BERTH_OK;
    int rc = berth_lease_get(late->b, &late->arena, late->lease_id, &row, err);
    if (rc < 0)
        return rc;
    auto_driver_input use = {0};
    rc = berth_ledger_input(late->b, &late->arena, row, &use, err);
    if (rc == BERTH_OK &&
        (!berth_ledger_is_usable(late->place.id) || berth_driver_input_shows(&use, late->place.id)))
        rc = berth_fail(err, BERTH_E_UPSTREAM, "It answered late, and without a usable id.");
    if (rc == BERTH_OK)
        rc = berth_driver_input_clean(&use, &late->arena, &late->place.metadata_json, err);
    late->clean = rc == BERTH_OK;
    return rc;
}

static int late_record(struct berth_late_place *late, struct berth_error *err)
{
    struct berth *b = late->b;
    struct berth_error unsettled;
    int rc = late_clean(late, err);
    if (rc == BERTH_OK)
        rc = berth_store_tx(b->store, tx_record, late, err);
    if (rc < 0)
        return rc;
    BERTH_FAILPOINT(sweep_after_claim);
    if (late->row &&
        berth_ledger_settle(b, &late->arena, &late->row, BERTH_OP_SWEEP, NULL, &unsettled) < 0)
        berth_log_line(&b->log, BERTH_LOG_WARN, "late place left to a sweep", "leaseId",
                       late->lease_id, "error", unsettled.message, NULL);
    return BERTH_OK;
}

/* True: nothing more can be done about it, and it is freed. */
static bool late_work_off(struct berth_late_place *late, bool last)
{
    struct berth *b = late->b;
    struct berth_error err;
    int rc = berth_node_claim(b->node, late->lease_id, &err);
    if (rc == BERTH_OK) {
        rc = late_record(late, &err);
        berth_node_unclaim(b->node, late->lease_id);
    }
    if (rc < 0 && rc != BERTH_E_UPSTREAM && rc != BERTH_E_NOT_FOUND && !last)
        return false;
    if (rc < 0)
        berth_log_line(&b->log, BERTH_LOG_ERROR, "late place not recorded", "leaseId",
                       late->lease_id, "place", late->clean ? late->place.id : "", "error",
                       err.message, NULL);
    late_free(late);
    return true;
}

/* --- the queue --- */

struct berth_late_places {
    struct berth *b;
    struct berth_lock lock;
    struct berth_late_place *first;
    bool timed;   /* a job is due */
    bool stopped; /* the runtime closes: the flush records what comes now */
};

int berth_late_places_new(struct berth *b, struct berth_late_places **out, struct berth_error *err)
{
    struct berth_late_places *all = calloc(1, sizeof *all);
    if (!all)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: leases.");
    all->b = b;
    berth_lock_init(&all->lock, BERTH_RANK_LATE_PLACES);
    *out = all;
    return BERTH_OK;
}

void berth_late_places_stop(struct berth_late_places *all)
{
    if (!all)
        return;
    berth_lock_take(&all->lock);
    all->stopped = true;
    berth_lock_drop(&all->lock);
}

static void late_job(void *ctx);

/* One job at a time works on all late places, of any provider. */
static int late_submit(struct berth_late_places *all, struct berth_error *err)
{
    struct berth_share *share;
    int rc = berth_share_open(all->b->providers, "late places", NULL, &share, err);
    if (rc < 0)
        return rc;
    rc = berth_share_submit(share, late_job, all, err);
    berth_share_close(share);
    return rc;
}

/* Lock held. When no job can be set, the next place or the flush takes them. */
static void late_set_job(struct berth_late_places *all, int64_t delay_ms)
{
    struct berth_error ignored;
    if (all->stopped || all->timed)
        return;
    int rc = delay_ms ? berth_pool_after(all->b->pool, delay_ms, late_job, all, &ignored)
                      : late_submit(all, &ignored);
    all->timed = rc == BERTH_OK;
}

static void late_push(struct berth_late_places *all, struct berth_late_place *late,
                      int64_t delay_ms)
{
    berth_lock_take(&all->lock);
    late->next = all->first;
    all->first = late;
    late_set_job(all, delay_ms);
    berth_lock_drop(&all->lock);
}

static struct berth_late_place *late_take_all(struct berth_late_places *all)
{
    berth_lock_take(&all->lock);
    struct berth_late_place *first = all->first;
    all->first = NULL;
    all->timed = false;
    berth_lock_drop(&all->lock);
    return first;
}

static void late_job(void *ctx)
{
    struct berth_late_places *all = ctx;
    for (struct berth_late_place *late = late_take_all(all), *next; late; late = next) {
        next = late->next;
        if (!late_work_off(late, false))
            late_push(all, late, RETRY_MS);
    }
}

void berth_late_place_put(void *ctx, const char *lease_id, const struct berth_place *place)
{
    struct berth *b = ctx;
    struct berth_late_place *late = calloc(1, sizeof *late);
    if (late) {
        late->b = b;
        late->settles = true;
        late->lease_id = berth_arena_strdup(&late->arena, lease_id);
        late->place.id = berth_arena_strdup(&late->arena, place->id);
        late->place.metadata_json = berth_arena_strdup(&late->arena, place->metadata_json);
    }
    if (!late || late->arena.failed) {
        berth_log_line(&b->log, BERTH_LOG_ERROR, "late place not recorded", "leaseId", lease_id,
                       "error", "out of memory", NULL);
        if (late)
            late_free(late);
        return;
    }
    late_push(b->late_places, late, 0);
}

void berth_late_places_free(struct berth_late_places *all)
{
    if (!all)
        return;
    for (struct berth_late_place *late = late_take_all(all), *next; late; late = next) {
        next = late->next;
        late->settles = false; /* no worker is left that could be asked */
        (void)late_work_off(late, true);
    }
    berth_lock_destroy(&all->lock);
    free(all);
}
