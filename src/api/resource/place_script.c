/* SPDX-License-Identifier: Apache-2.0
 * src/api/resource/place_script.c - what a client on another machine needs to move a workspace by
 * itself: shell scripts in the place, whose input and output are bytes, and the mark of work that
 * is not home. The client is the command line (cli/far_site.c). */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/caller.h"
#include "api/place_call.h"
#include "api/stream/pipe.h"
#include "base/auto.h"
#include "base/limits.h"
#include "core/lease/lease.h"
#include "core/lease/lease_work.h"
#include "core/workspace/place_files.h"
#include "core/workspace/place_script.h"

#define HEAD_BYTES_MAX ((size_t)64 * 1024)  /* of the line before the input */
#define FIRST_BYTES_MAX ((size_t)64 * 1024) /* of output that waits for the end of the script */
#define OCTETS "application/octet-stream"

/* A script, its input, and its output. */
struct script_call {
    struct berth_api_call *c;
    struct berth_api_pipe *p;
    const char *lease_id;
    const char *rest; /* of the body, behind the head */
    size_t rest_len;
    struct berth_buf first; /* output, until the answer has begun */
    bool begun;
};

/* Reads the body up to the end of its first line. */
static int read_head(struct script_call *s, struct berth_buf *head, struct berth_error *err)
{
    const void *bytes;
    for (;;) {
        ssize_t got = berth_api_pipe_get(s->p, NULL, &bytes, err);
        if (got < 0)
            return (int)got;
        const char *end = memchr(bytes, '\n', (size_t)got);
        size_t len = end ? (size_t)(end - (const char *)bytes) : (size_t)got;
        berth_buf_append(head, bytes, len);
        int rc = berth_buf_check(head, "The script", err);
        if (rc < 0)
            return rc;
        if (!end && got)
            continue;
        s->rest = end ? end + 1 : NULL;
        s->rest_len = end ? (size_t)got - len - 1 : 0;
        return BERTH_OK;
    }
}

static int feed_rest(void *ctx, const struct berth_pack_sink *sink, struct berth_error *err)
{
    struct script_call *s = ctx;
    const void *bytes = s->rest;
    ssize_t got = (ssize_t)s->rest_len;
    if (!got)
        got = berth_api_pipe_get(s->p, sink, &bytes, err);
    while (got > 0) {
        int rc = sink->put(sink->ctx, bytes, (size_t)got, err);
        if (rc < 0)
            return rc;
        got = berth_api_pipe_get(s->p, sink, &bytes, err);
    }
    return (int)got;
}

/* Begins the answer with what the script wrote so far. */
static int begin_output(struct script_call *s, struct berth_error *err)
{
    static const struct berth_http_header none[BERTH_HTTP_MORE_MAX];
    int rc = berth_buf_check(&s->first, "The output", err);
    if (rc < 0)
        return rc;
    s->begun = true;
    berth_api_pipe_begin(s->p, 200, OCTETS, none);
    return s->first.len ? berth_api_pipe_put(s->p, s->first.data, s->first.len, err) : BERTH_OK;
}

static int take_output(void *ctx, const struct berth_unpack_source *source, struct berth_error *err)
{
    struct script_call *s = ctx;
    const void *bytes;
    for (ssize_t got; (got = source->get(source->ctx, &bytes, err)) != 0;) {
        int rc = got < 0 ? (int)got : BERTH_OK;
        if (rc == BERTH_OK && !s->begun && s->first.len + (size_t)got <= FIRST_BYTES_MAX) {
            berth_buf_append(&s->first, bytes, (size_t)got);
            continue;
        }
        if (rc == BERTH_OK && !s->begun)
            rc = begin_output(s, err);
        if (rc == BERTH_OK)
            rc = berth_api_pipe_put(s->p, bytes, (size_t)got, err);
        if (rc < 0)
            return rc;
    }
    return BERTH_OK;
}

/* The head, as JSON. */
struct script_head {
    const char *script, *what;
    struct berth_list args;
};

static int parse_head(struct script_call *s, const struct berth_buf *text, struct script_head *out,
                      struct berth_error *err)
{
    static const struct berth_api_field fields[] = {
        {"script", BERTH_API_TEXT, offsetof(struct script_head, script), .required = true},
        {"what", BERTH_API_TEXT, offsetof(struct script_head, what), .required = true},
        {"args", BERTH_API_TEXTS, offsetof(struct script_head, args), .required = true},
        {0}};
    int rc = berth_api_object(s->c, berth_buf_str(text), fields, out, err);
    if (rc == BERTH_OK)
        (void)berth_list_add(&out->args, &s->c->arena, NULL);
    return rc < 0 ? rc : berth_arena_check(&s->c->arena, err);
}

