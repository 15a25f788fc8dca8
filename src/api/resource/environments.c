/* SPDX-License-Identifier: Apache-2.0
 * src/api/resource/environments.c - the environments of a company. */
#include "core/environment/environment.h"

#include <stddef.h>

#include "api/call.h"
#include "api/caller.h"
#include "api/place_call.h"
#include "base/limits.h"
#include "core/company.h"

static void environment_item(struct berth_json_writer *w, const void *environment)
{
    berth_environment_json(w, environment);
}

static void redacted_item(struct berth_json_writer *w, const void *environment)
{
    berth_environment_json_redacted(w, environment);
}

static berth_api_item_fn *view_for(const struct berth_api_call *c)
{
    return c->caller.permissions & BERTH_MAY_ENVIRONMENTS ? environment_item : redacted_item;
}

static int environment_list(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_environment_filter filter = BERTH_ENVIRONMENT_FILTER_INIT;
    struct berth_company *company;
    struct berth_list found;
    struct berth_page page = {0};
    filter.company_id = c->params[0];
    int rc = berth_company_get(c->b, &c->arena, c->params[0], &company, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_word(c, "status", berth_environment_statuses.names, &filter.status,
                                  err);
    if (rc == BERTH_OK)
        rc =
            berth_api_query_word(c, "driver", berth_environment_drivers.names, &filter.driver, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_page(c, &page, err);
    filter.limit = page.limit;
    filter.before = page.before;
    if (rc == BERTH_OK)
        rc = berth_environment_list(c->b, &c->arena, &filter, &found, err);
    if (rc == BERTH_OK)
        berth_api_say_list(c, &found, view_for(c));
    return rc;
}

static int environment_get(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_environment *e;
    int rc = berth_environment_get(c->b, &c->arena, c->params[0], &e, err);
    if (rc == BERTH_OK)
        view_for(c)(&c->w, e);
    return rc;
}

/* The rows of the table below, as bits. */
struct body {
    const char *name, *description, *config, *metadata;
    int driver, status;
};

/* In the order of enum berth_environment_field. */
static int read_input(struct berth_api_call *c, bool with_name, bool with_driver,
                      struct berth_environment_input *input, struct berth_error *err)
{
    const struct berth_api_field fields[] = {
        {"name", BERTH_API_TEXT, offsetof(struct body, name), .required = with_name},
        {"description", BERTH_API_TEXT, offsetof(struct body, description), .nullable = true},
        {"driver", BERTH_API_WORD, offsetof(struct body, driver), .required = with_driver,
         .words = berth_environment_drivers.names},
        {"status", BERTH_API_WORD, offsetof(struct body, status),
         .words = berth_environment_statuses.names},
        {"config", BERTH_API_OBJECT, offsetof(struct body, config)},
        {"metadata", BERTH_API_OBJECT, offsetof(struct body, metadata), .nullable = true},
        {0}};
    struct body body = {0};
    *input = (struct berth_environment_input)BERTH_ENVIRONMENT_INPUT_INIT;
    int rc = berth_api_body(c, fields, &body, &input->fields, err);
    input->name = body.name;
    input->description = body.description;
    input->driver = (enum berth_environment_driver)body.driver;
    input->status = (enum berth_environment_status)body.status;
    input->config_json = body.config;
    input->metadata_json = body.metadata;
    input->actor = &c->actor;
    input->own_keys = c->caller.company_id != NULL;
    input->own_secrets =
        c->caller.kind != BERTH_TOKEN_OPERATOR || !(c->caller.permissions & BERTH_MAY_SECRETS);
    return rc;
}

static bool is_in_place(const struct berth_api_call *c, enum berth_environment_driver driver)
{
    return berth_registry_in_place(c->b->registry, berth_environment_drivers.names[driver]);
}

/* A request about an environment, read and checked. */
struct environment_call {
    struct berth_environment_input input;
    struct berth_environment *environment; /* as it is stored, or NULL */
    bool drain;
};

/* Goes on with `next` where the config of the input is checked by its provider. */
static int at_input(struct berth_api_call *c, const struct berth_environment_input *input,
                    berth_api_handler *next, struct berth_error *err)
{
    return berth_api_at_config(c, input->company_id, berth_environment_drivers.names[input->driver],
                               input->config_json, next, err);
}

static int create_now(struct berth_api_call *c, struct berth_error *err)
{
    const struct environment_call *call = c->state;
    struct berth_environment *e;
    int rc = berth_environment_create(c->b, &c->arena, &call->input, &c->issues, &e, err);
    if (rc < 0)
        return rc;
    c->status = 201;
    berth_environment_json(&c->w, e);
    return BERTH_OK;
}

/* Reads a new environment for the company of the path. */
static int read_new(struct berth_api_call *c, bool with_name, struct environment_call **out,
                    struct berth_error *err)
{
    struct environment_call *call = berth_api_state(c, sizeof *call);
    struct berth_company *company;
    if (!call)
        return berth_arena_check(&c->arena, err);
    int rc = berth_company_get(c->b, &c->arena, c->params[0], &company, err);
    if (rc == BERTH_OK)
        rc = read_input(c, with_name, true, &call->input, err);
    call->input.company_id = c->params[0];
    if (rc == BERTH_OK)
        rc = berth_api_allow_local(c, is_in_place(c, call->input.driver), err);
    *out = call;
    return rc;
}

static int environment_create(struct berth_api_call *c, struct berth_error *err)
{
    struct environment_call *call;
    int rc = read_new(c, true, &call, err);
    return rc < 0 ? rc : at_input(c, &call->input, create_now, err);
}

static int patch_now(struct berth_api_call *c, struct berth_error *err)
{
    const struct environment_call *call = c->state;
    struct berth_environment *e;
    int rc = berth_environment_update(c->b, &c->arena, call->environment->id, &call->input,
                                      &c->issues, &e, err);
    if (rc == BERTH_OK)
        berth_environment_json(&c->w, e);
    return rc;
}

static int environment_patch(struct berth_api_call *c, struct berth_error *err)
{
    struct environment_call *call = berth_api_state(c, sizeof *call);
    struct berth_environment *e;
    if (!call)
        return berth_arena_check(&c->arena, err);
    int rc = berth_environment_get(c->b, &c->arena, c->params[0], &e, err);
    if (rc == BERTH_OK)
        rc = read_input(c, false, false, &call->input, err);
    if (rc == BERTH_OK)
        rc = berth_api_allow_local(
            c,
            berth_environment_in_place(c->b, e) ||
                (call->input.fields & BERTH_FIELD_DRIVER && is_in_place(c, call->input.driver)),
            err);
    if (rc < 0)
        return rc;
    call->environment = e;
    return berth_api_at_environment(c, e, patch_now, err);
}

static int delete_now(struct berth_api_call *c, struct berth_error *err)
{
    const struct environment_call *call = c->state;
    struct berth_environment *e;
    int rc =
        berth_environment_delete(c->b, &c->arena, c->params[0], call->drain, &c->actor, &e, err);
    if (rc == BERTH_OK)
        berth_environment_json(&c->w, e);
    return rc;
}

/* What its places need is waited for; with ?drain=true open leases end, too. */
static int delete_one(struct berth_api_call *c, struct berth_error *err)
{
    struct environment_call *call = berth_api_state(c, sizeof *call);
    struct berth_environment *e;
    if (!call)
        return berth_arena_check(&c->arena, err);
    int rc = berth_environment_get(c->b, &c->arena, c->params[0], &e, err);
    if (rc == BERTH_OK)
        rc = berth_api_allow_local(c, berth_environment_in_place(c->b, e), err);
    if (rc == BERTH_OK)
        rc = berth_api_query_flag(c, "drain", &call->drain, err);
    return rc < 0 ? rc : berth_api_at_environment(c, e, delete_now, err);
}

static int say_probe(struct berth_api_call *c, enum berth_environment_driver driver,
                     const struct berth_probe *found)
{
    berth_json_open(&c->w, '{');
    berth_json_put_bool(&c->w, "ok", found->ok);
    berth_json_put_str(&c->w, "driver", berth_environment_drivers.names[driver]);
    berth_json_put_str(&c->w, "summary", found->summary);
    berth_json_put_raw(&c->w, "details", found->details_json);
    berth_json_close(&c->w, '}');
    return BERTH_OK;
}

static int probe_config_now(struct berth_api_call *c, struct berth_error *err)
{
    const struct environment_call *call = c->state;
    struct berth_probe found;
    int rc = berth_environment_probe_config(c->b, &c->arena, &call->input, &c->issues, &found, err);
    return rc < 0 ? rc : say_probe(c, call->input.driver, &found);
}

/* One that is not saved, and is not afterwards. */
static int probe_config(struct berth_api_call *c, struct berth_error *err)
{
    struct environment_call *call;
    int rc = read_new(c, false, &call, err);
    return rc < 0 ? rc : at_input(c, &call->input, probe_config_now, err);
}

static int probe_now(struct berth_api_call *c, struct berth_error *err)
{
    const struct environment_call *call = c->state;
    struct berth_probe found;
    int rc =
        berth_environment_probe(c->b, &c->arena, call->environment->id, &c->actor, &found, err);
    return rc < 0 ? rc : say_probe(c, call->environment->driver, &found);
}

static int probe(struct berth_api_call *c, struct berth_error *err)
{
    struct environment_call *call = berth_api_state(c, sizeof *call);
    if (!call)
        return berth_arena_check(&c->arena, err);
    int rc = berth_environment_get(c->b, &c->arena, c->params[0], &call->environment, err);
    if (rc == BERTH_OK) /* the answer names this machine and the daemon's directory */
        rc = berth_api_allow_local(c, berth_environment_in_place(c->b, call->environment), err);
    return rc < 0 ? rc : berth_api_at_environment(c, call->environment, probe_now, err);
}

const struct berth_api_route berth_api_environment_routes[] = {
    {"GET", "/api/companies/:companyId/environments", environment_list, BERTH_API_READ,
     .query = "status driver limit before"},
    {"POST", "/api/companies/:companyId/environments", environment_create, BERTH_API_MANAGE},
    {"POST", "/api/companies/:companyId/environments/probe-config", probe_config, BERTH_API_MANAGE},
    {"GET", "/api/environments/:id", environment_get, BERTH_API_READ},
    {"PATCH", "/api/environments/:id", environment_patch, BERTH_API_MANAGE},
    {"DELETE", "/api/environments/:id", delete_one, BERTH_API_MANAGE, .query = "drain"},
    {"POST", "/api/environments/:id/probe", probe, BERTH_API_MANAGE},
    {0},
};
