/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/ledger.c - see ledger.h. */
#include "core/lease/ledger.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/failpoint.h"
#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"
#include "core/activity.h"
#include "core/lease/lease_directory.h"
#include "core/lease/node.h"
#include "core/lease/parking.h"
#include "core/lease/self_sweep.h"
#include "core/plugin/plugin.h"
#include "store/environment.h"
#include "store/store.h"

struct berth_call berth_ledger_call(struct berth *b, const struct berth_route *route,
                                    struct berth_arena *arena, int64_t timeout_ms, int cancel_fd)
{
    int64_t deadline_ms;
    if (timeout_ms <= 0)
        timeout_ms = route && berth_route_traits(route)->keeps_time ? INT64_MAX
                                                                    : b->settings.call_timeout_ms;
    if (__builtin_add_overflow(berth_time_mono_ms(), timeout_ms, &deadline_ms))
        deadline_ms = INT64_MAX;
    return (struct berth_call){.deadline_ms = deadline_ms,
                               .cancel_fd = cancel_fd >= 0 ? cancel_fd : b->closing_fd,
                               .arena = arena};
}

/* Builds the config of a row that captured none: its metadata, without the keys that are not the
 * provider's. */
static int config_from_metadata(struct berth *b, struct berth_arena *arena,
                                const struct berth_lease *lease, const char **out,
                                struct berth_error *err)
{
    static const char *const internal[] = {"driver",
                                           "executionWorkspaceMode",
                                           "pluginId",
                                           "pluginKey",
                                           "providerMetadata",
                                           "shellCommand",
                                           "sandboxProviderPlugin",
                                           "workspaceRealization"};
    const char *text = lease->metadata_json ? lease->metadata_json : "{}";
    auto_json *metadata = NULL, *config = NULL;
    int rc = berth_json_parse(text, strlen(text), BERTH_JSON_FOREIGN, &metadata, err);
    if (rc == BERTH_OK)
        rc = berth_parking_config_loose(b->registry, arena, metadata, &config, err);
    if (rc < 0)
        return rc;
    *out = "{}";
    if (!config)
        return BERTH_OK;
    for (size_t i = 0; i < sizeof internal / sizeof internal[0]; i++)
        berth_json_remove(config, internal[i]);
    *out = berth_json_canonical_in(arena, config);
    return berth_arena_check(arena, err);
}

int berth_ledger_input(struct berth *b, struct berth_arena *arena, const struct berth_lease *lease,
                       struct berth_driver_input *out, struct berth_error *err)
{
    *out = (struct berth_driver_input){.ends = out->ends,
                                       .who = {
                                           .lease_id = lease->id,
                                           .company_id = lease->company_id,
                                           .environment_id = lease->environment_id,
                                           .run_id = lease->heartbeat_run_id,
                                           .issue_id = lease->issue_id,
                                           .execution_workspace_id = lease->execution_workspace_id,
                                           .config_json = lease->config_json,
                                       }};
    int rc = lease->config_json ? BERTH_OK
                                : config_from_metadata(b, arena, lease, &out->who.config_json, err);
    if (rc == BERTH_OK && berth_registry_in_place(b->registry, lease->driver))
        rc = berth_lease_directory(b, arena, lease->id, &out->who.own_directory, err);
    return rc < 0 ? rc : berth_driver_input_open(b, arena, lease->driver, out, err);
}

struct berth_place berth_ledger_place(const struct berth_lease *lease)
{
    return (struct berth_place){.id = lease->provider_lease_id,
                                .metadata_json = lease->provider_metadata_json,
                                .shown_json = lease->metadata_json,
                                .expires_at_ms = berth_time_steady_to_wall(lease->expires_at_ms)};
}

int berth_ledger_route(struct berth *b, const struct berth_lease *lease,
                       const struct berth_route **out, struct berth_error *err)
{
    *out =
        lease->provider ? berth_registry_find(b->registry, lease->driver, lease->provider) : NULL;
    if (*out)
        return berth_route_check(*out, err);
    return berth_registry_route(b->registry, lease->driver,
                                lease->config_json ? lease->config_json : "{}", out, err);
}

