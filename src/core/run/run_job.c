/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/run_job.c - performs a whole run: takes a lease, makes the workspace ready, runs the
 * command, and gives the place back whatever happened. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/failpoint.h"
#include "base/id.h"
#include "base/lock.h"
#include "core/environment/environment.h"
#include "core/lease/lease.h"
#include "core/lease/node.h"
#include "core/lease/stray_queue.h"
#include "core/lock_order.h"
#include "core/run/exec.h"
#include "core/run/run.h"
#include "core/run/run_job.h"
#include "core/secret/secret.h"
#include "os/pool.h"
#include "os/spawn.h"
#include "store/store.h"

#define PROVISION_MS 300000

struct berth_run_job {
    struct berth *b;
    struct berth_arena *arena;
    const struct berth_run_request *request;
    struct berth_environment *environment;
    struct berth_lease *lease;
    struct berth_run_result *out;
    const char *code;        /* of what failed */
    int ended_fd;            /* readable when a command has ended */
    bool outlasted;          /* its lease was over before it was */
    struct berth_exec *exec; /* the command, once it runs; the lock of all jobs */
    int rc;                  /* of what failed before it, with `err` */
    struct berth_error *err;
    struct berth_locked *values; /* of the request's secrets */

    /* Set by berth_run_start, where no thread waits for the run: */
    berth_run_done_fn *on_done;
    _Atomic int arrived; /* the start and the command's end count here; the second goes on */
    void *ctx;
    int cancel_fd; /* ours; made readable by berth_run_cancel */
    struct berth_arena own;
    struct berth_run_result result;
    struct berth_error trouble;
    struct berth_job end_job; /* so that the end needs no memory */
    struct berth_run_job *next, **link;
};

struct berth_run_jobs {
    struct berth *b;
    struct berth_lock lock;
    pthread_cond_t left; /* a job has left */
    struct berth_run_job *first;
    bool closing; /* none begins any more */
};

static void run_job_enter(const struct berth_run_job *p, enum berth_run_phase phase)
{
    if (p->request->on_phase)
        p->request->on_phase(p->request->handlers.ctx, phase);
}

/* Says what failed in the words of the step; the cause is the text so far. */
static int fail_step(struct berth_run_job *p, const char *code, const char *step,
                     struct berth_error *err)
{
    struct berth_error cause = *err;
    p->code = code;
    return berth_fail(err, cause.code, "Failed to %s environment \"%s\" (%s): %.600s", step,
                      p->environment->name, berth_environment_drivers.names[p->environment->driver],
                      cause.message);
}

/* The way to the place, not the command. */
static int fail_target(struct berth_run_job *p, struct berth_error *err)
{
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
    if (rc == BERTH_E_NOT_FOUND)
        return berth_fail(err, rc, "Environment \"%s\" not found.",
                          r->environment_id ? r->environment_id : "Local");
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
    request.ttl_ms = p->request->ttl_ms;
    request.cancel_fd = p->cancel_fd;
    request.actor = p->request->actor;
    int rc = berth_lease_acquire(p->b, p->arena, &request, &p->lease, err);
    return rc < 0 ? fail_step(p, "lease_acquire_failed", "acquire lease for", err) : rc;
}

static int make_workspace(struct berth_run_job *p, struct berth_realized *out,
                          struct berth_error *err)
{
    char here[4096];
    const char *path = p->request->workspace;
    if (!path)
        path = getcwd(here, sizeof here);
    struct berth_workspace workspace = {.local_path = path};
    run_job_enter(p, BERTH_PHASE_REALIZING);
    int rc = berth_lease_realize(p->b, p->arena, p->lease->id, &workspace, out, err);
    return rc < 0 ? fail_step(p, "workspace_realization_failed", "realize workspace for", err) : rc;
}

/* --- the provision command --- */

