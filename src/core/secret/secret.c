/* SPDX-License-Identifier: Apache-2.0
 * src/core/secret/secret.c - see secret.h. */
#include "core/secret/secret.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/failpoint.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"
#include "core/secret/secret_provider.h"
#include "core/secret/secret_refs.h"
#include "store/company.h"
#include "store/lease.h"
#include "store/store.h"

static int not_found(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_NOT_FOUND, "Secret not found");
}

/* --- looking --- */

struct look {
    struct berth_arena *arena;
    const char *id;
    int64_t before, limit;
    const struct berth_page *page;
    struct berth_secret *secret;
    struct berth_list *list;
};

static int tx_get(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct look *look = ctx;
    int rc = berth_secret_load(db, look->arena, look->id, BERTH_LOCK_NONE, &look->secret, err);
    return rc == BERTH_OK && !look->secret ? not_found(err) : rc;
}

static int tx_list(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct look *look = ctx;
    return berth_secret_select(db, look->arena, look->id, look->page, look->list, err);
}

static int tx_usage(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct look *look = ctx;
    int rc = tx_get(db, ctx, err);
    return rc < 0 ? rc : berth_binding_select(db, look->arena, look->id, look->list, err);
}

/* Lists the events of a secret, also of a deleted one. */
static int tx_events(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct look *look = ctx;
    return berth_secret_event_select(db, look->arena, look->id, look->before, look->limit,
                                     look->list, err);
}

int berth_secret_get(struct berth *b, struct berth_arena *arena, const char *id,
                     struct berth_secret **out, struct berth_error *err)
{
    struct berth_id parsed;
    if (berth_id_parse(id, "Secret", &parsed, err) < 0)
        return not_found(err);
    struct look look = {.arena = arena, .id = parsed.text};
    int rc = berth_store_read(b->store, tx_get, &look, err);
    if (rc == BERTH_OK)
        *out = look.secret;
    return rc;
}

static int list_by(struct berth *b, berth_tx_fn *fn, struct look *look, struct berth_error *err)
{
    *look->list = (struct berth_list){0};
    struct berth_id parsed;
    if (berth_id_parse(look->id, "Secret", &parsed, err) < 0)
        return not_found(err);
    look->id = parsed.text;
    return berth_store_read(b->store, fn, look, err);
}

int berth_secret_list(struct berth *b, struct berth_arena *arena, const char *company_id,
                      struct berth_list *out, struct berth_error *err)
{
    return berth_secret_list_page(b, arena, company_id, NULL, out, err);
}

int berth_secret_list_page(struct berth *b, struct berth_arena *arena, const char *company_id,
                           const struct berth_page *page, struct berth_list *out,
                           struct berth_error *err)
{
    struct look look = {
        .arena = arena, .id = company_id ? company_id : b->company_id, .page = page, .list = out};
    int rc = list_by(b, tx_list, &look, err);
    return rc == BERTH_E_NOT_FOUND ? berth_fail(err, rc, "Company not found") : rc;
}

int berth_secret_usage(struct berth *b, struct berth_arena *arena, const char *id,
                       struct berth_list *out, struct berth_error *err)
{
    struct look look = {.arena = arena, .id = id, .list = out};
    return list_by(b, tx_usage, &look, err);
}

int berth_secret_events(struct berth *b, struct berth_arena *arena, const char *id, int64_t before,
                        int64_t limit, struct berth_list *out, struct berth_error *err)
{
    struct look look = {.arena = arena, .id = id, .before = before, .limit = limit, .list = out};
    return list_by(b, tx_events, &look, err);
}

