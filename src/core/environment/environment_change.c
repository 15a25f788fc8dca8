/* SPDX-License-Identifier: Apache-2.0
 * src/core/environment/environment_change.c - creates and updates environments, and stores the
 * secrets of their configs. */
#include <ctype.h>
#include <string.h>

#include "base/failpoint.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"
#include "core/environment/environment.h"
#include "core/plugin/plugin.h"
#include "core/secret/secret.h"
#include "core/secret/secret_refs.h"
#include "store/company.h"
#include "store/store.h"

#define FIELD_BYTES_MAX 40 /* of a field's path in the name of a secret */
#define SLUG_BYTES_MAX 48  /* of an environment's name there */

/* One change under way. */
struct change {
    struct berth *b;
    struct berth_arena *arena;
    const struct berth_environment_input *input;
    struct berth_json *config, *metadata; /* as given; NULL: not */
    const char *id;
    struct berth_environment *environment;  /* what is to be stored */
    const struct berth_environment *before; /* update: what it was made from */
    const char *details_json;
    bool configured;              /* there is a config to store, with: */
    struct berth_list references; /* of struct berth_secret_ref */
    struct berth_list pasted;     /* of struct berth_pasted: secrets to be made */
    const struct berth_draft *draft;
    bool again;
};

/* --- checking what comes in --- */

static int check_input(const struct berth_environment_input *in, struct berth_error *err)
{
    int rc = BERTH_OK;
    if (in->fields & BERTH_FIELD_NAME) {
        if (!in->name || !*in->name)
            return berth_fail(err, BERTH_E_INVALID, "An environment needs a name.");
        rc = berth_utf8_check(in->name, BERTH_NAME_BYTES_MAX, "name", err);
    }
    if (rc == BERTH_OK && (in->fields & BERTH_FIELD_DESCRIPTION) && in->description)
        rc = berth_utf8_check(in->description, BERTH_DESCRIPTION_BYTES_MAX, "description", err);
    return rc;
}

static int environment_parse(const char *text, const char *what, struct berth_json **out,
                             struct berth_error *err)
{
    int rc = text ? berth_json_parse(text, strlen(text), BERTH_JSON_OURS, out, err) : BERTH_OK;
    return rc < 0 ? berth_wrap(err, "%s", what) : rc;
}

/* The two documents in the input; the change owns them until end_change. */
static int begin_change(struct change *c, struct berth_error *err)
{
    int rc = check_input(c->input, err);
    if (rc == BERTH_OK)
        rc = environment_parse(c->input->config_json, "config", &c->config, err);
    if (rc == BERTH_OK)
        rc = environment_parse(c->input->metadata_json, "metadata", &c->metadata, err);
    if (rc == BERTH_OK && c->metadata && !berth_json_is(c->metadata, BERTH_JSON_OBJECT) &&
        !berth_json_is(c->metadata, BERTH_JSON_NULL))
        rc = berth_fail(err, BERTH_E_INVALID, "The metadata must be an object or null.");
    return rc;
}

static void end_change(struct change *c)
{
    berth_json_free(c->config);
    berth_json_free(c->metadata);
    berth_pasted_clear(&c->pasted);
}

