/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/worker.c - see worker.h. */
#include "plugin/worker.h"

#include <assert.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/container.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "net/lines.h"
#include "os/pool.h"
#include "os/strays.h"
#include "plugin/verdict.h"

#define VALIDATE "environmentValidateConfig"
#define INITIALIZE_MS 15000
#define CALL_MS 30000 /* when nobody says otherwise */
#define DRAIN_MS 10000
#define DRAIN_STEP_MS 20
#define SHUTDOWN_MS 10000
#define EXIT_MS 500 /* after its answer to shutdown */
#define RESTART_MS 1000
#define RESTART_MAX_MS 300000
#define HEALTH_MS 60000 /* between two looks; one that is well has its crashes forgotten */
#define HEALTH_MISSES_MAX 3
#define STDERR_LINE_BYTES_MAX (64 * 1024)
#define NOISE_BYTES_MAX 4096
#define TEXT_BYTES_MAX (64 * 1024) /* of an error */
#define CHUNK_BYTES_MAX 1000000    /* of streamed output, in one message */

const char *const berth_worker_states[] = {"stopped",  "starting", "running",
                                           "stopping", "crashed",  "backoff"};

struct berth_stream_watch {
    struct berth_stream_watch *next;
    char *invocation;
    void (*on_output)(void *ctx, enum berth_stream stream, const char *bytes, size_t len);
    berth_reply_fn *on_reply, *on_late;
    void *ctx;
    struct berth_worker *worker;
    char *sent; /* params of a validation, else NULL */
};

static void set_state(struct berth_worker *w, enum berth_worker_state state)
{
    pthread_mutex_lock(&w->ground->lock);
    w->state = state;
    w->pid = w->rpc ? berth_process_pid(berth_rpc_process(w->rpc)) : 0;
    pthread_cond_broadcast(&w->ground->changed);
    pthread_mutex_unlock(&w->ground->lock);
}

/* Without what it was told, and not endless; the caller's. Without memory rather nothing than a
 * secret. */
static char *clean_text(const struct berth_worker *w, const char *text)
{
    size_t len = strnlen(text, TEXT_BYTES_MAX + 1);
    char *clean = w->log ? berth_worker_log_clean(w->log, text, len) : strndup(text, len);
    if (clean && len > TEXT_BYTES_MAX) /* its end may be half of a secret */
        clean[TEXT_BYTES_MAX / 2] = '\0';
    if (clean)
        berth_utf8_mend(clean);
    return clean ? clean : strdup("");
}

static void report(struct berth_worker *w, enum berth_log_level level, const char *event,
                   const char *text)
{
    auto_free char *clean = clean_text(w, text);
    w->ground->host.report(w->ground->host.ctx, w->id, level, event, clean ? clean : "");
    if (w->log)
        berth_worker_log_write(w->log, "host", level >= BERTH_LOG_WARN ? "warn" : "info", text,
                               strlen(text));
}

/* --- what it says --- */

static void take_errors(struct berth_worker *w)
{
    static const char too_long[] = "(a line that was too long)";
    char *whole;
    size_t len, dropped;
    while (berth_lines_next(&w->errors, &whole, &len, &dropped)) {
        auto_free char *clean = berth_worker_log_clean(w->log, dropped ? too_long : whole,
                                                       dropped ? strlen(too_long) : len);
        const char *line = clean ? clean : "";
        len = strlen(line);
        berth_worker_log_write(w->log, "stderr", "warn", line, len);
        if (w->excerpt.len + len + 1 > 2 * BERTH_WORKER_EXCERPT_BYTES_MAX) {
            size_t from = w->excerpt.len - (w->excerpt.len < BERTH_WORKER_EXCERPT_BYTES_MAX
                                                ? w->excerpt.len
                                                : BERTH_WORKER_EXCERPT_BYTES_MAX);
            memmove(w->excerpt.data, w->excerpt.data + from, w->excerpt.len - from);
            berth_buf_truncate(&w->excerpt, w->excerpt.len - from);
        }
        size_t kept = len < BERTH_WORKER_EXCERPT_BYTES_MAX ? len : BERTH_WORKER_EXCERPT_BYTES_MAX;
        berth_buf_append(&w->excerpt, line + len - kept, kept);
        berth_buf_append(&w->excerpt, "\n", 1);
    }
}

