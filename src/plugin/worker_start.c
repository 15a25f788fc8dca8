/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/worker_start.c - brings a worker up. The pool reads its row and prepares the launch;
 * the engine's thread starts the process, and the answer to `initialize` makes it run. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/container.h"
#include "base/json.h"
#include "base/limits.h"
#include "os/pool.h"
#include "plugin/worker.h"

/* A start under way, from the pool to the engine's thread. */
struct launching {
    struct berth_post post;
    struct berth_worker *worker;
    struct berth_arena arena; /* of the spec */
    struct berth_worker_spec spec;
    struct berth_launch launch;
    bool prepared; /* `launch` has to be cleared */
    int rc;
    struct berth_error err;
};

static void launching_free(struct launching *l)
{
    if (l->prepared)
        berth_launch_clear(&l->launch);
    berth_arena_clear(&l->arena);
    free(l);
}

static void start_fail(struct berth_worker *w, const char *why)
{
    char text[BERTH_WORKER_ERROR_SIZE];
    (void)snprintf(text, sizeof text, "Worker initialize failed for \"%s\": %.800s", w->id, why);
    if (w->rpc) { /* the end of the process completes the crash, or the stop */
        berth_worker_set_error(w, text);
        w->failed = true;
        berth_worker_kill(w);
    } else if (w->stop_wanted) {
        berth_worker_end_stop(w);
    } else {
        berth_worker_crash(w, text);
    }
}

/* --- initialize --- */

/* Returns what JavaScript calls truthy. */
static bool json_is_truthy(const struct berth_json *value)
{
    switch (berth_json_type(value)) {
    case BERTH_JSON_NULL:
        return false;
    case BERTH_JSON_BOOL:
        return berth_json_true(value);
    case BERTH_JSON_INT:
    case BERTH_JSON_REAL:
        return berth_json_number(value) != 0;
    case BERTH_JSON_STRING:
        return berth_json_str_len(value) > 0;
    default:
        return true;
    }
}

/* Returns the names in the list, which is the worker's, within limits; the caller frees it. */
static struct berth_json *copy_methods(const struct berth_json *methods)
{
    struct berth_json *out = berth_json_new_array();
    for (size_t i = 0; berth_json_is(methods, BERTH_JSON_ARRAY) && i < berth_json_count(methods) &&
                       berth_json_count(out) < BERTH_WORKER_METHODS_MAX;
         i++) {
        const struct berth_json *name = berth_json_at(methods, i);
        if (berth_json_is(name, BERTH_JSON_STRING) &&
            berth_json_str_len(name) <= BERTH_NAME_BYTES_MAX)
            (void)berth_json_add(out, berth_json_copy(name));
    }
    return out;
}

static void on_initialized(void *ctx, const struct berth_reply *reply)
{
    struct berth_worker *w = ctx;
    if (reply->kind != BERTH_REPLY_RESULT) {
        if (w->rpc)
            start_fail(w, reply->text);
        return;
    }
    if (!json_is_truthy(berth_json_get(reply->result, "ok"))) {
        start_fail(w, "Worker initialize returned ok=false");
        return;
    }
    struct berth_json *methods = copy_methods(berth_json_get(reply->result, "supportedMethods"));
    pthread_mutex_lock(&w->ground->lock);
    berth_json_free(w->methods);
    w->methods = methods;
    w->running_since_ms = berth_time_mono_ms();
    w->next_restart_ms = 0;
    w->attempts++;
    w->initialized = true;
    w->error[0] = '\0';
    pthread_mutex_unlock(&w->ground->lock);
    if (w->stop_wanted)
        return; /* the stop is under way */
    w->missed = 0;
    berth_timer_set(w->ground->engine, &w->health, BERTH_WORKER_HEALTH_MS);
    berth_worker_set_state(w, BERTH_WORKER_RUNNING);
    berth_worker_report(w, BERTH_LOG_INFO, "plugin worker runs", "ready");
    berth_worker_release_parked(w);
}

static void send_initialize(struct berth_worker *w, const struct berth_worker_spec *spec)
{
    auto_buf params = BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX);
    params.secret = true;
    struct berth_json_writer p = {.buf = &params};
    berth_json_open(&p, '{');
    berth_json_put_raw(&p, "manifest", spec->manifest_json);
    berth_json_put_raw(&p, "config", spec->config_json);
    berth_json_open_in(&p, "instanceInfo", '{');
    berth_json_put_str(&p, "instanceId", "default");
    berth_json_put_str(&p, "hostVersion", w->ground->host.version);
    berth_json_close(&p, '}');
    berth_json_put_int(&p, "apiVersion", 1);
    berth_json_put_str(&p, "databaseNamespace", NULL);
    berth_json_close(&p, '}');
    struct berth_rpc_request request = {.method = "initialize",
                                        .params_json = berth_buf_str(&params),
                                        .timeout_ms = BERTH_WORKER_INITIALIZE_MS,
                                        .on_reply = on_initialized,
                                        .ctx = w};
    berth_rpc_call(w->rpc, &request);
}