/* Normalises `config` into the environment, with its fingerprint. */
static int set_config(struct change *c, const struct berth_json *config,
                      struct berth_issues *issues, struct berth_error *err)
{
    struct berth_environment *e = c->environment;
    const char *driver = berth_environment_drivers.names[e->driver];
    auto_json *normalised = NULL, *taken = NULL;
    int rc = BERTH_OK;
    berth_plugins_refresh(c->b);
    berth_pasted_clear(&c->pasted);
    if (c->input->use != BERTH_CONFIG_SCHEMA && berth_json_is(config, BERTH_JSON_OBJECT)) {
        taken = berth_json_copy(config);
        if (!taken)
            return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: config.");
        rc = berth_secret_refs_take(c->b->registry, c->arena, driver, taken, &c->pasted, err);
    }
    if (rc == BERTH_OK)
        rc = berth_config_normalise(c->b->registry, e->driver, taken ? taken : config,
                                    c->input->use, issues, &normalised, err);
    /* Once more: only now is it certain which provider is meant, and the provider has had its say.
     */
    if (rc == BERTH_OK && taken)
        rc = berth_secret_refs_take(c->b->registry, c->arena, driver, normalised, &c->pasted, err);
    if (rc == BERTH_OK)
        rc =
            berth_secret_refs_of(c->b->registry, c->arena, driver, normalised, &c->references, err);
    if (rc < 0)
        return rc;
    const char *refusal = berth_config_refusal(c->b->registry, driver, normalised);
    if (c->input->own_keys && refusal)
        return berth_fail(err, BERTH_E_DENIED, "%s", refusal);
    c->configured = true;
    e->config_json = berth_json_canonical_in(c->arena, normalised);
    if (!e->config_json)
        return berth_arena_check(c->arena, err);
    if (strlen(e->config_json) > BERTH_CONFIG_BYTES_MAX)
        return berth_fail(err, BERTH_E_TOO_LARGE, "The config is longer than %d bytes.",
                          BERTH_CONFIG_BYTES_MAX);
    return berth_config_fingerprint(c->arena, e->driver, e->config_json, &e->fingerprint, err);
}

static int set_metadata(struct change *c, struct berth_error *err)
{
    struct berth_environment *e = c->environment;
    const struct berth_json *metadata = c->metadata;
    e->metadata_json = NULL;
    if (!berth_json_is(metadata, BERTH_JSON_OBJECT))
        return BERTH_OK;
    e->metadata_json = berth_json_canonical_in(c->arena, metadata);
    if (e->metadata_json && strlen(e->metadata_json) > BERTH_METADATA_BYTES_MAX)
        return berth_fail(err, BERTH_E_TOO_LARGE, "The metadata is longer than %d bytes.",
                          BERTH_METADATA_BYTES_MAX);
    return berth_arena_check(c->arena, err);
}

/* --- the secrets in it --- */

/* "environment-<driver>-<name>-<field>-<8 hex>" */
static const char *secret_name(const struct change *c, const struct berth_pasted *p)
{
    char slug[SLUG_BYTES_MAX + 1], *to = slug;
    for (const char *from = c->environment->name; *from && to < slug + SLUG_BYTES_MAX; from++)
        if (isalnum((unsigned char)*from))
            *to++ = (char)tolower((unsigned char)*from);
        else if (to > slug && to[-1] != '-')
            *to++ = '-';
    while (to > slug && to[-1] == '-')
        to--;
    *to = '\0';
    return berth_arena_printf(c->arena, "environment-%s-%s-%.*s-%s",
                              berth_environment_drivers.names[c->environment->driver],
                              *slug ? slug : "environment", FIELD_BYTES_MAX, p->field,
                              p->secret_id + strlen(p->secret_id) - 8);
}

static bool is_referenced(const struct change *c, const char *secret_id)
{
    for (int i = 0; i < c->references.count; i++)
        if (strcmp(((const struct berth_secret_ref *)c->references.items[i])->secret_id,
                   secret_id) == 0)
            return true;
    return false; /* the provider wanted nothing of it */
}

static int make_secret(struct berth_db *db, const struct change *c, const struct berth_pasted *p,
                       struct berth_error *err)
{
    const struct berth_actor *actor = c->input->actor;
    const struct berth_environment *e = c->environment;
    const char *name = secret_name(c, p);
    struct berth_secret row = {
        .id = p->secret_id,
        .company_id = e->company_id,
        .key = name,
        .name = name,
        .description = berth_arena_printf(c->arena, "Secret for %s %s.", e->name, p->field),
        .latest_version = 1,
        .environment_id = e->id,
        .created_by_type = actor ? actor->type : "system",
        .created_by_id = actor ? actor->id : NULL,
        .last_rotated_at_ms = e->updated_at_ms,
        .created_at_ms = e->updated_at_ms,
        .updated_at_ms = e->updated_at_ms,
    };
    int rc = berth_arena_check(c->arena, err);
    if (rc == BERTH_OK)
        rc = berth_secret_add(c->b, db, c->arena, &row, p->value.bytes, p->value.len, err);
    struct berth_entity entity = {e->company_id, "secret", p->secret_id};
    const char *details =
        berth_arena_printf(c->arena, "{\"name\":\"%s\",\"provider\":\"local_encrypted\"}", name);
    return rc < 0 || !details
               ? rc
               : berth_activity_of(db, &entity, "secret.created", actor, details, err);
}