static void on_stderr(void *ctx, const char *bytes, size_t len)
{
    struct berth_worker *w = ctx;
    berth_lines_put(&w->errors, bytes, len);
    take_errors(w);
}

static void on_noise(void *ctx, const char *line, size_t len, const char *why)
{
    struct berth_worker *w = ctx;
    char text[1500];
    size_t looked = len < NOISE_BYTES_MAX ? len : NOISE_BYTES_MAX;
    /* What is hidden is hidden first, and cut afterwards. */
    auto_free char *clean = berth_worker_log_clean(w->log, line, looked);
    bool quoted = strncmp(why, "Invalid JSON", 12) == 0; /* that says the line, too */
    (void)snprintf(text, sizeof text, "%.*s: %.200s", quoted ? 12 : 300, why, clean ? clean : "");
    berth_worker_log_write(w->log, "stdout", "warn", text, strlen(text));
}

static void take_log(struct berth_worker *w, const struct berth_json *params)
{
    const struct berth_json *message = berth_json_get(params, "message");
    const char *level = berth_json_str(berth_json_get(params, "level"));
    const char *text = berth_json_str(message);
    static const char *const levels[] = {"info", "warn", "error", "debug"};
    int known = 0;
    for (int i = 0; i < 4; i++)
        if (level && strcmp(level, levels[i]) == 0)
            known = i;
    berth_worker_log_write(w->log, "log", levels[known], text ? text : "",
                           text ? berth_json_str_len(message) : 0);
}

static void take_output(struct berth_worker *w, const struct berth_message *m)
{
    const struct berth_json *chunk = berth_json_get(m->params, "chunk");
    const char *stream = berth_json_str(berth_json_get(m->params, "stream"));
    bool errors = stream && strcmp(stream, "stderr") == 0;
    if (!m->invocation || !stream || (!errors && strcmp(stream, "stdout") != 0) ||
        !berth_json_is(chunk, BERTH_JSON_STRING) || berth_json_str_len(chunk) > 4 * CHUNK_BYTES_MAX)
        return;
    for (struct berth_stream_watch *watch = w->watches; watch; watch = watch->next)
        if (watch->on_output && strcmp(watch->invocation, m->invocation) == 0) {
            watch->on_output(watch->ctx, errors ? BERTH_STDERR : BERTH_STDOUT,
                             berth_json_str(chunk), berth_json_str_len(chunk));
            return;
        }
}

/* What published providers ask for; all else is refused at once, so that nobody waits. */
static void answer(struct berth_worker *w, const struct berth_message *m)
{
    static const char *const accepted[] = {"log", "metrics.write", "telemetry.track",
                                           "activity.log", NULL};
    struct berth_buf line = BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX);
    bool taken = false;
    for (int i = 0; accepted[i]; i++)
        taken |= strcmp(m->method, accepted[i]) == 0;
    if (strcmp(m->method, "log") == 0)
        take_log(w, m->params);
    if (strcmp(m->method, "config.get") == 0) {
        berth_message_write_result(&line, m->id, w->config_json ? w->config_json : "{}");
    } else if (taken) {
        berth_message_write_result(&line, m->id, NULL);
    } else {
        char text[256];
        (void)snprintf(text, sizeof text, "Host does not handle method \"%.200s\"", m->method);
        berth_utf8_mend(text);
        berth_message_write_error(&line, m->id, BERTH_RPC_NO_METHOD, text);
    }
    berth_rpc_send(w->rpc, &line);
}

static void on_message(void *ctx, const struct berth_message *m)
{
    struct berth_worker *w = ctx;
    if (m->kind == BERTH_MESSAGE_REQUEST)
        answer(w, m);
    else if (strcmp(m->method, "log") == 0)
        take_log(w, m->params);
    else if (strcmp(m->method, "execute.log") == 0)
        take_output(w, m);
}

