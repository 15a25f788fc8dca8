/* SPDX-License-Identifier: Apache-2.0
 * src/api/resource/secrets.c - secrets: what is known of them, but never a value. */
#include "core/secret/secret.h"

#include <stddef.h>
#include <unistd.h>
#include <string.h>

#include "api/call.h"
#include "base/base64.h"
#include "core/company.h"
#include "core/secret/secret_provider.h"

static void secret_item(struct berth_json_writer *w, const void *secret)
{
    berth_secret_json(w, secret);
}

static void binding(struct berth_json_writer *w, const void *one)
{
    berth_binding_json(w, one);
}

static void event(struct berth_json_writer *w, const void *one)
{
    berth_secret_event_json(w, one);
}

static int secret_say(struct berth_api_call *c, int rc, const struct berth_secret *secret)
{
    if (rc == BERTH_OK)
        berth_secret_json(&c->w, secret);
    return rc;
}

static int secret_list(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_company *company;
    struct berth_page page;
    struct berth_list found;
    int rc = berth_company_get(c->b, &c->arena, c->params[0], &company, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_page(c, &page, err);
    if (rc == BERTH_OK)
        rc = berth_secret_list_page(c->b, &c->arena, company->id, &page, &found, err);
    if (rc == BERTH_OK)
        berth_api_say_list(c, &found, secret_item);
    return rc;
}

/* Vaults of others come later: what names one is refused before anything is made. */
struct body {
    const char *name, *key, *value, *base64, *description, *provider, *vault, *mode, *external;
    const char *metadata, *version; /* of a vault's */
};

static int refuse_vaults(const struct body *body, struct berth_error *err)
{
    bool ours = (!body->provider || strcmp(body->provider, "local_encrypted") == 0) &&
                (!body->mode || strcmp(body->mode, "paperclip_managed") == 0) && !body->vault &&
                !body->external && !body->metadata && !body->version;
    return ours ? BERTH_OK
                : berth_fail(err, BERTH_E_UNPROCESSABLE,
                             "Provider vaults and external references are not supported.");
}

/* As text, or as base64 when it is none. */
static int read_value(struct berth_api_call *c, const struct body *body, const char **out,
                      size_t *len, struct berth_error *err)
{
    *out = body->value;
    *len = body->value ? strlen(body->value) : 0;
    if (!body->base64)
        return body->value ? BERTH_OK
                           : berth_fail(err, BERTH_E_INVALID, "Managed secrets require value");
    size_t text_len = strlen(body->base64);
    char *bytes = NULL;
    if (!body->value && berth_base64_length(body->base64, text_len, len))
        bytes = berth_arena_alloc(&c->arena, *len + 1);
    *out = bytes;
    if (bytes && berth_base64_decode(body->base64, text_len, bytes))
        return BERTH_OK;
    return c->arena.failed
               ? berth_arena_check(&c->arena, err)
               : berth_fail(err, BERTH_E_INVALID, "Either value, or valueBase64 that is base64.");
}

/* Only of a name is one made. */
static int check_key(struct berth_api_call *c, const char *key, struct berth_error *err)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    if (!key || (*key && !key[strspn(key, allowed)]))
        return BERTH_OK;
    static const char rule[] = "A key has letters, digits, _, . and - only.";
    berth_issues_add(&c->issues, "key", rule);
    return berth_fail(err, BERTH_E_INVALID, "%s", rule);
}

static int secret_create(struct berth_api_call *c, struct berth_error *err)
{
    static const struct berth_api_field fields[] = {
        {"name", BERTH_API_TEXT, offsetof(struct body, name), .required = true},
        {"key", BERTH_API_TEXT, offsetof(struct body, key)},
        {"value", BERTH_API_TEXT, offsetof(struct body, value)},
        {"valueBase64", BERTH_API_TEXT, offsetof(struct body, base64)},
        {"description", BERTH_API_TEXT, offsetof(struct body, description), .nullable = true},
        {"provider", BERTH_API_TEXT, offsetof(struct body, provider)},
        {"providerConfigId", BERTH_API_TEXT, offsetof(struct body, vault), .nullable = true},
        {"managedMode", BERTH_API_TEXT, offsetof(struct body, mode)},
        {"externalRef", BERTH_API_TEXT, offsetof(struct body, external), .nullable = true},
        {"providerMetadata", BERTH_API_OBJECT, offsetof(struct body, metadata), .nullable = true},
        {"providerVersionRef", BERTH_API_TEXT, offsetof(struct body, version), .nullable = true},
        {0}};
    struct body body = {0};
    struct berth_company *company;
    struct berth_secret *secret = NULL;
    const char *value;
    size_t len;
    int rc = berth_company_get(c->b, &c->arena, c->params[0], &company, err);
    if (rc == BERTH_OK)
        rc = berth_api_body(c, fields, &body, NULL, err);
    if (rc == BERTH_OK)
        rc = refuse_vaults(&body, err);
    if (rc == BERTH_OK)
        rc = check_key(c, body.key, err);
    if (rc == BERTH_OK)
        rc = read_value(c, &body, &value, &len, err);
    if (rc < 0)
        return rc;
    struct berth_secret_input input = {.company_id = company->id,
                                       .name = body.name,
                                       .key = body.key,
                                       .description = body.description,
                                       .actor = &c->actor};
    c->status = 201;
    rc = berth_secret_create(c->b, &c->arena, &input, value, len, &secret, err);
    return secret_say(c, rc, secret);
}

