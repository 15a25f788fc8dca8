/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/run_job.c - see run_job.h. */
#include "core/run/run_job.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/failpoint.h"
#include "base/id.h"
#include "base/time.h"
#include "core/environment/environment.h"
#include "core/lease/lease.h"
#include "core/lease/node.h"
#include "core/run/exec.h"
#include "core/run/exec_await.h"
#include "core/run/run.h"
#include "core/run/run_provision.h"
#include "core/run/run_secrets.h"
#include "core/run/run_workspace.h"

/* While a caller waits, and the end of the run cannot be stored. */
#define END_RETRY_MS 100
#define END_TRIES_MAX 20

static void run_job_enter(const struct berth_run_job *p, enum berth_run_phase phase)
{
    if (p->request->on_phase)
        p->request->on_phase(p->request->handlers.ctx, phase);
}

/* --- the secrets of the run, in texts that others write --- */

/* Returns what hides the secrets: that of the command, if it ran, knows those of the environment,
 * too. */
static struct berth_masking *run_job_masking(struct berth_run_job *p)
{
    return p->over ? berth_exec_masking(p->over) : &p->masking;
}

static void run_job_hide(void *ctx, char *bytes, size_t len)
{
    berth_masking_hide(run_job_masking(ctx), bytes, len, false);
}

static int masking_of_secrets(struct berth_run_job *p, struct berth_error *err)
{
    size_t count = p->secrets ? (size_t)p->request->secret_count : 0;
    struct berth_pattern *all = berth_arena_alloc(p->arena, (count + 1) * sizeof *all);
    if (!all)
        return berth_arena_check(p->arena, err);
    for (size_t i = 0; i < count; i++)
        all[i] = (struct berth_pattern){p->secrets[i].bytes, p->secrets[i].len};
    berth_masking_init(&p->masking, p->b, p->out->run->company_id, all, count);
    return BERTH_OK;
}

static void run_job_forget_secrets(struct berth_run_job *p)
{
    berth_masking_clear(&p->masking);
    p->masking.count = 0;
    berth_run_secrets_clear(p->request, p->secrets);
}

/* --- steps before the command --- */

/* Says what failed in the words of the step; the cause is the text so far, which is hidden before
 * it is cut. */
static int fail_step(struct berth_run_job *p, const char *code, const char *step,
                     struct berth_error *err)
{
    berth_masking_hide_error(run_job_masking(p), err);
    struct berth_error cause = *err;
    p->code = code;
    return berth_fail(err, cause.code, "Failed to %s environment \"%s\" (%s): %.600s", step,
                      p->environment->name, berth_environment_drivers.names[p->environment->driver],
                      cause.message);
}

/* The way to the place, not the command. */
static int fail_target(struct berth_run_job *p, struct berth_error *err)
{
    berth_masking_hide_error(run_job_masking(p), err);
    struct berth_error cause = *err;
    p->code = "transport_resolution_failed";
    return berth_fail(err, cause.code, "Failed to resolve execution target for \"%s\": %.600s",
                      p->environment->name, cause.message);
}

const char *berth_run_choose_environment(const struct berth_environment_wishes *w)
{
    if (w->workspace_says)
        return w->workspace;
    if (w->isolated_workspaces && w->issue)
        return w->issue;
    if (w->isolated_workspaces && w->project)
        return w->project;
    return w->agent;
}

static int find_environment(struct berth_run_job *p, struct berth_error *err)
{
    const struct berth_run_request *r = p->request;
    p->code = "environment_not_found";
    int rc =
        r->environment_id
            ? berth_environment_get(p->b, p->arena, r->environment_id, &p->environment, err)
            : berth_environment_ensure_local(p->b, p->arena, r->company_id, &p->environment, err);
    /* Another company's environment is answered like one that does not exist. */
    if (rc == BERTH_OK && r->company_id && strcmp(p->environment->company_id, r->company_id) != 0) {
        p->environment = NULL;
        rc = BERTH_E_NOT_FOUND;
    }
    if (rc == BERTH_E_NOT_FOUND)
        return berth_fail(err, rc, "Environment \"%s\" not found.",
                          r->environment_id ? r->environment_id : "Local");
    if (rc < 0)
        return rc;
    p->code = "environment_inactive";
    if (p->environment->status != BERTH_ENVIRONMENT_ACTIVE)
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "Environment \"%s\" is not active (status: %s).", p->environment->name,
                          berth_environment_statuses.names[p->environment->status]);
    p->code = NULL;
    return BERTH_OK;
}

