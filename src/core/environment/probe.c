/* SPDX-License-Identifier: Apache-2.0
 * src/core/environment/probe.c - touching a real place to see whether it works. A probe may make
 * one, so it is a lease while it lasts: what a killed probe left behind is swept like any other
 * place. */
#include <string.h>

#include "base/failpoint.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "core/company.h"
#include "core/environment/environment.h"
#include "core/lease/ledger.h"
#include "core/lease/node.h"
#include "core/lease/parking.h"
#include "core/lease/self_sweep.h"
#include "core/plugin/plugin.h"
#include "core/secret/driver_input.h"
#include "store/secret.h"
#include "store/store.h"

struct probing {
    struct berth *b;
    struct berth_arena *arena;
    const struct berth_actor *actor;
    const struct berth_route *route;
    struct berth_environment *environment;
    struct berth_probe *probe;
    struct berth_id id;
    struct berth_lease *lease; /* NULL: the driver makes nothing */
    const char *reason;        /* why it failed */
    bool nothing_made;
    struct berth_lease *row; /* to be settled, or NULL */
    bool unserved;           /* no implementation here can reach the place */
    int keys;                /* of a config that is not saved; -1: it is */
};

static int add_lease(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct probing *p = ctx;
    int rc = berth_lease_insert(db, p->lease, err);
    return rc < 0 ? rc
                  : berth_lease_capture_secrets(db, p->lease->company_id, p->lease->environment_id,
                                                p->lease->id, err);
}

static int tx_intent(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct probing *p = ctx;
    struct berth_environment *e;
    int rc = berth_environment_load(db, p->arena, p->environment->id, BERTH_LOCK_SHARE, &e, err);
    if (rc == BERTH_OK && !e)
        rc = berth_fail(err, BERTH_E_NOT_FOUND, "Environment not found");
    return rc < 0 ? rc : add_lease(db, p, err);
}

static int make_lease(struct probing *p, struct berth_error *err)
{
    const struct berth_environment *e = p->environment;
    const char *driver = berth_environment_drivers.names[e->driver];
    int64_t now = berth_time_wall_ms();
    struct berth_lease *l = berth_arena_alloc(p->arena, sizeof *l);
    auto_json *words = berth_json_new_object();
    if (!l || !words || !berth_json_set(words, "probe", berth_json_new_bool(true)))
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: probe.");
    *l = (struct berth_lease){
        .id = p->id.text,
        .company_id = e->company_id,
        .environment_id = e->id,
        .status = BERTH_LEASE_ACQUIRING,
        .policy = BERTH_POLICY_EPHEMERAL,
        .provider = berth_route_provider(p->route),
        .acquired_at_ms = now,
        .last_used_at_ms = now,
        .expires_at_ms = berth_time_steady_ms() + p->b->settings.lease_ttl_ms,
        .created_at_ms = now,
        .updated_at_ms = now,
        .version = 1,
        .driver = driver,
        .config_json = e->config_json,
        .fingerprint = e->fingerprint,
        .owner = berth_node_id(p->b->node),
        .due_at_ms = berth_time_steady_ms(),
    };
    p->lease = l;
    return berth_lease_metadata(p->arena, NULL, driver, NULL, NULL, words, &l->metadata_json, err);
}

static int store_intent(struct probing *p, struct berth_error *err)
{
    int rc = make_lease(p, err);
    return rc < 0 ? rc : berth_store_tx(p->b->store, tx_intent, p, err);
}

static int tx_probed(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct probing *p = ctx;
    if (p->lease) {
        struct berth_lease l = *p->lease;
        bool won; /* lost: a sweep has it now, and ends what it finds */
        berth_ledger_close(&l, BERTH_LEASE_RELEASED, BERTH_PLACE_NONE);
        int rc = berth_lease_save(db, &l, &won, err);
        if (rc < 0)
            return rc;
    }
    auto_buf buf = BERTH_BUF_INIT(BERTH_METADATA_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "driver", berth_environment_drivers.names[p->environment->driver]);
    berth_json_put_bool(&w, "ok", p->probe->ok);
    berth_json_put_str(&w, "summary", p->probe->summary);
    if (p->keys >= 0)
        berth_json_put_int(&w, "configTopLevelKeyCount", p->keys);
    berth_json_close(&w, '}');
    int rc = berth_buf_check(&buf, "Activity details", err);
    struct berth_entity entity = {p->environment->company_id, "environment",
                                  p->keys < 0 ? p->environment->id : "unsaved"};
    return rc < 0
               ? rc
               : berth_activity_of(
                     db, &entity, p->keys < 0 ? "environment.probed" : "environment.probed_unsaved",
                     p->actor, berth_buf_str(&buf), err);
}

