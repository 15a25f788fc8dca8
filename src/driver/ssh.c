/* SPDX-License-Identifier: Apache-2.0
 * src/driver/ssh.c - see ssh.h. */
#include "driver/ssh.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/id.h"
#include "base/json.h"
#include "base/limits.h"
#include "driver/ssh_config.h"
#include "driver/ssh_exec.h"

#define RETRIES 3 /* over other connections, when sshd gives no session on one */

struct ssh_driver {
    struct berth_driver base;
    struct berth_ssh_links *links;
};

/* One question to the far end. */
struct question {
    struct berth_json *json;
    struct berth_ssh_config config;
    struct berth_ssh_links *links;
    struct berth_ssh_link *link;
    struct berth_ssh_mark mark;
    struct berth_ssh_line line;
};

static void clear_question(struct question *q)
{
    berth_ssh_link_drop(q->link);
    berth_ssh_line_clear(&q->line);
    berth_json_free(q->json);
}
#define auto_question __attribute__((cleanup(clear_question))) struct question

/* Connects, and begins q->line. `path` NULL: the path of the workspace. */
static int open_question(struct berth_driver *d, struct berth_call *call,
                         const struct berth_place_request *who, const char *path,
                         struct question *q, struct berth_error *err)
{
    *q = (struct question){.links = ((struct ssh_driver *)d)->links,
                           .mark = berth_ssh_mark_new(),
                           .line = BERTH_SSH_LINE_INIT};
    int rc = berth_ssh_config_read(who->config_json, &q->json, &q->config, err);
    if (rc == BERTH_OK)
        rc = berth_ssh_link_take(q->links, call, &q->config, &q->link, err);
    if (rc < 0)
        return rc;
    berth_ssh_line_set(&q->line, "m", q->mark.text);
    berth_ssh_line_set(&q->line, "h", path ? path : q->config.path);
    return BERTH_OK;
}

/* Takes another connection after one that gave no session. */
static int take_another(struct question *q, struct berth_call *call, struct berth_error *err)
{
    berth_ssh_link_drop(take_ptr(q->link));
    return berth_ssh_link_take(q->links, call, &q->config, &q->link, err);
}

static int ask(struct question *q, struct berth_call *call, const char *script, const char **out,
               struct berth_error *err)
{
    int rc = berth_ssh_line_end(&q->line, script, err);
    if (rc < 0)
        return rc;
    rc = berth_ssh_link_ask(q->link, call, &q->line, &q->mark, out, err);
    for (int i = 0; rc == BERTH_E_UNAVAILABLE && i < RETRIES; i++) { /* nothing has run */
        rc = take_another(q, call, err);
        if (rc == BERTH_OK)
            rc = berth_ssh_link_ask(q->link, call, &q->line, &q->mark, out, err);
    }
    return rc;
}

/* Returns the first line of the answer and moves *text behind it. */
static const char *next_line(struct berth_arena *arena, const char **text)
{
    size_t len = strcspn(*text, "\n");
    const char *line = berth_arena_printf(arena, "%.*s", (int)len, *text);
    *text += len + ((*text)[len] == '\n');
    return line;
}

static void put_where(struct berth_json_writer *w, const struct berth_ssh_config *c)
{
    berth_json_put_str(w, "host", c->host);
    berth_json_put_int(w, "port", c->port);
    berth_json_put_str(w, "username", c->username);
    berth_json_put_str(w, "remoteWorkspacePath", c->path);
}

static int ssh_probe(struct berth_driver *d, struct berth_call *call,
                     const struct berth_place_request *who, struct berth_probe *out,
                     struct berth_error *err)
{
    auto_question q;
    const char *answer = NULL;
    int rc = open_question(d, call, who, NULL, &q, err);
    if (rc == BERTH_OK)
        rc = ask(&q, call, berth_ssh_probe, &answer, err);
    if (rc == BERTH_E_TIMEOUT || rc == BERTH_E_CANCELLED || rc == BERTH_E_NO_MEMORY ||
        !q.config.host)
        return rc;
    auto_buf buf = BERTH_BUF_INIT(BERTH_METADATA_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    berth_json_open(&w, '{');
    put_where(&w, &q.config);
    if (rc == BERTH_OK)
        berth_json_put_str(&w, "remoteCwd", next_line(call->arena, &answer));
    else
        berth_json_put_str(&w, "error", err->message);
    berth_json_close(&w, '}');
    out->ok = rc == BERTH_OK;
    out->summary =
        berth_arena_printf(call->arena,
                           out->ok ? "Connected to %s@%s and verified the remote workspace path."
                                   : "SSH probe failed for %s@%s.",
                           q.config.username, q.config.host);
    out->details_json = berth_arena_strdup(call->arena, berth_buf_str(&buf));
    return berth_arena_check(call->arena, err);
}

static int answer_place(struct berth_call *call, const struct question *q, const char *answer,
                        struct berth_place *out, struct berth_error *err)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_METADATA_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    out->id = next_line(call->arena, &answer);
    berth_json_open(&w, '{');
    put_where(&w, &q->config);
    berth_json_put_str(&w, "remoteCwd", next_line(call->arena, &answer));
    berth_json_close(&w, '}');
    int rc = berth_buf_check(&buf, "Metadata", err);
    if (rc < 0)
        return rc;
    out->metadata_json = berth_arena_strdup(call->arena, berth_buf_str(&buf));
    return berth_arena_check(call->arena, err);
}

