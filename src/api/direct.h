/* SPDX-License-Identifier: Apache-2.0
 * src/api/direct.h - the API without a daemon: what a program may ask of a runtime that it has
 * opened itself. Blocks; the calling thread does it. */
#ifndef BERTH_API_DIRECT_H
#define BERTH_API_DIRECT_H

#include "base/buf.h"
#include "base/issues.h"
#include "core/berth.h"

struct berth_api_direct {
    const char *method, *target; /* "/api/plugins/a%20b?limit=3" */
    const char *body;            /* JSON, or NULL */
    const struct berth_actor *actor;
    int cancel_fd; /* becomes readable when nobody wants it any more; -1: never */
};
/* The answer of a daemon to its own user, in `out`; what is wrong with the body, in `issues`.
 * UNPROCESSABLE: only over a connection. */
int berth_api_direct(struct berth *b, const struct berth_api_direct *request,
                     struct berth_issues *issues, struct berth_buf *out, struct berth_error *err);
#endif
