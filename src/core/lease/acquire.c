/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/acquire.c - taking a lease: intent, the place, outcome. */
#include <stdio.h>
#include <string.h>

#include "base/failpoint.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"
#include "core/lease/late_place.h"
#include "core/lease/lease.h"
#include "core/lease/ledger.h"
#include "core/lease/node.h"
#include "core/lease/parking.h"
#include "core/lease/self_sweep.h"
#include "core/metrics.h"
#include "core/plugin/plugin.h"
#include "core/secret/secret_refs.h"
#include "store/plugin.h"
#include "store/run.h"
#include "store/secret.h"
#include "store/store.h"

/* One acquisition under way. The transaction functions reset what they answer. */
struct acquisition {
    struct berth *b;
    struct berth_arena *arena;
    const struct berth_lease_request *request;
    struct berth_id id;
    const char *environment_id;
    const struct berth_route *route;

    struct berth_environment *environment; /* as the transaction saw it */
    struct berth_lease *lease;
    const char *parked_id;            /* the row whose place was claimed, or NULL */
    struct berth_lease *declined;     /* that row, when this process is to destroy its place */
    const char *parked_metadata_json; /* of that row: its provider's words are in it */
    int64_t parked_due_ms;            /* and how long it was to sleep */
    bool sole;
    bool called; /* the provider was told: a place may exist */
    bool won, in_use;
    bool stored_outcome;        /* the row says what came of it */
    struct berth_lease *stored; /* the row after the outcome */
    int64_t version;            /* of the row after a claim was dropped */
    struct berth_place place;
    struct berth_driver_input use; /* while the provider is being called */
};

/* --- what is asked for --- */

static int check_opaque_id(const char *id, const char *what, struct berth_error *err)
{
    if (id && !berth_id_valid(id))
        return berth_fail(err, BERTH_E_INVALID, "%s must be a UUID.", what);
    return BERTH_OK;
}

static int check_request(const struct berth_lease_request *r, struct berth_error *err)
{
    int rc = check_opaque_id(r->issue_id, "issueId", err);
    if (rc == BERTH_OK)
        rc = check_opaque_id(r->execution_workspace_id, "executionWorkspaceId", err);
    if (rc == BERTH_OK && r->ttl_ms != 0 &&
        (r->ttl_ms < BERTH_TTL_MS_MIN || r->ttl_ms > BERTH_TTL_MS_MAX))
        rc = berth_fail(err, BERTH_E_INVALID, "The ttl must lie between 1 ms and 366 days.");
    if (rc == BERTH_OK && r->agent_id)
        rc = berth_utf8_check_id(r->agent_id, "agentId", err);
    if (rc == BERTH_OK && r->workspace_mode)
        rc = berth_utf8_check_id(r->workspace_mode, "executionWorkspaceMode", err);
    return rc;
}

/* --- intent --- */

static int check_run(struct berth_db *db, struct acquisition *a, struct berth_error *err)
{
    if (!a->request->run_id)
        return BERTH_OK;
    struct berth_run *run;
    int rc = berth_run_load(db, a->arena, a->request->run_id, &run, err);
    if (rc < 0)
        return rc;
    if (!run || strcmp(run->company_id, a->environment->company_id) != 0)
        return berth_fail(err, BERTH_E_NOT_FOUND, "Run \"%s\" not found.", a->request->run_id);
    if (berth_run_ended((int)run->status))
        return berth_fail(err, BERTH_E_UNPROCESSABLE, "Run \"%s\" has ended (status: %s).", run->id,
                          berth_run_statuses.names[run->status]);
    return BERTH_OK;
}

static int check_environment(struct berth_db *db, struct acquisition *a, struct berth_error *err)
{
    const struct berth_environment *e = a->environment;
    const char *company = a->request->company_id;
    if (!e || (company && strcmp(company, e->company_id) != 0))
        return berth_fail(err, BERTH_E_NOT_FOUND, "Environment not found");
    if (e->status != BERTH_ENVIRONMENT_ACTIVE)
        return berth_fail(err, BERTH_E_UNPROCESSABLE, "Environment \"%s\" is not active.", e->name);
    return check_run(db, a, err);
}