static int tx_fail(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct probing *p = ctx;
    struct berth_lease *l = berth_arena_alloc(p->arena, sizeof *l);
    p->row = NULL;
    if (!l)
        return berth_arena_check(p->arena, err);
    *l = *p->lease;
    l->failure_reason = p->reason;
    if (p->nothing_made) {
        berth_ledger_close(l, BERTH_LEASE_FAILED, BERTH_PLACE_NONE);
    } else {
        berth_ledger_enter_releasing(l, BERTH_LEASE_FAILED);
        berth_ledger_take(p->b, l, BERTH_DUTY_DESTROY);
    }
    bool won;
    int rc = berth_lease_save(db, l, &won, err);
    if (rc == BERTH_OK && won && !p->nothing_made)
        p->row = l;
    return rc;
}

/* The probe's own error is what the caller hears; a row that could not be written is swept. */
static void record_failure(struct probing *p, bool called, const struct berth_error *why)
{
    struct berth_error err;
    p->reason = why->message;
    p->nothing_made = !called || berth_ledger_made_nothing(why->code);
    int rc = berth_store_tx(p->b->store, tx_fail, p, &err);
    if (rc == BERTH_OK && p->row)
        rc = berth_ledger_settle(p->b, p->arena, &p->row, BERTH_OP_PROBE, p->actor, &err);
    if (rc < 0) {
        berth_self_sweep_soon(p->b);
        berth_log_line(&p->b->log, BERTH_LOG_ERROR, "failed probe not recorded", "leaseId",
                       p->id.text, "error", err.message, NULL);
    }
}

/* Answers the probe of a place that no implementation here can reach. That is not an error. */
static int probe_unserved(struct berth_arena *arena, const struct berth_environment *e,
                          struct berth_probe *out, struct berth_error *err)
{
    auto_json *config = NULL;
    int rc =
        berth_json_parse(e->config_json, strlen(e->config_json), BERTH_JSON_OURS, &config, err);
    if (rc < 0)
        return rc;
    const char *provider = berth_json_str(berth_json_get(config, "provider"));
    const char *plugin = berth_json_str(berth_json_get(config, "pluginKey"));
    const char *driver = berth_json_str(berth_json_get(config, "driverKey"));
    out->ok = false;
    enum berth_route_kind kind = berth_driver_kinds[e->driver];
    if (kind == BERTH_ROUTE_PROVIDER)
        out->summary =
            berth_arena_printf(arena, "Sandbox provider \"%s\" requires a running provider plugin.",
                               provider ? provider : "");
    else if (kind == BERTH_ROUTE_PLUGIN)
        out->summary = berth_arena_printf(
            arena, "Plugin environment probes require a plugin worker manager for \"%s:%s\".",
            plugin ? plugin : "", driver ? driver : "");
    else
        out->summary = berth_arena_printf(
            arena, "Environment driver \"%s\" is not registered in the environment runtime yet.",
            berth_environment_drivers.names[e->driver]);
    return berth_arena_check(arena, err);
}

static int clean_probe(struct probing *p, const struct berth_driver_input *use,
                       struct berth_error *err)
{
    if (berth_driver_input_shows(use, p->probe->summary)) {
        char *summary = berth_arena_strdup(p->arena, p->probe->summary);
        if (!summary)
            return berth_arena_check(p->arena, err);
        berth_driver_input_mask(use, summary);
        p->probe->summary = summary;
    }
    return berth_driver_input_clean(use, p->arena, &p->probe->details_json, err);
}

static int call_driver(struct probing *p, struct berth_error *err)
{
    const struct berth_environment *e = p->environment;
    struct berth_call call = berth_ledger_call(p->b, p->route, p->arena, 0, -1);
    auto_driver_input use = {.who = {.lease_id = p->id.text,
                                     .company_id = e->company_id,
                                     .environment_id = e->id,
                                     .config_json = e->config_json}};
    int rc = berth_node_may_act(p->b->node, err);
    if (rc == BERTH_OK)
        rc = berth_driver_input_open(p->b, p->arena, berth_environment_drivers.names[e->driver],
                                     &use, err);
    if (rc == BERTH_OK)
        rc = berth_call_check(&call, err);
    bool called = rc == BERTH_OK;
    if (called)
        rc = berth_driver_probe(p->route, &call, &use.who, p->probe, err);
    if (rc == BERTH_OK)
        rc = clean_probe(p, &use, err);
    else
        berth_driver_input_mask_error(&use, err);
    if (p->lease)
        BERTH_FAILPOINT(probe_after_place);
    if (rc < 0 && p->lease)
        record_failure(p, called, err);
    return rc;
}