static int ssh_acquire(struct berth_driver *d, struct berth_call *call,
                       const struct berth_place_request *who, struct berth_place *out,
                       struct berth_error *err)
{
    auto_question q;
    const char *answer;
    int rc = open_question(d, call, who, NULL, &q, err);
    out->untouched = rc < 0; /* without a connection nothing can have been made */
    if (rc < 0)
        return rc;
    const struct berth_ssh_config *c = &q.config;
    const char *begin =
        berth_arena_printf(call->arena, "ssh://%s@%s:%d", c->username, c->host, c->port);
    const char *end = berth_arena_printf(call->arena, "%s%s", who->sole ? "" : "#",
                                         who->sole ? "" : who->lease_id);
    if (!begin || !end)
        return berth_arena_check(call->arena, err);
    berth_ssh_line_set(&q.line, "l", who->lease_id);
    berth_ssh_line_set(&q.line, "i", begin);
    berth_ssh_line_set(&q.line, "j", end);
    rc = ask(&q, call, berth_ssh_acquire, &answer, err);
    return rc < 0 ? rc : answer_place(call, &q, answer, out, err);
}

static const char *lease_directory(struct berth_arena *arena, const struct berth_ssh_config *config,
                                   const char *lease_id)
{
    return berth_arena_printf(arena, "%s/.berth/leases/%s", config->path, lease_id);
}

/* Returns the directory in which commands of the lease run. Acquire makes it. */
static const char *own_directory(struct berth_arena *arena, const struct berth_ssh_config *config,
                                 const char *lease_id)
{
    return berth_arena_printf(arena, "%s/.berth/leases/%s/workspace", config->path, lease_id);
}

static int ssh_realize(struct berth_driver *d, struct berth_call *call,
                       const struct berth_place_request *who, const struct berth_place *place,
                       const struct berth_workspace *workspace, struct berth_realized *out,
                       struct berth_error *err)
{
    (void)place;
    auto_question q;
    const char *answer, *path = workspace->remote_path;
    if (workspace->remote_path && workspace->remote_path[0] != '/')
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "Working directory must be an absolute POSIX path on the remote target: "
                          "\"%s\"",
                          workspace->remote_path);
    int rc = open_question(d, call, who, path, &q, err);
    if (rc == BERTH_OK && !path && !workspace->in_place) {
        path = own_directory(call->arena, &q.config, who->lease_id);
        berth_ssh_line_set(&q.line, "h", path ? path : "");
        rc = berth_arena_check(call->arena, err);
    }
    if (rc == BERTH_OK)
        rc = ask(&q, call, berth_ssh_realize, &answer, err);
    if (rc < 0)
        return rc;
    out->cwd = next_line(call->arena, &answer);
    return berth_arena_check(call->arena, err);
}

/* Ends all processes of the lease and removes its directory. */
static int ssh_release(struct berth_driver *d, struct berth_call *call,
                       const struct berth_place_request *who, const struct berth_place *place,
                       enum berth_release_mode mode, struct berth_error *err)
{
    (void)place, (void)mode;
    auto_question q;
    const char *answer;
    int rc = open_question(d, call, who, NULL, &q, err);
    if (rc < 0)
        return rc;
    berth_ssh_line_set(&q.line, "l", who->lease_id);
    return ask(&q, call, berth_ssh_release, &answer, err);
}

