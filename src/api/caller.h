/* SPDX-License-Identifier: Apache-2.0
 * src/api/caller.h - who asks, and what he may: looked at before anything of what is asked. */
#ifndef BERTH_API_CALLER_H
#define BERTH_API_CALLER_H

#include "api/call.h"

struct berth_api_gate; /* remembers failed attempts; safe to share between threads */

int berth_api_gate_new(struct berth_api_gate **out, struct berth_error *err);
void berth_api_gate_free(struct berth_api_gate *gate); /* NULL is fine */

int berth_api_gate_allow(struct berth_api_gate *gate, const char *const *hosts,
                         const char *const *origins, struct berth_error *err);
/* Was it for us, and from a page that may? DENIED otherwise. A page of somebody else's can make a
 * browser ask us by a name that it made up; numbers, and names that we know, it cannot. One that is
 * named may read the answer. */
int berth_api_gate_address(struct berth_api_gate *gate, struct berth_http_exchange *x,
                           struct berth_error *err);
/* What can be said without the store, on the loop's thread. UNAUTHORIZED: nobody that we know, or
 * what was shown can be no token. RATE_LIMITED: too many have failed from there. */
int berth_api_gate_look(struct berth_api_gate *gate, const struct berth_http_exchange *x,
                        struct berth_error *err);
/* Does it look like one? */
bool berth_api_shows_token(const struct berth_http_head *head);
/* Who it is: the socket's owner, or whose token was shown. Fills c->caller and c->actor. */
int berth_api_authenticate(struct berth_api_gate *gate, struct berth_api_call *c,
                           struct berth_error *err);
/* Places that are this machine, as the daemon's user: for operators of the instance alone. */
int berth_api_allow_local(const struct berth_api_call *c, bool local, struct berth_error *err);
/* May he do this? DENIED says what is missing. */
int berth_api_authorize(struct berth_api_call *c, struct berth_error *err);
#endif
