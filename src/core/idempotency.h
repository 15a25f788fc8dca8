/* SPDX-License-Identifier: Apache-2.0
 * src/core/idempotency.h - requests that a caller may send again without their being done twice:
 * the first is written down before it is done, and its answer afterwards, for a day. */
#ifndef BERTH_CORE_IDEMPOTENCY_H
#define BERTH_CORE_IDEMPOTENCY_H

#include "base/id.h"
#include "core/berth.h"

struct berth_idempotency_request {
    const char *caller, *key; /* his name for it */
    const char *digest;       /* of all that was asked */
    bool makes_lease; /* of the id in struct berth_idempotency: so it is known what became of it */
};

struct berth_idempotency {
    struct berth_id id;
    bool at_work; /* it is to be done now, and berth_idempotency_end to follow */
    int status;   /* else this is the answer */
    const char *answer;
};

/* UNPROCESSABLE: the key was used for something else. CONFLICT: somebody is at it, or nobody knows
 * what became of it. The lease that a killed process had made is the answer; one that it had not is
 * taken back by the sweep, and another may be made. */
int berth_idempotency_begin(struct berth *b, struct berth_arena *arena,
                            const struct berth_idempotency_request *request,
                            struct berth_idempotency *out, struct berth_error *err);
/* status 0: it failed, and may be tried again. Twice is fine. */
void berth_idempotency_end(struct berth *b, struct berth_idempotency *once, int status,
                           const char *answer);
#endif
