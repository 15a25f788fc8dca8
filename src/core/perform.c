/* SPDX-License-Identifier: Apache-2.0
 * src/core/perform.c - a whole run: a lease, a workspace, the command, and the place given back
 * whatever happened. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/failpoint.h"
#include "core/environment.h"
#include "core/exec.h"
#include "core/lease.h"
#include "core/node.h"
#include "core/run.h"

struct performance {
    struct berth *b;
    struct berth_arena *arena;
    const struct berth_run_request *request;
    struct berth_environment *environment;
    struct berth_lease *lease;
    struct berth_run_result *out;
    const char *code; /* of what failed */
    int ended_fd;     /* readable when the command has ended */
};

static void enter(const struct performance *p, enum berth_run_phase phase)
{
    if (p->request->on_phase)
        p->request->on_phase(p->request->handlers.ctx, phase);
}

/* Says what failed in the words of the step; the cause is the text so far. */
static int fail_step(struct performance *p, const char *code, const char *step,
                     struct berth_error *err)
{
    struct berth_error cause = *err;
    p->code = code;
    return berth_fail(err, cause.code, "Failed to %s environment \"%s\" (%s): %.600s", step,
                      p->environment->name, berth_environment_drivers.names[p->environment->driver],
                      cause.message);
}

static int find_environment(struct performance *p, struct berth_error *err)
{
    const struct berth_run_request *r = p->request;
    p->code = "environment_not_found";
    int rc =
        r->environment_id
            ? berth_environment_get(p->b, p->arena, r->environment_id, &p->environment, err)
            : berth_environment_ensure_local(p->b, p->arena, r->company_id, &p->environment, err);
    if (rc == BERTH_E_NOT_FOUND)
        return berth_fail(err, rc, "Environment \"%s\" not found.", r->environment_id);
    if (rc < 0)
        return rc;
    if (r->company_id && strcmp(p->environment->company_id, r->company_id) != 0)
        return berth_fail(err, BERTH_E_NOT_FOUND,
                          "Environment \"%s\" does not belong to this company.",
                          p->environment->id);
    p->code = "environment_inactive";
    if (p->environment->status != BERTH_ENVIRONMENT_ACTIVE)
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "Environment \"%s\" is not active (status: %s).", p->environment->name,
                          berth_environment_statuses.names[p->environment->status]);
    p->code = NULL;
    return BERTH_OK;
}

static int take_lease(struct performance *p, struct berth_error *err)
{
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    enter(p, BERTH_PHASE_ACQUIRING);
    request.environment_id = p->environment->id;
    request.run_id = p->out->run->id;
    request.ttl_ms = p->request->ttl_ms;
    request.cancel_fd = p->request->cancel_fd;
    request.actor = p->request->actor;
    int rc = berth_lease_acquire(p->b, p->arena, &request, &p->lease, err);
    return rc < 0 ? fail_step(p, "lease_acquire_failed", "acquire lease for", err) : rc;
}

static int make_workspace(struct performance *p, struct berth_realized *out,
                          struct berth_error *err)
{
    char here[4096];
    const char *path = p->request->workspace;
    if (!path)
        path = getcwd(here, sizeof here);
    struct berth_workspace workspace = {.local_path = path};
    enter(p, BERTH_PHASE_REALIZING);
    int rc = berth_lease_realize(p->b, p->arena, p->lease->id, &workspace, out, err);
    return rc < 0 ? fail_step(p, "workspace_realization_failed", "realize workspace for", err) : rc;
}

static void on_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    const struct performance *p = ctx;
    const struct berth_exec_handlers *theirs = &p->request->handlers;
    if (theirs->on_output)
        theirs->on_output(theirs->ctx, stream, bytes, len);
}

static void on_stdin_room(void *ctx)
{
    const struct performance *p = ctx;
    const struct berth_exec_handlers *theirs = &p->request->handlers;
    if (theirs->on_stdin_room)
        theirs->on_stdin_room(theirs->ctx);
}

static void on_end(void *ctx, const struct berth_exec_end *end)
{
    const struct performance *p = ctx;
    const struct berth_exec_handlers *theirs = &p->request->handlers;
    if (theirs->on_end)
        theirs->on_end(theirs->ctx, end);
    (void)eventfd_write(p->ended_fd, 1);
}

/* Until it has ended; somebody who wants it to end is heard. */
static void await(const struct performance *p, struct berth_exec *x)
{
    struct pollfd fds[] = {{.fd = p->ended_fd, .events = POLLIN},
                           {.fd = p->request->cancel_fd, .events = POLLIN},
                           {.fd = p->b->closing_fd, .events = POLLIN}};
    for (;;) {
        if (poll(fds, 3, -1) < 0 && errno == EINTR)
            continue;
        if (fds[0].revents)
            return;
        for (int i = 1; i < 3; i++)
            if (fds[i].revents) {
                berth_exec_cancel(x);
                fds[i].fd = -1; /* once is enough: now its end is waited for */
            }
    }
}

