/* SPDX-License-Identifier: Apache-2.0
 * src/api/api.h - the HTTP API of a runtime, in JSON. */
#ifndef BERTH_API_API_H
#define BERTH_API_API_H

#include "core/berth.h"
#include "http/http.h"

struct berth_api;

int berth_api_open(struct berth *b, const struct berth_http_settings *settings,
                   struct berth_api **out, struct berth_error *err);
/* Sets the value that clients at the Unix socket have to send besides their uid
 * (core/socket_cookie.h), and the path of the socket, for the text of a refusal. Before listening.
 * Without it the uid is enough. */
int berth_api_set_cookie(struct berth_api *api, const char *value, const char *socket,
                         struct berth_error *err);
/* Listens at an address and returns the port. At a Unix socket, a client with our uid or root and
 * the cookie may do everything without a token. Every other client needs a token, and so does every
 * client over TCP. */
int berth_api_listen(struct berth_api *api, const struct berth_http_address *address,
                     struct berth_error *err);
/* Sets whether requests over TCP are served, as they are at first, or all get 503. A token that is
 * made by the API sets it, too. From any thread. */
void berth_api_set_tcp(struct berth_api *api, bool served);
/* Sets the host names that TCP requests may use besides numbers and localhost, and the origins of
 * web pages that may send requests. Each list is closed by NULL, or is NULL. Both are copied. From
 * any thread. */
int berth_api_allow(struct berth_api *api, const char *const *hosts, const char *const *origins,
                    struct berth_error *err);
/* Sets the URLs by which places may reach us, best first: a list of texts, copied. From any thread.
 */
int berth_api_set_urls(struct berth_api *api, const struct berth_list *urls,
                       struct berth_error *err);
/* Sets whether GET /api/health reports that the first sweep after a start is still running. */
void berth_api_set_recovering(struct berth_api *api, bool recovering);
/* Stops accepting connections, waits up to wait_ms for running requests, and frees the API. NULL is
 * fine. */
void berth_api_close(struct berth_api *api, int64_t wait_ms);
#endif