/* Returns the captured config, which the caller frees; NULL when it is absent or unreadable. */
static struct berth_json *captured_config(const struct berth_lease *lease)
{
    struct berth_json *config = NULL;
    struct berth_error ignored;
    if (lease->config_json)
        (void)berth_json_parse(lease->config_json, strlen(lease->config_json), BERTH_JSON_OURS,
                               &config, &ignored);
    return config;
}

bool berth_ledger_config_reuses(const struct berth_lease *lease)
{
    auto_json *config = captured_config(lease);
    return berth_json_true(berth_json_get(config, "reuseLease"));
}

static bool is_final(enum berth_lease_status status)
{
    return status == BERTH_LEASE_RELEASED || status == BERTH_LEASE_EXPIRED ||
           status == BERTH_LEASE_FAILED;
}

static bool status_may_follow(enum berth_lease_status from, enum berth_lease_status to)
{
    switch (from) {
    case BERTH_LEASE_ACQUIRING:
        return to == BERTH_LEASE_ACTIVE || to == BERTH_LEASE_RELEASING || is_final(to);
    case BERTH_LEASE_ACTIVE:
        return to == BERTH_LEASE_RELEASING || to == BERTH_LEASE_RETAINED || is_final(to);
    case BERTH_LEASE_RETAINED:
        return to == BERTH_LEASE_RELEASING || to == BERTH_LEASE_ACTIVE || is_final(to);
    case BERTH_LEASE_RELEASING:
        return is_final(to);
    case BERTH_LEASE_RELEASED:
    case BERTH_LEASE_EXPIRED:
    case BERTH_LEASE_FAILED:
        break;
    }
    return false;
}

void berth_ledger_enter(struct berth_lease *lease, enum berth_lease_status status)
{
    assert(status_may_follow(lease->status, status));
    lease->status = status;
}

void berth_ledger_enter_releasing(struct berth_lease *lease, enum berth_lease_status final)
{
    assert(is_final(final));
    berth_ledger_enter(lease, BERTH_LEASE_RELEASING);
    lease->final_status = final;
}

void berth_ledger_take(struct berth *b, struct berth_lease *lease, enum berth_lease_duty duty)
{
    int64_t now = berth_time_wall_ms();
    assert(duty != BERTH_DUTY_NULL);
    assert(lease->status != BERTH_LEASE_ACQUIRING && lease->status != BERTH_LEASE_ACTIVE);
    lease->owner = berth_node_id(b->node);
    lease->duty = duty;
    lease->cleanup = BERTH_CLEANUP_PENDING;
    lease->updated_at_ms = now;
    lease->due_at_ms = berth_time_steady_ms();
    if (lease->place == BERTH_PLACE_NONE)
        lease->place = BERTH_PLACE_UNKNOWN;
    if (lease->place == BERTH_PLACE_PARKED)
        lease->place = BERTH_PLACE_LIVE; /* it is being released: it must not be claimed */
}

void berth_ledger_close(struct berth_lease *lease, enum berth_lease_status status,
                        enum berth_lease_place place)
{
    int64_t now = berth_time_wall_ms();
    assert(is_final(status));
    assert(place == BERTH_PLACE_NONE ||
           place == BERTH_PLACE_GONE); /* nothing is left to answer for */
    if (lease->status != status) /* a closed lease may only have answered for a parked place */
        berth_ledger_enter(lease, status);
    lease->place = place;
    if (!lease->released_at_ms)
        lease->released_at_ms = now;
    lease->last_used_at_ms = lease->updated_at_ms = now;
    lease->owner = NULL;
    lease->duty = BERTH_DUTY_NULL;
    lease->final_status = 0;
    lease->due_at_ms = 0;
}

