/* SPDX-License-Identifier: Apache-2.0
 * src/core/late.c - see late.h. */
#include "core/late.h"

#include <stdlib.h>

#include "base/failpoint.h"
#include "core/ledger.h"
#include "core/node.h"
#include "core/sweep.h"
#include "os/pool.h"
#include "store/store.h"

struct berth_late {
    struct berth_late *next;
    struct berth *b;
    struct berth_arena arena;
    const char *lease_id;
    struct berth_place place;
    bool settles;            /* its end is asked for at once, else by a sweep */
    struct berth_lease *row; /* to be settled, or NULL */
};

static void free_late(struct berth_late *late)
{
    berth_arena_clear(&late->arena);
    free(late);
}

static int tx_record(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct berth_late *late = ctx;
    struct berth_lease *row;
    bool won;
    late->row = NULL;
    int rc = berth_ledger_late_place(db, &late->arena, late->lease_id, &late->place, err);
    if (rc < 0 || !late->settles)
        return rc;
    rc = berth_lease_load(db, &late->arena, late->lease_id, &row, err);
    if (rc < 0 || !row || row->place != BERTH_PLACE_LIVE || row->owner)
        return rc; /* another row answers for the place */
    berth_ledger_take(late->b, row, BERTH_DUTY_DESTROY);
    rc = berth_lease_save(db, row, &won, err);
    if (rc == BERTH_OK && won)
        late->row = row;
    return rc;
}

/* A place that repeats a secret is not kept: it stays unknown, as one that nobody told of. */
static int clean(struct berth_late *late, struct berth_error *err)
{
    struct berth_lease *row;
    int rc = berth_lease_get(late->b, &late->arena, late->lease_id, &row, err);
    if (rc < 0)
        return rc;
    auto_use use = {0};
    rc = berth_ledger_use(late->b, &late->arena, row, &use, err);
    if (rc == BERTH_OK &&
        (!berth_ledger_is_usable(late->place.id) || berth_use_shows(&use, late->place.id)))
        rc = berth_fail(err, BERTH_E_UPSTREAM, "It answered late, and without a usable id.");
    return rc < 0 ? rc : berth_use_clean(&use, &late->arena, &late->place.metadata_json, err);
}

static int record(struct berth_late *late, struct berth_error *err)
{
    struct berth *b = late->b;
    int rc = clean(late, err);
    if (rc == BERTH_OK)
        rc = berth_store_tx(b->store, tx_record, late, err);
    BERTH_FAILPOINT(sweep_after_claim);
    if (rc == BERTH_OK && late->row)
        rc = berth_ledger_settle(b, &late->arena, &late->row, BERTH_OP_SWEEP, NULL, err);
    return rc;
}

static void work_off(struct berth_late *late)
{
    struct berth *b = late->b;
    struct berth_error err;
    int rc = berth_node_begin(b->node, late->lease_id, &err);
    if (rc == BERTH_OK) {
        rc = record(late, &err);
        berth_node_end(b->node, late->lease_id);
    }
    if (rc < 0) {
        berth_log_line(&b->log, BERTH_LOG_ERROR, "late place not recorded", "leaseId",
                       late->lease_id, "error", err.message, NULL);
        berth_sweep_soon(b);
    }
    free_late(late);
}

static void late_job(void *ctx)
{
    work_off(ctx);
}

void berth_late_put(void *ctx, const char *lease_id, const struct berth_place *place)
{
    struct berth *b = ctx;
    struct berth_late *late = calloc(1, sizeof *late);
    struct berth_error ignored;
    if (late) {
        late->b = b;
        late->lease_id = berth_arena_strdup(&late->arena, lease_id);
        late->place.id = berth_arena_strdup(&late->arena, place->id);
        late->place.metadata_json = berth_arena_strdup(&late->arena, place->metadata_json);
    }
    if (!late || late->arena.failed) {
        berth_log_line(&b->log, BERTH_LOG_ERROR, "late place not recorded", "leaseId", lease_id,
                       "error", "out of memory", NULL);
        if (late)
            free_late(late);
        return;
    }
    pthread_mutex_lock(&b->sweeping_lock);
    late->settles = !b->closing;
    if (b->closing || berth_pool_submit(b->providers, late_job, late, &ignored) < 0) {
        late->next = b->late;
        b->late = late;
    }
    pthread_mutex_unlock(&b->sweeping_lock);
}

void berth_late_flush(struct berth *b)
{
    for (struct berth_late *late = b->late, *next; late; late = next) {
        next = late->next;
        late->settles = false; /* there is no worker that could be asked */
        work_off(late);
    }
    b->late = NULL;
}
