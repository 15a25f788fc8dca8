/* SPDX-License-Identifier: Apache-2.0
 * src/core/idempotency.c - see idempotency.h. */
#include "core/idempotency.h"

#include <string.h>

#include "base/log.h"
#include "base/time.h"
#include "core/lease/lease.h"
#include "core/lease/node.h"
#include "store/request.h"
#include "store/store.h"

#define KEPT_MS INT64_C(86400000)
#define CREATED 201 /* the answer to who asked for a lease */

struct work {
    struct berth *b;
    struct berth_arena *arena;
    const struct berth_idempotency_request *request;
    const char *id, *answer;
    int64_t now_ms;
    int status;
    bool taken_over;
    struct berth_request_row *row;
};

static int tx_begin(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct work *work = ctx;
    struct berth_request_row row = {.id = work->id,
                                    .caller = work->request->caller,
                                    .key = work->request->key,
                                    .digest = work->request->digest,
                                    .owner = berth_node_id(work->b->node),
                                    .created_at_ms = work->now_ms};
    int rc = berth_request_delete_before(db, work->now_ms - KEPT_MS, err);
    if (rc == BERTH_OK)
        rc = berth_request_insert(db, &row, err);
    return rc < 0 ? rc : berth_request_load(db, work->arena, row.caller, row.key, &work->row, err);
}

/* Was it made, whatever has become of it since? A failure is forgotten. */
static bool was_made(const struct berth_lease *l)
{
    enum berth_lease_status status = l ? l->status : BERTH_LEASE_FAILED;
    if (status == BERTH_LEASE_RELEASING)
        status = l->final_status;
    return status != BERTH_LEASE_ACQUIRING && status != BERTH_LEASE_FAILED;
}

/* Takes over a request whose process is gone. Its lease is the answer; or the request gets our new
 * id, so that no other process can take it over. */
static int tx_take_over(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct work *work = ctx;
    struct berth_request_row *now;
    struct berth_lease *l;
    bool won = true;
    work->taken_over = false;
    work->status = 0;
    work->answer = NULL;
    int rc =
        berth_request_load(db, work->arena, work->request->caller, work->request->key, &now, err);
    if (rc < 0 || !now || now->status || strcmp(now->id, work->row->id) != 0)
        return rc; /* another process was faster */
    rc = berth_lease_load(db, work->arena, now->id, &l, err);
    /* Raises the version: if the process that was making the lease lives after all, its save fails.
     */
    if (rc == BERTH_OK && l && l->status == BERTH_LEASE_ACQUIRING)
        rc = berth_lease_save(db, l, &won, err);
    if (rc < 0 || !won)
        return rc;
    work->taken_over = true;
    if (!was_made(l))
        return berth_request_take_over(db, now->id, work->id, berth_node_id(work->b->node), err);
    work->status = CREATED;
    work->answer = berth_lease_to_json(work->arena, l);
    return work->answer ? berth_request_finish(db, now->id, work->status, work->answer, err)
                        : berth_arena_check(work->arena, err);
}

static int is_at_work(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_CONFLICT, "A request with this Idempotency-Key is at work.");
}

static int look_at(struct work *work, struct berth_idempotency *out, struct berth_error *err)
{
    const struct berth_request_row *row = work->row;
    struct berth *b = work->b;
    bool at_work;
    if (strcmp(row->digest, work->request->digest) != 0)
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "This Idempotency-Key was used for another request.");
    out->status = (int)row->status;
    out->answer = row->answer;
    if (row->status)
        return BERTH_OK;
    int rc = berth_node_at_work(b->node, row->owner, row->id, 0, &at_work, err);
    if (rc < 0)
        return rc;
    if (at_work)
        return is_at_work(err);
    if (!work->request->makes_lease)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "The process that did this is gone, and what became of it is not known: "
                          "look, and use another Idempotency-Key.");
    rc = berth_store_tx(b->store, tx_take_over, work, err);
    if (rc == BERTH_OK && !work->taken_over)
        rc = is_at_work(err);
    out->status = work->status;
    out->answer = work->answer;
    out->at_work = rc == BERTH_OK && !work->answer;
    return rc;
}

int berth_idempotency_begin(struct berth *b, struct berth_arena *arena,
                            const struct berth_idempotency_request *request,
                            struct berth_idempotency *out, struct berth_error *err)
{
    *out = (struct berth_idempotency){.id = berth_id_new_random()};
    struct work work = {.b = b,
                        .arena = arena,
                        .request = request,
                        .id = out->id.text,
                        .now_ms = berth_time_wall_ms()};
    int rc = berth_node_claim(b->node, out->id.text, err); /* before others can see it */
    if (rc < 0)
        return rc;
    rc = berth_store_tx(b->store, tx_begin, &work, err);
    if (rc == BERTH_OK && !work.row)
        rc = berth_fail(err, BERTH_E_INTERNAL, "A request that was written is not there.");
    if (rc == BERTH_OK && strcmp(work.row->id, out->id.text) == 0)
        out->at_work = true;
    else if (rc == BERTH_OK)
        rc = look_at(&work, out, err);
    if (!out->at_work)
        berth_node_unclaim(b->node, out->id.text);
    return rc;
}

static int tx_end(struct berth_db *db, void *ctx, struct berth_error *err)
{
    const struct work *work = ctx;
    return work->status ? berth_request_finish(db, work->id, work->status, work->answer, err)
                        : berth_request_delete(db, work->id, err);
}

void berth_idempotency_end(struct berth *b, struct berth_idempotency *once, int status,
                           const char *answer)
{
    struct berth_error err;
    struct work work = {.id = once->id.text, .status = status, .answer = answer};
    if (!once->at_work)
        return;
    once->at_work = false;
    if (berth_store_tx(b->store, tx_end, &work, &err) < 0)
        berth_log_line(&b->log, BERTH_LOG_WARN, "answer of a request not kept", "error",
                       err.message, NULL);
    berth_node_unclaim(b->node, once->id.text);
}