bool berth_ledger_is_usable(const char *place_id)
{
    return *place_id && strlen(place_id) <= BERTH_PLACE_ID_BYTES_MAX && berth_utf8_valid(place_id);
}

bool berth_ledger_made_nothing(int code)
{
    switch (code) {
    case BERTH_E_TIMEOUT:
    case BERTH_E_CANCELLED:
    case BERTH_E_UNAVAILABLE:
    case BERTH_E_UPSTREAM:
    case BERTH_E_INTERNAL:
    case BERTH_E_NO_MEMORY:
        return false;
    default:
        return true;
    }
}

/* --- settling --- */

struct settlement {
    struct berth *b;
    struct berth_arena *arena;
    struct berth_lease *lease;
    const struct berth_actor *actor;
    bool confirmed;
    char trouble[BERTH_REASON_BYTES_MAX + 1];
    bool won;
    struct berth_lease *stored;
};

static int64_t retry_after_ms(const struct berth *b, int64_t attempts)
{
    int64_t wait = b->settings.cleanup_retry_ms;
    while (--attempts > 0 && wait < b->settings.cleanup_retry_max_ms)
        wait *= 2;
    return wait < b->settings.cleanup_retry_max_ms ? wait : b->settings.cleanup_retry_max_ms;
}

/* idleTtlMs of the captured config, or the setting. */
static int64_t idle_ttl_ms(const struct berth *b, const struct berth_lease *lease)
{
    auto_json *config = captured_config(lease);
    int64_t ttl = berth_json_int(berth_json_get(config, "idleTtlMs"));
    return ttl > 0 && ttl <= BERTH_TTL_MS_MAX ? ttl : b->settings.idle_ttl_ms;
}

static void record_success(const struct berth *b, struct berth_lease *l)
{
    bool park = l->duty == BERTH_DUTY_PARK;
    l->place = park ? BERTH_PLACE_PARKED : BERTH_PLACE_GONE;
    l->cleanup = BERTH_CLEANUP_SUCCESS;
    l->cleanup_error = NULL;
    l->duty = BERTH_DUTY_NULL;
    l->due_at_ms = park ? berth_time_steady_ms() + idle_ttl_ms(b, l) : 0;
}

static void record_failure(const struct berth *b, struct berth_lease *l, const char *trouble)
{
    l->cleanup = BERTH_CLEANUP_FAILED;
    l->cleanup_attempts++;
    l->cleanup_error = trouble;
    if (l->duty == BERTH_DUTY_PARK)
        l->duty = BERTH_DUTY_DESTROY; /* what did not stop cleanly is not handed on */
    l->due_at_ms = berth_time_steady_ms() + retry_after_ms(b, l->cleanup_attempts);
}

static int tx_settle(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct settlement *s = ctx;
    struct berth_lease l = *s->lease;
    int64_t now = berth_time_wall_ms();
    bool closes = l.status == BERTH_LEASE_RELEASING;
    if (closes) {
        berth_ledger_enter(&l, l.final_status);
        l.released_at_ms = now;
        l.last_used_at_ms = now;
        l.final_status = 0;
    }
    l.updated_at_ms = now;
    l.owner = NULL;
    if (s->confirmed)
        record_success(s->b, &l);
    else
        record_failure(s->b, &l, s->trouble);

    int rc = berth_lease_save(db, &l, &s->won, err);
    const char *action = closes         ? "environment.lease_released"
                         : s->confirmed ? "environment.lease_cleaned_up"
                                        : NULL;
    if (rc == BERTH_OK && s->won && action)
        rc = berth_activity_of_lease(db, &l, action, s->actor, err);
    if (rc < 0)
        return rc;
    /* Load the row as it is now: ours, or that of another process that was faster. */
    return berth_lease_load(db, s->arena, l.id, &s->stored, err);
}

struct look {
    struct berth_arena *arena;
    const char *id;
    struct berth_environment *environment;
};

