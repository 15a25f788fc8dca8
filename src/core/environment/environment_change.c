/* SPDX-License-Identifier: Apache-2.0
 * src/core/environment/environment_change.c - see environment_change.h. */
#include "core/environment/environment_change.h"

#include <string.h>

#include "base/limits.h"
#include "base/utf8.h"
#include "core/plugin/plugin.h"

static int check_input(const struct berth_environment_input *in, struct berth_error *err)
{
    int rc = BERTH_OK;
    if (in->fields & BERTH_FIELD_NAME)
        rc = berth_utf8_check_name(in->name, "An environment", err);
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

int berth_environment_change_begin(struct berth_environment_change *c, struct berth_error *err)
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

void berth_environment_change_end(struct berth_environment_change *c)
{
    berth_json_free(c->config);
    berth_json_free(c->metadata);
    berth_pasted_clear(&c->pasted);
}

static bool is_pasted(const struct berth_environment_change *c, const char *secret_id)
{
    for (int i = 0; i < c->pasted.count; i++)
        if (strcmp(((const struct berth_pasted *)c->pasted.items[i])->secret_id, secret_id) == 0)
            return true;
    return false;
}

/* Refuses stored secrets to an input with own_secrets. Any other change of a config that keeps its
 * secrets is refused as well: it may send them to another address. */
static int check_secrets(const struct berth_environment_change *c, struct berth_error *err)
{
    const struct berth_environment *e = c->environment, *before = c->before;
    bool same =
        before && before->driver == e->driver && strcmp(before->config_json, e->config_json) == 0;
    if (!c->input->own_secrets || same)
        return BERTH_OK;
    for (int i = 0; i < c->references.count; i++)
        if (!is_pasted(c, ((const struct berth_secret_ref *)c->references.items[i])->secret_id))
            return berth_fail(
                err, BERTH_E_DENIED,
                "A config that uses stored secrets is for operators with secrets:manage. Others "
                "can send the values again with each change of it.");
    return BERTH_OK;
}

int berth_environment_change_config(struct berth_environment_change *c,
                                    const struct berth_json *config, struct berth_issues *issues,
                                    struct berth_error *err)
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
    if (rc == BERTH_OK && taken)
        rc = berth_secret_refs_compare(c->b->registry, c->arena, driver, taken, normalised, err);
    /* Again: only the normalised config tells which provider is meant. */
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
    rc = check_secrets(c, err);
    return rc < 0 ? rc
                  : berth_config_fingerprint(c->arena, e->driver, e->config_json, &e->fingerprint,
                                             err);
}

int berth_environment_change_metadata(struct berth_environment_change *c, struct berth_error *err)
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

int berth_environment_refuse_second_local(struct berth_db *db,
                                          const struct berth_environment_change *c,
                                          struct berth_error *err)
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