/* --- health --- */

static void on_health_timer(struct berth_timer *timer);

static void kill_process(struct berth_worker *w)
{
    berth_process_kill(berth_rpc_process(w->rpc));
}

static void on_health(void *ctx, const struct berth_reply *reply)
{
    struct berth_worker *w = ctx;
    if (w->state != BERTH_WORKER_RUNNING)
        return;
    bool unheard = reply->kind == BERTH_REPLY_TIMEOUT || reply->kind == BERTH_REPLY_UNSENT;
    w->missed = unheard && berth_rpc_heard(w->rpc) == w->heard ? w->missed + 1 : 0;
    if (!unheard) { /* a minute of health: what was before is forgotten */
        pthread_mutex_lock(&w->ground->lock);
        w->crashes = 0;
        pthread_mutex_unlock(&w->ground->lock);
    }
    if (w->missed >= HEALTH_MISSES_MAX) {
        report(w, BERTH_LOG_WARN, "plugin worker hangs", "It did not answer health; it is killed.");
        kill_process(w);
        return;
    }
    berth_timer_set(w->ground->engine, &w->health, HEALTH_MS);
}

static void on_health_timer(struct berth_timer *timer)
{
    struct berth_worker *w = berth_container_of(timer, struct berth_worker, health);
    struct berth_rpc_request request = {.method = "health",
                                        .params_json = "{}",
                                        .timeout_ms = CALL_MS,
                                        .on_reply = on_health,
                                        .ctx = w};
    if (w->state != BERTH_WORKER_RUNNING)
        return;
    w->heard = berth_rpc_heard(w->rpc);
    berth_rpc_call(w->rpc, &request);
}

/* --- the end --- */

static void clear_timers(struct berth_worker *w)
{
    struct berth_engine *engine = w->ground->engine;
    berth_timer_clear(engine, &w->restart);
    berth_timer_clear(engine, &w->health);
    berth_timer_clear(engine, &w->stopping);
}

/* Between three quarters and five quarters of 1 s, 2 s, 4 s ... 5 min. */
static int64_t restart_after_ms(int crashes)
{
    uint32_t random = 0;
    (void)getrandom(&random, sizeof random, 0);
    double jitter = 0.75 + 0.5 * ((double)random / UINT32_MAX);
    double wait = RESTART_MS * pow(2, crashes < 16 ? crashes - 1 : 15) * jitter;
    return wait < RESTART_MAX_MS ? llround(wait) : RESTART_MAX_MS;
}

static void set_error(struct berth_worker *w, const char *text)
{
    auto_free char *clean = clean_text(w, text);
    pthread_mutex_lock(&w->ground->lock);
    (void)snprintf(w->error, sizeof w->error, "%s", clean ? clean : "");
    berth_utf8_mend(w->error);
    pthread_mutex_unlock(&w->ground->lock);
}

/* It is gone, or did not come up: it will be tried again, however often that fails. */
static void crash(struct berth_worker *w, const char *text)
{
    clear_timers(w);
    set_error(w, text);
    pthread_mutex_lock(&w->ground->lock);
    w->crashes++;
    w->crashes_in_all++;
    w->last_crash_ms = berth_time_wall_ms();
    int64_t wait_ms = restart_after_ms(w->crashes);
    w->next_restart_ms = w->last_crash_ms + wait_ms;
    w->attempts++;
    pthread_mutex_unlock(&w->ground->lock);
    report(w, BERTH_LOG_WARN, "plugin worker crashed", text);
    berth_timer_set(w->ground->engine, &w->restart, wait_ms);
    set_state(w, BERTH_WORKER_BACKOFF);
}

/* --- calls that wait for it --- */

static void unpark(struct berth_parked *parked)
{
    struct berth_parked **at = &parked->worker->parked;
    while (*at != parked)
        at = &(*at)->next;
    *at = parked->next;
    berth_timer_clear(parked->worker->ground->engine, &parked->timer);
    parked->go(parked);
}

