/* SPDX-License-Identifier: Apache-2.0
 * src/core/idempotency.h - requests that a caller may send again without their being done twice:
 * the first is written down before it is done, and its answer afterwards, for a day. */
#ifndef BERTH_CORE_IDEMPOTENCY_H
#define BERTH_CORE_IDEMPOTENCY_H

#include "base/id.h"
#include "core/berth.h"

struct berth_idempotency_request {
    const char *caller, *key; /* the caller, and its name for the request */
    const char *digest;       /* hash of the whole request */
    bool makes_lease; /* with the id in struct berth_idempotency: its row tells the outcome */
};

struct berth_idempotency {
    struct berth_id id;
    bool at_work; /* perform the request now, then call berth_idempotency_end */
    int status;   /* otherwise: the stored answer */
    const char *answer;
};

/* Begins a request, or returns the stored answer of the first one. UNPROCESSABLE: the key was used
 * for a different request. CONFLICT: the request is being performed, or its outcome is not known.
 * When the process that made a lease was killed, a finished lease is the answer; an unfinished one
 * is left to the sweep, and the request is performed again. */
int berth_idempotency_begin(struct berth *b, struct berth_arena *arena,
                            const struct berth_idempotency_request *request,
                            struct berth_idempotency *out, struct berth_error *err);
/* Ends a request and stores its answer. status 0: it failed, and may be tried again. Twice is fine.
 */
void berth_idempotency_end(struct berth *b, struct berth_idempotency *once, int status,
                           const char *answer);
#endif