static int tx_environment(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct look *look = ctx;
    return berth_environment_load(db, look->arena, look->id, BERTH_LOCK_NONE, &look->environment,
                                  err);
}

/* Finds the config for the first release by the driver `plugin`: the environment's current config,
 * as long as that names the same worker, and nothing otherwise. Later attempts use the captured
 * config. */
static int current_config(struct berth *b, struct berth_arena *arena,
                          const struct berth_lease *lease, const char **out,
                          struct berth_error *err)
{
    struct look look = {.arena = arena, .id = lease->environment_id};
    int rc = berth_store_read(b->store, tx_environment, &look, err);
    if (rc < 0)
        return rc;
    const struct berth_environment *e = look.environment;
    auto_json *now = NULL;
    if (e)
        rc = berth_json_parse(e->config_json, strlen(e->config_json), BERTH_JSON_OURS, &now, err);
    const char *word = berth_driver_word(BERTH_ROUTE_PLUGIN);
    bool same = rc == BERTH_OK && e && berth_driver_kinds[e->driver] == BERTH_ROUTE_PLUGIN &&
                berth_registry_find_by(b->registry, word, now) ==
                    berth_registry_find(b->registry, word, lease->provider);
    *out = same ? e->config_json : "{}";
    return rc;
}

/* One call to the provider. */
static int tell_provider(struct berth *b, struct berth_arena *arena, const struct berth_lease *row,
                         enum berth_ledger_op op, struct berth_error *err)
{
    struct berth_lease told = *row, *lease = &told;
    const struct berth_route *route;
    int rc = berth_ledger_route(b, lease, &route, err);
    if (rc == BERTH_OK)
        rc = berth_node_may_act(b->node, err);
    if (rc < 0)
        return rc;
    struct berth_call call = berth_ledger_call(b, route, arena, 0, -1);
    if (!lease->provider_lease_id && !berth_route_can_find(route, &call))
        return berth_fail(err, BERTH_E_UNSUPPORTED,
                          "Provider \"%s\" never named a place for this lease and cannot be asked "
                          "by lease id: look there, then acknowledge the lease.",
                          berth_route_provider(route));
    bool first = op == BERTH_OP_RELEASE && lease->duty != BERTH_DUTY_DESTROY;
    if (first && route->kind == BERTH_ROUTE_PLUGIN)
        rc = current_config(b, arena, row, &told.config_json, err);
    if (rc < 0)
        return rc;
    auto_driver_input use = {.ends = true};
    rc = berth_ledger_input(b, arena, lease, &use, err);
    if (rc < 0)
        return rc;
    struct berth_place place = berth_ledger_place(lease);
    enum berth_release_mode mode =
        lease->duty == BERTH_DUTY_DESTROY ? BERTH_RELEASE_DESTROY : BERTH_RELEASE_KEEP;
    rc = berth_driver_release(route, &call, &use.who, &place, mode, err);
    if (rc < 0)
        berth_driver_input_mask_error(&use, err);
    if (rc < 0 && told.config_json != row->config_json) { /* it knows those from before */
        auto_driver_input captured = {.ends = true};
        struct berth_error ignored;
        if (berth_ledger_input(b, arena, row, &captured, &ignored) == BERTH_OK)
            berth_driver_input_mask_error(&captured, err);
    }
    return rc;
}

static void pass_after_place(enum berth_ledger_op op, enum berth_lease_duty duty)
{
    if (duty == BERTH_DUTY_PARK)
        BERTH_FAILPOINT(park_after_place);
    else if (op == BERTH_OP_RELEASE)
        BERTH_FAILPOINT(release_after_place);
    else if (op == BERTH_OP_DESTROY)
        BERTH_FAILPOINT(destroy_after_place);
    else if (op == BERTH_OP_SWEEP)
        BERTH_FAILPOINT(sweep_after_place);
    else if (op == BERTH_OP_PROBE)
        BERTH_FAILPOINT(probe_failed_after_place);
    else if (op == BERTH_OP_RESUME)
        BERTH_FAILPOINT(resume_gone_after_place);
    else
        BERTH_FAILPOINT(acquire_failed_after_place);
}