/* Creates the pasted secrets, binds all secrets of the config, and deletes those that are unused
 * now. Runs in the transaction that stores the config. */
static int settle_secrets(struct berth_db *db, const struct change *c, struct berth_error *err)
{
    const struct berth_environment *e = c->environment;
    int rc = BERTH_OK;
    if (!c->configured)
        return rc;
    for (int i = 0; rc == BERTH_OK && i < c->pasted.count; i++) {
        const struct berth_pasted *p = c->pasted.items[i];
        if (is_referenced(c, p->secret_id))
            rc = make_secret(db, c, p, err);
    }
    struct berth_binding target = {.company_id = e->company_id,
                                   .target_type = "environment",
                                   .target_id = e->id,
                                   .created_at_ms = e->updated_at_ms};
    struct berth_list bindings = {0};
    for (int i = 0; rc == BERTH_OK && i < c->references.count; i++) {
        const struct berth_secret_ref *r = c->references.items[i];
        struct berth_binding *binding = berth_arena_alloc(c->arena, sizeof *binding);
        if (!binding || !berth_list_add(&bindings, c->arena, binding))
            return berth_arena_check(c->arena, err);
        binding->config_path = r->path;
        binding->secret_id = r->secret_id;
        binding->version = r->version;
    }
    if (rc == BERTH_OK)
        rc = berth_secret_bind(db, c->arena, &target, &bindings, err);
    return rc < 0 ? rc : berth_secret_drop_unused(db, c->arena, e->id, false, c->input->actor, err);
}

/* --- creating --- */

/* A company has at most one local environment; the unique index is the last word. */
static int refuse_second_local(struct berth_db *db, const struct change *c, struct berth_error *err)
{
    const struct berth_environment *e = c->environment;
    if (!berth_environment_in_place(c->b, e))
        return BERTH_OK;
    struct berth_environment_filter filter = BERTH_ENVIRONMENT_FILTER_INIT;
    filter.company_id = e->company_id;
    filter.driver = (int)e->driver;
    struct berth_list list;
    int rc = berth_environment_select(db, c->arena, &filter, &list, err);
    for (int i = 0; rc == BERTH_OK && i < list.count; i++) {
        const struct berth_environment *other = list.items[i];
        if (strcmp(other->id, e->id) != 0)
            rc = berth_fail(err, BERTH_E_CONFLICT,
                            "This company already has a local environment, \"%s\".", other->name);
    }
    return rc;
}

static int tx_create(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct change *c = ctx;
    struct berth_company *company;
    int rc = berth_company_by_id(db, c->arena, c->environment->company_id, &company, err);
    if (rc == BERTH_OK && !company)
        rc = berth_fail(err, BERTH_E_NOT_FOUND, "Company not found");
    if (rc == BERTH_OK)
        rc = refuse_second_local(db, c, err);
    if (rc == BERTH_OK)
        rc = berth_environment_insert(db, c->environment, err);
    if (rc == BERTH_OK)
        rc = settle_secrets(db, c, err);
    if (rc == BERTH_OK)
        rc = berth_activity_of_environment(db, c->environment, "environment.created",
                                           c->input->actor, c->details_json, err);
    return rc;
}

static const char *new_id(struct berth_arena *arena)
{
    struct berth_id id = berth_id_new();
    return berth_arena_strdup(arena, id.text);
}