static void on_parked_timer(struct berth_timer *timer)
{
    unpark(berth_container_of(timer, struct berth_parked, timer));
}

static void unpark_all(struct berth_worker *w)
{
    while (w->parked)
        unpark(w->parked);
}

void berth_worker_enter(struct berth_worker *w, struct berth_parked *parked)
{
    bool coming = w->state == BERTH_WORKER_STARTING || w->state == BERTH_WORKER_CRASHED ||
                  w->state == BERTH_WORKER_BACKOFF;
    if (!coming || w->stop_wanted) {
        parked->go(parked);
        return;
    }
    parked->worker = w;
    parked->timer = (struct berth_timer){.run = on_parked_timer};
    parked->next = w->parked;
    w->parked = parked;
    berth_timer_set(w->ground->engine, &parked->timer, BERTH_WORKER_READY_MS);
}

/* Its last words here may be the last that anybody hears of it: whoever waits for it frees it. */
static void stopped(struct berth_worker *w)
{
    pthread_mutex_lock(&w->ground->lock);
    bool again = w->restart_wanted && !w->ground->closing;
    pthread_mutex_unlock(&w->ground->lock);
    clear_timers(w);
    w->stop_wanted = w->shutdown_sent = w->restart_wanted = false;
    if (!again)
        unpark_all(w);
    pthread_mutex_lock(&w->ground->lock);
    w->attempts++;
    w->stops++;
    w->next_restart_ms = 0;
    pthread_mutex_unlock(&w->ground->lock);
    set_state(w, BERTH_WORKER_STOPPED);
    if (again)
        berth_worker_start(w);
}

static void strays_job(void *ctx)
{
    auto_free char *label = ctx;
    (void)berth_strays_end((const char *const[]){label, NULL});
}

/* What it started ends with it, also what has left its process group. */
static void end_strays(struct berth_worker *w)
{
    char *label = take_ptr(w->label);
    struct berth_error ignored;
    if (label && berth_pool_submit(w->ground->pool, strays_job, label, &ignored) < 0)
        free(label);
}

/* All calls have been told of the end. */
static void run_reap(struct berth_post *post)
{
    struct berth_worker *w = berth_container_of(post, struct berth_worker, reap);
    berth_rpc_free(w->dead);
    w->dead = NULL;
    end_strays(w);
    if (w->stop_wanted)
        stopped(w);
    else
        crash(w, w->why);
}

static const char *signal_name(int number, char out[16])
{
    const char *name = number ? sigabbrev_np(number) : NULL;
    (void)snprintf(out, 16, "%s%s", name ? "SIG" : "", name ? name : "null");
    return out;
}

static void on_end(void *ctx, const struct berth_exec_end *end, struct berth_buf *text)
{
    struct berth_worker *w = ctx;
    char code[16], name[16];
    if (w->errors.buf.len > w->errors.taken)
        on_stderr(w, "\n", 1); /* what was left without an end of line */
    (void)snprintf(code, sizeof code, "%d", end->exit_code);
    berth_buf_printf(text, "Worker process exited (code=%s, signal=%s)",
                     end->exit_code < 0 ? "null" : code, signal_name(end->signal, name));
    while (w->excerpt.len && strchr("\n \t", w->excerpt.data[w->excerpt.len - 1]))
        berth_buf_truncate(&w->excerpt, w->excerpt.len - 1);
    if (w->excerpt.len) {
        size_t kept = w->excerpt.len < BERTH_WORKER_EXCERPT_BYTES_MAX
                          ? w->excerpt.len
                          : BERTH_WORKER_EXCERPT_BYTES_MAX;
        berth_buf_printf(text, "\n\nWorker stderr:\n%s",
                         w->excerpt.data + w->excerpt.len - kept); /* clean since it was read */
    }
    w->dead = w->rpc;
    w->rpc = NULL;
    pthread_mutex_lock(&w->ground->lock);
    w->pending = 0;
    pthread_mutex_unlock(&w->ground->lock);
    const char *words = berth_buf_str(text);
    (void)snprintf(w->why, sizeof w->why, "%.*s", (int)sizeof w->why - 1,
                   w->failed ? w->error
                   : words   ? words
                             : "Worker process exited");
    w->failed = false;
    clear_timers(w);
    set_state(w, w->stop_wanted ? BERTH_WORKER_STOPPING : BERTH_WORKER_CRASHED);
    struct berth_error ignored;
    (void)berth_engine_post(w->ground->engine, &w->reap, &ignored); /* its thread is this one */
}

