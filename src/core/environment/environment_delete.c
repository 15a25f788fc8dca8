/* SPDX-License-Identifier: Apache-2.0
 * src/core/environment/environment_delete.c - deletes environments, when their last place is gone.
 */
#include <string.h>

#include "base/failpoint.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "core/environment/environment.h"
#include "core/lease/lease.h"
#include "core/lease/lease_execs.h"
#include "core/secret/secret.h"
#include "store/store.h"

#define STANDING_MAX 100000

struct deletion {
    struct berth *b;
    struct berth_arena *arena;
    const char *id;
    bool drain;
    const struct berth_actor *actor;
    struct berth_environment *environment;
    struct berth_list standing; /* of struct berth_lease */
    bool deleted;
    bool gone; /* another process has deleted it, such as a sweep */
};

static int remove_row(struct berth_db *db, struct deletion *d, struct berth_error *err)
{
    const char *details;
    int rc = berth_environment_details(d->arena, d->environment, &details, err);
    if (rc == BERTH_OK)
        rc = berth_binding_remove_all(db, d->environment->company_id, "environment", d->id, err);
    if (rc == BERTH_OK)
        rc = berth_secret_drop_unused(db, d->arena, d->id, true, d->actor, err);
    if (rc == BERTH_OK)
        rc = berth_environment_remove(db, d->id, err);
    if (rc == BERTH_OK && d->environment->created_at_ms) /* else it was never created */
        rc = berth_activity_of_environment(db, d->environment, "environment.deleted", d->actor,
                                           details, err);
    d->deleted = rc == BERTH_OK;
    return rc;
}

static int refuse_in_use(const struct deletion *d, struct berth_error *err)
{
    int open = 0, owing = 0, work = 0;
    for (int i = 0; i < d->standing.count; i++) {
        const struct berth_lease *l = d->standing.items[i];
        work += l->work_at_ms != 0;
        if (!l->trouble &&
            (l->status <= BERTH_LEASE_RELEASING || l->status == BERTH_LEASE_RETAINED))
            open++;
        else if (l->trouble || l->place != BERTH_PLACE_PARKED)
            owing++;
    }
    if (work)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "Environment \"%s\" has %d place%s with work that did not come home: see "
                          "\"berth lease list\" and \"berth workspace pull\", or release with "
                          "--discard-work.",
                          d->environment->name, work, work == 1 ? "" : "s");
    if (open && !d->drain)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "Environment \"%s\" has %d open lease%s: release %s first, or delete "
                          "with --drain.",
                          d->environment->name, open, open == 1 ? "" : "s",
                          open == 1 ? "it" : "them");
    if (owing && !d->drain)
        return berth_fail(
            err, BERTH_E_CONFLICT,
            "Environment \"%s\" owes the clean-up of %d place%s: run \"berth sweep\", "
            "or delete with --drain.",
            d->environment->name, owing, owing == 1 ? "" : "s");
    return BERTH_OK;
}

/* From here on no lease can be taken, and what is parked no longer matches. */
static int tx_delete_intent(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct deletion *d = ctx;
    d->deleted = false;
    int rc = berth_environment_load(db, d->arena, d->id, BERTH_LOCK_UPDATE, &d->environment, err);
    if (rc == BERTH_OK && !d->environment)
        rc = berth_environment_not_found(err);
    struct berth_lease_filter filter = BERTH_LEASE_FILTER_INIT;
    filter.environment_id = d->id;
    filter.standing_only = true;
    filter.limit = STANDING_MAX;
    if (rc == BERTH_OK)
        rc = berth_lease_select(db, d->arena, &filter, &d->standing, err);
    if (rc == BERTH_OK)
        rc = refuse_in_use(d, err);
    if (rc < 0)
        return rc;
    if (d->standing.count == 0)
        return remove_row(db, d, err);
    d->environment->status = BERTH_ENVIRONMENT_ARCHIVED;
    d->environment->deleting = true;
    d->environment->updated_at_ms = berth_time_wall_ms();
    return berth_environment_save(db, d->environment, err);
}

static int tx_delete_finish(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct deletion *d = ctx;
    d->deleted = false;
    struct berth_environment *row;
    int rc = berth_environment_load(db, d->arena, d->id, BERTH_LOCK_UPDATE, &row, err);
    d->gone = rc == BERTH_OK && !row;
    if (rc < 0 || !row || !row->deleting)
        return rc;
    int64_t standing;
    rc = berth_lease_count_standing(db, d->id, &standing, err);
    if (rc < 0 || standing)
        return rc;
    d->environment = row;
    return remove_row(db, d, err);
}

int berth_environment_finish_delete(struct berth *b, const char *id,
                                    const struct berth_actor *actor, bool *deleted,
                                    struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct deletion d = {.b = b, .arena = &arena, .id = id, .actor = actor};
    int rc = berth_store_tx(b->store, tx_delete_finish, &d, err);
    *deleted = d.deleted;
    return rc;
}

/* What one lease says is logged; the count that stays decides. */
static void drain(struct deletion *d)
{
    for (int i = 0; i < d->standing.count; i++) /* their commands end beside each other */
        berth_lease_execs_tell(d->b, ((const struct berth_lease *)d->standing.items[i])->id);
    for (int i = 0; i < d->standing.count; i++) {
        const struct berth_lease *l = d->standing.items[i];
        struct berth_error trouble;
        struct berth_release_request release = {
            .lease_id = l->id, .status = BERTH_LEASE_RELEASED, .actor = d->actor};
        int rc = l->status == BERTH_LEASE_ACTIVE || l->status == BERTH_LEASE_RETAINED
                     ? berth_lease_release(d->b, d->arena, &release, NULL, &trouble)
                     : berth_lease_destroy(d->b, d->arena, l->id, d->actor, NULL, &trouble);
        if (rc < 0)
            berth_log_line(&d->b->log, BERTH_LOG_WARN, "drain failed", "leaseId", l->id, "error",
                           trouble.message, NULL);
    }
}

int berth_environment_delete(struct berth *b, struct berth_arena *arena, const char *id,
                             bool drain_open, const struct berth_actor *actor,
                             struct berth_environment **out, struct berth_error *err)
{
    struct berth_id parsed;
    if (berth_id_parse(id, "Environment", &parsed, err) < 0)
        return berth_environment_not_found(err);
    struct deletion d = {
        .b = b, .arena = arena, .id = parsed.text, .drain = drain_open, .actor = actor};
    BERTH_FAILPOINT(delete_before_intent);
    int rc = berth_store_tx(b->store, tx_delete_intent, &d, err);
    if (rc < 0)
        return rc;
    BERTH_FAILPOINT(delete_after_intent);
    struct berth_environment *environment = d.environment;
    if (!d.deleted) {
        drain(&d);
        BERTH_FAILPOINT(delete_after_drain);
        rc = berth_store_tx(b->store, tx_delete_finish, &d, err);
    }
    if (rc < 0)
        return rc;
    BERTH_FAILPOINT(delete_after_outcome);
    if (!d.deleted && !d.gone)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "Environment \"%s\" is archived, but some of its places are not "
                          "confirmed gone: \"berth sweep\" deletes it when they are.",
                          environment->name);
    environment->deleting = false;
    *out = environment;
    return BERTH_OK;
}