void berth_secret_json(struct berth_json_writer *w, const struct berth_secret *s)
{
    bool by_agent = s->created_by_type && strcmp(s->created_by_type, "agent") == 0;
    bool by_user = s->created_by_type && strcmp(s->created_by_type, "user") == 0;
    berth_json_open(w, '{');
    berth_json_put_str(w, "id", s->id);
    berth_json_put_str(w, "companyId", s->company_id);
    berth_json_put_str(w, "key", s->key);
    berth_json_put_str(w, "name", s->name);
    berth_json_put_str(w, "provider", "local_encrypted");
    berth_json_put_str(w, "status", berth_secret_statuses.names[s->status]);
    berth_json_put_str(w, "managedMode", "paperclip_managed");
    berth_json_put_str(w, "externalRef", NULL);
    berth_json_put_str(w, "providerConfigId", NULL);
    berth_json_put_str(w, "providerMetadata", NULL);
    berth_json_put_int(w, "latestVersion", s->latest_version);
    berth_json_put_str(w, "description", s->description);
    berth_json_put_time(w, "lastResolvedAt", s->last_resolved_at_ms);
    berth_json_put_time(w, "lastRotatedAt", s->last_rotated_at_ms);
    berth_json_put_str(w, "deletedAt", NULL);
    berth_json_put_str(w, "createdByAgentId", by_agent ? s->created_by_id : NULL);
    berth_json_put_str(w, "createdByUserId", by_user ? s->created_by_id : NULL);
    berth_json_put_time(w, "createdAt", s->created_at_ms);
    berth_json_put_time(w, "updatedAt", s->updated_at_ms);
    berth_json_put_int(w, "referenceCount", s->reference_count);
    berth_json_put_str(w, "environmentId", s->environment_id);
    berth_json_close(w, '}');
}

const char *berth_secret_id(const struct berth_secret *s)
{
    return s->id;
}

const char *berth_secret_company_id(const struct berth_secret *s)
{
    return s->company_id;
}

const char *berth_secret_name(const struct berth_secret *s)
{
    return s->name;
}

enum berth_secret_status berth_secret_status(const struct berth_secret *s)
{
    return s->status;
}

int64_t berth_secret_latest_version(const struct berth_secret *s)
{
    return s->latest_version;
}

const char *berth_secret_to_json(struct berth_arena *arena, const struct berth_secret *s)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    berth_secret_json(&(struct berth_json_writer){.buf = &buf}, s);
    return berth_arena_strdup(arena, berth_buf_str(&buf));
}

void berth_binding_json(struct berth_json_writer *w, const struct berth_binding *b)
{
    char version[24];
    (void)snprintf(version, sizeof version, "%" PRId64, b->version);
    berth_json_open(w, '{');
    berth_json_put_str(w, "companyId", b->company_id);
    berth_json_put_str(w, "secretId", b->secret_id);
    berth_json_put_str(w, "targetType", b->target_type);
    berth_json_put_str(w, "targetId", b->target_id);
    berth_json_put_str(w, "configPath", b->config_path);
    berth_json_put_str(w, "versionSelector", b->version ? version : "latest");
    berth_json_put_time(w, "createdAt", b->created_at_ms);
    berth_json_close(w, '}');
}

void berth_secret_event_json(struct berth_json_writer *w, const struct berth_secret_event *e)
{
    berth_json_open(w, '{');
    berth_json_put_int(w, "id", e->id);
    berth_json_put_str(w, "companyId", e->company_id);
    berth_json_put_str(w, "secretId", e->secret_id);
    if (e->version)
        berth_json_put_int(w, "version", e->version);
    else
        berth_json_put_str(w, "version", NULL);
    berth_json_put_str(w, "provider", "local_encrypted");
    berth_json_put_str(w, "actorType", e->actor_type);
    berth_json_put_str(w, "actorId", e->actor_id);
    berth_json_put_str(w, "consumerType", e->consumer_type);
    berth_json_put_str(w, "consumerId", e->consumer_id);
    berth_json_put_str(w, "configPath", e->config_path);
    berth_json_put_str(w, "issueId", e->issue_id);
    berth_json_put_str(w, "heartbeatRunId", e->heartbeat_run_id);
    berth_json_put_str(w, "outcome", e->success ? "success" : "failure");
    berth_json_put_str(w, "errorCode", e->error_code);
    berth_json_put_time(w, "createdAt", e->created_at_ms);
    berth_json_close(w, '}');
}

const char *berth_binding_to_json(struct berth_arena *arena, const struct berth_binding *b)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    berth_binding_json(&(struct berth_json_writer){.buf = &buf}, b);
    return berth_arena_strdup(arena, berth_buf_str(&buf));
}

const char *berth_secret_event_to_json(struct berth_arena *arena,
                                       const struct berth_secret_event *e)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    berth_secret_event_json(&(struct berth_json_writer){.buf = &buf}, e);
    return berth_arena_strdup(arena, berth_buf_str(&buf));
}