/* --- starting --- */

/* From the pool to the engine's thread. */
struct launching {
    struct berth_post post;
    struct berth_worker *worker;
    struct berth_arena arena; /* of the spec */
    struct berth_worker_spec spec;
    struct berth_launch launch;
    bool prepared;
    int rc;
    struct berth_error err;
};

static void free_launching(struct launching *l)
{
    if (l->prepared)
        berth_launch_clear(&l->launch);
    berth_arena_clear(&l->arena);
    free(l);
}

static void fail_start(struct berth_worker *w, const char *why)
{
    char text[BERTH_WORKER_ERROR_SIZE];
    (void)snprintf(text, sizeof text, "Worker initialize failed for \"%s\": %.800s", w->id, why);
    if (w->rpc) { /* its end is the crash, or the stop */
        set_error(w, text);
        w->failed = true;
        kill_process(w);
    } else if (w->stop_wanted) {
        stopped(w);
    } else {
        crash(w, text);
    }
}

static bool is_truthy(const struct berth_json *value)
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

static void on_initialized(void *ctx, const struct berth_reply *reply)
{
    struct berth_worker *w = ctx;
    if (reply->kind != BERTH_REPLY_RESULT) {
        if (w->rpc)
            fail_start(w, reply->text);
        return;
    }
    if (!is_truthy(berth_json_get(reply->result, "ok"))) {
        fail_start(w, "Worker initialize returned ok=false");
        return;
    }
    const struct berth_json *methods = berth_json_get(reply->result, "supportedMethods");
    pthread_mutex_lock(&w->ground->lock);
    berth_json_free(w->methods);
    w->methods = berth_json_is(methods, BERTH_JSON_ARRAY) ? berth_json_copy(methods)
                                                          : berth_json_new_array();
    w->running_since_ms = berth_time_mono_ms();
    w->next_restart_ms = 0;
    w->attempts++;
    w->error[0] = '\0';
    pthread_mutex_unlock(&w->ground->lock);
    if (w->stop_wanted)
        return; /* it is on its way */
    w->missed = 0;
    berth_timer_set(w->ground->engine, &w->health, HEALTH_MS);
    set_state(w, BERTH_WORKER_RUNNING);
    report(w, BERTH_LOG_INFO, "plugin worker runs", "ready");
    unpark_all(w);
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
                                        .timeout_ms = INITIALIZE_MS,
                                        .on_reply = on_initialized,
                                        .ctx = w};
    berth_rpc_call(w->rpc, &request);
}

static void keep_text(char **kept, const char *text)
{
    free(*kept);
    *kept = strdup(text);
}

static int open_log(struct berth_worker *w, const char *path, struct berth_error *err)
{
    if (w->log)
        return BERTH_OK;
    return berth_worker_log_open(path, w->ground->pool, &w->log, err);
}