static enum berth_lease_policy policy_of(const struct acquisition *a,
                                         const struct berth_json *config)
{
    if (a->request->retain_on_failure && !berth_route_traits(a->route)->ledger_only)
        return BERTH_POLICY_RETAIN_ON_FAILURE;
    if (a->request->run_id && berth_json_true(berth_json_get(config, "reuseLease")) &&
        berth_route_can_resume(a->route))
        return BERTH_POLICY_REUSE_BY_ENVIRONMENT;
    return BERTH_POLICY_EPHEMERAL;
}

/* The merged view shows a sandbox's config; other drivers tell what is worth showing. */
static int set_metadata(struct acquisition *a, const struct berth_json *config,
                        const struct berth_json *provider_words, struct berth_error *err)
{
    struct berth_lease *l = a->lease;
    return berth_lease_metadata(a->arena, a->route, l->driver, a->request->workspace_mode,
                                a->route->provider ? config : NULL, provider_words,
                                &l->metadata_json, err);
}

static int new_row(struct acquisition *a, const struct berth_json *config, struct berth_error *err)
{
    const struct berth_environment *e = a->environment;
    const struct berth_lease_request *r = a->request;
    int64_t now = berth_time_wall_ms();
    int64_t ttl = r->ttl_ms   ? r->ttl_ms
                  : r->run_id ? a->b->settings.run_lease_ttl_ms
                              : a->b->settings.lease_ttl_ms;
    struct berth_lease *l = berth_arena_alloc(a->arena, sizeof *l);
    if (!l)
        return berth_arena_check(a->arena, err);
    *l = (struct berth_lease){
        .id = berth_arena_strdup(a->arena, a->id.text),
        .company_id = e->company_id,
        .environment_id = e->id,
        .execution_workspace_id = berth_arena_strdup(a->arena, r->execution_workspace_id),
        .issue_id = berth_arena_strdup(a->arena, r->issue_id),
        .heartbeat_run_id = berth_arena_strdup(a->arena, r->run_id),
        .status = BERTH_LEASE_ACQUIRING,
        .policy = policy_of(a, config),
        .provider = berth_arena_strdup(a->arena, berth_route_provider(a->route)),
        .acquired_at_ms = now,
        .last_used_at_ms = now,
        .expires_at_ms = berth_time_steady_ms() + ttl,
        .created_at_ms = now,
        .updated_at_ms = now,
        .version = 1,
        .place = BERTH_PLACE_NONE,
        .driver = berth_environment_drivers.names[e->driver],
        .config_json = e->config_json,
        .fingerprint = e->fingerprint,
        .owner = berth_node_id(a->b->node),
        .due_at_ms = berth_time_steady_ms(),
    };
    a->lease = l;
    int rc = berth_arena_check(a->arena, err);
    return rc < 0 ? rc : set_metadata(a, config, NULL, err);
}

/* Takes over a parked place that fits, in this transaction: the old row answers for it no more.
 * Rows that another claim has locked are passed over. */
static int claim(struct berth_db *db, struct acquisition *a, const struct berth_json *config,
                 struct berth_error *err)
{
    struct berth_list parked;
    int rc = berth_lease_select_parked(db, a->arena, a->environment->id,
                                       a->environment->fingerprint, &parked, err);
    for (int i = 0; rc == BERTH_OK && i < parked.count && !a->parked_id; i++) {
        struct berth_lease *old = parked.items[i];
        bool won = false;
        if (old->trouble || !berth_parking_matches(config, a->environment->fingerprint, old))
            continue;
        int64_t due_ms = old->due_at_ms;
        berth_ledger_close(old, old->status, BERTH_PLACE_NONE);
        rc = berth_lease_save(db, old, &won, err);
        if (rc == BERTH_OK && won) {
            a->parked_id = old->id;
            a->parked_due_ms = due_ms;
            a->parked_metadata_json = old->metadata_json;
            a->lease->provider_lease_id = old->provider_lease_id;
            a->lease->provider_metadata_json = old->provider_metadata_json;
            a->lease->place = BERTH_PLACE_LIVE;
        }
    }
    return rc;
}

/* A driver that makes nothing has its outcome at once. */
static int activate_at_once(struct berth_db *db, struct acquisition *a, struct berth_error *err)
{
    struct berth_lease *l = a->lease;
    berth_ledger_enter(l, BERTH_LEASE_ACTIVE);
    l->owner = NULL;
    l->due_at_ms = l->expires_at_ms;
    int rc = berth_lease_insert(db, l, err);
    if (rc == BERTH_OK)
        rc = berth_activity_of_lease(db, l, "environment.lease_acquired", a->request->actor, err);
    return rc;
}