static int run_command(struct performance *p, struct berth_error *err)
{
    struct berth_realized where;
    int rc = make_workspace(p, &where, err);
    if (rc < 0)
        return rc;
    struct berth_exec_request command = p->request->command;
    struct berth_exec_handlers handlers = {
        .on_output = on_output, .on_stdin_room = on_stdin_room, .on_end = on_end, .ctx = p};
    struct berth_exec *x;
    command.lease_id = p->lease->id;
    if (!command.cwd)
        command.cwd = where.cwd;
    enter(p, BERTH_PHASE_RUNNING);
    rc = berth_exec_start(p->b, &command, &handlers, &x, err);
    if (rc < 0) {
        p->code = rc == BERTH_E_UNSUPPORTED ? "unsupported_environment" : "adapter_failed";
        return rc;
    }
    p->out->started = true;
    BERTH_FAILPOINT(perform_running);
    if (p->request->on_started)
        p->request->on_started(p->request->handlers.ctx, x);
    await(p, x);
    if (p->request->on_stopped)
        p->request->on_stopped(p->request->handlers.ctx);
    berth_exec_wait(x, &p->out->end);
    berth_exec_free(x);
    berth_exec_end_strays(p->b); /* before the place is given back */
    return BERTH_OK;
}

/* How the run ended, from how its command did. */
static struct berth_run_end judge(const struct performance *p, int rc,
                                  const struct berth_error *err, char text[128])
{
    const struct berth_exec_end *end = &p->out->end;
    struct berth_run_end out = {.status = BERTH_RUN_FAILED, .actor = p->request->actor};
    if (rc < 0) {
        out.status = rc == BERTH_E_CANCELLED ? BERTH_RUN_CANCELLED : BERTH_RUN_FAILED;
        out.error = err->message;
        out.error_code = p->code ? p->code : "adapter_failed";
    } else if (end->cause == BERTH_END_TIMEOUT) {
        out.status = BERTH_RUN_TIMED_OUT;
        out.error = "The command ran longer than its time-out.";
        out.error_code = "timeout";
    } else if (end->cause == BERTH_END_CANCELLED) {
        out.status = BERTH_RUN_CANCELLED;
    } else if (end->cause == BERTH_END_LOST) {
        out.error = "How the command ended is not known.";
        out.error_code = "process_lost";
    } else if (end->exit_code == 0) {
        out.status = BERTH_RUN_SUCCEEDED;
    } else {
        (void)snprintf(text, 128,
                       end->signal ? "The command was ended by signal %d."
                                   : "The command ended with status %d.",
                       end->signal ? end->signal : end->exit_code);
        out.error = text;
        out.error_code = "adapter_failed";
    }
    return out;
}

/* Always, and on its own: what failed before must not keep a place. */
static void give_back(struct performance *p, const struct berth_run_end *end)
{
    struct berth_list released = {0};
    struct berth_error trouble;
    enter(p, BERTH_PHASE_RELEASING);
    int rc = berth_run_finish(p->b, p->arena, p->out->run->id, end, &released, &trouble);
    if (rc < 0)
        berth_log_line(&p->b->log, BERTH_LOG_ERROR, "run not given back yet", "runId",
                       p->out->run->id, "error", trouble.message, NULL);
    p->out->owed = rc < 0;
    for (int i = 0; i < released.count; i++) {
        const struct berth_lease *l = released.items[i];
        p->out->owed |= l->cleanup == BERTH_CLEANUP_FAILED;
    }
    struct berth_run *now;
    if (berth_run_get(p->b, p->arena, p->out->run->id, &now, &trouble) == BERTH_OK)
        p->out->run = now;
}

int berth_run_perform(struct berth *b, struct berth_arena *arena,
                      const struct berth_run_request *request, struct berth_run_result *out,
                      struct berth_error *err)
{
    *out = (struct berth_run_result){0};
    struct performance p = {.b = b, .arena = arena, .request = request, .out = out};
    auto_close int ended_fd = eventfd(0, EFD_CLOEXEC);
    if (ended_fd < 0)
        return berth_fail_errno(err, "Cannot make an event descriptor");
    p.ended_fd = ended_fd;
    int rc = berth_run_create_own(b, arena, request->company_id, &out->run, err);
    if (rc < 0)
        return rc;
    const char *id = out->run->id;
    rc = berth_node_begin(b->node, id, err); /* it is this process that performs it */
    BERTH_FAILPOINT(perform_after_run);
    if (rc == BERTH_OK)
        rc = find_environment(&p, err);
    if (rc == BERTH_OK)
        rc = take_lease(&p, err);
    if (rc == BERTH_OK)
        rc = run_command(&p, err);
    char text[128];
    struct berth_run_end end = judge(&p, rc, err, text);
    BERTH_FAILPOINT(perform_before_release);
    give_back(&p, &end);
    berth_node_end(b->node, id);
    return rc;
}
