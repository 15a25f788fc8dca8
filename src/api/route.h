/* SPDX-License-Identifier: Apache-2.0
 * src/api/route.h - which row of the tables a request is for. It knows no runtime. */
#ifndef BERTH_API_ROUTE_H
#define BERTH_API_ROUTE_H

#include "api/call.h"

struct berth_api_found {
    const struct berth_api_route *route; /* NULL: there is none */
    /* Of the pattern's params, in their order: never empty, and a part of the path. */
    struct {
        const char *text; /* NULL: there is no such */
        size_t len;
    } params[BERTH_API_PARAMS_MAX];
    char allow[64]; /* "GET, POST": the path has these, and not the one that was asked for */
};
/* The first row that fits; HEAD is a GET. */
void berth_api_route_find(enum berth_http_method method, const char *path,
                          struct berth_api_found *out);
#endif