/* The first line that says something. */
static void first_line(const char *text, char out[200])
{
    text += strspn(text, "\r\n\t ");
    (void)snprintf(out, 200, "%.*s", (int)strcspn(text, "\r\n"), text);
}

struct provisioning {
    struct berth_buf streams[2]; /* how they begin */
    struct berth_run_job *p;
};

static int judge_provision(const struct provisioning *v, const struct berth_exec_end *end,
                           struct berth_error *err)
{
    char line[200] = "", code[16] = "null";
    if (end->cause == BERTH_END_CANCELLED)
        return berth_fail(err, BERTH_E_CANCELLED, "The call was cancelled.");
    if (end->cause == BERTH_END_TIMEOUT)
        return berth_fail(err, BERTH_E_TIMEOUT, "provision command timed out");
    if (end->cause == BERTH_END_EXITED && end->exit_code == 0)
        return BERTH_OK;
    for (int i = 1; i >= 0 && !*line; i--) /* stderr first */
        if (v->streams[i].data)
            first_line(v->streams[i].data, line);
    if (end->exit_code >= 0)
        (void)snprintf(code, sizeof code, "%d", end->exit_code);
    return berth_fail(err, BERTH_E_UNPROCESSABLE, "exit code %s%s%s%s%s%s", code,
                      end->signal ? " (signal SIG" : "",
                      end->signal ? sigabbrev_np(end->signal) : "", end->signal ? ")" : "",
                      *line ? ": " : "", line);
}

static void run_job_await(const struct berth_run_job *p, struct berth_exec *x);

static void on_provision_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    struct provisioning *v = ctx;
    struct berth_buf *buf = &v->streams[stream];
    size_t room = buf->max - buf->len - 1;
    berth_buf_append(buf, bytes, len < room ? len : room);
}

static void on_provision_end(void *ctx, const struct berth_exec_end *end)
{
    (void)end;
    const struct provisioning *v = ctx;
    (void)eventfd_write(v->p->ended_fd, 1);
}

static int provision(struct berth_run_job *p, const char *cwd, struct berth_error *err)
{
    static const char *const env[] = {"SHELL=/bin/bash", NULL};
    const char *const argv[] = {"bash", "-lc", p->request->provision_command, NULL};
    struct provisioning v = {.streams = {BERTH_BUF_INIT(4096), BERTH_BUF_INIT(4096)}, .p = p};
    struct berth_exec_handlers handlers = {
        .on_output = on_provision_output, .on_end = on_provision_end, .ctx = &v};
    struct berth_exec_request command = BERTH_EXEC_REQUEST_INIT;
    struct berth_exec_end end;
    struct berth_exec *x;
    eventfd_t told;
    if (!p->request->provision_command || berth_environment_in_place(p->b, p->environment))
        return BERTH_OK;
    run_job_enter(p, BERTH_PHASE_PROVISIONING);
    command.lease_id = p->lease->id;
    command.argv = argv;
    command.env = env;
    command.cwd = cwd;
    command.timeout_ms = PROVISION_MS;
    int rc = berth_exec_start(p->b, &command, &handlers, &x, err);
    if (rc == BERTH_OK) {
        run_job_await(p, x);
        berth_exec_wait(x, &end);
        berth_exec_free(x);
        (void)eventfd_read(p->ended_fd, &told); /* the command's own end is still to come */
        rc = judge_provision(&v, &end, err);
    }
    berth_buf_clear(&v.streams[0]);
    berth_buf_clear(&v.streams[1]);
    return rc < 0 ? fail_step(p, "workspace_realization_failed", "provision workspace for", err)
                  : rc;
}

/* --- the secrets among its variables --- */

