/* SPDX-License-Identifier: Apache-2.0
 * src/daemon/secure.h - TLS for the server's connections, with a certificate that may be renewed
 * while it serves. */
#ifndef BERTH_DAEMON_SECURE_H
#define BERTH_DAEMON_SECURE_H

#include "http/http.h"

struct berth_secure;
struct berth_tls;
int berth_secure_new(const char *certificate, const char *key, struct berth_secure **out,
                     struct berth_error *err);
/* Connections from now on get the new pair, which is taken over. */
void berth_secure_renew(struct berth_secure *secure, struct berth_tls *pair);
const struct berth_http_secure *berth_secure_ops(const struct berth_secure *secure);
void berth_secure_free(struct berth_secure *secure); /* after the server; NULL is fine */
#endif
