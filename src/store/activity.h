/* SPDX-License-Identifier: Apache-2.0
 * src/store/activity.h - what happened, in order. */
#ifndef BERTH_STORE_ACTIVITY_H
#define BERTH_STORE_ACTIVITY_H

#include <berth/activity.h>

#include "store/row.h"

struct berth_activity {
    int64_t id; /* grows; the cursor of a page */
    const char *company_id, *actor_type, *actor_id, *action, *entity_type, *entity_id;
    const char *agent_id, *run_id;
    const char *details_json;
    int64_t created_at_ms;
};

int berth_activity_insert(struct berth_db *db, const struct berth_activity *activity,
                          struct berth_error *err);
/* A list of struct berth_activity, newest first. */
int berth_activity_select(struct berth_db *db, struct berth_arena *arena,
                          const struct berth_activity_filter *filter, struct berth_list *out,
                          struct berth_error *err);
#endif