static int rotate(struct berth_api_call *c, struct berth_error *err)
{
    static const struct berth_api_field fields[] = {
        {"value", BERTH_API_TEXT, offsetof(struct body, value)},
        {"valueBase64", BERTH_API_TEXT, offsetof(struct body, base64)},
        {"externalRef", BERTH_API_TEXT, offsetof(struct body, external), .nullable = true},
        {"providerVersionRef", BERTH_API_TEXT, offsetof(struct body, version), .nullable = true},
        {"providerConfigId", BERTH_API_TEXT, offsetof(struct body, vault), .nullable = true},
        {0}};
    struct body body = {0};
    const char *value;
    size_t len;
    struct berth_secret *secret = NULL;
    int rc = berth_secret_get(c->b, &c->arena, c->params[0], &secret, err);
    if (rc == BERTH_OK)
        rc = berth_api_body(c, fields, &body, NULL, err);
    if (rc == BERTH_OK)
        rc = refuse_vaults(&body, err);
    if (rc == BERTH_OK)
        rc = read_value(c, &body, &value, &len, err);
    if (rc == BERTH_OK)
        rc =
            berth_secret_rotate(c->b, &c->arena, c->params[0], value, len, &c->actor, &secret, err);
    return secret_say(c, rc, secret);
}

static int secret_patch(struct berth_api_call *c, struct berth_error *err)
{
    /* In the order of enum berth_secret_field. */
    const struct berth_api_field fields[] = {
        {"name", BERTH_API_TEXT, offsetof(struct berth_secret_input, name)},
        {"description", BERTH_API_TEXT, offsetof(struct berth_secret_input, description),
         .nullable = true},
        {"status", BERTH_API_WORD, offsetof(struct berth_secret_input, status),
         .words = berth_secret_statuses.names},
        {0}};
    struct berth_secret_input input = {.actor = &c->actor};
    unsigned given;
    struct berth_secret *secret = NULL;
    int rc = berth_secret_get(c->b, &c->arena, c->params[0], &secret, err);
    if (rc == BERTH_OK)
        rc = berth_api_body(c, fields, &input, &given, err);
    if (rc < 0)
        return rc;
    input.fields = given;
    rc = berth_secret_update(c->b, &c->arena, c->params[0], &input, &secret, err);
    return secret_say(c, rc, secret);
}

static int delete_one(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_secret *secret;
    int rc = berth_secret_delete(c->b, &c->arena, c->params[0], &c->actor, &secret, err);
    if (rc == BERTH_OK)
        berth_api_say_ok(c);
    return rc;
}

static int secret_usage(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_secret *secret;
    struct berth_list found;
    int rc = berth_secret_get(c->b, &c->arena, c->params[0], &secret, err);
    if (rc == BERTH_OK)
        rc = berth_secret_usage(c->b, &c->arena, secret->id, &found, err);
    if (rc < 0)
        return rc;
    berth_json_open(&c->w, '{');
    berth_json_put_str(&c->w, "secretId", secret->id);
    berth_json_open_in(&c->w, "bindings", '[');
    for (int i = 0; i < found.count; i++)
        binding(&c->w, found.items[i]);
    berth_json_close(&c->w, ']');
    berth_json_close(&c->w, '}');
    return BERTH_OK;
}