static void pass_after_outcome(enum berth_ledger_op op, enum berth_lease_duty duty)
{
    if (duty == BERTH_DUTY_PARK)
        BERTH_FAILPOINT(park_after_outcome);
    else if (op == BERTH_OP_RELEASE)
        BERTH_FAILPOINT(release_after_outcome);
    else if (op == BERTH_OP_DESTROY)
        BERTH_FAILPOINT(destroy_after_outcome);
    else if (op == BERTH_OP_SWEEP)
        BERTH_FAILPOINT(sweep_after_outcome);
    else if (op == BERTH_OP_PROBE)
        BERTH_FAILPOINT(probe_after_outcome);
    else if (op == BERTH_OP_RESUME)
        BERTH_FAILPOINT(resume_gone_after_outcome);
    else
        BERTH_FAILPOINT(acquire_failed_after_outcome);
}

int berth_ledger_settle(struct berth *b, struct berth_arena *arena, struct berth_lease **lease,
                        enum berth_ledger_op op, const struct berth_actor *actor,
                        struct berth_error *err)
{
    struct settlement s = {.b = b, .arena = arena, .lease = *lease, .actor = actor};
    enum berth_lease_duty duty = (*lease)->duty;
    struct berth_error trouble;
    assert(duty != BERTH_DUTY_NULL && strcmp((*lease)->owner, berth_node_id(b->node)) == 0);
    berth_plugins_refresh(b);
    s.confirmed = tell_provider(b, arena, *lease, op, &trouble) == BERTH_OK;
    if (!s.confirmed) {
        (void)snprintf(s.trouble, sizeof s.trouble, "%.*s", BERTH_REASON_BYTES_MAX,
                       trouble.message);
        berth_utf8_mend(s.trouble);
        berth_log_line(&b->log, BERTH_LOG_WARN, "clean-up failed", "leaseId", (*lease)->id,
                       "environmentId", (*lease)->environment_id, "where", trouble.where, "error",
                       s.trouble, NULL);
    }
    pass_after_place(op, duty);
    int rc = berth_store_tx(b->store, tx_settle, &s, err);
    if (rc < 0)
        berth_self_sweep_soon(b);
    pass_after_outcome(op, duty);
    if (rc == BERTH_OK && s.stored)
        *lease = s.stored;
    return rc;
}

int berth_ledger_late_place(struct berth_db *db, struct berth_arena *arena, const char *lease_id,
                            const struct berth_place *place, struct berth_error *err)
{
    struct berth_lease *row;
    int rc = berth_lease_load_locked(db, arena, lease_id, &row, err); /* so the save cannot lose */
    if (rc < 0 || !row)
        return rc;
    bool held, won;
    rc = berth_lease_place_holder(db, row->environment_id, place->id, row->id, &held, err);
    if (rc < 0 || held)
        return rc; /* another row answers for it */
    int64_t now = berth_time_wall_ms();
    row->provider_lease_id = place->id;
    row->provider_metadata_json = place->metadata_json;
    row->place = BERTH_PLACE_LIVE;
    row->cleanup = BERTH_CLEANUP_PENDING;
    row->duty = BERTH_DUTY_DESTROY;
    row->owner = NULL; /* a process at work does not know the place: its save must fail */
    row->updated_at_ms = now;
    row->due_at_ms = berth_time_steady_ms();
    rc = berth_lease_save(db, row, &won, err);
    if (rc == BERTH_OK && !won)
        return berth_fail(err, BERTH_E_INTERNAL, "Lease %s changed while it was locked.", lease_id);
    if (rc == BERTH_OK)
        rc = berth_activity_of_lease(db, row, "environment.lease_place_found", NULL, err);
    return rc;
}
