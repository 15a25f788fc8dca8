/* SPDX-License-Identifier: Apache-2.0
 * include/berth/run.h - what leases belong to: when a run ends, its places are given back. */
#ifndef BERTH_RUN_H
#define BERTH_RUN_H

#include <berth/common.h>

enum berth_run_status {
    BERTH_RUN_QUEUED,
    BERTH_RUN_RUNNING,
    BERTH_RUN_SCHEDULED_RETRY,
    BERTH_RUN_SUCCEEDED,
    BERTH_RUN_FAILED,
    BERTH_RUN_CANCELLED,
    BERTH_RUN_TIMED_OUT,
};

struct berth_run;
BERTH_API const char *berth_run_id(const struct berth_run *run);
BERTH_API enum berth_run_status berth_run_status(const struct berth_run *run);
BERTH_API const char *berth_run_to_json(struct berth_arena *arena, const struct berth_run *run);

/* company_id NULL: the company `default`. The run is `running`. */
BERTH_API int berth_run_create(struct berth *b, struct berth_arena *arena, const char *company_id,
                               struct berth_run **out, struct berth_error *err);
BERTH_API int berth_run_get(struct berth *b, struct berth_arena *arena, const char *id,
                            struct berth_run **out, struct berth_error *err);

struct berth_run_filter {
    const char *company_id; /* NULL: the company `default` */
    int status;             /* -1: any */
    int limit;
};
#define BERTH_RUN_FILTER_INIT                                                                      \
    {                                                                                              \
        .status = -1, .limit = 100                                                                 \
    }
/* A list of struct berth_run, newest first. */
BERTH_API int berth_run_list(struct berth *b, struct berth_arena *arena,
                             const struct berth_run_filter *filter, struct berth_list *out,
                             struct berth_error *err);

struct berth_run_end {
    enum berth_run_status status; /* succeeded, failed, cancelled or timed_out */
    const char *error, *error_code;
    const struct berth_actor *actor;
};
/* Ends the run, then gives back its leases. A run that has ended keeps its end; its leases are
 * given back all the same. *released lists struct berth_lease. */
BERTH_API int berth_run_finish(struct berth *b, struct berth_arena *arena, const char *id,
                               const struct berth_run_end *end, struct berth_list *released,
                               struct berth_error *err);
#endif
