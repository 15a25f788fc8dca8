/* SPDX-License-Identifier: Apache-2.0
 * src/api/quick.h - threads for work that needs only the store. The companies that ask take turns,
 * and none has all threads (os/shares.h). */
#ifndef BERTH_API_QUICK_H
#define BERTH_API_QUICK_H

#include "os/shares.h"

int berth_api_quick_new(struct berth_shares **out, struct berth_error *err);
/* Queues fn(ctx). `owner` is whose work it is; NULL: of the daemon itself. UNAVAILABLE: too many
 * jobs of this owner, or of all, are waiting. On failure it does not run. From any thread. */
int berth_api_quick(struct berth_shares *quick, const char *owner, berth_job_fn *fn, void *ctx,
                    struct berth_error *err);
#endif
