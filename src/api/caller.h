/* SPDX-License-Identifier: Apache-2.0
 * src/api/caller.h - identifies the caller and checks its rights, before the request is handled. */
#ifndef BERTH_API_CALLER_H
#define BERTH_API_CALLER_H

#include "api/call.h"

struct berth_api_gate; /* remembers failed attempts; safe to share between threads */

int berth_api_gate_new(struct berth_api_gate **out, struct berth_error *err);
void berth_api_gate_free(struct berth_api_gate *gate); /* NULL is fine */

int berth_api_gate_allow(struct berth_api_gate *gate, const char *const *hosts,
                         const char *const *origins, struct berth_error *err);
/* See berth_api_set_cookie. */
int berth_api_gate_set_cookie(struct berth_api_gate *gate, const char *value, const char *socket,
                              struct berth_error *err);
/* See berth_api_set_tcp. */
void berth_api_gate_set_tcp(struct berth_api_gate *gate, bool served);
/* Checks the Host and Origin headers of a TCP request. UNAVAILABLE: no request over TCP is served
 * yet. DENIED: the host name is unknown, or the
 * page's origin is not allowed. A foreign page can point a host name of its own at us (DNS
 * rebinding), but cannot do so with a number or a name that we know. A page whose origin is allowed
 * may read the answer. */
int berth_api_gate_address(struct berth_api_gate *gate, struct berth_http_exchange *x,
                           struct berth_error *err);
/* Checks what needs no store access, on the loop's thread. UNAUTHORIZED: a token is required and
 * absent, or is not well-formed. RATE_LIMITED: the same, when too many attempts from that address
 * have failed. Sets c->doubtful when so many have failed and the token was not good lately: such a
 * call has to wait for its turn. Sets c->turn: the company of a token that was good lately has one
 * of its own, tokens of the instance have one, and all others share one. */
int berth_api_gate_look(struct berth_api_gate *gate, struct berth_api_call *c,
                        struct berth_error *err);
/* Queues a doubtful call. Returns whether the caller has to start a job that works the queue off.
 */
bool berth_api_gate_wait(struct berth_api_gate *gate, struct berth_api_call *c);
/* Returns the next doubtful call. NULL: there is none, and the job that works the queue off ends.
 */
struct berth_api_call *berth_api_gate_next(struct berth_api_gate *gate);
/* Checks again that the token of an admitted call is good: it may have been revoked or expired
 * while the call waited. UNAUTHORIZED: it is not. */
int berth_api_check_token(struct berth_api_call *c, struct berth_error *err);
/* Identifies the caller, by its token or as the socket's owner. Fills c->caller and c->actor.
 * UNAUTHORIZED: the token is not good. RATE_LIMITED: the same for a doubtful call. */
int berth_api_authenticate(struct berth_api_gate *gate, struct berth_api_call *c,
                           struct berth_error *err);
/* Returns DENIED when `local` is set and the caller is not an operator of the instance: local
 * commands run on this machine as the daemon's user. */
int berth_api_allow_local(const struct berth_api_call *c, bool local, struct berth_error *err);
/* Sets *agent_id, which the body may have given, to the agent of the caller's token. DENIED: the
 * token is for another agent. */
int berth_api_take_agent(const struct berth_api_call *c, const char **agent_id,
                         struct berth_error *err);
/* Checks the caller's rights for c->route. DENIED: the error names the missing right. */
int berth_api_authorize(struct berth_api_call *c, struct berth_error *err);
#endif