/* What we know of plugins may be a second old: the row decides, and stays until the commit. */
static int check_plugin(struct berth_db *db, const struct acquisition *a, struct berth_error *err)
{
    struct berth_plugin *plugin;
    int rc = berth_plugin_load(db, a->arena, a->route->plugin->id, BERTH_LOCK_SHARE, &plugin, err);
    if (rc < 0)
        return rc;
    a->route->plugin->status = plugin ? (int)plugin->status : BERTH_PLUGIN_UNINSTALLED;
    return berth_route_check(a->route, err);
}

/* The environment as it stays until the commit, and the driver that serves it. */
static int find_route(struct berth_db *db, struct acquisition *a, struct berth_error *err)
{
    int rc = berth_environment_load(db, a->arena, a->environment_id, BERTH_LOCK_SHARE,
                                    &a->environment, err);
    if (rc == BERTH_OK)
        rc = check_environment(db, a, err);
    if (rc == BERTH_OK)
        rc = berth_registry_route(a->b->registry,
                                  berth_environment_drivers.names[a->environment->driver],
                                  a->environment->config_json, &a->route, err);
    if (rc == BERTH_OK && a->route->plugin)
        rc = check_plugin(db, a, err);
    if (rc == BERTH_OK && berth_route_traits(a->route)->wants_sole)
        rc = berth_environment_take_turns(db, a->environment_id, err);
    return rc;
}

/* Writes the lease's row. Finds the driver first, so that no row is written without one. */
static int tx_intent(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct acquisition *a = ctx;
    a->lease = NULL;
    a->parked_id = NULL;
    a->sole = false;
    int rc = find_route(db, a, err);
    if (rc < 0)
        return rc;
    if (berth_route_traits(a->route)->ledger_only) {
        rc = new_row(a, NULL, err);
        return rc < 0 ? rc : activate_at_once(db, a, err);
    }
    auto_json *config = NULL;
    const char *text = a->environment->config_json;
    rc = berth_json_parse(text, strlen(text), BERTH_JSON_OURS, &config, err);
    if (rc == BERTH_OK)
        rc = new_row(a, config, err);
    if (rc == BERTH_OK && berth_route_traits(a->route)->wants_sole) {
        int64_t standing;
        rc = berth_lease_count_standing(db, a->environment->id, &standing, err);
        a->sole = standing == 0;
    }
    if (rc == BERTH_OK && a->lease->policy == BERTH_POLICY_REUSE_BY_ENVIRONMENT)
        rc = claim(db, a, config, err);
    if (rc == BERTH_OK)
        rc = berth_lease_insert(db, a->lease, err);
    if (rc == BERTH_OK && berth_secret_refs_possible(a->route))
        rc = berth_lease_capture_secrets(db, a->lease->company_id, a->lease->environment_id,
                                         a->lease->id, err);
    return rc;
}

/* --- outcome --- */

/* What a provider answers is checked before it is believed. */
static int check_place(struct acquisition *a, struct berth_json **words, struct berth_error *err)
{
    struct berth_place *p = &a->place;
    const char *provider = berth_route_provider(a->route);
    if (!p->id || !berth_ledger_is_usable(p->id)) {
        p->id = NULL;
        return berth_fail(err, BERTH_E_UPSTREAM, "Provider \"%s\" answered without a usable id.",
                          provider);
    }
    const char *text = p->metadata_json ? p->metadata_json : "{}";
    size_t len = strlen(text);
    struct berth_error ignored;
    if (len > BERTH_METADATA_BYTES_MAX ||
        berth_json_parse(text, len, BERTH_JSON_OURS, words, &ignored) < 0 ||
        !berth_json_is(*words, BERTH_JSON_OBJECT)) {
        p->metadata_json = NULL;
        return berth_fail(err, BERTH_E_UPSTREAM,
                          "Provider \"%s\" answered with metadata that cannot be kept.", provider);
    }
    return BERTH_OK;
}

