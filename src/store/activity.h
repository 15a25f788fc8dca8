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
int berth_activity_last(struct berth_db *db, int64_t *out, struct berth_error *err);
/* Returns when whoever has written an entry before has committed or given up. UNAVAILABLE: not in
 * a tenth of a second. */
int berth_activity_await_writers(struct berth_db *db, struct berth_error *err);
/* A list of struct berth_activity of the company, oldest first: behind `after`, up to `last`. */
int berth_activity_select_after(struct berth_db *db, struct berth_arena *arena,
                                const char *company_id, int64_t after, int64_t last, int limit,
                                struct berth_list *out, struct berth_error *err);
/* A list of struct berth_activity, newest first. */
int berth_activity_select(struct berth_db *db, struct berth_arena *arena,
                          const struct berth_activity_filter *filter, struct berth_list *out,
                          struct berth_error *err);
#endif
