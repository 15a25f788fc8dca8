/* SPDX-License-Identifier: Apache-2.0
 * src/store/run.h - rows of runs. */
#ifndef BERTH_STORE_RUN_H
#define BERTH_STORE_RUN_H

#include <berth/run.h>

#include "store/row.h"

extern const struct berth_enum berth_run_statuses;

static inline bool berth_run_ended(int status)
{
    return status >= BERTH_RUN_SUCCEEDED;
}

struct berth_run {
    const char *id, *company_id, *environment_id;
    enum berth_run_status status;
    const char *error, *error_code;
    const char *workspace_json; /* what became of its workspace, or NULL */
    const char *workspace_diff; /* what changed there; NULL: nothing, or the run is one of a list */
    const char *owner;          /* the node that performs the run, or NULL */
    int64_t started_at_ms, finished_at_ms, created_at_ms, updated_at_ms;
};

int berth_run_insert(struct berth_db *db, const struct berth_run *run, struct berth_error *err);
/* *out is NULL when there is no such row. */
int berth_run_load(struct berth_db *db, struct berth_arena *arena, const char *id,
                   struct berth_run **out, struct berth_error *err);
/* Lists the running runs that nodes perform, as struct berth_run, of all companies. */
int berth_run_select_performed(struct berth_db *db, struct berth_arena *arena,
                               struct berth_list *out, struct berth_error *err);
/* Lists struct berth_run of one company, newest first. */
int berth_run_select(struct berth_db *db, struct berth_arena *arena,
                     const struct berth_run_filter *filter, struct berth_list *out,
                     struct berth_error *err);
/* Updates status, error and times unless the run has ended. *won says whether it was updated. */
int berth_run_save(struct berth_db *db, const struct berth_run *run, bool *won,
                   struct berth_error *err);
#endif