static int tx_bind(struct berth_db *db, void *ctx, struct berth_error *err)
{
    const struct berth_run_job *p = ctx;
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_binding target = {
        .company_id = p->out->run->company_id, .target_type = "run", .target_id = p->out->run->id};
    struct berth_list bindings = {0};
    for (int i = 0; i < p->request->secret_count; i++) {
        struct berth_binding *binding = berth_arena_alloc(&arena, sizeof *binding);
        if (!binding || !berth_list_add(&bindings, &arena, binding))
            return berth_arena_check(&arena, err);
        binding->secret_id = p->request->secrets[i].secret_id;
        binding->config_path =
            berth_arena_printf(&arena, "env.%s", p->request->secrets[i].variable);
        if (!binding->config_path)
            return berth_arena_check(&arena, err);
    }
    return berth_secret_bind(db, &arena, &target, &bindings, err);
}

/* Resolves the secrets that the request names for the run. Each access is recorded. */
static int resolve_secrets(struct berth_run_job *p, struct berth_error *err)
{
    const struct berth_run_request *r = p->request;
    if (!r->secret_count)
        return BERTH_OK;
    p->values = berth_arena_alloc(p->arena, (size_t)r->secret_count * sizeof *p->values);
    if (!p->values)
        return berth_arena_check(p->arena, err);
    int rc = berth_store_tx(p->b->store, tx_bind, p, err);
    for (int i = 0; rc == BERTH_OK && i < r->secret_count; i++) {
        const char *path = berth_arena_printf(p->arena, "env.%s", r->secrets[i].variable);
        if (!path)
            return berth_arena_check(p->arena, err);
        struct berth_resolve_request request = {.company_id = p->out->run->company_id,
                                                .secret_id = r->secrets[i].secret_id,
                                                .consumer_type = "run",
                                                .consumer_id = p->out->run->id,
                                                .config_path = path,
                                                .run_id = p->out->run->id,
                                                .actor = r->actor};
        rc = berth_secret_resolve(p->b, &request, &p->values[i], err);
        if (rc == BERTH_OK && memchr(p->values[i].bytes, '\0', p->values[i].len))
            rc = berth_fail(err, BERTH_E_UNPROCESSABLE,
                            "The secret for %s holds a NUL byte and cannot be a variable.",
                            r->secrets[i].variable);
    }
    return rc;
}

/* The variables that were given, then those whose values are secrets; in memory that is wiped. */
static int add_secrets(const struct berth_run_job *p, struct berth_arena *wiped,
                       struct berth_exec_request *command, struct berth_error *err)
{
    const struct berth_run_request *r = p->request;
    struct berth_list env = {0};
    if (!r->secret_count)
        return BERTH_OK;
    for (const char *const *pair = command->env; pair && *pair; pair++)
        (void)berth_list_add(&env, wiped, (char *)(uintptr_t)*pair);
    for (int i = 0; i < r->secret_count; i++)
        if (command->env && berth_env_get(command->env, r->secrets[i].variable))
            return berth_fail(err, BERTH_E_INVALID,
                              "The variable %s is given twice: as it is, and from a secret.",
                              r->secrets[i].variable);
    for (int i = 0; i < r->secret_count; i++)
        (void)berth_list_add(&env, wiped,
                             berth_arena_printf(wiped, "%s=%s", r->secrets[i].variable,
                                                p->values[i].bytes ? p->values[i].bytes : ""));
    (void)berth_list_add(&env, wiped, NULL);
    command->env = (const char *const *)(void *)env.items;
    command->secrets = p->values;
    command->secret_count = r->secret_count;
    return berth_arena_check(wiped, err);
}

