/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/run_jobs.h - the runs that this process performs and for which no thread waits. */
#ifndef BERTH_CORE_RUN_RUN_JOBS_H
#define BERTH_CORE_RUN_RUN_JOBS_H

#include "core/berth.h"

struct berth_run_jobs; /* safe to share between threads */

int berth_run_jobs_new(struct berth_run_jobs **out, struct berth_error *err);
/* Cancels all jobs and waits until their places are given back. None begins any more. NULL is fine.
 */
void berth_run_jobs_end(struct berth_run_jobs *jobs);
void berth_run_jobs_free(struct berth_run_jobs *jobs); /* NULL is fine */
#endif