/* Finds the route. Sets p->unserved, and returns BERTH_OK, when no implementation serves it. */
static int find_route(struct probing *p, struct berth_error *err)
{
    const struct berth_environment *e = p->environment;
    berth_plugins_refresh(p->b);
    int rc = berth_registry_route(p->b->registry, berth_environment_drivers.names[e->driver],
                                  e->config_json, &p->route, err);
    p->unserved = rc == BERTH_E_UNPROCESSABLE;
    return p->unserved ? BERTH_OK : rc;
}

/* What was meant to be written before is; then the place is touched, and the outcome written. */
static int touch(struct probing *p, struct berth_error *err)
{
    int rc =
        p->unserved ? probe_unserved(p->arena, p->environment, p->probe, err) : call_driver(p, err);
    if (rc < 0)
        return rc;
    rc = berth_store_tx(p->b->store, tx_probed, p, err);
    BERTH_FAILPOINT(probe_after_outcome);
    return rc;
}

static void end_probe(struct probing *p, int rc)
{
    berth_node_unclaim(p->b->node, p->id.text);
    if (rc < 0 && p->lease)
        berth_self_sweep_soon(p->b); /* the row may not be at its end */
}

int berth_environment_probe(struct berth *b, struct berth_arena *arena, const char *id,
                            const struct berth_actor *actor, struct berth_probe *out,
                            struct berth_error *err)
{
    *out = (struct berth_probe){0};
    struct probing p = {.b = b,
                        .arena = arena,
                        .actor = actor,
                        .probe = out,
                        .id = berth_id_new_random(),
                        .keys = -1};
    int rc = berth_environment_get(b, arena, id, &p.environment, err);
    if (rc == BERTH_OK)
        rc = berth_node_claim(b->node, p.id.text, err);
    if (rc < 0)
        return rc;
    rc = find_route(&p, err);
    if (rc == BERTH_OK && !p.unserved && !berth_route_traits(p.route)->ledger_only) {
        rc = store_intent(&p, err);
        BERTH_FAILPOINT(probe_after_intent);
    }
    if (rc == BERTH_OK)
        rc = touch(&p, err);
    end_probe(&p, rc);
    return rc;
}

/* --- one that is not saved --- */

static int on_ready(void *ctx, struct berth_environment *e, bool *stored, struct berth_error *err)
{
    struct probing *p = ctx;
    p->environment = e;
    int rc = find_route(p, err);
    *stored = rc == BERTH_OK && !p->unserved && !berth_route_traits(p->route)->ledger_only;
    return *stored ? make_lease(p, err) : rc;
}

/* What holds the secrets of the config goes; if its place does not, a sweep sees to both. */
static void remove_draft(struct probing *p)
{
    struct berth_error trouble;
    bool deleted;
    if (p->lease &&
        berth_environment_finish_delete(p->b, p->environment->id, p->actor, &deleted, &trouble) < 0)
        berth_log_line(&p->b->log, BERTH_LOG_WARN, "unsaved environment left to the sweep",
                       "environmentId", p->environment->id, "error", trouble.message, NULL);
}

int berth_environment_probe_config(struct berth *b, struct berth_arena *arena,
                                   const struct berth_environment_input *input,
                                   struct berth_issues *issues, struct berth_probe *out,
                                   struct berth_error *err)
{
    auto_json *config = NULL;
    *out = (struct berth_probe){0};
    struct probing p = {
        .b = b, .arena = arena, .actor = input->actor, .probe = out, .id = berth_id_new_random()};
    struct berth_draft draft = {.ready = on_ready, .also = add_lease, .ctx = &p};
    struct berth_company *company;
    int rc = input->company_id ? berth_company_get(b, arena, input->company_id, &company, err)
                               : BERTH_OK;
    if (rc == BERTH_OK)
        rc = berth_node_claim(b->node, p.id.text, err);
    if (rc < 0)
        return rc;
    if (input->config_json)
        rc = berth_json_parse(input->config_json, strlen(input->config_json), BERTH_JSON_OURS,
                              &config, err);
    p.keys = (int)berth_json_count(config);
    if (rc == BERTH_OK)
        rc = berth_environment_draft(b, arena, input, &draft, issues, err);
    BERTH_FAILPOINT(probe_after_draft);
    if (rc == BERTH_OK)
        rc = touch(&p, err);
    end_probe(&p, rc);
    remove_draft(&p);
    return rc;
}
