/* SPDX-License-Identifier: Apache-2.0
 * include/berth/sweep.h - takes back what nobody gave back. Safe in several processes at once. */
#ifndef BERTH_SWEEP_H
#define BERTH_SWEEP_H

#include <berth/common.h>

struct berth_sweep_options {
    bool call_providers; /* false: only what the ledger can settle by itself */
    bool audit;          /* ask the providers that can tell for places nobody answers for */
    bool own_only;       /* only rows that this process began and could not end */
    int64_t wait_ms;     /* how long to wait for slow providers; they go on afterwards */
};
#define BERTH_SWEEP_OPTIONS_INIT                                                                   \
    {                                                                                              \
        .call_providers = true, .audit = true, .wait_ms = 330000                                   \
    }

struct berth_sweep_report {
    int lost;        /* runs whose process is gone: ended, with what they left behind */
    int released;    /* their run has ended or is gone */
    int expired;     /* their time was up */
    int adopted;     /* their owner died between intent and outcome */
    int unparked;    /* parked too long, or for a config that is no more */
    int cleaned;     /* owed clean-up that is confirmed now */
    int found;       /* places at a provider that no row answered for */
    int foreign;     /* places with a label the ledger does not know: not touched */
    int deleted;     /* environments whose last place is gone */
    int quarantined; /* rows that cannot be read */
    int failed;      /* tries that failed now; they are owed */
    int waiting;     /* due, but left alone because a provider would have to be called */
    int owed;        /* places still to be cleaned up after this pass */
    int unfinished;  /* environments whose providers had not answered in time */
};

BERTH_API int berth_sweep(struct berth *b, const struct berth_sweep_options *options,
                          struct berth_sweep_report *report, struct berth_error *err);
#endif
