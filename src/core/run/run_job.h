/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/run_job.h - one run that this process performs: takes a lease, makes the workspace
 * ready, runs the command, and gives the place back whatever happened. berth_run_perform waits for
 * it; run_jobs.h has those for which no thread waits. */
#ifndef BERTH_CORE_RUN_RUN_JOB_H
#define BERTH_CORE_RUN_RUN_JOB_H

#include <stdatomic.h>

#include <berth/run.h>

#include "base/lock.h"
#include "core/berth.h"
#include "core/run/masking.h"
#include "os/shares.h"

/* The first block of fields is set before it begins. */
struct berth_run_job {
    struct berth *b;
    struct berth_arena *arena;
    const struct berth_run_request *request;
    struct berth_run_result *out;
    struct berth_error *err; /* what failed before the command, with `rc` */
    int ended_fd;            /* an eventfd that the command's end makes readable; or -1 */
    int cancel_fd;           /* readable: cancel the run */
    struct berth_lock *lock; /* guards `exec`; NULL: only one thread uses it */

    struct berth_environment *environment;
    struct berth_lease *lease;
    bool sent;               /* its workspace is in the place */
    const char *warning;     /* of the workspace that was sent, or NULL */
    const char *homeless;    /* why its work did not come home, or NULL */
    const char *code;        /* errorCode of what failed, or NULL */
    bool outlasted;          /* its lease ended before the command */
    bool expired;            /* because it expired */
    struct berth_exec *exec; /* the command, once it runs */
    struct berth_exec *over; /* the command, from its end until it is freed */
    int rc;
    struct berth_locked *secrets; /* of the request; cleared once the command has copies */
    struct berth_masking masking; /* of these, for texts before the command and without it */

    /* Used by run_jobs.c alone, except that the end of the command counts in `arrived`, too. */
    berth_run_done_fn *on_done; /* NULL: a thread waits at ended_fd */
    _Atomic int arrived;        /* the start and the command's end; the second one goes on */
    struct berth_share *share;  /* of the threads; at first of the company, then at the provider */
    struct berth_job end_job;   /* so that the end needs no memory */
    void *ctx;
    struct berth_arena own;
    struct berth_run_result result;
    struct berth_error trouble;
    struct berth_run_job *next, **link;
};

/* Creates the run and checks the request, with the store alone. Returns p->rc. */
int berth_run_job_prepare(struct berth_run_job *p);
/* Records that the run cannot take a lease. */
void berth_run_job_refuse(struct berth_run_job *p, const struct berth_error *why);
/* Takes the lease and starts the command, unless p->rc says that something has failed. BERTH_OK:
 * the command runs. */
int berth_run_job_begin(struct berth_run_job *p);
/* Called once, after the command has ended or without one. Does nothing without a run. */
void berth_run_job_conclude(struct berth_run_job *p);
/* Stores how the run ended and gives its place back. Returns false when that could not be stored,
 * because the store is full or away: then call it again later. After that, call
 * berth_run_job_leave. */
bool berth_run_job_end(struct berth_run_job *p);
/* Leaves the run to the sweep of any process, if its end is not stored. */
void berth_run_job_leave(struct berth_run_job *p);
#endif
