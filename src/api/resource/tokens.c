/* SPDX-License-Identifier: Apache-2.0
 * src/api/resource/tokens.c - who may speak to us: tokens, made and revoked by operators of the
 * instance. */
#include "core/token.h"

#include <stddef.h>
#include <string.h>

#include "api/call.h"
#include "api/caller.h"
#include "api/state.h"
#include "api/guard.h"
#include "crypto/locked.h"

static void token_item(struct berth_json_writer *w, const void *token)
{
    berth_token_json(w, token);
}

static int token_list(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_token_filter filter = {.company_id = berth_api_query(c, "companyId")};
    struct berth_list found;
    int rc = berth_api_query_flag(c, "all", &filter.all, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_limit(c, &filter.limit, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_id(c, "before", &filter.before, err);
    if (rc == BERTH_OK)
        rc = berth_token_list(c->b, &c->arena, &filter, &found, err);
    if (rc == BERTH_OK)
        berth_api_say_list(c, &found, token_item);
    return rc;
}

/* Reads the permissions of a new token. A caller cannot grant a permission that it does not have.
 */
static int read_permissions(struct berth_api_call *c, const struct berth_list *texts, unsigned *out,
                            struct berth_error *err)
{
    *out = 0;
    for (int i = 0; i < texts->count; i++) {
        int bit = berth_api_find_word(berth_permissions, texts->items[i]);
        if (bit < 0) {
            berth_issues_add(&c->issues, "permissions", "Unknown value: %.100s",
                             (const char *)texts->items[i]);
            return berth_fail(err, BERTH_E_INVALID, "Validation error");
        }
        *out |= 1U << bit;
        if (!(c->caller.permissions & 1U << bit))
            return berth_fail(err, BERTH_E_DENIED, "Missing permission: %s",
                              berth_permissions[bit]);
    }
    return BERTH_OK;
}

/* Writes the new token. No other answer ever contains its text. */
static void say_made(struct berth_api_call *c, const struct berth_token *made,
                     const struct berth_locked *text)
{
    berth_json_open(&c->w, '{');
    berth_json_put_bytes(&c->w, "token", text->bytes, text->len);
    berth_token_fields(&c->w, made);
    berth_json_close(&c->w, '}');
}

static int token_create(struct berth_api_call *c, struct berth_error *err)
{
    struct body {
        struct berth_token_request request;
        int kind;
        struct berth_list permissions;
    } body = {.request = BERTH_TOKEN_REQUEST_INIT};
    static const char *const kinds[] = {"operator", "agent", "run", NULL};
    static const struct berth_api_field fields[] = {
        {"name", BERTH_API_TEXT, offsetof(struct body, request.name), .required = true},
        {"kind", BERTH_API_WORD, offsetof(struct body, kind), .words = kinds},
        {"companyId", BERTH_API_TEXT, offsetof(struct body, request.company_id), .nullable = true},
        {"permissions", BERTH_API_TEXTS, offsetof(struct body, permissions)},
        {"agentId", BERTH_API_TEXT, offsetof(struct body, request.agent_id), .nullable = true},
        {"runId", BERTH_API_TEXT, offsetof(struct body, request.run_id), .nullable = true},
        {"leaseId", BERTH_API_TEXT, offsetof(struct body, request.lease_id), .nullable = true},
        {"ttlMs", BERTH_API_NUMBER, offsetof(struct body, request.ttl_ms)},
        {0}};
    auto_locked text = BERTH_LOCKED_INIT;
    struct berth_token *made;
    int rc = berth_api_body(c, fields, &body, NULL, err);
    if (rc == BERTH_OK)
        rc = read_permissions(c, &body.permissions, &body.request.permissions, err);
    body.request.kind = (enum berth_token_kind)body.kind;
    body.request.actor = &c->actor;
    if (rc == BERTH_OK)
        rc = berth_token_create(c->b, &c->arena, &body.request, &made, &text, err);
    if (rc < 0)
        return rc;
    if (c->x)
        berth_api_gate_set_tcp(c->api->gate, true);
    c->status = 201;
    say_made(c, made, &text);
    return BERTH_OK;
}

static int revoke(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_token *token;
    int rc = berth_token_revoke(c->b, &c->arena, c->params[0], &c->actor, &token, err);
    if (rc < 0)
        return rc;
    if (c->x)
        berth_api_guard_look(c->api->guard); /* ends the streams that this token opened */
    berth_token_json(&c->w, token);
    return BERTH_OK;
}

const struct berth_api_route berth_api_token_routes[] = {
    {"GET", "/api/tokens", token_list, BERTH_API_INSTANCE, .query = "companyId all limit before"},
    {"POST", "/api/tokens", token_create, BERTH_API_INSTANCE},
    {"DELETE", "/api/tokens/:id", revoke, BERTH_API_INSTANCE},
    {0},
};