static void run_launch(struct berth_post *post)
{
    struct launching *l = berth_container_of(post, struct launching, post);
    struct berth_worker *w = l->worker;
    struct berth_rpc_handlers handlers = {.on_message = on_message,
                                          .on_noise = on_noise,
                                          .on_stderr = on_stderr,
                                          .on_end = on_end,
                                          .ctx = w};
    berth_buf_truncate(&w->excerpt, 0);
    int rc = l->rc;
    if (rc == BERTH_OK && w->stop_wanted)
        rc = berth_fail(&l->err, BERTH_E_CANCELLED, "It was stopped.");
    if (rc == BERTH_OK)
        rc = open_log(w, l->spec.log, &l->err);
    if (rc == BERTH_OK)
        rc = berth_rpc_start(w->ground->engine, w->ground->pool, &l->launch.options, &handlers,
                             &w->rpc, &l->err);
    if (rc == BERTH_OK) {
        keep_text(&w->label, l->launch.label);
        keep_text(&w->package, l->spec.package);
        keep_text(&w->manifest_json, l->spec.manifest_json);
        keep_text(&w->config_json, l->spec.config_json);
        pthread_mutex_lock(&w->ground->lock);
        w->row_version = l->spec.row_version;
        memcpy(w->confinement, l->launch.confinement_text, sizeof w->confinement);
        pthread_mutex_unlock(&w->ground->lock);
        set_state(w, w->state); /* with its number */
        send_initialize(w, &l->spec);
    } else {
        char text[BERTH_WORKER_ERROR_SIZE];
        (void)snprintf(text, sizeof text, "Worker process failed to start: %.900s", l->err.message);
        fail_start(w, text);
    }
    free_launching(l);
}

/* On the pool: reads the store and looks at files. */
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
    (void)berth_engine_post(l->worker->ground->engine, &l->post, &ignored); /* its thread runs */
}

void berth_worker_start(struct berth_worker *w)
{
    assert(berth_engine_is_here(w->ground->engine));
    struct berth_error err;
    pthread_mutex_lock(&w->ground->lock);
    bool closing = w->ground->closing;
    pthread_mutex_unlock(&w->ground->lock);
    if (closing)
        return;
    if (w->state == BERTH_WORKER_STOPPING || w->stop_wanted) {
        w->restart_wanted = true;
        return;
    }
    if (w->state == BERTH_WORKER_STARTING || w->state == BERTH_WORKER_RUNNING)
        return;
    clear_timers(w);
    set_state(w, BERTH_WORKER_STARTING);
    struct launching *l = calloc(1, sizeof *l);
    if (l) {
        l->post.run = run_launch;
        l->worker = w;
    }
    if (!l || berth_pool_submit(w->ground->pool, launch_job, l, &err) < 0) {
        free(l);
        fail_start(w, "There is no thread or memory to start it with.");
    }
}

static void on_restart_timer(struct berth_timer *timer)
{
    berth_worker_start(berth_container_of(timer, struct berth_worker, restart));
}

/* --- stopping --- */

static void on_shutdown(void *ctx, const struct berth_reply *reply)
{
    struct berth_worker *w = ctx;
    (void)reply; /* whatever it is: it has been asked */
    if (!w->rpc)
        return;
    berth_process_close_stdin(berth_rpc_process(w->rpc));
    berth_timer_set(w->ground->engine, &w->stopping, EXIT_MS);
}

/* What is next: its calls come home, it is asked to end, it is told, it is killed. */
static void on_stop_timer(struct berth_timer *timer)
{
    struct berth_worker *w = berth_container_of(timer, struct berth_worker, stopping);
    struct berth_rpc_request request = {.method = "shutdown",
                                        .params_json = "{}",
                                        .timeout_ms = SHUTDOWN_MS,
                                        .on_reply = on_shutdown,
                                        .ctx = w};
    if (!w->rpc)
        return;
    if (w->shutdown_sent) {
        berth_process_cancel(berth_rpc_process(w->rpc)); /* SIGTERM, its grace, SIGKILL */
    } else if (berth_rpc_pending(w->rpc) && berth_time_mono_ms() < w->stop_by_ms) {
        berth_timer_set(w->ground->engine, &w->stopping, DRAIN_STEP_MS);
    } else {
        w->shutdown_sent = true;
        berth_rpc_call(w->rpc, &request);
    }
}

void berth_worker_stop(struct berth_worker *w, bool and_start)
{
    assert(berth_engine_is_here(w->ground->engine));
    w->restart_wanted = and_start;
    if (w->state == BERTH_WORKER_STOPPED || w->state == BERTH_WORKER_BACKOFF) {
        stopped(w);
        return;
    }
    if (w->stop_wanted)
        return;
    w->stop_wanted = true;
    if (!w->rpc)
        return; /* the launch sees it, or the end that is being told */
    clear_timers(w);
    set_state(w, BERTH_WORKER_STOPPING);
    w->stop_by_ms = berth_time_mono_ms() + DRAIN_MS;
    on_stop_timer(&w->stopping);
}

