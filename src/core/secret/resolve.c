/* SPDX-License-Identifier: Apache-2.0
 * src/core/secret/resolve.c - handing out the value of a secret, to those who are bound to it or
 * whose lease captured it. Allowed or refused, it is on record before the answer. */
#include <stdio.h>
#include <string.h>

#include "base/id.h"
#include "base/time.h"
#include "base/utf8.h"
#include "core/secret/secret.h"
#include "core/secret/secret_provider.h"
#include "store/lease.h"
#include "store/store.h"

#define ERROR_BYTES_MAX 120 /* of a refusal's text in an event */

struct resolution {
    struct berth *b;
    struct berth_arena *arena;
    const struct berth_resolve_request *request;
    struct berth_secret *secret;
    struct berth_secret_version *version;
    int64_t number; /* of the version that was asked for; 0: not known */
    const struct berth_error *refusal;
};

/* A lease may use what its environment was bound to when the lease was made, for as long as
 * anything is owed for it. The present schema of its config gives no right: a plugin may have
 * changed it. */
static int check_capture(struct berth_db *db, struct resolution *r, bool *captured,
                         struct berth_error *err)
{
    *captured = false;
    if (!r->request->lease_id)
        return BERTH_OK;
    struct berth_lease *lease;
    int rc = berth_lease_load(db, r->arena, r->request->lease_id, &lease, err);
    if (rc < 0 || !lease || !lease->due_at_ms || !lease->config_json ||
        strcmp(lease->company_id, r->request->company_id) != 0)
        return rc;
    return berth_lease_has_secret(db, lease->id, r->request->config_path, r->request->secret_id,
                                  captured, err);
}

static int find_right(struct berth_db *db, struct resolution *r, bool *allowed,
                      struct berth_error *err)
{
    const struct berth_resolve_request *q = r->request;
    struct berth_binding binding = {.company_id = q->company_id,
                                    .secret_id = q->secret_id,
                                    .target_type = q->consumer_type,
                                    .target_id = q->consumer_id,
                                    .config_path = q->config_path};
    int rc = check_capture(db, r, allowed, err);
    if (rc == BERTH_OK && !*allowed)
        rc = berth_binding_exists(db, &binding, allowed, err);
    return rc;
}

static int check_right(struct berth_db *db, struct resolution *r, struct berth_error *err)
{
    const struct berth_resolve_request *q = r->request;
    bool allowed;
    if (!q->config_path)
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "Secret resolution requires a binding config path");
    int rc = find_right(db, r, &allowed, err);
    if (rc == BERTH_OK && !allowed)
        rc = berth_fail(err, BERTH_E_UNPROCESSABLE, "Secret is not bound to %s:%s at %s",
                        q->consumer_type, q->consumer_id, q->config_path);
    return rc;
}

static int tx_look_up(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct resolution *r = ctx;
    const struct berth_resolve_request *q = r->request;
    r->number = q->version;
    int rc = berth_secret_of_company(db, r->arena, q->company_id, q->secret_id, BERTH_LOCK_NONE,
                                     &r->secret, err);
    if (rc == BERTH_OK)
        rc = check_right(db, r, err);
    if (rc < 0)
        return rc;
    r->number = q->version ? q->version : r->secret->latest_version;
    if (r->secret->status != BERTH_SECRET_ACTIVE)
        return berth_fail(err, BERTH_E_UNPROCESSABLE, "Secret is not active");
    rc = berth_version_load(db, r->arena, r->secret->id, r->number, &r->version, err);
    if (rc < 0)
        return rc;
    if (!r->version)
        return berth_fail(err, BERTH_E_NOT_FOUND, "Secret version not found");
    bool current = r->version->status == BERTH_VERSION_CURRENT;
    if (!current && (!q->version || r->version->status != BERTH_VERSION_PREVIOUS))
        return berth_fail(err, BERTH_E_UNPROCESSABLE, "Secret version is not active");
    return BERTH_OK;
}

static int tx_record(struct berth_db *db, void *ctx, struct berth_error *err)
{
    const struct resolution *r = ctx;
    const struct berth_resolve_request *q = r->request;
    char text[ERROR_BYTES_MAX + 1] = "";
    if (r->refusal) {
        (void)snprintf(text, sizeof text, "%.*s", ERROR_BYTES_MAX, r->refusal->message);
        berth_utf8_mend(text);
    }
    int64_t now = berth_time_wall_ms();
    struct berth_secret_event event = {
        .company_id = q->company_id,
        .secret_id = q->secret_id,
        .version = r->number,
        .actor_type = q->actor ? q->actor->type : "system",
        .actor_id = q->actor ? q->actor->id : NULL,
        .consumer_type = q->consumer_type,
        .consumer_id = q->consumer_id,
        .config_path = q->config_path,
        .issue_id = q->issue_id,
        .heartbeat_run_id = q->run_id,
        .success = !r->refusal,
        .error_code = r->refusal ? text : NULL,
        .created_at_ms = now,
    };
    int rc = berth_secret_event_insert(db, &event, err);
    if (rc == BERTH_OK && !r->refusal)
        rc = berth_secret_touch(db, q->secret_id, now, err);
    return rc;
}

struct right {
    struct resolution resolution;
    bool allowed;
};

static int tx_find_right(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct right *right = ctx;
    return find_right(db, &right->resolution, &right->allowed, err);
}

int berth_secret_may_resolve(struct berth *b, const struct berth_resolve_request *request,
                             bool *allowed, struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_resolve_request checked = *request;
    struct berth_id id;
    *allowed = false;
    if (berth_id_parse(request->secret_id, "Secret", &id, err) < 0)
        return BERTH_OK;
    checked.secret_id = id.text;
    struct right right = {.resolution = {.b = b, .arena = &arena, .request = &checked}};
    int rc = berth_store_read(b->store, tx_find_right, &right, err);
    *allowed = rc == BERTH_OK && right.allowed;
    return rc;
}

int berth_secret_resolve(struct berth *b, const struct berth_resolve_request *request,
                         struct berth_locked *out, struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_id id;
    if (berth_id_parse(request->secret_id, "Secret", &id, err) < 0)
        return berth_fail(err, BERTH_E_NOT_FOUND, "Secret not found");
    struct berth_resolve_request checked = *request;
    checked.secret_id = id.text;
    if (!checked.company_id)
        checked.company_id = b->company_id;
    if (!checked.consumer_type || !checked.consumer_id)
        return berth_fail(err, BERTH_E_INVALID, "A value is given to somebody: name the consumer.");
    struct resolution r = {.b = b, .arena = &arena, .request = &checked};
    auto_locked value = BERTH_LOCKED_INIT;
    int rc = berth_store_read(b->store, tx_look_up, &r, err);
    if (rc == BERTH_OK) {
        const char *context = berth_secret_context(&arena, r.secret->company_id, r.version);
        rc = context ? berth_secret_provider_unseal(b->secret_provider, r.version->key_id, context,
                                                    r.version->sealed, &value, err)
                     : berth_arena_check(&arena, err);
    }
    /* What cannot be put on record is not handed out. */
    struct berth_error trouble;
    r.refusal = rc < 0 ? err : NULL;
    if (berth_store_tx(b->store, tx_record, &r, &trouble) < 0 && rc == BERTH_OK) {
        *err = trouble;
        return trouble.code;
    }
    if (rc == BERTH_OK) {
        *out = value;
        value = (struct berth_locked)BERTH_LOCKED_INIT;
    }
    return rc;
}
