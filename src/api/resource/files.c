/* SPDX-License-Identifier: Apache-2.0
 * src/api/resource/files.c - the files in the place of a lease. Contents are streamed both ways,
 * and a thread of the provider's share moves them. */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/call.h"
#include "api/caller.h"
#include "api/place_call.h"
#include "api/stream/pipe.h"
#include "base/hex.h"
#include "base/limits.h"
#include "core/lease/lease.h"
#include "core/workspace/place_files.h"

#define NS_OF_MS 1000000
#define OCTETS "application/octet-stream"
#define TAR "application/x-tar"
#define ENTRIES_MAX 50000 /* in one answer */

/* What a request wants. */
struct files_call {
    const char *lease_id, *path, *mode;
    const char *rules; /* of gitignore, one on each line; NULL: none */
    int64_t depth, offset, length;
    bool hashed, recursive, ranged;
};

/* Reads the lease, checks that the caller may use its files, and reads `path`. */
static int files_begin(struct berth_api_call *c, struct berth_lease **lease,
                       struct files_call **out, struct berth_error *err)
{
    struct files_call *call = berth_api_state(c, sizeof *call);
    if (!call)
        return berth_arena_check(&c->arena, err);
    int rc = berth_lease_get(c->b, &c->arena, c->params[0], lease, err);
    if (rc == BERTH_OK)
        rc = berth_api_allow_local(c, berth_registry_in_place(c->b->registry, (*lease)->driver),
                                   err);
    if (rc < 0)
        return rc;
    *call = (struct files_call){.lease_id = (*lease)->id, .length = -1};
    call->path = berth_api_query(c, "path");
    if (!call->path)
        call->path = "";
    *out = call;
    return berth_arena_check(&c->arena, err);
}

/* Makes the rules of the request; *out is NULL when there are none. */
static int make_rules(struct berth_api_call *c, struct berth_ignore **out, struct berth_error *err)
{
    const struct files_call *call = c->state;
    const char *rules = call->rules;
    *out = NULL;
    int rc = rules ? berth_ignore_new(out, err) : BERTH_OK;
    while (rc == BERTH_OK && rules && *rules) {
        size_t len = strcspn(rules, "\n");
        const char *rule = berth_arena_copy(&c->arena, rules, len);
        rc = rule ? berth_ignore_add_override(*out, rule, err) : berth_arena_check(&c->arena, err);
        rules += len + (rules[len] == '\n');
    }
    return rc;
}

static int files_open(struct berth_api_call *c, const struct berth_api_pipe *p,
                      struct berth_place_files *out, struct berth_error *err)
{
    const struct files_call *call = c->state;
    return berth_place_files_open(c->b, &c->arena, call->lease_id, berth_api_pipe_left_fd(p), out,
                                  err);
}

/* --- a file --- */

/* Reads a Range header with one range. Others are ignored, as RFC 9110 allows. */
static void read_range(const struct berth_api_call *c, struct files_call *call)
{
    static const char unit[] = "bytes=";
    const char *text = berth_http_header(c->head, "range");
    if (!text || strncasecmp(text, unit, sizeof unit - 1) != 0)
        return;
    text += sizeof unit - 1;
    size_t first = strspn(text, "0123456789");
    size_t last = text[first] == '-' ? strspn(text + first + 1, "0123456789") : 0;
    bool one = text[first] == '-' && !text[first + 1 + last] && first + last > 0;
    if (!one || first > 18 || last > 18)
        return;
    int64_t from = strtoll(text, NULL, 10), to = strtoll(text + first + 1, NULL, 10);
    if (first && last && to < from)
        return;
    call->ranged = true;
    call->offset = first ? from : -to;
    call->length = first && last ? to - from + 1 : first ? -1 : to;
}

/* A file on its way to the client. */
struct file_sending {
    struct berth_api_call *c;
    struct berth_api_pipe *p;
};

static int send_head(void *ctx, int64_t size, int64_t offset, int64_t length,
                     struct berth_error *err)
{
    struct file_sending *s = ctx;
    const struct files_call *call = s->c->state;
    bool satisfied = length > 0 || !call->ranged;
    struct berth_http_header more[BERTH_HTTP_MORE_MAX] = {{"Accept-Ranges", "bytes"}};
    more[1] = (struct berth_http_header){"X-File-Size",
                                         berth_arena_printf(&s->c->arena, "%lld", (long long)size)};
    if (call->ranged)
        more[2].name = "Content-Range";
    if (call->ranged && satisfied)
        more[2].value = berth_arena_printf(&s->c->arena, "bytes %lld-%lld/%lld", (long long)offset,
                                           (long long)(offset + length - 1), (long long)size);
    else if (call->ranged)
        more[2].value = berth_arena_printf(&s->c->arena, "bytes */%lld", (long long)size);
    int rc = berth_arena_check(&s->c->arena, err);
    if (rc < 0)
        return rc;
    berth_api_pipe_begin(s->p, !call->ranged ? 200 : satisfied ? 206 : 416, OCTETS, more);
    return BERTH_OK;
}