/* --- calls --- */

static void drop_watch(struct berth_stream_watch *watch)
{
    struct berth_stream_watch **at = &watch->worker->watches;
    while (*at != watch)
        at = &(*at)->next;
    *at = watch->next;
    free(watch->invocation);
    free(watch->sent);
    free(watch);
}

static void count_call(struct berth_worker *w, int change)
{
    pthread_mutex_lock(&w->ground->lock);
    w->pending += change;
    pthread_mutex_unlock(&w->ground->lock);
}

/* Whoever asks takes the secrets of its call out of the answer; errors also lose all others that
 * the worker was ever told. */
static void end_watch(struct berth_stream_watch *watch, berth_reply_fn *tell,
                      const struct berth_reply *reply)
{
    struct berth_worker *w = watch->worker;
    struct berth_reply clean = *reply;
    auto_json *verdict = NULL;
    struct berth_error err;
    auto_free char *text = reply->text ? clean_text(w, reply->text) : NULL;
    if (watch->sent && reply->result &&
        berth_verdict_clean(w->log, watch->sent, reply->result, &verdict, &err) < 0)
        clean = (struct berth_reply){
            .kind = BERTH_REPLY_ERROR, .code = BERTH_RPC_WORKER_ERROR, .text = err.message};
    else if (verdict)
        clean.result = verdict;
    else if (reply->text)
        clean.text = text;
    count_call(w, w->rpc ? -1 : 0); /* its end has counted them all */
    tell(watch->ctx, &clean);
    drop_watch(watch);
}

static void on_watched_reply(void *ctx, const struct berth_reply *reply)
{
    struct berth_stream_watch *watch = ctx;
    if (reply->kind == BERTH_REPLY_TIMEOUT && watch->on_late)
        watch->on_reply(watch->ctx, reply);
    else
        end_watch(watch, watch->on_reply, reply);
}

static void on_watched_late(void *ctx, const struct berth_reply *reply)
{
    struct berth_stream_watch *watch = ctx;
    end_watch(watch, watch->on_late, reply);
}

static void refuse(const struct berth_worker_call *call, const char *status)
{
    char text[256];
    (void)snprintf(text, sizeof text,
                   "Cannot call \"%.80s\" \xe2\x80\x94 worker for \"%.40s\" is %s", call->method,
                   call->plugin_id, status);
    struct berth_reply reply = {
        .kind = BERTH_REPLY_UNSENT, .code = BERTH_RPC_UNAVAILABLE, .text = text};
    call->on_reply(call->ctx, &reply);
}

static char *invocation_json(const struct berth_worker_call *call)
{
    struct berth_buf buf = BERTH_BUF_INIT(1024);
    struct berth_json_writer p = {.buf = &buf};
    berth_json_open(&p, '{');
    berth_json_put_str(&p, "id", call->invocation);
    berth_json_open_in(&p, "scope", '{');
    berth_json_put_str(&p, "companyId", call->company_id);
    berth_json_close(&p, '}');
    berth_json_close(&p, '}');
    return berth_buf_take(&buf);
}

