/* SPDX-License-Identifier: Apache-2.0
 * src/api/resource/companies.c - the companies of an instance. */
#include <string.h>

#include "api/call.h"
#include "core/company.h"

static void company_item(struct berth_json_writer *w, const void *company)
{
    berth_company_json(w, company);
}

/* Lists the companies that the caller may see: its own, or all. */
static int company_list(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_page page;
    struct berth_company *own;
    struct berth_list found = {0};
    int rc = berth_api_query_page(c, &page, err);
    if (rc < 0)
        return rc;
    if (!c->caller.company_id) {
        rc = berth_company_list_page(c->b, &c->arena, &page, &found, err);
    } else if (!page.before) { /* no other row follows the caller's company */
        rc = berth_company_get(c->b, &c->arena, c->caller.company_id, &own, err);
        if (rc == BERTH_OK && !berth_list_add(&found, &c->arena, own))
            rc = berth_arena_check(&c->arena, err);
    }
    if (rc == BERTH_OK)
        berth_api_say_list(c, &found, company_item);
    return rc;
}

static int company_get(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_company *company;
    int rc = berth_company_get(c->b, &c->arena, c->params[0], &company, err);
    if (rc == BERTH_OK)
        berth_company_json(&c->w, company);
    return rc;
}

static int company_create(struct berth_api_call *c, struct berth_error *err)
{
    const char *name = NULL;
    const struct berth_api_field fields[] = {{"name", BERTH_API_TEXT, 0, .required = true}, {0}};
    struct berth_company *company;
    int rc = berth_api_body(c, fields, &name, NULL, err);
    if (rc == BERTH_OK)
        rc = berth_company_create(c->b, &c->arena, name, &c->actor, &company, err);
    if (rc < 0)
        return rc;
    c->status = 201;
    berth_company_json(&c->w, company);
    return BERTH_OK;
}

const struct berth_api_route berth_api_company_routes[] = {
    {"GET", "/api/companies", company_list, BERTH_API_READ, .query = "limit before"},
    {"POST", "/api/companies", company_create, BERTH_API_INSTANCE},
    {"GET", "/api/companies/:companyId", company_get, BERTH_API_READ},
    {0},
};