static int new_environment(struct change *c, struct berth_error *err)
{
    const struct berth_environment_input *in = c->input;
    struct berth_environment *e = berth_arena_alloc(c->arena, sizeof *e);
    if (!e)
        return berth_arena_check(c->arena, err);
    int64_t now = berth_time_wall_ms();
    *e = (struct berth_environment){
        .id = new_id(c->arena),
        .company_id =
            berth_arena_strdup(c->arena, in->company_id ? in->company_id : c->b->company_id),
        .name = berth_arena_strdup(c->arena, in->name),
        .description = berth_arena_strdup(c->arena, in->description),
        .driver = in->driver,
        .status = in->fields & BERTH_FIELD_STATUS ? in->status : BERTH_ENVIRONMENT_ACTIVE,
        .created_at_ms = now,
        .updated_at_ms = now,
    };
    c->environment = e;
    return berth_arena_check(c->arena, err);
}

int berth_environment_create(struct berth *b, struct berth_arena *arena,
                             const struct berth_environment_input *input,
                             struct berth_issues *issues, struct berth_environment **out,
                             struct berth_error *err)
{
    struct berth_environment_input in = *input;
    in.fields |= BERTH_FIELD_NAME;
    struct change c = {.b = b, .arena = arena, .input = &in};
    int rc = begin_change(&c, err);
    if (rc == BERTH_OK && in.company_id && !berth_id_valid(in.company_id))
        rc = berth_fail(err, BERTH_E_NOT_FOUND, "Company not found");
    if (rc == BERTH_OK)
        rc = new_environment(&c, err);
    if (rc == BERTH_OK)
        rc = set_config(&c, c.config, issues, err);
    if (rc == BERTH_OK)
        rc = set_metadata(&c, err);
    if (rc == BERTH_OK)
        rc = berth_environment_details(c.arena, c.environment, &c.details_json, err);
    if (rc == BERTH_OK)
        rc = berth_store_tx(b->store, tx_create, &c, err);
    end_change(&c);
    if (rc == BERTH_OK)
        *out = c.environment;
    return rc;
}

/* --- trying without creating --- */

static int tx_draft(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct change *c = ctx;
    int rc = berth_environment_insert(db, c->environment, err);
    if (rc == BERTH_OK)
        rc = settle_secrets(db, c, err);
    return rc < 0 ? rc : c->draft->also(db, c->draft->ctx, err);
}

int berth_environment_draft(struct berth *b, struct berth_arena *arena,
                            const struct berth_environment_input *input,
                            const struct berth_draft *draft, struct berth_issues *issues,
                            struct berth_error *err)
{
    struct berth_environment_input in = *input;
    in.fields |= BERTH_FIELD_NAME;
    in.use = BERTH_CONFIG_PROBE;
    in.name = in.name ? in.name : "unsaved";
    struct change c = {.b = b, .arena = arena, .input = &in, .draft = draft};
    bool stored = false;
    int rc = begin_change(&c, err);
    if (rc == BERTH_OK)
        rc = new_environment(&c, err);
    if (rc == BERTH_OK)
        rc = set_config(&c, c.config, issues, err);
    if (rc == BERTH_OK) {
        c.environment->status = BERTH_ENVIRONMENT_ARCHIVED;
        c.environment->deleting = true;
        c.environment->created_at_ms = 0;
        rc = draft->ready(draft->ctx, c.environment, &stored, err);
    }
    if (rc == BERTH_OK && stored)
        rc = berth_store_tx(b->store, tx_draft, &c, err);
    end_change(&c);
    return rc;
}

