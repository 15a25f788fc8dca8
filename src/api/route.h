/* SPDX-License-Identifier: Apache-2.0
 * src/api/route.h - finds the row of the route tables for a request. Does not use the runtime. */
#ifndef BERTH_API_ROUTE_H
#define BERTH_API_ROUTE_H

#include "api/call.h"

struct berth_api_found {
    const struct berth_api_route *route; /* NULL: no row matches */
    /* The values of the pattern's params, in order. They point into the path and are never empty.
     */
    struct {
        const char *text; /* NULL: the pattern has fewer params */
        size_t len;
    } params[BERTH_API_PARAMS_MAX];
    char allow[64]; /* methods of the path ("GET, POST"), when it lacks the requested one */
};
/* Finds the first row that matches; HEAD counts as GET. */
void berth_api_route_find(enum berth_http_method method, const char *path,
                          struct berth_api_found *out);
#endif