/* --- sealing --- */

/* What a version is sealed for: moved to another row, it opens no more. */
const char *berth_secret_context(struct berth_arena *arena, const char *company_id,
                                 const struct berth_secret_version *v)
{
    return berth_arena_printf(arena, "berth secret\n%s\n%s\n%" PRId64 "\n%s\n%" PRId64, company_id,
                              v->secret_id, v->version, v->key_id, v->created_at_ms);
}

/* The key that the store says is in use. The first one ever comes from the key file. */
static int current_key(struct berth *b, struct berth_db *db, struct berth_arena *arena,
                       const char **out, struct berth_error *err)
{
    int rc = berth_secret_key_load(db, arena, BERTH_LOCK_SHARE, out, err);
    if (rc < 0 || *out)
        return rc;
    char id[BERTH_KEY_ID_SIZE];
    rc = berth_secret_provider_first_key(b->secret_provider, b->store_id, id, err);
    if (rc == BERTH_OK)
        rc = berth_secret_key_insert(db, id, berth_time_wall_ms(), err);
    if (rc == BERTH_OK) /* perhaps the key of a faster process */
        rc = berth_secret_key_load(db, arena, BERTH_LOCK_SHARE, out, err);
    if (rc == BERTH_OK && !*out)
        rc = berth_fail(err, BERTH_E_INTERNAL, "The store has no key for its secrets.");
    return rc;
}

static int add_version(struct berth *b, struct berth_db *db, struct berth_arena *arena,
                       const struct berth_secret *s, const void *value, size_t len,
                       struct berth_error *err)
{
    struct berth_secret_version v = {.secret_id = s->id,
                                     .version = s->latest_version,
                                     .status = BERTH_VERSION_CURRENT,
                                     .created_at_ms = s->last_rotated_at_ms};
    int rc = current_key(b, db, arena, &v.key_id, err);
    if (rc < 0)
        return rc;
    const char *context = berth_secret_context(arena, s->company_id, &v);
    auto_free char *sealed = NULL;
    rc = context ? berth_secret_provider_seal(b->secret_provider, v.key_id, context, value, len,
                                              &sealed, err)
                 : berth_arena_check(arena, err);
    v.sealed = sealed;
    return rc < 0 ? rc : berth_version_insert(db, &v, err);
}

int berth_secret_add(struct berth *b, struct berth_db *db, struct berth_arena *arena,
                     const struct berth_secret *row, const void *value, size_t len,
                     struct berth_error *err)
{
    int rc = berth_secret_insert(db, row, err);
    return rc < 0 ? rc : add_version(b, db, arena, row, value, len, err);
}

/* --- making and changing --- */

struct change {
    struct berth *b;
    struct berth_arena *arena;
    const struct berth_secret_input *input;
    const struct berth_actor *actor;
    const char *id;
    const void *value;
    size_t len;
    struct berth_secret *secret;
};

static int write_activity(struct berth_db *db, const struct change *c, const char *action,
                          struct berth_error *err)
{
    const struct berth_secret *s = c->secret;
    auto_buf buf = BERTH_BUF_INIT(BERTH_METADATA_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "name", s->name);
    berth_json_put_str(&w, "provider", "local_encrypted");
    berth_json_put_int(&w, "version", s->latest_version);
    berth_json_put_str(&w, "status", berth_secret_statuses.names[s->status]);
    berth_json_close(&w, '}');
    int rc = berth_buf_check(&buf, "Activity details", err);
    struct berth_entity entity = {s->company_id, "secret", s->id};
    return rc < 0 ? rc : berth_activity_of(db, &entity, action, c->actor, berth_buf_str(&buf), err);
}

static int check_value(const void *value, size_t len, struct berth_error *err)
{
    if (!value || len == 0)
        return berth_fail(err, BERTH_E_UNPROCESSABLE, "Managed secrets require value");
    if (len > BERTH_SECRET_BYTES_MAX)
        return berth_fail(err, BERTH_E_TOO_LARGE, "The value is longer than %d bytes.",
                          BERTH_SECRET_BYTES_MAX);
    return BERTH_OK;
}