static int events(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_list found, own = {0};
    int64_t before;
    int limit;
    int rc = berth_api_query_limit(c, &limit, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_number(c, "before", 1, INT64_MAX, 0, &before, err);
    if (rc == BERTH_OK)
        rc = berth_secret_events(c->b, &c->arena, c->params[0], before, limit, &found, err);
    for (int i = 0; rc == BERTH_OK && i < found.count; i++) { /* the secret itself may be gone */
        const struct berth_secret_event *e = found.items[i];
        if (!c->caller.company_id || strcmp(e->company_id, c->caller.company_id) == 0)
            (void)berth_list_add(&own, &c->arena, found.items[i]);
    }
    if (rc == BERTH_OK)
        rc = berth_arena_check(&c->arena, err);
    if (rc == BERTH_OK)
        berth_api_say_list(c, &own, event);
    return rc;
}

/* Seals all of them with a new key. */
static int rotate_key(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_key_change done;
    int rc = berth_api_body(c, berth_api_nothing, NULL, NULL, err);
    if (rc == BERTH_OK)
        rc = berth_secret_change_key(c->b, &c->actor, &done, err);
    if (rc < 0)
        return rc;
    berth_json_open(&c->w, '{');
    berth_json_put_str(&c->w, "fromKeyId", done.from);
    berth_json_put_str(&c->w, "keyId", done.to);
    berth_json_put_int(&c->w, "versions", done.versions);
    berth_json_put_str(&c->w, "keyFile", berth_secret_provider_path(c->b->secret_provider));
    berth_json_close(&c->w, '}');
    return BERTH_OK;
}

/* --- where values are kept: sealed in the store, and nowhere else --- */

static int providers(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_company *company;
    int rc = berth_company_get(c->b, &c->arena, c->params[0], &company, err);
    if (rc < 0)
        return rc;
    berth_json_open(&c->w, '[');
    berth_json_open(&c->w, '{');
    berth_json_put_str(&c->w, "id", "local_encrypted");
    berth_json_put_str(&c->w, "label", "Local encrypted (default)");
    berth_json_put_bool(&c->w, "requiresExternalRef", false);
    berth_json_put_bool(&c->w, "supportsManagedValues", true);
    berth_json_put_bool(&c->w, "supportsExternalReferences", false);
    berth_json_put_bool(&c->w, "configured", true);
    berth_json_close(&c->w, '}');
    berth_json_close(&c->w, ']');
    return BERTH_OK;
}

static int provider_health(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_company *company;
    int rc = berth_company_get(c->b, &c->arena, c->params[0], &company, err);
    if (rc < 0)
        return rc;
    const char *path = berth_secret_provider_path(c->b->secret_provider);
    bool there = access(path, F_OK) == 0, readable = access(path, R_OK) == 0;
    berth_json_open(&c->w, '{');
    berth_json_open_in(&c->w, "providers", '[');
    berth_json_open(&c->w, '{');
    berth_json_put_str(&c->w, "provider", "local_encrypted");
    berth_json_put_str(&c->w, "status", readable ? "ok" : there ? "error" : "warn");
    berth_json_put_str(&c->w, "message",
                       readable ? "The key file is there and can be read."
                       : there  ? "The key file cannot be read."
                                : "The key file does not exist yet: the first secret makes it.");
    berth_json_put_str(&c->w, "backupGuidance",
                       "Back the key file up apart from the store: without it no secret opens.");
    berth_json_close(&c->w, '}');
    berth_json_close(&c->w, ']');
    berth_json_close(&c->w, '}');
    return BERTH_OK;
}

static int no_vaults(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_company *company;
    int rc = berth_company_get(c->b, &c->arena, c->params[0], &company, err);
    if (rc == BERTH_OK)
        berth_api_say_list(c, &(struct berth_list){0}, secret_item);
    return rc;
}

static int no_vault(struct berth_api_call *c, struct berth_error *err)
{
    (void)c;
    return berth_fail(err, BERTH_E_NOT_FOUND, "Provider vault not found");
}

static int not_supported(struct berth_api_call *c, struct berth_error *err)
{
    (void)c;
    return berth_fail(err, BERTH_E_UNPROCESSABLE,
                      "Provider vaults and remote import are not supported.");
}

const struct berth_api_route berth_api_secret_routes[] = {
    {"GET", "/api/companies/:companyId/secret-providers", providers, BERTH_API_BOARD},
    {"GET", "/api/companies/:companyId/secret-providers/health", provider_health, BERTH_API_BOARD},
    {"GET", "/api/companies/:companyId/secret-provider-configs", no_vaults, BERTH_API_BOARD},
    {"POST", "/api/companies/:companyId/secret-provider-configs", not_supported, BERTH_API_BOARD},
    {"GET", "/api/secret-provider-configs/:id", no_vault, BERTH_API_BOARD},
    {"PATCH", "/api/secret-provider-configs/:id", no_vault, BERTH_API_BOARD},
    {"DELETE", "/api/secret-provider-configs/:id", no_vault, BERTH_API_BOARD},
    {"POST", "/api/secret-provider-configs/:id/default", no_vault, BERTH_API_BOARD},
    {"POST", "/api/secret-provider-configs/:id/health", no_vault, BERTH_API_BOARD},
    {"POST", "/api/companies/:companyId/secrets/remote-import/preview", not_supported,
     BERTH_API_BOARD},
    {"POST", "/api/companies/:companyId/secrets/remote-import", not_supported, BERTH_API_BOARD},
    {"POST", "/api/secret-key/rotate", rotate_key, BERTH_API_INSTANCE, .slow = true},
    {"GET", "/api/companies/:companyId/secrets", secret_list, BERTH_API_BOARD,
     .query = "limit before"},
    {"POST", "/api/companies/:companyId/secrets", secret_create, BERTH_API_BOARD},
    {"POST", "/api/secrets/:id/rotate", rotate, BERTH_API_BOARD},
    {"PATCH", "/api/secrets/:id", secret_patch, BERTH_API_BOARD},
    {"DELETE", "/api/secrets/:id", delete_one, BERTH_API_BOARD},
    {"GET", "/api/secrets/:id/usage", secret_usage, BERTH_API_BOARD},
    {"GET", "/api/secrets/:id/access-events", events, BERTH_API_BOARD, .query = "limit before"},
    {0},
};
