/* SPDX-License-Identifier: Apache-2.0
 * include/berth/activity.h - reads the activity log, which records the changes to leases,
 * environments, secrets, plugins, tokens and companies. */
#ifndef BERTH_ACTIVITY_H
#define BERTH_ACTIVITY_H

#include <berth/common.h>

struct berth_activity; /* one entry of the log */
/* Returns the entry as a JSON object with the field names of the HTTP API. NULL: out of memory. */
BERTH_API const char *berth_activity_to_json(struct berth_arena *arena,
                                             const struct berth_activity *activity);

/* The entries to list. */
struct berth_activity_filter {
    const char *company_id; /* NULL: all companies */
    const char *entity_id;  /* the changed object; NULL: all objects */
    int64_t before;         /* list entries with a smaller id; 0: start with the newest */
    int limit;              /* the largest number of entries to list */
};
/* Lists entries as struct berth_activity, newest first. */
BERTH_API int berth_activity_list(struct berth *b, struct berth_arena *arena,
                                  const struct berth_activity_filter *filter,
                                  struct berth_list *out, struct berth_error *err);
#endif