static int adopt_place(struct acquisition *a, struct berth_error *err)
{
    auto_json *words = NULL, *config = NULL;
    int rc = check_place(a, &words, err);
    if (rc == BERTH_OK)
        rc = berth_json_parse(a->lease->config_json, strlen(a->lease->config_json), BERTH_JSON_OURS,
                              &config, err);
    if (rc == BERTH_OK)
        rc = set_metadata(a, config, words, err);
    if (rc < 0)
        return rc;
    a->lease->provider_lease_id = a->place.id;
    a->lease->provider_metadata_json = a->place.metadata_json;
    int64_t ends_ms = berth_time_wall_to_steady(a->place.expires_at_ms);
    if (ends_ms > 0 && ends_ms < a->lease->expires_at_ms)
        a->lease->expires_at_ms = ends_ms; /* sooner, never later */
    return BERTH_OK;
}

static int fail_in_use(struct berth_db *db, struct acquisition *a, struct berth_error *err)
{
    struct berth_lease l = *a->lease;
    l.provider_lease_id = NULL;
    l.provider_metadata_json = NULL;
    l.failure_reason = "place_in_use";
    berth_ledger_close(&l, BERTH_LEASE_FAILED, BERTH_PLACE_NONE);
    int rc = berth_lease_save(db, &l, &a->won, err);
    if (rc == BERTH_OK && a->won)
        rc = berth_activity_of_lease(db, &l, "environment.lease_failed", a->request->actor, err);
    return rc;
}

static int tx_activate(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct acquisition *a = ctx;
    struct berth_lease l = *a->lease;
    int rc =
        berth_lease_place_holder(db, l.environment_id, l.provider_lease_id, l.id, &a->in_use, err);
    if (rc < 0)
        return rc;
    if (a->in_use)
        return fail_in_use(db, a, err);
    int64_t now = berth_time_wall_ms();
    berth_ledger_enter(&l, BERTH_LEASE_ACTIVE);
    l.place = BERTH_PLACE_LIVE;
    l.acquired_at_ms = l.last_used_at_ms = l.updated_at_ms = now;
    l.owner = NULL;
    l.due_at_ms = l.expires_at_ms;
    rc = berth_lease_save(db, &l, &a->won, err);
    if (rc < 0)
        return rc;
    if (!a->won)
        return berth_ledger_late_place(db, a->arena, l.id, &a->place, err);
    a->stored = berth_arena_alloc(a->arena, sizeof *a->stored);
    if (!a->stored)
        return berth_arena_check(a->arena, err);
    *a->stored = l;
    return berth_activity_of_lease(db, &l, "environment.lease_acquired", a->request->actor, err);
}

static int tx_in_use(struct berth_db *db, void *ctx, struct berth_error *err)
{
    return fail_in_use(db, ctx, err);
}

static int activate(struct acquisition *a, struct berth_error *err)
{
    int rc = berth_store_tx(a->b->store, tx_activate, a, err);
    if (rc == BERTH_E_CONFLICT) { /* the unique index saw what the look-up could not yet */
        a->in_use = true;
        rc = berth_store_tx(a->b->store, tx_in_use, a, err);
    }
    if (rc < 0)
        return rc;
    a->stored_outcome = true;
    BERTH_FAILPOINT(acquire_after_outcome);
    if (a->in_use)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "Provider \"%s\" handed out a place that another lease holds.",
                          berth_route_provider(a->route));
    if (!a->won)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "The lease was taken over while its place was being made.");
    a->lease = a->stored;
    return BERTH_OK;
}

struct failure {
    struct acquisition *a;
    char reason[BERTH_REASON_BYTES_MAX + 1];
    bool nothing_made;
    struct berth_lease *row; /* to be settled, or NULL */
};

static int tx_fail(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct failure *f = ctx;
    struct acquisition *a = f->a;
    struct berth_lease *l = berth_arena_alloc(a->arena, sizeof *l);
    f->row = NULL;
    if (!l)
        return berth_arena_check(a->arena, err);
    *l = *a->lease;
    l->failure_reason = f->reason;
    if (f->nothing_made) {
        berth_ledger_close(l, BERTH_LEASE_FAILED, BERTH_PLACE_NONE);
    } else {
        berth_ledger_enter_releasing(l, BERTH_LEASE_FAILED);
        l->provider_lease_id = a->place.id;
        l->place = a->place.id ? BERTH_PLACE_LIVE : BERTH_PLACE_UNKNOWN;
        berth_ledger_take(a->b, l, BERTH_DUTY_DESTROY);
    }
    bool won;
    int rc = berth_lease_save(db, l, &won, err);
    if (rc < 0)
        return rc;
    if (!won)
        return a->place.id ? berth_ledger_late_place(db, a->arena, l->id, &a->place, err)
                           : BERTH_OK;
    if (f->nothing_made)
        return berth_activity_of_lease(db, l, "environment.lease_failed", a->request->actor, err);
    f->row = l;
    return BERTH_OK;
}

