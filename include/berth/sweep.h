/* SPDX-License-Identifier: Apache-2.0
 * include/berth/sweep.h - the sweep: releases leases that have expired or whose owner died, and
 * retries clean-up that failed. Several processes may sweep one store at the same time. */
#ifndef BERTH_SWEEP_H
#define BERTH_SWEEP_H

#include <berth/common.h>

struct berth_sweep_options {
    /* Call the providers of places. false: only do what needs no provider. */
    bool call_providers;
    /* Ask the providers that can list their places for those that no lease holds, and record
     * them for clean-up. Ignored without call_providers. */
    bool audit;
    /* Only handle leases on which an operation of this process failed half-way. */
    bool own_only;
    /* How long to wait for slow providers. Their calls continue after berth_sweep has returned. */
    int64_t wait_ms;
};
#define BERTH_SWEEP_OPTIONS_INIT                                                                   \
    {                                                                                              \
        .call_providers = true, .audit = true, .wait_ms = 330000                                   \
    }

/* What one sweep did. Each field is a count. */
struct berth_sweep_report {
    int lost;        /* runs that were ended because their process died */
    int released;    /* leases released because their run has ended or no longer exists */
    int expired;     /* leases released because they had expired */
    int adopted;     /* leases whose owner died while it acquired or released them */
    int unparked;    /* parked places destroyed: idle too long, or their config has changed */
    int cleaned;     /* failed clean-ups that succeeded now */
    int found;       /* places of this store at a provider that no lease held */
    int foreign;     /* places with a label of another store: left alone */
    int deleted;     /* environments deleted after their last place was gone */
    int quarantined; /* rows that cannot be read: reported and left alone */
    int failed;      /* clean-ups that failed now; a later sweep retries them */
    int waiting;     /* leases left alone because call_providers is false */
    int owed;        /* places that still need clean-up after this sweep */
    int unfinished;  /* environments that were not finished within wait_ms */
    int work;        /* places kept for longer than work_ttl_ms, with work that is not home */
    int elsewhere;   /* commands of dead processes that another machine has to end */
};

/* Sweeps the store once. Returns BERTH_OK also when single clean-ups failed: the report counts
 * them. */
BERTH_API int berth_sweep(struct berth *b, const struct berth_sweep_options *options,
                          struct berth_sweep_report *report, struct berth_error *err);
#endif
