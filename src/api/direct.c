/* SPDX-License-Identifier: Apache-2.0
 * src/api/direct.c - see direct.h. */
#include "api/direct.h"

#include <string.h>

#include "api/caller.h"
#include "api/route.h"
#include "api/state.h"
#include "core/lock_order.h"

/* As the reader of a connection would have it. */
static int make_head(struct berth_arena *arena, const struct berth_api_direct *r,
                     struct berth_http_head *head, struct berth_error *err)
{
    char *path = berth_arena_strdup(arena, r->target);
    int method = berth_api_find_word(berth_http_methods, r->method);
    if (!path)
        return berth_arena_check(arena, err);
    if (method < 0)
        return berth_fail(err, BERTH_E_INVALID, "Method not allowed");
    char *query = strchr(path, '?');
    if (query)
        *query++ = '\0';
    *head = (struct berth_http_head){.method = (enum berth_http_method)method,
                                     .path = path,
                                     .query = query,
                                     .headers = {{"content-type", "application/json"}},
                                     .header_count = 1};
    return BERTH_OK;
}

static int handle(struct berth_api_call *c, const struct berth_api_found *f,
                  struct berth_error *err)
{
    for (int i = 0; i < BERTH_API_PARAMS_MAX && f->params[i].text; i++)
        c->params[i] = berth_api_decode(&c->arena, f->params[i].text, f->params[i].len, false);
    int rc = berth_arena_check(&c->arena, err);
    if (rc == BERTH_OK)
        rc = berth_api_check_query(c, err);
    if (rc == BERTH_OK)
        rc = c->route->handle(c, err);
    if (rc == BERTH_OK && c->fixed)
        berth_buf_append(&c->out, c->fixed, c->fixed_len);
    return rc < 0 ? rc : berth_buf_check(&c->out, "The answer", err);
}

int berth_api_direct(struct berth *b, const struct berth_api_direct *request,
                     struct berth_issues *issues, struct berth_buf *out, struct berth_error *err)
{
    struct berth_api api = {.b = b};
    struct berth_http_head head;
    struct berth_api_found found;
    struct berth_api_call c = {
        .api = &api,
        .b = b,
        .head = &head,
        .cancel_fd = request->cancel_fd,
        .body = request->body,
        .body_len = request->body ? strlen(request->body) : 0,
        .caller = {.kind = BERTH_TOKEN_OPERATOR, .permissions = BERTH_MAY_ALL},
        .actor = *request->actor,
        .issues = *issues,
        .out = *out};
    int rc = make_head(&c.arena, request, &head, err);
    if (rc == BERTH_OK) {
        berth_api_route_find(head.method, head.path, &found);
        c.route = found.route;
        c.w = (struct berth_json_writer){.buf = &c.out};
        berth_lock_init(&api.lives_lock, BERTH_RANK_API_COMMANDS);
        rc = !found.route ? berth_fail(err, BERTH_E_NOT_FOUND, "API route not found")
             : found.route->live
                 ? berth_fail(err, BERTH_E_UNPROCESSABLE, "This is for a daemon: start berthd.")
                 : handle(&c, &found, err);
        berth_lock_destroy(&api.lives_lock);
    }
    *issues = c.issues;
    *out = c.out;
    berth_arena_wipe(&c.arena);
    return rc;
}
