/* SPDX-License-Identifier: Apache-2.0
 * src/store/run.h - runs as rows: what a lease belongs to. */
#ifndef BERTH_STORE_RUN_H
#define BERTH_STORE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "store/row.h"

enum berth_run_status {
    BERTH_RUN_QUEUED,
    BERTH_RUN_RUNNING,
    BERTH_RUN_SCHEDULED_RETRY,
    BERTH_RUN_SUCCEEDED,
    BERTH_RUN_FAILED,
    BERTH_RUN_CANCELLED,
    BERTH_RUN_TIMED_OUT,
};
extern const struct berth_enum berth_run_statuses;

static inline bool berth_run_ended(int status)
{
    return status >= BERTH_RUN_SUCCEEDED;
}

struct berth_run {
    const char *id, *company_id, *environment_id;
    enum berth_run_status status;
    const char *error, *error_code;
    int64_t started_at_ms, finished_at_ms, created_at_ms, updated_at_ms;
};

int berth_run_insert(struct berth_db *db, const struct berth_run *run, struct berth_error *err);
/* *out is NULL when there is none. */
int berth_run_load(struct berth_db *db, struct berth_arena *arena, const char *id,
                   struct berth_run **out, struct berth_error *err);
/* Sets status, error and times unless the run has ended already; *won says whether. */
int berth_run_save(struct berth_db *db, const struct berth_run *run, bool *won,
                   struct berth_error *err);
#endif