/* What cannot run a command is refused before a place is taken; a driver that is not there is
 * acquire's to tell. Nothing ever runs here instead. */
static int check_can_exec(struct berth_run_job *p, struct berth_error *err)
{
    const struct berth_environment *e = p->environment;
    const struct berth_route *route;
    struct berth_error unserved;
    if (berth_registry_route(p->b->registry, berth_environment_drivers.names[e->driver],
                             e->config_json, &route, &unserved) < 0 ||
        berth_route_can_exec(route))
        return BERTH_OK;
    p->code = "unsupported_environment";
    if (route->kind != BERTH_ROUTE_PROVIDER)
        return berth_fail(err, BERTH_E_UNSUPPORTED,
                          "Environment driver \"%s\" does not support running commands.",
                          route->driver);
    return berth_fail(err, BERTH_E_UNSUPPORTED,
                      "Environment sandbox provider \"%s\" is not allowed here. The built-in %s "
                      "provider is probe-only and cannot execute runs.",
                      route->provider, route->provider);
}

static int take_lease(struct berth_run_job *p, struct berth_error *err)
{
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    run_job_enter(p, BERTH_PHASE_ACQUIRING);
    request.environment_id = p->environment->id;
    request.run_id = p->out->run->id;
    request.issue_id = p->request->issue_id;
    request.execution_workspace_id = p->request->execution_workspace_id;
    request.agent_id = p->request->agent_id;
    request.ttl_ms = p->request->ttl_ms;
    request.cancel_fd = p->cancel_fd;
    request.actor = p->request->actor;
    int rc = berth_lease_acquire(p->b, p->arena, &request, &p->lease, err);
    return rc < 0 ? fail_step(p, "lease_acquire_failed", "acquire lease for", err) : rc;
}

static int make_workspace(struct berth_run_job *p, struct berth_realized *out,
                          struct berth_error *err)
{
    struct berth_workspace workspace = {.local_path = p->request->workspace,
                                        .in_place = p->request->in_place};
    run_job_enter(p, BERTH_PHASE_REALIZING);
    int rc = berth_lease_realize(p->b, p->arena, p->lease->id, &workspace, out, err);
    return rc < 0 ? fail_step(p, "workspace_realization_failed", "realize workspace for", err) : rc;
}

static struct berth_run_way run_job_way(struct berth_run_job *p)
{
    return (struct berth_run_way){.request = p->request,
                                  .lease_id = p->lease->id,
                                  .hide = run_job_hide,
                                  .hide_ctx = p,
                                  .cancel_fd = p->cancel_fd};
}

static int provision(struct berth_run_job *p, const char *cwd, struct berth_error *err)
{
    struct berth_run_provision what = {.lease_id = p->lease->id,
                                       .script = p->request->provision_command,
                                       .cwd = cwd,
                                       .secrets = p->secrets,
                                       .secret_count = p->secrets ? p->request->secret_count : 0,
                                       .cancel_fd = p->cancel_fd};
    if (!what.script || berth_environment_in_place(p->b, p->environment))
        return BERTH_OK;
    run_job_enter(p, BERTH_PHASE_PROVISIONING);
    int rc = berth_run_provision(p->b, &what, err);
    return rc < 0 ? fail_step(p, "workspace_realization_failed", "provision workspace for", err)
                  : rc;
}

/* --- the command --- */

