/* SPDX-License-Identifier: Apache-2.0
 * src/api/route.c - see route.h. */
#include "api/route.h"

#include <stdio.h>
#include <string.h>

/* One segment of the path against one of the pattern. */
static bool match_segment(const char **pattern, const char **path, struct berth_api_found *out,
                          int *count)
{
    size_t want = strcspn(*pattern, "/"), have = strcspn(*path, "/");
    bool param = **pattern == ':';
    if (param && have > 0) {
        out->params[*count].text = *path;
        out->params[(*count)++].len = have;
    } else if (want != have || strncmp(*pattern, *path, want) != 0) {
        return false;
    }
    *pattern += want;
    *path += have;
    return true;
}

static bool match(const char *pattern, const char *path, struct berth_api_found *out)
{
    int count = 0;
    memset(out->params, 0, sizeof out->params); /* another pattern may have got half as far */
    while (*pattern == '/' && *path == '/') {
        pattern++;
        path++;
        if (!match_segment(&pattern, &path, out, &count))
            return false;
    }
    return !*pattern && !*path;
}

static void add_allowed(struct berth_api_found *out, const char *method)
{
    size_t len = strlen(out->allow);
    (void)snprintf(out->allow + len, sizeof out->allow - len, "%s%s", len ? ", " : "", method);
}

void berth_api_route_find(enum berth_http_method method, const char *path,
                          struct berth_api_found *out)
{
    const char *name = berth_http_methods[method == BERTH_HTTP_HEAD ? BERTH_HTTP_GET : method];
    *out = (struct berth_api_found){0};
    for (int i = 0; berth_api_tables[i]; i++)
        for (const struct berth_api_route *r = berth_api_tables[i]; r->method; r++) {
            if (!match(r->pattern, path, out))
                continue;
            if (strcmp(r->method, name) == 0) {
                out->route = r;
                out->allow[0] = '\0';
                return;
            }
            add_allowed(out, r->method);
        }
    memset(out->params, 0, sizeof out->params);
}