static int check_words(const struct berth_secret_input *in, struct berth_error *err)
{
    int rc = berth_utf8_check_name(in->name, "A secret", err);
    if (rc == BERTH_OK && in->description)
        rc = berth_utf8_check(in->description, BERTH_DESCRIPTION_BYTES_MAX, "description", err);
    return rc;
}

/* Makes a key from a text: lower case, runs of other characters than letters, digits, "_", "." and
 * "-" become one "-", and "-" at the ends is removed. */
static const char *key_from(struct berth_arena *arena, const char *text)
{
    char *key = berth_arena_alloc(arena, strlen(text) + 1), *to = key;
    if (!key)
        return NULL;
    for (; *text; text++) {
        char c = (char)tolower((unsigned char)*text);
        bool plain = (c >= 'a' && c <= 'z') || isdigit((unsigned char)c) || strchr("_.-", c);
        if (plain)
            *to++ = c;
        else if (to > key && to[-1] != '-')
            *to++ = '-';
    }
    while (*key == '-')
        key++;
    if (to - key > BERTH_SECRET_KEY_BYTES_MAX)
        to = key + BERTH_SECRET_KEY_BYTES_MAX;
    while (to > key && to[-1] == '-')
        to--;
    *to = '\0';
    return key;
}

/* The unique indexes are the last word; this is for the text. */
static int refuse_taken(struct berth_db *db, const struct change *c, struct berth_error *err)
{
    const struct berth_secret *s = c->secret;
    struct berth_secret *other;
    int rc = berth_secret_find(db, c->arena, s->company_id, s->name, NULL, &other, err);
    if (rc == BERTH_OK && other && strcmp(other->id, s->id) != 0)
        rc = berth_fail(err, BERTH_E_CONFLICT, "Secret already exists: %s", s->name);
    if (rc == BERTH_OK)
        rc = berth_secret_find(db, c->arena, s->company_id, NULL, s->key, &other, err);
    if (rc == BERTH_OK && other && strcmp(other->id, s->id) != 0)
        rc = berth_fail(err, BERTH_E_CONFLICT, "Secret key already exists: %s", s->key);
    return rc;
}

static int tx_create(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct change *c = ctx;
    struct berth_company *company;
    int rc = berth_company_by_id(db, c->arena, c->secret->company_id, &company, err);
    if (rc == BERTH_OK && !company)
        rc = berth_fail(err, BERTH_E_NOT_FOUND, "Company not found");
    if (rc == BERTH_OK)
        rc = refuse_taken(db, c, err);
    if (rc == BERTH_OK)
        rc = berth_secret_add(c->b, db, c->arena, c->secret, c->value, c->len, err);
    return rc < 0 ? rc : write_activity(db, c, "secret.created", err);
}

int berth_secret_create(struct berth *b, struct berth_arena *arena,
                        const struct berth_secret_input *in, const void *value, size_t len,
                        struct berth_secret **out, struct berth_error *err)
{
    int rc = check_words(in, err);
    if (rc == BERTH_OK)
        rc = check_value(value, len, err);
    if (rc == BERTH_OK && in->company_id && !berth_id_valid(in->company_id))
        rc = berth_fail(err, BERTH_E_NOT_FOUND, "Company not found");
    if (rc < 0)
        return rc;
    struct berth_secret *s = berth_arena_alloc(arena, sizeof *s);
    const char *key = key_from(arena, in->key ? in->key : in->name);
    if (!s || !key)
        return berth_arena_check(arena, err);
    if (!*key)
        return berth_fail(err, BERTH_E_UNPROCESSABLE, "Secret key is required");
    int64_t now = berth_time_wall_ms();
    struct berth_id id = berth_id_new();
    *s = (struct berth_secret){
        .id = berth_arena_strdup(arena, id.text),
        .company_id = berth_arena_strdup(arena, in->company_id ? in->company_id : b->company_id),
        .key = key,
        .name = berth_arena_strdup(arena, in->name),
        .description = berth_arena_strdup(arena, in->description),
        .status = BERTH_SECRET_ACTIVE,
        .latest_version = 1,
        .created_by_type = berth_arena_strdup(arena, in->actor ? in->actor->type : "system"),
        .created_by_id = berth_arena_strdup(arena, in->actor ? in->actor->id : NULL),
        .last_rotated_at_ms = now,
        .created_at_ms = now,
        .updated_at_ms = now,
    };
    rc = berth_arena_check(arena, err);
    struct change c = {.b = b,
                       .arena = arena,
                       .input = in,
                       .actor = in->actor,
                       .value = value,
                       .len = len,
                       .secret = s};
    if (rc == BERTH_OK)
        rc = berth_store_tx(b->store, tx_create, &c, err);
    if (rc == BERTH_OK)
        *out = s;
    return rc;
}

