/* SPDX-License-Identifier: Apache-2.0
 * src/api/resource/companies.c - the companies of an instance. */
#include <string.h>

#include "api/call.h"
#include "core/company.h"

static void company_item(struct berth_json_writer *w, const void *company)
{
    berth_company_json(w, company);
}

/* Those that the caller may look at. */
static int company_list(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_list all, found = {0};
    int rc = berth_company_list(c->b, &c->arena, &all, err);
    for (int i = 0; rc == BERTH_OK && i < all.count; i++) {
        const char *id = berth_company_id(all.items[i]), *own = c->caller.company_id;
        if (!own || strcmp(id, own) == 0)
            (void)berth_list_add(&found, &c->arena, all.items[i]);
    }
    if (rc == BERTH_OK)
        rc = berth_arena_check(&c->arena, err);
    if (rc == BERTH_OK)
        rc = berth_api_say_page(c, &found, offsetof(struct berth_company, id), company_item, err);
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