int berth_environment_ensure_local(struct berth *b, struct berth_arena *arena,
                                   const char *company_id, struct berth_environment **out,
                                   struct berth_error *err)
{
    struct berth_environment_filter filter = BERTH_ENVIRONMENT_FILTER_INIT;
    filter.company_id = company_id;
    filter.driver = BERTH_DRIVER_DEFAULT;
    for (int tries = 0; tries < 2; tries++) {
        struct berth_list list;
        int rc = berth_environment_list(b, arena, &filter, &list, err);
        if (rc < 0)
            return rc;
        if (list.count) {
            *out = list.items[0];
            return BERTH_OK;
        }
        struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
        input.company_id = company_id;
        input.name = "Local";
        input.description = "Default execution environment for Paperclip runs on this machine.";
        input.driver = BERTH_DRIVER_DEFAULT;
        input.metadata_json = "{\"managedByPaperclip\":true,\"defaultForCompany\":true}";
        struct berth_issues issues = {.arena = arena};
        rc = berth_environment_create(b, arena, &input, &issues, out, err);
        if (rc != BERTH_E_CONFLICT) /* else another process was faster: use its environment */
            return rc;
    }
    return berth_fail(err, BERTH_E_INTERNAL, "Failed to ensure local environment");
}

/* --- updating --- */

/* Which config is to be normalised, the caller's; NULL: the stored one stays. */
static int next_config(const struct change *c, struct berth_json **out, struct berth_error *err)
{
    const struct berth_environment_input *in = c->input;
    bool moved = c->environment->driver != c->before->driver;
    *out = NULL;
    if (!(in->fields & (BERTH_FIELD_CONFIG | BERTH_FIELD_DRIVER)))
        return BERTH_OK;
    struct berth_json *base = NULL;
    const char *text = moved ? "{}" : c->before->config_json;
    int rc = berth_json_parse(text, strlen(text), BERTH_JSON_OURS, &base, err);
    if (rc < 0)
        return rc;
    if (in->fields & BERTH_FIELD_CONFIG)
        berth_json_each (c->config, iter) {
            if (!berth_json_set(base, berth_json_iter_key(iter),
                                berth_json_copy(berth_json_iter_value(iter)))) {
                berth_json_free(base);
                return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: config.");
            }
        }
    *out = base;
    return BERTH_OK;
}