/* The acquire's own error is what the caller hears; what the store says besides goes to the log,
 * and the row waits for the sweep. */
static void record_failure(struct acquisition *a, const struct berth_error *why)
{
    struct failure f = {.a = a,
                        .nothing_made = (!a->called || a->place.untouched ||
                                         berth_ledger_made_nothing(why->code)) &&
                                        !a->place.id};
    struct berth_error err;
    (void)snprintf(f.reason, sizeof f.reason, "%.*s", BERTH_REASON_BYTES_MAX, why->message);
    berth_utf8_mend(f.reason);
    int rc = berth_store_tx(a->b->store, tx_fail, &f, &err);
    BERTH_FAILPOINT(acquire_failed_after_intent);
    if (rc == BERTH_OK && f.row)
        rc = berth_ledger_settle(a->b, a->arena, &f.row, BERTH_OP_ACQUIRE, a->request->actor, &err);
    if (rc < 0)
        berth_log_line(&a->b->log, BERTH_LOG_ERROR, "failed acquire not recorded", "leaseId",
                       a->id.text, "error", err.message, NULL);
}

/* --- the place --- */

static int tx_give_up_claim(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct acquisition *a = ctx;
    struct berth_lease l = *a->lease;
    l.provider_lease_id = NULL;
    l.provider_metadata_json = NULL;
    l.place = BERTH_PLACE_NONE;
    int rc = berth_lease_save(db, &l, &a->won, err);
    a->version = l.version;
    return rc;
}

/* The place whose resume failed goes back to the row that parked it, which now owes its end. */
static int tx_return_claim(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct acquisition *a = ctx;
    struct berth_place place = berth_ledger_place(a->lease);
    int rc = tx_give_up_claim(db, ctx, err);
    if (rc == BERTH_OK && a->won)
        rc = berth_ledger_late_place(db, a->arena, a->parked_id, &place, err);
    return rc;
}

/* The provider did not give the place, which may exist all the same: the row that parked it owes
 * its end, and this process is to see to that. */
static int tx_decline(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct acquisition *a = ctx;
    struct berth_lease *old;
    bool won;
    a->declined = NULL;
    int rc = tx_return_claim(db, ctx, err);
    if (rc < 0 || !a->won)
        return rc;
    rc = berth_lease_load_locked(db, a->arena, a->parked_id, &old, err);
    if (rc < 0 || !old || old->duty != BERTH_DUTY_DESTROY)
        return rc; /* another row answers for the place */
    berth_ledger_take(a->b, old, BERTH_DUTY_DESTROY);
    rc = berth_lease_save(db, old, &won, err);
    if (rc == BERTH_OK && won)
        a->declined = old;
    return rc;
}

/* Parks the place again; it was not resumed. */
static int tx_repark(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct acquisition *a = ctx;
    struct berth_lease *old;
    bool won;
    int rc = tx_give_up_claim(db, ctx, err);
    if (rc < 0 || !a->won)
        return rc;
    rc = berth_lease_load_locked(db, a->arena, a->parked_id, &old, err);
    if (rc == BERTH_OK && !old)
        rc = berth_fail(err, BERTH_E_INTERNAL, "The row of a parked place is gone.");
    if (rc < 0)
        return rc;
    old->place = BERTH_PLACE_PARKED;
    old->due_at_ms = a->parked_due_ms;
    old->updated_at_ms = berth_time_wall_ms();
    rc = berth_lease_save(db, old, &won, err);
    if (rc == BERTH_OK && !won)
        rc = berth_fail(err, BERTH_E_INTERNAL, "Lease %s changed while it was locked.", old->id);
    return rc;
}