static void forget_secrets(struct berth_run_job *p)
{
    for (int i = 0; p->values && i < p->request->secret_count; i++)
        berth_locked_clear(&p->values[i]);
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

static void end_job(void *ctx);

static void on_end(void *ctx, const struct berth_exec_end *end)
{
    struct berth_run_job *p = ctx;
    const struct berth_exec_handlers *theirs = &p->request->handlers;
    if (theirs->on_end)
        theirs->on_end(theirs->ctx, end);
    if (!p->on_done)
        (void)eventfd_write(p->ended_fd, 1);
    else if (atomic_fetch_add(&p->arrived, 1) == 1)
        berth_pool_put(p->b->providers, &p->end_job);
}

/* Waits until the command has ended. Cancels it when cancel_fd or closing_fd becomes readable. */
static void run_job_await(const struct berth_run_job *p, struct berth_exec *x)
{
    struct pollfd fds[] = {{.fd = p->ended_fd, .events = POLLIN},
                           {.fd = p->cancel_fd, .events = POLLIN},
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

/* Sets the exec that a cancellation ends, and cancels it when that was requested before. NULL:
 * nothing can be cancelled. */
static void run_job_hold(struct berth_run_job *p, struct berth_exec *x)
{
    struct pollfd wish = {.fd = p->cancel_fd, .events = POLLIN};
    berth_lock_take(&p->b->run_jobs->lock);
    p->exec = x;
    if (x && p->on_done && poll(&wish, 1, 0) > 0)
        berth_exec_cancel(x);
    berth_lock_drop(&p->b->run_jobs->lock);
}

static int run_command(struct berth_run_job *p, struct berth_error *err)
{
    struct berth_realized where;
    auto_wiped_arena wiped = BERTH_ARENA_INIT;
    struct berth_exec_request command = p->request->command;
    int rc = make_workspace(p, &where, err);
    if (rc == BERTH_OK)
        rc = provision(p, where.cwd, err);
    if (rc == BERTH_OK)
        rc = add_secrets(p, &wiped, &command, err);
    if (rc < 0)
        return rc;
    struct berth_exec_handlers handlers = {
        .on_output = on_output, .on_stdin_room = on_stdin_room, .on_end = on_end, .ctx = p};
    command.lease_id = p->lease->id;
    if (!command.cwd)
        command.cwd = where.cwd;
    run_job_enter(p, BERTH_PHASE_RUNNING);
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
        out.error = "Its lease was over before the command was.";
        out.error_code = "lease_ended";
    } else if (end->cause == BERTH_END_CANCELLED) {
        out.status = BERTH_RUN_CANCELLED;
        out.error_code = "cancelled";
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
static void run_job_give_back(struct berth_run_job *p, const struct berth_run_end *end)
{
    struct berth_list released = {0};
    struct berth_error trouble;
    run_job_enter(p, BERTH_PHASE_RELEASING);
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

/* All up to the command, which runs when this answers OK. What failed is in p->rc. */
static int run_job_begin(struct berth_run_job *p)
{
    struct berth_error *err = p->err, unfound;
    const struct berth_run_request *r = p->request;
    struct berth_id fresh = berth_id_new();
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
        p->rc = resolve_secrets(p, err);
    if (p->rc == BERTH_OK && r->on_created)
        r->on_created(r->handlers.ctx, p->out->run);
    if (p->rc == BERTH_OK)
        p->rc = take_lease(p, err);
    if (p->rc == BERTH_OK)
        p->rc = run_command(p, err);
    forget_secrets(p);
    return p->rc;
}

/* Ends the run, after its command has ended or without one. */
static void run_job_finish(struct berth_run_job *p)
{
    char text[128];
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
        berth_exec_free(x);
        berth_stray_queue_flush(p->b->stray_queue); /* before the place is given back */
    }
    struct berth_run_end end = run_job_judge(p, p->rc, p->err, text);
    BERTH_FAILPOINT(perform_before_release);
    const char *id = p->out->run->id;
    run_job_give_back(p, &end);
    berth_node_unclaim(p->b->node, id);
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
    if (run_job_begin(&p) == BERTH_OK)
        run_job_await(&p, p.exec);
    run_job_finish(&p);
    return p.rc;
}

/* --- runs for which no thread waits --- */

int berth_run_jobs_new(struct berth *b, struct berth_run_jobs **out, struct berth_error *err)
{
    struct berth_run_jobs *jobs = calloc(1, sizeof *jobs);
    if (!jobs)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: runs.");
    jobs->b = b;
    berth_lock_init(&jobs->lock, BERTH_RANK_RUN_JOBS);
    pthread_cond_init(&jobs->left, NULL);
    *out = jobs;
    return BERTH_OK;
}

void berth_run_jobs_free(struct berth_run_jobs *jobs)
{
    if (!jobs)
        return;
    pthread_cond_destroy(&jobs->left);
    berth_lock_destroy(&jobs->lock);
    free(jobs);
}

static void run_job_free(struct berth_run_job *p)
{
    if (p->ended_fd >= 0)
        (void)close(p->ended_fd);
    if (p->cancel_fd >= 0)
        (void)close(p->cancel_fd);
    berth_arena_clear(&p->own);
    free(p);
}

static void end_job(void *ctx)
{
    struct berth_run_job *p = ctx;
    struct berth_run_jobs *jobs = p->b->run_jobs;
    run_job_finish(p);
    p->on_done(p->ctx, &p->result, p->rc < 0 ? &p->trouble : NULL);
    berth_lock_take(&jobs->lock);
    *p->link = p->next;
    if (p->next)
        p->next->link = p->link;
    pthread_cond_broadcast(&jobs->left);
    berth_lock_drop(&jobs->lock);
    run_job_free(p);
}

static void begin_job(void *ctx)
{
    struct berth_run_job *p = ctx;
    if (run_job_begin(p) < 0 || atomic_fetch_add(&p->arrived, 1) == 1)
        end_job(p);
}

int berth_run_start(struct berth *b, const struct berth_run_request *request,
                    berth_run_done_fn *on_done, void *ctx, struct berth_run_job **out,
                    struct berth_error *err)
{
    struct berth_run_jobs *jobs = b->run_jobs;
    struct berth_run_job *p = calloc(1, sizeof *p);
    if (!p)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: run.");
    *p = (struct berth_run_job){.b = b,
                                .request = request,
                                .on_done = on_done,
                                .ctx = ctx,
                                .end_job = {.fn = end_job, .ctx = p},
                                .ended_fd = -1, /* only a provision command is waited for */
                                .cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    p->arena = &p->own;
    p->out = &p->result;
    p->err = &p->trouble;
    if (request->provision_command)
        p->ended_fd = eventfd(0, EFD_CLOEXEC);
    if (p->cancel_fd < 0 || (request->provision_command && p->ended_fd < 0)) {
        run_job_free(p);
        return berth_fail_errno(err, "Cannot make an event descriptor");
    }
    berth_lock_take(&jobs->lock);
    int rc = jobs->closing ? berth_fail(err, BERTH_E_CANCELLED, "The runtime is closing.")
                           : berth_pool_submit(b->providers, begin_job, p, err);
    if (rc == BERTH_OK) {
        p->next = jobs->first;
        p->link = &jobs->first;
        if (p->next)
            p->next->link = &p->next;
        jobs->first = p;
        *out = p;
    }
    berth_lock_drop(&jobs->lock);
    if (rc < 0)
        run_job_free(p);
    return rc;
}

/* Lock held. */
static void run_job_cancel(struct berth_run_job *p)
{
    (void)eventfd_write(p->cancel_fd, 1);
    if (p->exec)
        berth_exec_cancel(p->exec);
}

void berth_run_cancel(struct berth_run_job *p)
{
    struct berth_run_jobs *jobs = p->b->run_jobs;
    berth_lock_take(&jobs->lock);
    run_job_cancel(p);
    berth_lock_drop(&jobs->lock);
}

void berth_run_jobs_end(struct berth_run_jobs *jobs)
{
    if (!jobs)
        return;
    berth_lock_take(&jobs->lock);
    jobs->closing = true;
    for (struct berth_run_job *p = jobs->first; p; p = p->next)
        run_job_cancel(p);
    while (jobs->first)
        berth_lock_wait(&jobs->lock, &jobs->left);
    berth_lock_drop(&jobs->lock);
}