/* Loads the row and locks it until we commit. */
static int load_for_change(struct berth_db *db, struct change *c, struct berth_error *err)
{
    int rc = berth_secret_load(db, c->arena, c->id, BERTH_LOCK_UPDATE, &c->secret, err);
    if (rc == BERTH_OK && !c->secret)
        rc = not_found(err);
    if (rc == BERTH_OK)
        c->secret->updated_at_ms = berth_time_wall_ms();
    return rc;
}

static int tx_rotate(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct change *c = ctx;
    int rc = load_for_change(db, c, err);
    if (rc < 0)
        return rc;
    struct berth_secret *s = c->secret;
    if (s->status != BERTH_SECRET_ACTIVE)
        return berth_fail(err, BERTH_E_UNPROCESSABLE, "Cannot rotate a non-active secret");
    s->latest_version++;
    s->last_rotated_at_ms = s->updated_at_ms;
    rc = berth_version_retire(db, s->id, err);
    if (rc == BERTH_OK)
        rc = berth_secret_save(db, s, err);
    if (rc == BERTH_OK)
        rc = add_version(c->b, db, c->arena, s, c->value, c->len, err);
    return rc < 0 ? rc : write_activity(db, c, "secret.rotated", err);
}

static int tx_update(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct change *c = ctx;
    int rc = load_for_change(db, c, err);
    if (rc < 0)
        return rc;
    struct berth_secret *s = c->secret;
    const struct berth_secret_input *in = c->input;
    if (in->fields & BERTH_SECRET_NAME)
        s->name = in->name;
    if (in->fields & BERTH_SECRET_DESCRIPTION)
        s->description = in->description;
    if (in->fields & BERTH_SECRET_STATUS)
        s->status = in->status;
    rc = refuse_taken(db, c, err);
    if (rc == BERTH_OK)
        rc = berth_secret_save(db, s, err);
    return rc < 0 ? rc : write_activity(db, c, "secret.updated", err);
}

static int tx_delete(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct change *c = ctx;
    int rc = load_for_change(db, c, err);
    if (rc < 0)
        return rc;
    const struct berth_secret *s = c->secret;
    int64_t captures, bindings = 0;
    rc = berth_secret_count_captures(db, s->company_id, s->id, &captures, err);
    if (rc == BERTH_OK)
        rc = berth_secret_count_bindings(db, s->id, &bindings, err);
    if (rc < 0)
        return rc;
    if (captures)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "Secret \"%s\" is needed by %" PRId64 " lease%s: release %s, and let the "
                          "clean-up finish (\"berth sweep\").",
                          s->name, captures, captures == 1 ? "" : "s",
                          captures == 1 ? "it" : "them");
    if (bindings)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "Secret \"%s\" is used by %" PRId64 " config%s: \"berth secret usage\" "
                          "shows where; change those first.",
                          s->name, bindings, bindings == 1 ? "" : "s");
    rc = berth_secret_remove(db, s->id, err);
    return rc < 0 ? rc : write_activity(db, c, "secret.deleted", err);
}

static int secret_change(struct change *c, berth_tx_fn *fn, struct berth_secret **out,
                         struct berth_error *err)
{
    struct berth_id parsed;
    if (berth_id_parse(c->id, "Secret", &parsed, err) < 0)
        return not_found(err);
    c->id = parsed.text;
    int rc = berth_store_tx(c->b->store, fn, c, err);
    if (rc == BERTH_OK && out)
        *out = c->secret;
    return rc;
}

int berth_secret_rotate(struct berth *b, struct berth_arena *arena, const char *id,
                        const void *value, size_t len, const struct berth_actor *actor,
                        struct berth_secret **out, struct berth_error *err)
{
    struct change c = {
        .b = b, .arena = arena, .id = id, .value = value, .len = len, .actor = actor};
    int rc = check_value(value, len, err);
    return rc < 0 ? rc : secret_change(&c, tx_rotate, out, err);
}