void berth_worker_call(struct berth_worker *w, const struct berth_worker_call *call)
{
    struct berth_stream_watch *watch = calloc(1, sizeof *watch);
    char *invocation = strdup(call->invocation ? call->invocation : "");
    auto_free char *envelope = call->invocation ? invocation_json(call) : NULL;
    bool validates = strcmp(call->method, VALIDATE) == 0;
    bool usual = strlen(call->params_json) < 2 * BERTH_CONFIG_BYTES_MAX; /* no config is longer */
    char *sent = validates ? strdup(usual ? call->params_json : "{}") : NULL;
    if (w->state != BERTH_WORKER_RUNNING || !watch || !invocation || (validates && !sent)) {
        refuse(call, w->state != BERTH_WORKER_RUNNING ? berth_worker_states[w->state]
                                                      : "short of memory");
        free(invocation);
        free(sent);
        free(watch);
        return;
    }
    berth_worker_log_hide(w->log, call->secrets, call->secret_count);
    *watch = (struct berth_stream_watch){.next = w->watches,
                                         .invocation = invocation,
                                         .on_output = call->on_output,
                                         .on_reply = call->on_reply,
                                         .on_late = call->on_late,
                                         .ctx = call->ctx,
                                         .worker = w,
                                         .sent = sent};
    w->watches = watch;
    bool execute = strcmp(call->method, "environmentExecute") == 0;
    struct berth_rpc_request request = {.method = call->method,
                                        .params_json = call->params_json,
                                        .invocation_json = envelope,
                                        /* A command may take as long as it takes. */
                                        .timeout_ms = call->timeout_ms ? call->timeout_ms
                                                      : execute        ? 0
                                                                       : CALL_MS,
                                        .on_reply = on_watched_reply,
                                        .on_late = call->on_late ? on_watched_late : NULL,
                                        .ctx = watch};
    count_call(w, 1);
    berth_rpc_call(w->rpc, &request);
}

/* --- config --- */

static void on_config_told(void *ctx, const struct berth_reply *reply)
{
    struct berth_worker *w = ctx;
    if (!w->stop_wanted && reply->kind == BERTH_REPLY_ERROR &&
        (reply->code == BERTH_RPC_NO_METHOD || reply->code == BERTH_RPC_NOT_IMPLEMENTED))
        berth_worker_stop(w, true); /* it reads its config at its start only */
}

static void tell_config(struct berth_worker *w, const char *config_json)
{
    auto_buf params = {.max = BERTH_MESSAGE_BYTES_MAX, .secret = true};
    struct berth_json_writer p = {.buf = &params};
    keep_text(&w->config_json, config_json);
    berth_json_open(&p, '{');
    berth_json_put_raw(&p, "config", config_json);
    berth_json_close(&p, '}');
    if (params.failed)
        return;
    struct berth_rpc_request request = {.method = "configChanged",
                                        .params_json = berth_buf_str(&params),
                                        .timeout_ms = CALL_MS,
                                        .on_reply = on_config_told,
                                        .ctx = w};
    berth_rpc_call(w->rpc, &request);
}

static bool same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

void berth_worker_follow(struct berth_worker *w, const struct berth_worker_row *row)
{
    if (!row->ready) {
        if (w->state != BERTH_WORKER_STOPPED)
            berth_worker_stop(w, false);
        return;
    }
    if (w->state != BERTH_WORKER_RUNNING || w->row_version >= row->row_version)
        return; /* every start reads it anew */
    if (!same(w->package, row->package) || !same(w->manifest_json, row->manifest_json) ||
        same(w->config_json, row->config_json)) {
        berth_worker_stop(w, false); /* the next call starts the new one */
        return;
    }
    pthread_mutex_lock(&w->ground->lock);
    w->row_version = row->row_version;
    pthread_mutex_unlock(&w->ground->lock);
    tell_config(w, row->config_json);
}

/* --- all of it --- */

struct berth_worker *berth_worker_new(struct berth_worker_ground *ground, const char *plugin_id)
{
    struct berth_worker *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->ground = ground;
    (void)snprintf(w->id, sizeof w->id, "%s", plugin_id);
    w->restart.run = on_restart_timer;
    w->health.run = on_health_timer;
    w->stopping.run = on_stop_timer;
    w->reap.run = run_reap;
    w->excerpt = (struct berth_buf)BERTH_BUF_INIT(4 * BERTH_WORKER_EXCERPT_BYTES_MAX);
    berth_lines_init(&w->errors, STDERR_LINE_BYTES_MAX);
    return w;
}

void berth_worker_free(struct berth_worker *w)
{
    berth_worker_log_close(w->log);
    berth_lines_clear(&w->errors);
    berth_buf_clear(&w->excerpt);
    berth_json_free(w->methods);
    free(w->label);
    free(w->package);
    free(w->manifest_json);
    free(w->config_json);
    free(w);
}