static int ssh_find(struct berth_driver *d, struct berth_call *call,
                    const struct berth_place_request *who, berth_found_fn *each, void *ctx,
                    struct berth_error *err)
{
    auto_question q;
    const char *answer;
    int rc = open_question(d, call, who, NULL, &q, err);
    if (rc == BERTH_OK)
        rc = ask(&q, call, berth_ssh_find, &answer, err);
    while (rc == BERTH_OK && *answer) {
        char *lease = (char *)(uintptr_t)next_line(call->arena, &answer);
        char *blank = lease ? strchr(lease, ' ') : NULL;
        rc = berth_arena_check(call->arena, err);
        if (rc < 0 || !blank)
            continue;
        *blank = '\0';
        if (berth_id_valid(lease)) /* the far end is not trusted */
            rc = each(ctx, lease, blank + 1, err);
    }
    return rc;
}

static int ssh_exec_start(struct berth_driver *d, struct berth_call *call,
                          const struct berth_place_request *who, const struct berth_place *place,
                          const struct berth_command *command,
                          const struct berth_exec_handlers *handlers, struct berth_running **out,
                          struct berth_error *err)
{
    (void)place;
    auto_question q;
    int rc = open_question(d, call, who, NULL, &q, err);
    if (rc == BERTH_E_DENIED) /* DENIED would mean that the program may not be executed */
        err->code = rc = BERTH_E_UNPROCESSABLE;
    if (rc < 0)
        return rc;
    struct berth_command whole = *command;
    const char *directory = lease_directory(call->arena, &q.config, who->lease_id);
    if (!whole.cwd)
        whole.cwd = own_directory(call->arena, &q.config, who->lease_id);
    if (!directory || !whole.cwd)
        return berth_arena_check(call->arena, err);
    if (whole.cwd[0] != '/')
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "Working directory must be an absolute POSIX path on the remote target: "
                          "\"%s\"",
                          whole.cwd);
    rc = berth_ssh_exec_start(take_ptr(q.link), call, directory, &whole, handlers, out, err);
    for (int i = 0; rc == BERTH_E_UNAVAILABLE && i < RETRIES; i++) { /* nothing has run */
        rc = take_another(&q, call, err);
        if (rc == BERTH_OK)
            rc =
                berth_ssh_exec_start(take_ptr(q.link), call, directory, &whole, handlers, out, err);
    }
    return rc;
}

static int ssh_exec_settle(struct berth_driver *d, struct berth_call *call,
                           const struct berth_place_request *who, const struct berth_place *place,
                           const char *exec_id, struct berth_exec_end *end, struct berth_error *err)
{
    (void)place;
    auto_question q;
    const char *answer;
    int rc = open_question(d, call, who, NULL, &q, err);
    if (rc < 0)
        return rc;
    const char *directory = lease_directory(call->arena, &q.config, who->lease_id);
    if (!directory)
        return berth_arena_check(call->arena, err);
    berth_ssh_line_set(&q.line, "d", directory);
    berth_ssh_line_set(&q.line, "x", exec_id);
    rc = ask(&q, call, berth_ssh_settle, &answer, err);
    if (rc == BERTH_OK)
        (void)berth_ssh_read_end(answer, end);
    return rc;
}

static void ssh_free(struct berth_driver *d)
{
    berth_ssh_links_free(((struct ssh_driver *)d)->links);
    free(d);
}

static const struct berth_driver_ops ssh_ops = {
    .validate = berth_ssh_validate,
    .probe = ssh_probe,
    .acquire = ssh_acquire,
    .realize = ssh_realize,
    .exec_start = ssh_exec_start,
    .exec_settle = ssh_exec_settle,
    .release = ssh_release,
    .free = ssh_free,
};

static const struct berth_driver_finder ssh_finder = {.find = ssh_find};

static const struct berth_driver_traits ssh_traits = {
    .name = "ssh",
    .config_schema = berth_ssh_config_schema,
    .secret = &berth_ssh_config_secret,
    .finder = &ssh_finder,
    .owns_config = true,
    .wants_sole = true,
};

int berth_driver_ssh_new(struct berth_engine *engine, struct berth_driver **out,
                         struct berth_error *err)
{
    auto_free struct ssh_driver *ssh = calloc(1, sizeof *ssh);
    if (!ssh)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: SSH driver.");
    ssh->base = (struct berth_driver){.ops = &ssh_ops, .traits = &ssh_traits};
    int rc = berth_ssh_links_new(engine, &ssh->links, err);
    if (rc == BERTH_OK)
        *out = &take_ptr(ssh)->base;
    return rc;
}
