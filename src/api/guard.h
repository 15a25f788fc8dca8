/* SPDX-License-Identifier: Apache-2.0
 * src/api/guard.h - who was let in by a token leaves with it: streams go on for long, and a token
 * that is revoked, or whose run is over, ends those that it opened. On the loop's thread, but for
 * the look at the tokens. */
#ifndef BERTH_API_GUARD_H
#define BERTH_API_GUARD_H

#include "api/stream.h"

struct berth_api;

struct berth_api_guard {
    struct berth_api *api;
    struct berth_api_stream *streams;
    struct berth_timer timer;
    struct berth_post post; /* of somebody who wants a look now */
    _Atomic bool asked;     /* it is on its way */
    bool looking, again, closed;
};

void berth_api_guard_init(struct berth_api_guard *guard, struct berth_api *api);
void berth_api_guard_add(struct berth_api_guard *guard, struct berth_api_stream *s);
void berth_api_guard_remove(struct berth_api_stream *s);   /* twice is fine */
void berth_api_guard_look(struct berth_api_guard *guard);  /* now; from any thread */
void berth_api_guard_close(struct berth_api_guard *guard); /* from any thread; no stream is left */
#endif
