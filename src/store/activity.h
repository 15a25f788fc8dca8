/* SPDX-License-Identifier: Apache-2.0
 * src/store/activity.h - rows of the activity log. */
#ifndef BERTH_STORE_ACTIVITY_H
#define BERTH_STORE_ACTIVITY_H

#include <berth/activity.h>

#include "store/row.h"

struct berth_activity {
    int64_t id; /* increasing; the cursor of a page */
    const char *company_id, *actor_type, *actor_id, *action, *entity_type, *entity_id;
    const char *agent_id, *run_id;
    const char *details_json;
    int64_t created_at_ms;
};

int berth_activity_insert(struct berth_db *db, const struct berth_activity *activity,
                          struct berth_error *err);
/* Sets *out to the id of the newest row, or 0. */
int berth_activity_last(struct berth_db *db, int64_t *out, struct berth_error *err);
/* Waits until every transaction that has inserted a row has committed or rolled back. UNAVAILABLE:
 * one is still open after 100 ms. */
int berth_activity_await_writers(struct berth_db *db, struct berth_error *err);
/* Lists struct berth_activity of the company, oldest first, with after < id <= last. */
int berth_activity_select_after(struct berth_db *db, struct berth_arena *arena,
                                const char *company_id, int64_t after, int64_t last, int limit,
                                struct berth_list *out, struct berth_error *err);
/* Lists struct berth_activity, newest first. */
int berth_activity_select(struct berth_db *db, struct berth_arena *arena,
                          const struct berth_activity_filter *filter, struct berth_list *out,
                          struct berth_error *err);
#endif