/* --- the process --- */

static int launch_process(struct launching *l)
{
    struct berth_worker *w = l->worker;
    struct berth_rpc_handlers handlers = {.on_message = berth_worker_on_message,
                                          .on_noise = berth_worker_on_noise,
                                          .on_stderr = berth_worker_on_stderr,
                                          .on_end = berth_worker_on_end,
                                          .ctx = w};
    int rc = l->rc;
    if (rc == BERTH_OK && w->stop_wanted)
        rc = berth_fail(&l->err, BERTH_E_CANCELLED, "It was stopped.");
    if (rc == BERTH_OK && !w->log)
        rc = berth_worker_log_open(l->spec.log, w->ground->pool, &w->log, &l->err);
    if (rc == BERTH_OK)
        rc = berth_rpc_start(w->ground->engine, w->ground->pool, &l->launch.options, &handlers,
                             &w->rpc, &l->err);
    return rc;
}

/* Keeps what the process was started from, to compare its row with later. */
static void launch_keep(const struct launching *l)
{
    struct berth_worker *w = l->worker;
    berth_worker_keep_text(&w->label, l->launch.label);
    berth_worker_keep_text(&w->package, l->spec.package);
    berth_worker_keep_text(&w->manifest_json, l->spec.manifest_json);
    berth_worker_keep_text(&w->config_json, l->spec.config_json);
    berth_worker_keep_text(&w->settings_json, l->spec.settings_json);
    pthread_mutex_lock(&w->ground->lock);
    w->pid = berth_process_pid(berth_rpc_process(w->rpc));
    w->row_version = l->spec.row_version;
    memcpy(w->confinement, l->launch.cage.text, sizeof w->confinement);
    berth_worker_keep_text(&w->state_path, l->launch.cage.state);
    w->uid = l->launch.cage.confinement.uid;
    pthread_mutex_unlock(&w->ground->lock);
}

static void run_launch(struct berth_post *post)
{
    struct launching *l = berth_container_of(post, struct launching, post);
    struct berth_worker *w = l->worker;
    berth_buf_truncate(&w->excerpt, 0);
    if (launch_process(l) == BERTH_OK) {
        launch_keep(l);
        send_initialize(w, &l->spec);
    } else {
        char text[BERTH_WORKER_ERROR_SIZE];
        (void)snprintf(text, sizeof text, "Worker process failed to start: %.900s", l->err.message);
        start_fail(w, text);
    }
    launching_free(l);
}

/* Runs on the pool: reads the store and looks at files. */
static void launch_job(void *ctx)
{
    struct launching *l = ctx;
    const struct berth_worker_host *host = &l->worker->ground->host;
    struct berth_error ignored;
    l->rc = host->describe(host->ctx, l->worker->id, &l->arena, &l->spec, &l->err);
    if (l->rc == BERTH_OK) {
        l->prepared = true;
        l->rc = berth_launch_prepare(l->worker->id, &l->spec, &l->launch, &l->err);
    }
    /* Cannot fail: the engine's thread has started this job. */
    (void)berth_engine_post(l->worker->ground->engine, &l->post, &ignored);
}

static bool worker_is_closing(struct berth_worker *w)
{
    pthread_mutex_lock(&w->ground->lock);
    bool closing = w->ground->closing;
    pthread_mutex_unlock(&w->ground->lock);
    return closing;
}

void berth_worker_start(struct berth_worker *w)
{
    assert(berth_engine_is_here(w->ground->engine));
    struct berth_error err;
    if (worker_is_closing(w))
        return;
    if (w->state == BERTH_WORKER_STOPPING || w->stop_wanted) {
        w->restart_wanted = true;
        return;
    }
    if (w->state != BERTH_WORKER_STOPPED && w->state != BERTH_WORKER_BACKOFF)
        return; /* it runs, it is being started, or its crash plans the next start */
    berth_worker_clear_timers(w);
    pthread_mutex_lock(&w->ground->lock);
    w->initialized = false;
    pthread_mutex_unlock(&w->ground->lock);
    berth_worker_set_state(w, BERTH_WORKER_STARTING);
    struct launching *l = calloc(1, sizeof *l);
    if (l) {
        l->post.run = run_launch;
        l->worker = w;
    }
    if (!l || berth_pool_submit(w->ground->pool, launch_job, l, &err) < 0) {
        free(l);
        start_fail(w, "There is no thread or memory to start it with.");
    }
}
