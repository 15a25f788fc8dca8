/* SPDX-License-Identifier: Apache-2.0
 * include/berth/activity.h - what happened, in order; written by what did it. */
#ifndef BERTH_ACTIVITY_H
#define BERTH_ACTIVITY_H

#include <berth/common.h>

struct berth_activity;
BERTH_API const char *berth_activity_to_json(struct berth_arena *arena,
                                             const struct berth_activity *activity);

struct berth_activity_filter {
    const char *company_id; /* NULL: any */
    const char *entity_id;  /* NULL: any */
    int64_t before;         /* the id of an entry, the cursor of a page; 0: from the newest */
    int limit;
};
/* A list of struct berth_activity, newest first. */
BERTH_API int berth_activity_list(struct berth *b, struct berth_arena *arena,
                                  const struct berth_activity_filter *filter,
                                  struct berth_list *out, struct berth_error *err);
#endif