static void on_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    const struct berth_run_job *p = ctx;
    const struct berth_exec_handlers *theirs = &p->request->handlers;
    if (theirs->on_output)
        theirs->on_output(theirs->ctx, stream, bytes, len);
}

static void on_stdin_room(void *ctx)
{
    const struct berth_run_job *p = ctx;
    const struct berth_exec_handlers *theirs = &p->request->handlers;
    if (theirs->on_stdin_room)
        theirs->on_stdin_room(theirs->ctx);
}

static void on_end(void *ctx, const struct berth_exec_end *end)
{
    struct berth_run_job *p = ctx;
    const struct berth_exec_handlers *theirs = &p->request->handlers;
    if (theirs->on_end)
        theirs->on_end(theirs->ctx, end);
    if (!p->on_done)
        (void)eventfd_write(p->ended_fd, 1);
    else if (atomic_fetch_add(&p->arrived, 1) == 1)
        berth_share_put(p->share, &p->end_job);
}

/* Sets the exec that a cancellation ends, and cancels it when that was requested before. NULL:
 * nothing can be cancelled. */
static void run_job_hold(struct berth_run_job *p, struct berth_exec *x)
{
    struct pollfd wish = {.fd = p->cancel_fd, .events = POLLIN};
    if (p->lock)
        berth_lock_take(p->lock);
    p->exec = x;
    if (x && p->on_done && poll(&wish, 1, 0) > 0)
        berth_exec_cancel(x);
    if (p->lock)
        berth_lock_drop(p->lock);
}

static int run_command(struct berth_run_job *p, struct berth_error *err)
{
    struct berth_realized where;
    auto_wiped_arena wiped = BERTH_ARENA_INIT;
    struct berth_exec_request command = p->request->command;
    int rc = make_workspace(p, &where, err);
    if (rc == BERTH_OK && p->request->sync.path) {
        run_job_enter(p, BERTH_PHASE_SENDING);
        struct berth_run_way way = run_job_way(p);
        rc = berth_run_workspace_send(p->b, p->arena, &way, p->out->run->id, where.cwd, &p->warning,
                                      err);
        p->sent = rc == BERTH_OK;
        if (rc < 0)
            rc = fail_step(p, "workspace_realization_failed", "send the workspace to", err);
    }
    if (rc == BERTH_OK)
        rc = provision(p, where.cwd, err);
    if (rc == BERTH_OK)
        rc = berth_run_secrets_add(p->request, p->secrets, &wiped, &command, err);
    if (rc < 0)
        return rc;
    struct berth_exec_handlers handlers = {
        .on_output = on_output, .on_stdin_room = on_stdin_room, .on_end = on_end, .ctx = p};
    command.lease_id = p->lease->id;
    if (!command.cwd)
        command.cwd = where.cwd;
    else if (*command.cwd != '/')
        command.cwd = berth_arena_printf(p->arena, "%s/%s", where.cwd, command.cwd);
    if (!command.cwd)
        return berth_arena_check(p->arena, err);
    run_job_enter(p, BERTH_PHASE_RUNNING);
    berth_masking_clear(&p->masking); /* the budget need not hold the secrets twice */
    struct berth_exec *x;
    rc = berth_exec_start(p->b, &command, &handlers, &x, err);
    if (rc == BERTH_E_UNAVAILABLE || rc == BERTH_E_UPSTREAM || rc == BERTH_E_TIMEOUT)
        return fail_target(p, err);
    if (rc < 0) {
        p->code = rc == BERTH_E_UNSUPPORTED ? "unsupported_environment"
                  : rc == BERTH_E_NOT_FOUND ? "command_not_found"
                  : rc == BERTH_E_DENIED    ? "command_not_executable"
                                            : "adapter_failed";
        return rc;
    }
    p->out->started = true;
    (void)snprintf(p->out->exec_id, sizeof p->out->exec_id, "%s", berth_exec_id(x));
    (void)snprintf(p->out->log, sizeof p->out->log, "%s", berth_exec_log(x));
    BERTH_FAILPOINT(perform_running);
    if (p->request->on_started)
        p->request->on_started(p->request->handlers.ctx, x);
    run_job_hold(p, x);
    return BERTH_OK;
}

