/* SPDX-License-Identifier: Apache-2.0
 * src/api/place_call.h - the part of a handler that may wait for a provider. A handler reads its
 * request on a thread for short work, and then goes on in a second function on a thread of the
 * provider's share (os/shares.h). Without a daemon the second function is called at once. */
#ifndef BERTH_API_PLACE_CALL_H
#define BERTH_API_PLACE_CALL_H

#include "api/call.h"
#include "store/lease.h"

/* Each calls `next` when a thread is free for it, and returns what the handler then returns. `next`
 * finds in c->state what the handler left there. UNAVAILABLE: too many requests are waiting. */

int berth_api_at_environment(struct berth_api_call *c, const struct berth_environment *e,
                             berth_api_handler *next, struct berth_error *err);
int berth_api_at_lease(struct berth_api_call *c, const struct berth_lease *l,
                       berth_api_handler *next, struct berth_error *err);
/* For a config that is not stored yet. */
int berth_api_at_config(struct berth_api_call *c, const char *company_id, const char *driver,
                        const char *config_json, berth_api_handler *next, struct berth_error *err);
/* For work that takes long, but waits for no provider. */
int berth_api_at_length(struct berth_api_call *c, const char *company_id, berth_api_handler *next,
                        struct berth_error *err);
/* For a route of the instance that is `slow`: the whole handler runs there. */
int berth_api_at_instance(struct berth_api_call *c, struct berth_error *err);

/* Waits until no request uses a thread of a share, or until end_ms of the monotonic clock. Returns
 * whether none does. Call it when no new request can come. */
bool berth_api_await_place_calls(struct berth_api *api, int64_t end_ms);
#endif
