/* SPDX-License-Identifier: Apache-2.0
 * src/os/shares.h - a pool of threads that providers and companies share: for calls that may wait
 * long for a provider, and for short requests, which have no provider.
 *
 * A share is the work of one company at one provider. A job starts while its provider occupies less
 * than half as many threads as are free, and its company less than four times as many. So a
 * provider that hangs takes a third of the threads, and the next one a third of the rest; a company
 * takes four fifths, whatever hangs. Shares with waiting jobs take turns. Jobs without a provider
 * may also use threads that the others leave free.
 *
 * Every function may be called from any thread, a job's included. */
#ifndef BERTH_OS_SHARES_H
#define BERTH_OS_SHARES_H

#include "os/pool.h"

/* A provider may have 1 / (1 + PART) of the threads that others left, a company
 * PARTS / (1 + PARTS). */
#define BERTH_PROVIDER_SHARE_PART 2
#define BERTH_COMPANY_SHARE_PARTS 4

struct berth_shares;
struct berth_share;

struct berth_shares_limits {
    int threads;
    int reserved;       /* threads that jobs with a provider leave free */
    int queued_max;     /* waiting jobs, in all */
    int key_queued_max; /* waiting jobs of one provider, and of one company */
};

int berth_shares_new(const struct berth_shares_limits *limits, struct berth_shares **out,
                     struct berth_error *err);
/* Runs what is queued and waits for it. All shares are closed before. NULL is fine. */
void berth_shares_free(struct berth_shares *all);

/* Opens the share of `company` at `provider`. provider NULL: the work calls no provider, and is
 * counted apart from the company's calls to providers. company NULL: the work of this process
 * itself, which only the provider's share limits. */
int berth_share_open(struct berth_shares *all, const char *provider, const char *company,
                     struct berth_share **out, struct berth_error *err);
void berth_share_close(struct berth_share *share); /* jobs in it stay queued; NULL is fine */

/* Queues fn(ctx). UNAVAILABLE: too many jobs are waiting. On failure it does not run. */
int berth_share_submit(struct berth_share *share, berth_job_fn *fn, void *ctx,
                       struct berth_error *err);
/* Queues a job that must run: needs no memory, and ignores how many are waiting. The job's memory
 * is its owner's again when fn is called. */
void berth_share_put(struct berth_share *share, struct berth_job *job);
/* Returns UNAVAILABLE when berth_share_submit would. */
int berth_share_check(struct berth_share *share, struct berth_error *err);

/* Returns the number of jobs that wait for a thread. */
int berth_shares_queued(struct berth_shares *all);
#endif
