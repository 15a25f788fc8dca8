/* SPDX-License-Identifier: Apache-2.0
 * src/api/direct.h - the API without a daemon, for a program that has opened a runtime itself. A
 * call runs on the calling thread and blocks. */
#ifndef BERTH_API_DIRECT_H
#define BERTH_API_DIRECT_H

#include "base/buf.h"
#include "base/issues.h"
#include "core/berth.h"

struct berth_api_direct {
    const char *method, *target; /* "/api/plugins/a%20b?limit=3" */
    const char *body;            /* JSON, or NULL */
    const struct berth_actor *actor;
    int cancel_fd; /* becomes readable when the call is to be cancelled; -1: never */
};
/* Performs the request with the rights of the daemon's own user and writes the answer to `out`.
 * Faults of the body are in `issues`. UNPROCESSABLE: the route needs a connection. */
int berth_api_direct(struct berth *b, const struct berth_api_direct *request,
                     struct berth_issues *issues, struct berth_buf *out, struct berth_error *err);
#endif
