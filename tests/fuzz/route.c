/* SPDX-License-Identifier: Apache-2.0
 * tests/fuzz/route.c - a method and a path against the real tables: what is found leads back to the
 * path, what is allowed is found, and every row can be reached. */
#include "api/route.h"

#include <string.h>

#include "base/auto.h"
#include "fuzz.h"

#define PATH_BYTES_MAX 4096
#define METHODS 7

/* The pattern with its params in it; the one thing that a route and its params can mean. */
static void rebuild(const char *pattern, const struct berth_api_found *f, struct berth_buf *out)
{
    for (int count = 0; *pattern;) {
        size_t len = strcspn(pattern + 1, "/") + 1; /* "/segment" */
        CHECK(pattern[0] == '/' && len > 1);
        if (pattern[1] == ':') {
            CHECK(count < BERTH_API_PARAMS_MAX && f->params[count].text);
            berth_buf_puts(out, "/");
            berth_buf_append(out, f->params[count].text, f->params[count].len);
            count++;
        } else {
            berth_buf_append(out, pattern, len);
        }
        pattern += len;
    }
}

static int count_params(const char *pattern)
{
    int count = 0;
    for (; (pattern = strstr(pattern, "/:")); pattern++)
        count++;
    return count;
}

static void check_params(const struct berth_api_found *f, const char *path)
{
    int want = f->route ? count_params(f->route->pattern) : 0;
    for (int i = 0; i < BERTH_API_PARAMS_MAX; i++) {
        const char *text = f->params[i].text;
        size_t len = f->params[i].len;
        CHECK((text != NULL) == (i < want) && (text != NULL) == (len > 0));
        if (text) {
            CHECK(text > path && text + len <= path + strlen(path));
            CHECK(text[-1] == '/' && (text[len] == '/' || !text[len]) && !memchr(text, '/', len));
        }
    }
}

static bool is_method_of_tables(int method)
{
    return method != BERTH_HTTP_HEAD;
}

/* Exactly the methods that find something, each once. */
static void check_allow(const struct berth_api_found *f, const char *path)
{
    size_t total = 0;
    for (int m = 0; m < METHODS; m++) {
        struct berth_api_found other;
        berth_api_route_find((enum berth_http_method)m, path, &other);
        const char *name = berth_http_methods[m], *at = strstr(f->allow, name);
        if (!is_method_of_tables(m)) {
            CHECK(!at);
            continue;
        }
        CHECK((other.route != NULL) == (at != NULL));
        total += at ? strlen(name) + 2 : 0;
    }
    CHECK(strlen(f->allow) + (f->allow[0] ? 2 : 0) == total);
}

static void check_found(enum berth_http_method method, const char *path)
{
    struct berth_api_found f, get;
    memset(&f, 0xa5, sizeof f); /* nothing of what was there before counts */
    berth_api_route_find(method, path, &f);
    CHECK(memchr(f.allow, '\0', sizeof f.allow));
    check_params(&f, path);
    if (method == BERTH_HTTP_HEAD) {
        berth_api_route_find(BERTH_HTTP_GET, path, &get);
        CHECK(f.route == get.route && strcmp(f.allow, get.allow) == 0);
    }
    if (!f.route) {
        check_allow(&f, path);
        return;
    }
    auto_buf again = BERTH_BUF_INIT(2 * PATH_BYTES_MAX);
    rebuild(f.route->pattern, &f, &again);
    CHECK(!f.allow[0] && f.route->handle);
    CHECK(strcmp(f.route->method,
                 berth_http_methods[method == BERTH_HTTP_HEAD ? BERTH_HTTP_GET : method]) == 0);
    CHECK(strcmp(berth_buf_str(&again), path) == 0);
}

static enum berth_http_method method_of(const struct berth_api_route *r)
{
    int m = 0;
    while (berth_http_methods[m] && strcmp(berth_http_methods[m], r->method) != 0)
        m++;
    CHECK(m < METHODS && is_method_of_tables(m));
    return (enum berth_http_method)m;
}

/* Is the text one that another pattern has where this one has a param? */
static bool is_word(const char *text, size_t len)
{
    for (int i = 0; berth_api_tables[i]; i++)
        for (const struct berth_api_route *r = berth_api_tables[i]; r->method; r++)
            for (const char *at = r->pattern; *at; at += strcspn(at + 1, "/") + 1)
                if (strcspn(at + 1, "/") == len && memcmp(at + 1, text, len) == 0)
                    return true;
    return false;
}

/* A row is found by its own pattern, whatever its params are. */
static void check_row(const struct berth_api_route *r, const char *text, size_t len)
{
    struct berth_api_found params = {0}, f;
    CHECK(count_params(r->pattern) <= BERTH_API_PARAMS_MAX);
    for (int i = 0; i < BERTH_API_PARAMS_MAX; i++) {
        params.params[i].text = text;
        params.params[i].len = len;
    }
    auto_buf path = BERTH_BUF_INIT(2 * PATH_BYTES_MAX);
    rebuild(r->pattern, &params, &path);
    CHECK(!path.failed);
    berth_api_route_find(method_of(r), berth_buf_str(&path), &f);
    CHECK(f.route && strcmp(f.route->method, r->method) == 0);
    CHECK(f.route == r || is_word(text, len));
}

static void check_rows(const char *text, size_t len)
{
    for (int i = 0; berth_api_tables[i]; i++)
        for (const struct berth_api_route *r = berth_api_tables[i]; r->method; r++)
            check_row(r, text, len);
}

/* The input: a byte for the method, and the path; its last segment is everybody's param. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > PATH_BYTES_MAX || memchr(data + 1, '\0', size - 1))
        return 0;
    auto_free char *path = malloc(size); /* exact, so that a sanitizer sees what goes beyond */
    CHECK(path);
    memcpy(path, data + 1, size - 1);
    path[size - 1] = '\0';
    check_found((enum berth_http_method)(data[0] % METHODS), path);
    const char *slash = strrchr(path, '/'), *text = slash ? slash + 1 : path;
    if (*text)
        check_rows(text, strlen(text));
    return 0;
}
