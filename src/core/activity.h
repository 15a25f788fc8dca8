/* SPDX-License-Identifier: Apache-2.0
 * src/core/activity.h - who did what, written in the transaction that did it. */
#ifndef BERTH_CORE_ACTIVITY_H
#define BERTH_CORE_ACTIVITY_H

#include "base/buf.h"
#include "base/json.h"
#include "core/berth.h"
#include "store/activity.h"
#include "store/environment.h"
#include "store/lease.h"

int berth_activity_of_lease(struct berth_db *db, const struct berth_lease *lease,
                            const char *action, const struct berth_actor *actor,
                            struct berth_error *err);
struct berth_entity {
    const char *company_id, *type, *id;
};
/* `details_json` is an object that holds no values of configs or secrets. */
int berth_activity_of(struct berth_db *db, const struct berth_entity *entity, const char *action,
                      const struct berth_actor *actor, const char *details_json,
                      struct berth_error *err);
int berth_activity_of_environment(struct berth_db *db, const struct berth_environment *environment,
                                  const char *action, const struct berth_actor *actor,
                                  const char *details_json, struct berth_error *err);
/* Finds the last entry before which no other entry can appear any more. An entry gets its number
 * before its transaction commits, so a later number may become visible first. UNAVAILABLE: a
 * transaction takes too long; try again. */
int berth_activity_settled(struct berth *b, int64_t *out, struct berth_error *err);
/* Lists the company's entries (struct berth_activity) after `after` and up to `last`, oldest first.
 */
int berth_activity_after(struct berth *b, struct berth_arena *arena, const char *company_id,
                         int64_t after, int64_t last, int limit, struct berth_list *out,
                         struct berth_error *err);
void berth_activity_json(struct berth_json_writer *w, const struct berth_activity *activity);
#endif
