/* SPDX-License-Identifier: Apache-2.0
 * src/core/sweep/orphans.c - see orphans.h. */
#include "core/sweep/orphans.h"

#include <string.h>

#include "base/failpoint.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/time.h"
#include "core/activity.h"
#include "core/environment/environment.h"
#include "core/lease/ledger.h"
#include "core/lease/node.h"
#include "store/secret.h"
#include "store/store.h"

struct found {
    const char *lease_id, *place_id;
    bool secret; /* the id repeats one */
};

enum finding {
    KNOWN,     /* or about to be */
    FOREIGN,   /* labelled by another ledger */
    FORGOTTEN, /* labelled by us, and no lease answers for it */
};

struct audit {
    struct berth *b;
    struct berth_arena *arena;
    const struct berth_environment *environment;
    struct berth_list list; /* of struct found */
    const struct found *at;
    enum finding finding; /* what the place at hand is */
    int64_t owed;         /* leases of the environment that owe clean-up */
};

static int on_found(void *ctx, const char *lease_id, const char *place_id, struct berth_error *err)
{
    struct audit *audit = ctx;
    if (!lease_id || !place_id || !berth_ledger_is_usable(place_id))
        return BERTH_OK; /* neither a label nor an id of ours */
    struct found *found = berth_arena_alloc(audit->arena, sizeof *found);
    if (!found || !berth_list_add(&audit->list, audit->arena, found))
        return berth_arena_check(audit->arena, err);
    found->lease_id = berth_arena_strdup(audit->arena, lease_id);
    found->place_id = berth_arena_strdup(audit->arena, place_id);
    return berth_arena_check(audit->arena, err);
}

/* The lease of that label holds another place: this one gets a row of its own, which owes. */
static int add_row(struct berth_db *db, struct audit *audit, const struct berth_lease *labelled,
                   struct berth_error *err)
{
    struct berth_id id = berth_id_new_random();
    int64_t now = berth_time_wall_ms();
    struct berth_lease l = *labelled;
    l.id = id.text;
    l.status = BERTH_LEASE_FAILED;
    l.heartbeat_run_id = NULL;
    l.failure_reason = "found_by_sweep";
    l.provider_lease_id = audit->at->place_id;
    l.provider_metadata_json = NULL;
    l.cleanup_attempts = 0;
    l.cleanup_error = NULL;
    l.acknowledged_at_ms = 0;
    l.place = BERTH_PLACE_LIVE;
    l.cleanup = BERTH_CLEANUP_PENDING;
    l.duty = BERTH_DUTY_DESTROY;
    l.final_status = 0;
    l.owner = NULL;
    l.version = 1;
    l.created_at_ms = l.updated_at_ms = l.released_at_ms = now;
    l.due_at_ms = berth_time_steady_ms();
    int rc = berth_lease_insert(db, &l, err);
    if (rc == BERTH_OK)
        rc = berth_lease_copy_secrets(db, labelled->id, l.id, err);
    if (rc == BERTH_OK)
        rc = berth_activity_of_lease(db, &l, "environment.lease_place_found", NULL, err);
    return rc;
}

/* What the place at hand is, and the lease of its label. Labels alone prove nothing: what the
 * ledger does not know is reported and left alone. */
static int look_at(struct berth_db *db, struct audit *audit, struct berth_lease **labelled,
                   struct berth_error *err)
{
    const struct found *f = audit->at;
    audit->finding = KNOWN;
    bool held;
    int rc = berth_lease_place_holder(db, audit->environment->id, f->place_id, "", &held, err);
    if (rc < 0 || held)
        return rc;
    struct berth_lease *l = NULL;
    if (berth_id_valid(f->lease_id))
        rc = berth_lease_load(db, audit->arena, f->lease_id, &l, err);
    if (rc < 0)
        return rc;
    if (!l || strcmp(l->environment_id, audit->environment->id) != 0) {
        audit->finding = FOREIGN;
        return BERTH_OK;
    }
    if (l->due_at_ms && !l->provider_lease_id)
        return BERTH_OK; /* being acquired, or being looked for by its label */
    audit->finding = FORGOTTEN;
    *labelled = l;
    return BERTH_OK;
}

static int tx_look(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct berth_lease *ignored;
    return look_at(db, ctx, &ignored, err);
}

static int tx_audit(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct audit *audit = ctx;
    struct berth_lease *l = NULL;
    int rc = look_at(db, audit, &l, err);
    if (rc < 0 || !l)
        return rc;
    struct berth_place place = {.id = audit->at->place_id};
    return l->due_at_ms ? add_row(db, audit, l, err)
                        : berth_ledger_late_place(db, audit->arena, l->id, &place, err);
}