/* How the run ended, from how its command did. */
static struct berth_run_end run_job_judge(const struct berth_run_job *p, int rc,
                                          const struct berth_error *err, char text[128])
{
    const struct berth_exec_end *end = &p->out->end;
    struct berth_run_end out = {.status = BERTH_RUN_FAILED, .actor = p->request->actor};
    if (rc < 0) {
        bool cancelled = rc == BERTH_E_CANCELLED;
        out.status = cancelled ? BERTH_RUN_CANCELLED : BERTH_RUN_FAILED;
        out.error = err->message;
        out.error_code = cancelled ? "cancelled" : p->code ? p->code : "adapter_failed";
    } else if (end->cause == BERTH_END_TIMEOUT) {
        out.status = BERTH_RUN_TIMED_OUT;
        out.error = "The command ran longer than its time-out.";
        out.error_code = "timeout";
    } else if (end->cause == BERTH_END_CANCELLED && p->outlasted) {
        out.error = p->expired
                        ? "The lease of the run expired before the command ended: set a longer ttl."
                        : "The lease of the run was released before the command ended.";
        out.error_code = "lease_ended";
    } else if (end->cause == BERTH_END_CANCELLED) {
        out.status = BERTH_RUN_CANCELLED;
        out.error_code = "cancelled";
    } else if (end->cause == BERTH_END_LOST) {
        out.error = "How the command ended is not known.";
        out.error_code = "process_lost";
    } else if (end->exit_code == 0 && p->homeless) {
        out.error = p->homeless;
        out.error_code = "workspace_not_home";
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
    out.workspace_json = p->out->workspace_json;
    out.workspace_diff = p->out->workspace_diff;
    return out;
}

/* Returns whether the time of the lease was up, rather than that another process released it. */
static bool lease_has_expired(const struct berth_run_job *p)
{
    struct berth_lease *lease;
    struct berth_error ignored;
    return berth_lease_get(p->b, p->arena, p->lease->id, &lease, &ignored) < 0 ||
           lease->status == BERTH_LEASE_EXPIRED ||
           (lease->expires_at_ms && lease->expires_at_ms <= berth_time_steady_ms());
}

bool berth_run_job_end(struct berth_run_job *p)
{
    char text[128];
    struct berth_list released = {0};
    struct berth_error trouble;
    if (!p->out->run)
        return true;
    struct berth_run_end end = run_job_judge(p, p->rc, p->err, text);
    int rc = berth_run_finish(p->b, p->arena, p->out->run->id, &end, &released, &trouble);
    if (rc < 0)
        berth_log_line(&p->b->log, BERTH_LOG_ERROR, "run not given back yet", "runId",
                       p->out->run->id, "error", trouble.message, NULL);
    p->out->owed = rc < 0;
    for (int i = 0; i < released.count; i++) {
        const struct berth_lease *l = released.items[i];
        p->out->owed |= l->cleanup == BERTH_CLEANUP_FAILED;
    }
    struct berth_run *now;
    bool read = berth_run_get(p->b, p->arena, p->out->run->id, &now, &trouble) == BERTH_OK;
    if (read)
        p->out->run = now;
    return rc == BERTH_OK || (read && berth_run_ended((int)now->status));
}

void berth_run_job_leave(struct berth_run_job *p)
{
    if (p->out->run)
        berth_node_unclaim(p->b->node, p->out->run->id);
}

int berth_run_job_prepare(struct berth_run_job *p)
{
    struct berth_error *err = p->err, unfound;
    const struct berth_run_request *r = p->request;
    struct berth_id fresh = berth_id_new_random();
    const char *id = r->run_id ? r->run_id : fresh.text;
    /* Before others can see it: no sweep takes it for a dead process's. */
    p->rc = berth_node_claim(p->b->node, id, err);
    if (p->rc < 0)
        return p->rc;
    /* The run is there before anything else fails, and says what did. */
    int found = find_environment(p, &unfound);
    p->rc = berth_run_create_own(p->b, p->arena, id, r->company_id,
                                 p->environment ? p->environment->id : NULL, &p->out->run, err);
    if (p->rc < 0) {
        berth_node_unclaim(p->b->node, id);
        return p->rc;
    }
    BERTH_FAILPOINT(perform_after_run);
    if (p->rc == BERTH_OK && found < 0) {
        *err = unfound;
        p->rc = found;
    }
    if (p->rc == BERTH_OK)
        p->rc = check_can_exec(p, err);
    if (p->rc == BERTH_OK)
        p->rc = berth_run_secrets_resolve(p->b, p->arena, p->out->run, r, &p->secrets, err);
    if (p->rc == BERTH_OK)
        p->rc = masking_of_secrets(p, err);
    if (p->rc == BERTH_OK && r->on_created)
        r->on_created(r->handlers.ctx, p->out->run);
    return p->rc;
}

void berth_run_job_refuse(struct berth_run_job *p, const struct berth_error *why)
{
    *p->err = *why;
    p->rc = fail_step(p, "lease_acquire_failed", "acquire lease for", p->err);
}

int berth_run_job_begin(struct berth_run_job *p)
{
    if (p->rc == BERTH_OK)
        p->rc = take_lease(p, p->err);
    if (p->rc == BERTH_OK)
        p->rc = run_command(p, p->err);
    if (p->rc == BERTH_OK)
        run_job_forget_secrets(p);
    else
        berth_masking_hide_error(run_job_masking(p), p->err);
    return p->rc;
}

void berth_run_job_conclude(struct berth_run_job *p)
{
    if (!p->out->run)
        return;
    if (p->out->started) {
        struct berth_exec *x = p->exec;
        run_job_hold(p, NULL);
        if (p->request->on_stopped)
            p->request->on_stopped(p->request->handlers.ctx);
        berth_exec_wait(x, &p->out->end);
        p->out->truncated = berth_exec_truncated(x);
        p->outlasted = berth_exec_outlasted(x);
        p->expired = p->outlasted && lease_has_expired(p);
        p->over = x;
    }
    if (p->sent) {
        struct berth_run_return home;
        run_job_enter(p, BERTH_PHASE_RETURNING);
        struct berth_run_way way = run_job_way(p);
        berth_run_workspace_return(p->b, p->arena, &way, run_job_masking(p), p->warning, &home);
        p->homeless = home.error;
        p->out->kept = home.kept;
        p->out->workspace_json = home.json;
        p->out->workspace_diff = home.diff;
    }
    run_job_forget_secrets(p);
    berth_exec_free(take_ptr(p->over));
    BERTH_FAILPOINT(perform_before_release);
    run_job_enter(p, BERTH_PHASE_RELEASING);
}

int berth_run_perform(struct berth *b, struct berth_arena *arena,
                      const struct berth_run_request *request, struct berth_run_result *out,
                      struct berth_error *err)
{
    *out = (struct berth_run_result){0};
    auto_close int ended_fd = eventfd(0, EFD_CLOEXEC);
    if (ended_fd < 0)
        return berth_fail_errno(err, "Cannot make an event descriptor");
    struct berth_run_job p = {.b = b,
                              .arena = arena,
                              .request = request,
                              .out = out,
                              .err = err,
                              .ended_fd = ended_fd,
                              .cancel_fd = request->cancel_fd};
    (void)berth_run_job_prepare(&p);
    if (berth_run_job_begin(&p) == BERTH_OK)
        berth_exec_await(b, p.exec, ended_fd, p.cancel_fd);
    berth_run_job_conclude(&p);
    for (int tries = 1; !berth_run_job_end(&p) && tries < END_TRIES_MAX; tries++)
        (void)nanosleep(&(struct timespec){.tv_nsec = END_RETRY_MS * 1000000L}, NULL);
    berth_run_job_leave(&p);
    return p.rc;
}
