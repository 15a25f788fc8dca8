/* SPDX-License-Identifier: Apache-2.0
 * src/api/runs.c - what ran, and what was done: runs and the activity of a company. */
#include "core/run.h"

#include "api/call.h"
#include "core/activity.h"
#include "core/company.h"
#include "store/run.h"

static void item(struct berth_json_writer *w, const void *run)
{
    berth_run_json(w, run);
}

static void entry(struct berth_json_writer *w, const void *activity)
{
    berth_activity_json(w, activity);
}

static int list(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_run_filter filter = BERTH_RUN_FILTER_INIT;
    struct berth_company *company;
    struct berth_list found;
    int rc = berth_company_get(c->b, &c->arena, c->params[0], &company, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_word(c, "status", berth_run_statuses.names, &filter.status, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_limit(c, &filter.limit, err);
    if (rc < 0)
        return rc;
    filter.company_id = company->id;
    rc = berth_run_list(c->b, &c->arena, &filter, &found, err);
    if (rc == BERTH_OK)
        berth_api_say_list(c, &found, item);
    return rc;
}

static int get(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_run *run;
    int rc = berth_run_get(c->b, &c->arena, c->params[0], &run, err);
    if (rc == BERTH_OK)
        berth_run_json(&c->w, run);
    return rc;
}

/* Newest first; `before`, the id of an entry, is the cursor of the next page. */
static int activity(struct berth_api_call *c, struct berth_error *err)
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
        berth_api_say_list(c, &found, entry);
    return rc;
}

const struct berth_api_route berth_api_run_routes[] = {
    {"GET", "/api/companies/:companyId/runs", list, BERTH_API_READ},
    {"GET", "/api/runs/:id", get, BERTH_API_READ, .run = true},
    {"GET", "/api/companies/:companyId/activity", activity, BERTH_API_READ},
    {0},
};