static int run_script(struct script_call *s, struct berth_error *err)
{
    auto_buf text = BERTH_BUF_INIT(HEAD_BYTES_MAX);
    struct script_head head = {0};
    struct berth_place_files files;
    int exit_code = 0;
    int rc = read_head(s, &text, err);
    if (rc == BERTH_OK)
        rc = parse_head(s, &text, &head, err);
    if (rc == BERTH_OK)
        rc = berth_place_files_open(s->c->b, &s->c->arena, s->lease_id,
                                    berth_api_pipe_left_fd(s->p), &files, err);
    if (rc < 0)
        return rc;
    struct berth_place_script script = {.what = head.what,
                                        .text = head.script,
                                        .args = (const char *const *)(void *)head.args.items,
                                        .feed = s->rest ? feed_rest : NULL,
                                        .take = take_output,
                                        .ctx = s};
    rc = berth_place_script_run(&files.shell, &script, &exit_code, err);
    if (rc < 0 && exit_code > 0)
        berth_issues_add(&s->c->issues, "exitCode", "%d", exit_code);
    return rc == BERTH_OK && !s->begun ? begin_output(s, err) : rc;
}

static int script_now(struct berth_api_call *c, struct berth_error *err)
{
    struct script_call *s = c->state;
    int rc = berth_api_pipe_open(c, true, BERTH_TREE_BYTES_MAX, &s->p, err);
    if (rc < 0)
        return rc;
    struct berth_api_pipe *p = s->p;
    struct berth_buf *first = &s->first;
    *first = (struct berth_buf)BERTH_BUF_INIT(FIRST_BYTES_MAX);
    rc = run_script(s, err);
    berth_buf_clear(first);
    return berth_api_pipe_close(p, rc, err); /* frees the call, and s with it */
}

/* Finds the lease, and checks that the caller may run commands in it. */
static int script_lease(struct berth_api_call *c, struct berth_lease **out, struct berth_error *err)
{
    int rc = berth_lease_get(c->b, &c->arena, c->params[0], out, err);
    return rc < 0 ? rc
                  : berth_api_allow_local(
                        c, berth_registry_in_place(c->b->registry, (*out)->driver), err);
}

static int script(struct berth_api_call *c, struct berth_error *err)
{
    struct script_call *s = berth_api_state(c, sizeof *s);
    struct berth_lease *lease;
    if (!s)
        return berth_arena_check(&c->arena, err);
    int rc = script_lease(c, &lease, err);
    if (rc < 0)
        return rc;
    s->c = c;
    s->lease_id = lease->id;
    return berth_api_at_lease(c, lease, script_now, err);
}

/* --- the mark --- */

static int work(struct berth_api_call *c, struct berth_error *err)
{
    enum { SENDING, AWAY, HOME, REOPEN };
    static const char *const words[] = {"sending", "away", "home", "reopen", NULL};
    struct body {
        int state;
        int64_t seen_ms;
    } body = {.seen_ms = BERTH_LEASE_SEEN_ANY};
    static const struct berth_api_field fields[] = {
        {"state", BERTH_API_WORD, offsetof(struct body, state), .required = true, .words = words},
        {"seen", BERTH_API_NUMBER, offsetof(struct body, seen_ms)},
        {0}};
    struct berth_lease *lease;
    struct berth_lease_work_seen seen = {0};
    int rc = script_lease(c, &lease, err);
    if (rc == BERTH_OK)
        rc = berth_api_body(c, fields, &body, NULL, err);
    if (rc < 0)
        return rc;
    rc = body.state == SENDING ? berth_lease_work_send(c->b, lease->id, err)
         : body.state == AWAY  ? berth_lease_work_begin(c->b, lease->id, err)
         : body.state == HOME  ? berth_lease_work_end(c->b, lease->id, body.seen_ms, err)
                               : berth_lease_work_reopen(c->b, lease->id, &seen, err);
    if (rc < 0)
        return rc;
    berth_json_open(&c->w, '{');
    berth_json_put_bool(&c->w, "reopened", seen.reopened);
    berth_json_put_bool(&c->w, "partial", seen.partial);
    berth_json_put_int(&c->w, "seen", seen.mark_ms);
    berth_json_close(&c->w, '}');
    return BERTH_OK;
}

const struct berth_api_route berth_api_place_script_routes[] = {
    {"POST", "/api/environment-leases/:leaseId/workspace/script", script, BERTH_API_MANAGE,
     .live = true, .streams = true},
    {"POST", "/api/environment-leases/:leaseId/workspace/work", work, BERTH_API_MANAGE},
    {0},
};