/* Fills the list anew. */
static int ask_provider(struct audit *audit, const struct berth_route *route,
                        struct berth_error *err)
{
    struct berth *b = audit->b;
    const struct berth_environment *e = audit->environment;
    struct berth_call call = berth_ledger_call(b, route, audit->arena, 0, -1);
    audit->list = (struct berth_list){0};
    int rc = berth_node_may_act(b->node, err);
    if (rc < 0 || !berth_route_can_find(route, &call))
        return rc;
    auto_driver_input use = {.who = {.company_id = e->company_id,
                                     .environment_id = e->id,
                                     .config_json = e->config_json}};
    rc = berth_driver_input_open(b, audit->arena, berth_environment_drivers.names[e->driver], &use,
                                 err);
    if (rc == BERTH_OK)
        rc = berth_driver_find(route, &call, &use.who, on_found, audit, err);
    if (rc < 0)
        berth_driver_input_mask_error(&use, err);
    for (int i = 0; i < audit->list.count; i++) {
        struct found *f = audit->list.items[i];
        f->secret = berth_driver_input_shows(&use, f->place_id);
    }
    berth_driver_input_close(&use);
    return rc;
}

static int tx_count_owed(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct audit *audit = ctx;
    return berth_lease_count_owed_of(db, audit->environment->id, &audit->owed, err);
}

/* Returns whether more places can be recorded. A provider that lies could fill the ledger. */
static bool has_room(const struct audit *audit, int64_t more)
{
    return audit->owed + more < BERTH_FOUND_PLACES_MAX;
}

/* Finds places of the list that no lease answers for: as many as can be recorded. */
static int find_suspects(struct audit *audit, struct berth_list *out, int *foreign,
                         struct berth_error *err)
{
    int rc = berth_store_read(audit->b->store, tx_count_owed, audit, err);
    *out = (struct berth_list){0};
    for (int i = 0; rc == BERTH_OK && i < audit->list.count && has_room(audit, out->count); i++) {
        audit->at = audit->list.items[i];
        if (audit->at->secret)
            continue; /* an id that repeats a secret is not kept */
        rc = berth_store_read(audit->b->store, tx_look, audit, err);
        *foreign += rc == BERTH_OK && audit->finding == FOREIGN;
        if (rc == BERTH_OK && audit->finding == FORGOTTEN &&
            !berth_list_add(out, audit->arena, audit->list.items[i]))
            rc = berth_arena_check(audit->arena, err);
    }
    return rc;
}

static bool is_among(const struct berth_list *list, const char *place_id)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(((const struct found *)list->items[i])->place_id, place_id) == 0)
            return true;
    return false;
}

/* Finds forgotten places by listing twice. A place that is released while the provider lists the
 * others is on the first list although no lease answers for it any more. Only a place that is on
 * the second list, too, was forgotten. */
static int audit_route(struct audit *audit, const struct berth_route *route,
                       struct berth_orphans_report *report, struct berth_error *err)
{
    struct berth_list suspects;
    int rc = ask_provider(audit, route, err);
    if (rc == BERTH_OK)
        rc = find_suspects(audit, &suspects, &report->foreign, err);
    if (rc < 0 || !suspects.count)
        return rc;
    rc = ask_provider(audit, route, err);
    for (int i = 0; rc == BERTH_OK && i < audit->list.count && has_room(audit, 0); i++) {
        audit->at = audit->list.items[i];
        if (!is_among(&suspects, audit->at->place_id))
            continue;
        rc = berth_store_tx(audit->b->store, tx_audit, audit, err);
        if (rc < 0 || audit->finding != FORGOTTEN)
            continue;
        report->found++;
        audit->owed++;
        BERTH_FAILPOINT(sweep_after_found);
    }
    return rc;
}

void berth_orphans_end(struct berth *b, const struct berth_environment *e,
                       struct berth_orphans_report *out)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct audit audit = {.b = b, .arena = &arena, .environment = e};
    const struct berth_route *route;
    struct berth_error err;
    if (berth_registry_route(b->registry, berth_environment_drivers.names[e->driver],
                             e->config_json, &route, &err) < 0)
        return; /* no implementation here can be asked */
    if (audit_route(&audit, route, out, &err) < 0)
        berth_log_line(&b->log, BERTH_LOG_WARN, "provider could not be asked", "environmentId",
                       e->id, "error", err.message, NULL);
    else if (audit.list.count && !has_room(&audit, 0))
        berth_log_line(
            &b->log, BERTH_LOG_WARN,
            "too many leases owe clean-up: further places of the provider are not looked at",
            "environmentId", e->id, NULL);
}