static int drop_claim(struct acquisition *a, berth_tx_fn *fn, struct berth_error *err)
{
    int rc = berth_store_tx(a->b->store, fn, a, err);
    if (rc == BERTH_OK && !a->won)
        rc = berth_fail(err, BERTH_E_CONFLICT, "The lease was taken over while it was resumed.");
    if (rc < 0)
        return rc;
    a->lease->version = a->version;
    a->lease->provider_lease_id = NULL;
    a->lease->provider_metadata_json = NULL;
    a->lease->place = BERTH_PLACE_NONE;
    return BERTH_OK;
}

/* Parks the place again. It is as good as before, so a failed resume does not lead to a new place.
 */
static int leave_asleep(struct acquisition *a, const struct berth_error *why,
                        struct berth_error *err)
{
    int rc = drop_claim(a, tx_repark, err);
    BERTH_FAILPOINT(resume_failed_recorded);
    if (rc == BERTH_OK)
        *err = *why;
    return rc < 0 ? rc : why->code;
}

/* Destroys the claimed place, which the provider did not give. This comes before the new place is
 * acquired, because some providers name both alike. A place that is not confirmed gone stays owed.
 */
static int end_declined(struct acquisition *a, struct berth_error *err)
{
    struct berth_error trouble;
    int rc = berth_node_claim(a->b->node, a->parked_id, err);
    if (rc < 0)
        return rc;
    rc = drop_claim(a, tx_decline, err);
    BERTH_FAILPOINT(resume_gone_recorded);
    if (rc == BERTH_OK && a->declined &&
        berth_ledger_settle(a->b, a->arena, &a->declined, BERTH_OP_RESUME, a->request->actor,
                            &trouble) < 0)
        berth_log_line(&a->b->log, BERTH_LOG_ERROR, "clean-up not recorded", "leaseId",
                       a->parked_id, "error", trouble.message, NULL);
    berth_node_unclaim(a->b->node, a->parked_id);
    return rc;
}

/* Wakes the claimed place. *resumed false: the way is free for a fresh one. */
static int resume_place(struct acquisition *a, struct berth_call *call, bool *resumed,
                        struct berth_error *err)
{
    *resumed = false;
    struct berth_place parked = berth_ledger_place(a->lease);
    parked.shown_json = a->parked_metadata_json;
    struct berth_error trouble;
    int rc = berth_driver_resume(a->route, call, &a->use.who, &parked, &a->place, &trouble);
    BERTH_FAILPOINT(resume_after_place);
    if (rc < 0)
        berth_driver_input_mask_error(&a->use, &trouble);
    if (rc == BERTH_OK && a->place.id && !berth_ledger_is_usable(a->place.id))
        rc = berth_fail(&trouble, BERTH_E_UPSTREAM, "It answered without a usable id.");
    if (rc == BERTH_OK && a->place.id) {
        *resumed = true;
        if (strcmp(a->place.id, parked.id) == 0)
            return BERTH_OK;
        return drop_claim(a, tx_return_claim, err); /* it gave another one: both are answered for */
    }
    if (rc < 0 && a->place.untouched)
        return leave_asleep(a, &trouble, err);
    a->place = (struct berth_place){0};
    if (rc == BERTH_OK)
        return end_declined(a, err);
    berth_log_line(&a->b->log, BERTH_LOG_WARN, "resume failed", "leaseId", a->id.text, "place",
                   parked.id, "error", trouble.message, NULL);
    rc = drop_claim(a, tx_return_claim, err);
    BERTH_FAILPOINT(resume_failed_recorded);
    return rc;
}

/* Takes out of the answer what only the provider was told. */
static int clean_answer(struct acquisition *a, struct berth_error *err)
{
    if (berth_driver_input_shows(&a->use, a->place.id)) {
        a->place.id = NULL;
        return berth_fail(err, BERTH_E_UPSTREAM, "Provider \"%s\" answered with a secret.",
                          berth_route_provider(a->route));
    }
    return berth_driver_input_clean(&a->use, a->arena, &a->place.metadata_json, err);
}

