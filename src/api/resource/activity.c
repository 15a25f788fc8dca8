/* SPDX-License-Identifier: Apache-2.0
 * src/api/resource/activity.c - the activity of a company. */
#include "api/call.h"
#include "core/activity.h"
#include "core/company.h"

static void activity_item(struct berth_json_writer *w, const void *activity)
{
    berth_activity_json(w, activity);
}

/* Lists entries, newest first. `before`, the id of an entry, is the cursor of the next page. */
static int activity_list(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_activity_filter filter = {.entity_id = berth_api_query(c, "entityId")};
    struct berth_company *company;
    struct berth_list found;
    int rc = berth_company_get(c->b, &c->arena, c->params[0], &company, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_limit(c, &filter.limit, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_number(c, "before", 1, INT64_MAX, 0, &filter.before, err);
    if (rc < 0)
        return rc;
    filter.company_id = company->id;
    rc = berth_activity_list(c->b, &c->arena, &filter, &found, err);
    if (rc == BERTH_OK)
        berth_api_say_list(c, &found, activity_item);
    return rc;
}

const struct berth_api_route berth_api_activity_routes[] = {
    {"GET", "/api/companies/:companyId/activity", activity_list, BERTH_API_READ,
     .query = "entityId limit before"},
    {0},
};