static int send_bytes(void *ctx, const void *bytes, size_t len, struct berth_error *err)
{
    struct file_sending *s = ctx;
    return berth_api_pipe_put(s->p, bytes, len, err);
}

static int file_get_now(struct berth_api_call *c, struct berth_error *err)
{
    struct files_call *call = c->state;
    struct file_sending sending = {.c = c};
    struct berth_place_files files;
    struct berth_place_reading to = {.offset = call->offset,
                                     .length = call->length,
                                     .begin = send_head,
                                     .put = send_bytes,
                                     .ctx = &sending};
    int rc = berth_api_pipe_open(c, false, 0, &sending.p, err);
    if (rc < 0)
        return rc;
    rc = files_open(c, sending.p, &files, err);
    if (rc == BERTH_OK)
        rc = berth_place_files_read(&files, call->path, &to, err);
    return berth_api_pipe_close(sending.p, rc, err);
}

static int file_get(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_lease *lease;
    struct files_call *call;
    int rc = files_begin(c, &lease, &call, err);
    if (rc < 0)
        return rc;
    read_range(c, call);
    return berth_api_at_lease(c, lease, file_get_now, err);
}

static int feed_body(void *ctx, const struct berth_pack_sink *sink, struct berth_error *err)
{
    struct berth_api_pipe *p = ctx;
    const void *bytes;
    for (ssize_t got; (got = berth_api_pipe_get(p, sink, &bytes, err)) != 0;) {
        int rc = got < 0 ? (int)got : sink->put(sink->ctx, bytes, (size_t)got, err);
        if (rc < 0)
            return rc;
    }
    return BERTH_OK;
}

/* Hands the body of the request to one of the two functions that store it. */
static int body_put_now(struct berth_api_call *c,
                        int (*store)(struct berth_place_files *f, const char *path,
                                     const struct berth_place_writing *from,
                                     struct berth_error *err),
                        struct berth_error *err)
{
    struct files_call *call = c->state;
    struct berth_place_files files;
    struct berth_api_pipe *p;
    int rc = berth_api_pipe_open(c, true, BERTH_TREE_BYTES_MAX, &p, err);
    if (rc < 0)
        return rc;
    struct berth_place_writing from = {
        .length = c->head->body_bytes, .mode = call->mode, .feed = feed_body, .ctx = p};
    rc = files_open(c, p, &files, err);
    if (rc == BERTH_OK)
        rc = store(&files, call->path, &from, err);
    if (rc == BERTH_OK)
        berth_api_say_ok(c);
    return berth_api_pipe_close(p, rc, err);
}

static int file_put_now(struct berth_api_call *c, struct berth_error *err)
{
    return body_put_now(c, berth_place_files_write, err);
}

static int file_put(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_lease *lease;
    struct files_call *call;
    int rc = files_begin(c, &lease, &call, err);
    if (rc < 0)
        return rc;
    call->mode = berth_api_query(c, "mode");
    size_t digits = call->mode ? strspn(call->mode, "01234567") : 3;
    if (digits < 3 || digits > 4 || (call->mode && call->mode[digits])) {
        berth_issues_add(&c->issues, "mode", "Expected three or four octal digits");
        return berth_fail(err, BERTH_E_INVALID, "Validation error");
    }
    return berth_api_at_lease(c, lease, file_put_now, err);
}

static int file_delete_now(struct berth_api_call *c, struct berth_error *err)
{
    const struct files_call *call = c->state;
    struct berth_place_files files;
    int rc =
        berth_place_files_open(c->b, &c->arena, call->lease_id, berth_api_left_fd(c), &files, err);
    if (rc == BERTH_OK)
        rc = berth_place_files_remove(&files, call->path, call->recursive, err);
    if (rc == BERTH_OK)
        berth_api_say_ok(c);
    return rc;
}

