/* SPDX-License-Identifier: Apache-2.0
 * src/api/guard.h - ends streams, and requests that wait, when their token is revoked or expires or
 * its run ends. These go on for long, so a check at their beginning is not enough. Everything runs
 * on the loop's thread, except the look at the tokens. */
#ifndef BERTH_API_GUARD_H
#define BERTH_API_GUARD_H

#include "base/id.h"
#include "core/berth.h"

struct berth_api_guard;

/* What a token keeps open. Belongs to the struct that embeds it, and is zero at first. */
struct berth_api_guarded {
    char token_id[BERTH_ID_SIZE];                   /* "": opened without a token */
    void (*end)(struct berth_api_guarded *guarded); /* ends this one only */
    struct berth_api_guarded *next, **link;
};

/* `quick` looks at the tokens. */
int berth_api_guard_new(struct berth *b, struct berth_shares *quick, struct berth_api_guard **out,
                        struct berth_error *err);
/* Looks no more. Not on the loop's thread; NULL is fine. */
void berth_api_guard_stop(struct berth_api_guard *guard);
/* Call it after the pool and the loop have run what they had queued. NULL is fine. */
void berth_api_guard_free(struct berth_api_guard *guard);
void berth_api_guard_add(struct berth_api_guard *guard, struct berth_api_guarded *guarded);
void berth_api_guard_remove(struct berth_api_guarded *guarded); /* twice is fine */
/* Looks at the tokens now; from any thread. NULL is fine. */
void berth_api_guard_look(struct berth_api_guard *guard);
#endif