int berth_secret_update(struct berth *b, struct berth_arena *arena, const char *id,
                        const struct berth_secret_input *input, struct berth_secret **out,
                        struct berth_error *err)
{
    struct berth_secret_input in = *input;
    in.name = in.fields & BERTH_SECRET_NAME ? berth_arena_strdup(arena, input->name) : "-";
    in.description =
        in.fields & BERTH_SECRET_DESCRIPTION ? berth_arena_strdup(arena, input->description) : NULL;
    if (!in.fields)
        return berth_fail(err, BERTH_E_INVALID, "Nothing to change was given.");
    int rc = berth_arena_check(arena, err);
    if (rc == BERTH_OK)
        rc = check_words(&in, err);
    struct change c = {.b = b, .arena = arena, .id = id, .input = &in, .actor = in.actor};
    return rc < 0 ? rc : secret_change(&c, tx_update, out, err);
}

int berth_secret_delete(struct berth *b, struct berth_arena *arena, const char *id,
                        const struct berth_actor *actor, struct berth_secret **out,
                        struct berth_error *err)
{
    struct change c = {.b = b, .arena = arena, .id = id, .actor = actor};
    return secret_change(&c, tx_delete, out, err);
}

/* --- bindings --- */

int berth_secret_of_company(struct berth_db *db, struct berth_arena *arena, const char *company_id,
                            const char *secret_id, enum berth_row_lock lock,
                            struct berth_secret **out, struct berth_error *err)
{
    int rc = berth_secret_load(db, arena, secret_id, lock, out, err);
    if (rc == BERTH_OK && (!*out || strcmp((*out)->company_id, company_id) != 0))
        rc = not_found(err); /* another company's secret is answered like one that does not exist */
    return rc;
}

int berth_secret_bind(struct berth_db *db, struct berth_arena *arena,
                      const struct berth_binding *target, const struct berth_list *bindings,
                      struct berth_error *err)
{
    int rc = berth_binding_remove_all(db, target->company_id, target->target_type,
                                      target->target_id, err);
    for (int i = 0; rc == BERTH_OK && i < bindings->count; i++) {
        struct berth_binding binding = *target;
        const struct berth_binding *wanted = bindings->items[i];
        struct berth_secret *secret;
        binding.config_path = wanted->config_path;
        binding.secret_id = wanted->secret_id;
        binding.version = wanted->version;
        rc = berth_secret_of_company(db, arena, target->company_id, binding.secret_id,
                                     BERTH_LOCK_SHARE, &secret, err);
        if (rc < 0)
            return berth_wrap(err, "config.%s", binding.config_path);
        rc = berth_binding_insert(db, &binding, err);
    }
    return rc;
}

/* One that its environment needs no more: it goes, or becomes an operator's when others use it. */
static int drop_one(struct berth_db *db, struct berth_arena *arena, const char *id, bool gone,
                    const struct berth_actor *actor, struct berth_error *err)
{
    struct change c = {.arena = arena, .actor = actor};
    int64_t captures = 0, bindings = 0;
    int rc = berth_secret_load(db, arena, id, BERTH_LOCK_UPDATE, &c.secret, err);
    if (rc < 0 || !c.secret)
        return rc;
    rc = berth_secret_count_captures(db, c.secret->company_id, id, &captures, err);
    if (rc == BERTH_OK)
        rc = berth_secret_count_bindings(db, id, &bindings, err);
    if (rc < 0)
        return rc;
    if (!captures && !bindings) {
        rc = berth_secret_remove(db, id, err);
        return rc < 0 ? rc : write_activity(db, &c, "secret.deleted", err);
    }
    c.secret->environment_id = NULL;
    return gone ? berth_secret_save(db, c.secret, err) : BERTH_OK;
}

int berth_secret_drop_unused(struct berth_db *db, struct berth_arena *arena,
                             const char *environment_id, bool gone, const struct berth_actor *actor,
                             struct berth_error *err)
{
    struct berth_list made;
    int rc = berth_secret_select_made_by(db, arena, environment_id, &made, err);
    for (int i = 0; rc == BERTH_OK && i < made.count; i++)
        rc =
            drop_one(db, arena, ((const struct berth_secret *)made.items[i])->id, gone, actor, err);
    return rc;
}