static int file_delete(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_lease *lease;
    struct files_call *call;
    int rc = files_begin(c, &lease, &call, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_flag(c, "recursive", &call->recursive, err);
    return rc < 0 ? rc : berth_api_at_lease(c, lease, file_delete_now, err);
}

/* --- a tree --- */

static void put_entry(struct berth_api_call *c, const struct berth_entry *e)
{
    static const char *const kinds[] = {"directory", "file", "link"};
    char hex[BERTH_SHA256_HEX_SIZE] = "";
    if (e->hashed)
        berth_hex_write(e->hash, sizeof e->hash, hex);
    berth_json_open(&c->w, '{');
    berth_json_put_foreign(&c->w, "path", e->path);
    berth_json_put_str(&c->w, "kind", kinds[e->kind]);
    berth_json_put_str(&c->w, "mode", berth_arena_printf(&c->arena, "%04o", e->mode));
    berth_json_put_int(&c->w, "size", e->size);
    berth_json_put_time(&c->w, "modifiedAt", e->mtime_ns / NS_OF_MS);
    berth_json_put_foreign(&c->w, "target", e->target);
    berth_json_put_str(&c->w, "sha256", *hex ? hex : NULL);
    berth_json_close(&c->w, '}');
}

static int tree_now(struct berth_api_call *c, struct berth_error *err)
{
    const struct files_call *call = c->state;
    auto_tree_manifest found = {0};
    struct berth_place_files files;
    struct berth_place_listing what = {
        .path = call->path, .depth = (int)call->depth, .hashed = call->hashed};
    bool is_directory = false;
    int rc = make_rules(c, &what.ignore, err);
    if (rc == BERTH_OK)
        rc = berth_place_files_open(c->b, &c->arena, call->lease_id, berth_api_left_fd(c), &files,
                                    err);
    if (rc == BERTH_OK)
        rc = berth_place_files_list(&files, &what, &is_directory, &found, err);
    berth_ignore_free(what.ignore);
    if (rc == BERTH_OK && found.count > ENTRIES_MAX)
        rc = berth_fail(err, BERTH_E_TOO_LARGE,
                        "The list has more than %d entries. List a directory below, or give a "
                        "depth.",
                        ENTRIES_MAX);
    if (rc < 0)
        return rc;
    berth_json_open(&c->w, '{');
    berth_json_put_foreign(&c->w, "directory", files.directory);
    berth_json_put_bool(&c->w, "isDirectory", is_directory);
    berth_json_open_in(&c->w, "entries", '[');
    for (size_t i = 0; i < found.count && !c->out.failed; i++)
        put_entry(c, &found.entries[i]);
    berth_json_close(&c->w, ']');
    berth_json_put_int(&c->w, "skipped", (int64_t)found.skipped);
    berth_json_close(&c->w, '}');
    return berth_arena_check(&c->arena, err);
}

static int tree(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_lease *lease;
    struct files_call *call;
    int rc = files_begin(c, &lease, &call, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_number(c, "depth", 0, INT_MAX, -1, &call->depth, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_flag(c, "hash", &call->hashed, err);
    if (rc < 0)
        return rc;
    call->rules = berth_api_query(c, "exclude");
    return berth_api_at_lease(c, lease, tree_now, err);
}

/* --- an archive --- */

/* Begins the answer with the first piece, so that an error before it is an answer of its own. */
static int send_archive(void *ctx, const void *bytes, size_t len, struct berth_error *err)
{
    static const struct berth_http_header none[BERTH_HTTP_MORE_MAX];
    struct file_sending *s = ctx;
    struct files_call *call = s->c->state;
    if (!call->length)
        berth_api_pipe_begin(s->p, 200, TAR, none);
    call->length = 1;
    return berth_api_pipe_put(s->p, bytes, len, err);
}

static int archive_get_now(struct berth_api_call *c, struct berth_error *err)
{
    struct files_call *call = c->state;
    struct file_sending sending = {.c = c};
    struct berth_pack_sink sink = {send_archive, &sending};
    struct berth_place_listing what = {.path = call->path};
    struct berth_place_files files;
    call->length = 0;
    int rc = berth_api_pipe_open(c, false, 0, &sending.p, err);
    if (rc < 0)
        return rc;
    rc = make_rules(c, &what.ignore, err);
    if (rc == BERTH_OK)
        rc = files_open(c, sending.p, &files, err);
    if (rc == BERTH_OK)
        rc = berth_place_files_pack(&files, &what, &sink, err);
    berth_ignore_free(what.ignore);
    return berth_api_pipe_close(sending.p, rc, err);
}

static int archive_get(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_lease *lease;
    struct files_call *call;
    int rc = files_begin(c, &lease, &call, err);
    if (rc < 0)
        return rc;
    call->rules = berth_api_query(c, "exclude");
    return berth_api_at_lease(c, lease, archive_get_now, err);
}

static int archive_post_now(struct berth_api_call *c, struct berth_error *err)
{
    return body_put_now(c, berth_place_files_unpack, err);
}

static int archive_post(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_lease *lease;
    struct files_call *call;
    int rc = files_begin(c, &lease, &call, err);
    return rc < 0 ? rc : berth_api_at_lease(c, lease, archive_post_now, err);
}

const struct berth_api_route berth_api_file_routes[] = {
    {"GET", "/api/environment-leases/:leaseId/files", file_get, BERTH_API_MANAGE, .live = true,
     .query = "path"},
    {"PUT", "/api/environment-leases/:leaseId/files", file_put, BERTH_API_MANAGE, .live = true,
     .streams = true, .query = "path mode"},
    {"DELETE", "/api/environment-leases/:leaseId/files", file_delete, BERTH_API_MANAGE,
     .query = "path recursive"},
    {"GET", "/api/environment-leases/:leaseId/tree", tree, BERTH_API_MANAGE,
     .query = "path depth hash exclude"},
    {"GET", "/api/environment-leases/:leaseId/archive", archive_get, BERTH_API_MANAGE, .live = true,
     .query = "path exclude"},
    {"POST", "/api/environment-leases/:leaseId/archive", archive_post, BERTH_API_MANAGE,
     .live = true, .streams = true, .query = "path"},
    {0},
};
