/* SPDX-License-Identifier: Apache-2.0
 * src/api/api.h - the HTTP API: what callers may ask of a runtime, as JSON. */
#ifndef BERTH_API_API_H
#define BERTH_API_API_H

#include "core/berth.h"
#include "http/http.h"

struct berth_api;

int berth_api_open(struct berth *b, const struct berth_http_settings *settings,
                   struct berth_api **out, struct berth_error *err);
/* At a Unix socket, whoever has our uid, and root, may do everything; everybody else shows a token,
 * as everybody does over TCP. Answers the port. */
int berth_api_listen(struct berth_api *api, const struct berth_http_address *address,
                     struct berth_error *err);
/* Names by which TCP may be asked for besides numbers and localhost, and the origins of pages that
 * may do so: each closed by NULL, or NULL. Both are copied; from any thread. */
int berth_api_allow(struct berth_api *api, const char *const *hosts, const char *const *origins,
                    struct berth_error *err);
/* By which URLs places may reach us, best first: a list of texts, copied; from any thread. */
int berth_api_set_urls(struct berth_api *api, const struct berth_list *urls,
                       struct berth_error *err);
/* What GET /api/health says of the first sweep after a start. */
void berth_api_set_recovering(struct berth_api *api, bool recovering);
/* Accepts nobody any more, lets what is under way finish for so long, and ends. NULL is fine. */
void berth_api_close(struct berth_api *api, int64_t wait_ms);
#endif
