/* SPDX-License-Identifier: Apache-2.0
 * src/api/quick.c - see quick.h. */
#include "api/quick.h"

#include "base/limits.h"

int berth_api_quick_new(struct berth_shares **out, struct berth_error *err)
{
    static const struct berth_shares_limits limits = {.threads = BERTH_QUICK_THREADS_MAX,
                                                      .queued_max = BERTH_QUEUED_CALLS_MAX,
                                                      .key_queued_max = BERTH_QUEUED_SHARE_MAX};
    return berth_shares_new(&limits, out, err);
}

int berth_api_quick(struct berth_shares *quick, const char *owner, berth_job_fn *fn, void *ctx,
                    struct berth_error *err)
{
    struct berth_share *share;
    int rc = berth_share_open(quick, NULL, owner, &share, err);
    if (rc < 0)
        return rc;
    rc = berth_share_submit(share, fn, ctx, err);
    berth_share_close(share);
    return rc;
}