static int call_provider(struct acquisition *a, struct berth_error *err)
{
    struct berth_call call =
        berth_ledger_call(a->b, a->route, a->arena, a->request->timeout_ms, a->request->cancel_fd);
    int rc = berth_node_may_act(a->b->node, err);
    if (rc == BERTH_OK)
        rc = berth_call_check(&call, err);
    a->called = rc == BERTH_OK;
    bool resumed = false;
    if (rc == BERTH_OK && a->parked_id)
        rc = resume_place(a, &call, &resumed, err);
    if (rc == BERTH_OK && !resumed && a->parked_id) {
        rc = berth_node_may_act(a->b->node, err); /* the resume may have taken long */
        a->place.untouched = rc < 0;
    }
    if (rc < 0 || resumed)
        return rc;
    rc = berth_driver_acquire(a->route, &call, &a->use.who, &a->place, err);
    BERTH_FAILPOINT(acquire_after_place);
    return rc;
}

/* Everything between intent and outcome. The place is in a->place. */
static int make_place(struct acquisition *a, struct berth_error *err)
{
    int rc = berth_ledger_input(a->b, a->arena, a->lease, &a->use, err);
    a->use.who.workspace_mode = a->request->workspace_mode;
    a->use.who.agent_id = a->request->agent_id;
    a->use.who.sole = a->sole;
    a->use.who.on_late = berth_late_place_put;
    a->use.who.late_ctx = a->b;
    if (rc == BERTH_OK)
        rc = call_provider(a, err);
    if (rc < 0)
        berth_driver_input_mask_error(&a->use, err);
    else
        rc = clean_answer(a, err);
    berth_driver_input_close(&a->use);
    if (rc < 0 && a->parked_id && !a->called) {
        struct berth_error why = *err;
        a->place.untouched = true;
        rc = leave_asleep(a, &why, err);
    }
    return rc;
}

static int lease_acquire(struct acquisition *a, struct berth_error *err)
{
    BERTH_FAILPOINT(acquire_before_intent);
    int rc = berth_store_tx(a->b->store, tx_intent, a, err);
    if (rc < 0 || a->lease->status == BERTH_LEASE_ACTIVE) {
        if (rc == BERTH_OK)
            BERTH_FAILPOINT(acquire_after_outcome);
        return rc;
    }
    if (a->parked_id)
        BERTH_FAILPOINT(claim_after_intent);
    else
        BERTH_FAILPOINT(acquire_after_intent);
    rc = make_place(a, err);
    if (rc == BERTH_OK)
        rc = adopt_place(a, err);
    if (rc == BERTH_OK)
        rc = activate(a, err);
    if (rc == BERTH_OK || a->stored_outcome)
        return rc;
    if (!a->place.id)
        a->place.id = a->lease->provider_lease_id; /* claimed, and not given back */
    record_failure(a, err);
    return rc;
}

int berth_lease_acquire(struct berth *b, struct berth_arena *arena,
                        const struct berth_lease_request *request, struct berth_lease **out,
                        struct berth_error *err)
{
    struct berth_lease_request checked = *request;
    struct acquisition a = {
        .b = b, .arena = arena, .request = &checked, .id = berth_id_new_random()};
    struct berth_id environment_id, run_id;
    int rc = berth_id_parse(request->environment_id, "Environment", &environment_id, err);
    if (rc == BERTH_OK && request->id)
        rc = berth_id_parse(request->id, "Lease", &a.id, err);
    if (rc == BERTH_OK && request->run_id) {
        rc = berth_id_parse(request->run_id, "Run", &run_id, err);
        checked.run_id = run_id.text;
    }
    if (rc == BERTH_OK)
        rc = check_request(request, err);
    if (rc == BERTH_OK)
        rc = berth_node_claim(b->node, a.id.text, err);
    if (rc < 0)
        return rc;
    a.environment_id = environment_id.text;
    int64_t begun_us = berth_metrics_now_us();
    berth_plugins_refresh(b);
    rc = lease_acquire(&a, err);
    if (rc == BERTH_OK)
        berth_metrics_observe(b->metrics, BERTH_METRIC_ACQUIRE, berth_metrics_now_us() - begun_us);
    berth_node_unclaim(b->node, a.id.text);
    if (rc < 0 && (a.lease || rc == BERTH_E_UNAVAILABLE))
        berth_self_sweep_soon(b); /* the intent may be stored; only now may a sweep take it */
    berth_self_sweep_remind(b);
    if (rc < 0)
        return berth_wrap(err, "acquire %s", request->environment_id);
    *out = a.lease;
    return BERTH_OK;
}