/* Says which fields changed, never to what a config or metadata did. */
static int update_details(struct change *c, struct berth_error *err)
{
    static const struct {
        unsigned field;
        const char *name;
    } sorted[] = {{BERTH_FIELD_CONFIG, "config"}, {BERTH_FIELD_DESCRIPTION, "description"},
                  {BERTH_FIELD_DRIVER, "driver"}, {BERTH_FIELD_METADATA, "metadata"},
                  {BERTH_FIELD_NAME, "name"},     {BERTH_FIELD_STATUS, "status"}};
    const struct berth_environment_input *in = c->input;
    const struct berth_environment *e = c->environment;
    auto_buf buf = BERTH_BUF_INIT(BERTH_METADATA_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    berth_json_open(&w, '{');
    berth_json_open_in(&w, "changedFields", '[');
    for (size_t i = 0; i < sizeof sorted / sizeof sorted[0]; i++)
        if (in->fields & sorted[i].field)
            berth_json_put_str(&w, NULL, sorted[i].name);
    berth_json_close(&w, ']');
    if (in->fields & BERTH_FIELD_NAME)
        berth_json_put_str(&w, "name", e->name);
    if (in->fields & BERTH_FIELD_DRIVER)
        berth_json_put_str(&w, "driver", berth_environment_drivers.names[e->driver]);
    if (in->fields & BERTH_FIELD_STATUS)
        berth_json_put_str(&w, "status", berth_environment_statuses.names[e->status]);
    if (in->fields & BERTH_FIELD_DESCRIPTION)
        berth_json_put_bool(&w, "descriptionChanged", true);
    if (in->fields & BERTH_FIELD_CONFIG) {
        berth_json_put_bool(&w, "configChanged", true);
        berth_json_put_int(&w, "configTopLevelKeyCount", (int64_t)berth_json_count(c->config));
    }
    if (in->fields & BERTH_FIELD_METADATA) {
        berth_json_put_bool(&w, "metadataChanged", true);
        berth_json_put_int(&w, "metadataTopLevelKeyCount", (int64_t)berth_json_count(c->metadata));
    }
    berth_json_close(&w, '}');
    int rc = berth_buf_check(&buf, "Activity details", err);
    c->details_json = berth_arena_strdup(c->arena, berth_buf_str(&buf));
    return rc < 0 ? rc : berth_arena_check(c->arena, err);
}

static int tx_update(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct change *c = ctx;
    struct berth_environment *now;
    int rc = berth_environment_load(db, c->arena, c->id, BERTH_LOCK_UPDATE, &now, err);
    if (rc < 0)
        return rc;
    if (!now)
        return berth_environment_not_found(err);
    if (now->deleting)
        return berth_fail(err, BERTH_E_CONFLICT, "Environment \"%s\" is being deleted.", now->name);
    c->again = strcmp(now->fingerprint, c->before->fingerprint) != 0 ||
               now->updated_at_ms != c->before->updated_at_ms;
    if (c->again)
        return BERTH_OK;
    rc = refuse_second_local(db, c, err);
    if (rc == BERTH_OK)
        rc = berth_environment_save(db, c->environment, err);
    if (rc == BERTH_OK)
        rc = settle_secrets(db, c, err);
    if (rc == BERTH_OK)
        rc = berth_activity_of_environment(db, c->environment, "environment.updated",
                                           c->input->actor, c->details_json, err);
    return rc;
}

static int try_update(struct change *c, struct berth_issues *issues, struct berth_error *err)
{
    const struct berth_environment_input *in = c->input;
    struct berth_environment *before;
    int rc = berth_environment_get(c->b, c->arena, c->id, &before, err);
    struct berth_environment *e = berth_arena_alloc(c->arena, sizeof *e);
    if (rc < 0)
        return rc;
    if (!e)
        return berth_arena_check(c->arena, err);
    *e = *before;
    c->before = before;
    c->environment = e;
    c->id = e->id;
    e->updated_at_ms = berth_time_wall_ms();
    if (e->updated_at_ms <= before->updated_at_ms)
        e->updated_at_ms = before->updated_at_ms + 1; /* tells two changes of one moment apart */
    if (in->fields & BERTH_FIELD_NAME)
        e->name = berth_arena_strdup(c->arena, in->name);
    if (in->fields & BERTH_FIELD_DESCRIPTION)
        e->description = berth_arena_strdup(c->arena, in->description);
    if (in->fields & BERTH_FIELD_DRIVER)
        e->driver = in->driver;
    if (in->fields & BERTH_FIELD_STATUS)
        e->status = in->status;
    if (in->fields & BERTH_FIELD_METADATA)
        rc = set_metadata(c, err);
    auto_json *config = NULL;
    if (rc == BERTH_OK)
        rc = next_config(c, &config, err);
    if (rc == BERTH_OK && config)
        rc = set_config(c, config, issues, err);
    if (rc == BERTH_OK)
        rc = update_details(c, err);
    return rc < 0 ? rc : berth_store_tx(c->b->store, tx_update, c, err);
}

int berth_environment_update(struct berth *b, struct berth_arena *arena, const char *id,
                             const struct berth_environment_input *input,
                             struct berth_issues *issues, struct berth_environment **out,
                             struct berth_error *err)
{
    struct change c = {.b = b, .arena = arena, .input = input, .id = id, .again = true};
    int rc = begin_change(&c, err);
    if (rc == BERTH_OK && !input->fields)
        rc = berth_fail(err, BERTH_E_INVALID, "Nothing to change was given.");
    for (int tries = 0; rc == BERTH_OK && c.again; tries++)
        rc = tries == BERTH_STORE_RETRIES_MAX
                 ? berth_fail(err, BERTH_E_CONFLICT, "The environment keeps changing: try again.")
                 : try_update(&c, issues, err);
    end_change(&c);
    if (rc == BERTH_OK)
        *out = c.environment;
    return rc;
}
