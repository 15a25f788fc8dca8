/* SPDX-License-Identifier: Apache-2.0
 * src/core/environment/environment_update.c - changes fields of an environment. A change that
 * another process made meanwhile is not lost: the update begins again. */
#include <string.h>

#include "base/limits.h"
#include "base/time.h"
#include "core/environment/environment_change.h"
#include "store/store.h"

/* Sets *out to the config to normalise, which the caller frees. NULL: the stored one stays. */
static int next_config(const struct berth_environment_change *c, struct berth_json **out,
                       struct berth_error *err)
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

/* Writes which fields changed. The values of config and metadata are left out. */
static int update_details(struct berth_environment_change *c, struct berth_error *err)
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
    struct berth_environment_change *c = ctx;
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
    rc = berth_environment_refuse_second_local(db, c, err);
    if (rc == BERTH_OK)
        rc = berth_environment_save(db, c->environment, err);
    if (rc == BERTH_OK)
        rc = berth_environment_store_secrets(db, c, err);
    if (rc == BERTH_OK)
        rc = berth_activity_of_environment(db, c->environment, "environment.updated",
                                           c->input->actor, c->details_json, err);
    return rc;
}

static int try_update(struct berth_environment_change *c, struct berth_issues *issues,
                      struct berth_error *err)
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
        rc = berth_environment_change_metadata(c, err);
    auto_json *config = NULL;
    if (rc == BERTH_OK)
        rc = next_config(c, &config, err);
    if (rc == BERTH_OK && config)
        rc = berth_environment_change_config(c, config, issues, err);
    if (rc == BERTH_OK)
        rc = update_details(c, err);
    return rc < 0 ? rc : berth_store_tx(c->b->store, tx_update, c, err);
}

int berth_environment_update(struct berth *b, struct berth_arena *arena, const char *id,
                             const struct berth_environment_input *input,
                             struct berth_issues *issues, struct berth_environment **out,
                             struct berth_error *err)
{
    struct berth_environment_change c = {
        .b = b, .arena = arena, .input = input, .id = id, .again = true};
    int rc = berth_environment_change_begin(&c, err);
    if (rc == BERTH_OK && !input->fields)
        rc = berth_fail(err, BERTH_E_INVALID, "Nothing to change was given.");
    for (int tries = 0; rc == BERTH_OK && c.again; tries++)
        rc = tries == BERTH_STORE_RETRIES_MAX
                 ? berth_fail(err, BERTH_E_CONFLICT, "The environment keeps changing: try again.")
                 : try_update(&c, issues, err);
    berth_environment_change_end(&c);
    if (rc == BERTH_OK)
        *out = c.environment;
    return rc;
}
