/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/worker.c - a worker's state machine: health, crashes and restarts, stopping, and the
 * changes of its row. See worker.h. */
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
#include "os/pool.h"
#include "os/strays.h"
#include "plugin/worker.h"

#define DRAIN_MS 10000 /* calls in flight have this long when the worker is stopped */
#define DRAIN_STEP_MS 20
#define SHUTDOWN_MS 10000
#define EXIT_MS 500 /* from the answer to `shutdown` to SIGTERM */
#define RESTART_MS 1000
#define RESTART_MAX_MS 300000
#define RESTART_DOUBLINGS_MAX 15 /* RESTART_MAX_MS is reached before */
#define HEALTH_MISSES_MAX 3
#define STDERR_LINE_BYTES_MAX (64 * 1024)
#define TEXT_BYTES_MAX (64 * 1024) /* of an error */

const char *const berth_worker_states[] = {"stopped",  "starting", "running",
                                           "stopping", "crashed",  "backoff"};

/* --- the state --- */

/* STOPPED -> STARTING -> RUNNING -> STOPPING -> STOPPED, and by a crash
 * STARTING or RUNNING -> CRASHED -> BACKOFF -> STARTING. A stop leads out of every state. */
static bool state_may_follow(enum berth_worker_state from, enum berth_worker_state to)
{
    switch (to) {
    case BERTH_WORKER_STOPPED:
        return from != BERTH_WORKER_RUNNING;
    case BERTH_WORKER_STARTING:
        return from == BERTH_WORKER_STOPPED || from == BERTH_WORKER_BACKOFF;
    case BERTH_WORKER_RUNNING:
        return from == BERTH_WORKER_STARTING;
    case BERTH_WORKER_STOPPING:
        return from == BERTH_WORKER_STARTING || from == BERTH_WORKER_RUNNING ||
               from == BERTH_WORKER_STOPPING;
    case BERTH_WORKER_CRASHED:
        return from == BERTH_WORKER_STARTING || from == BERTH_WORKER_RUNNING;
    case BERTH_WORKER_BACKOFF:
        return from == BERTH_WORKER_STARTING || from == BERTH_WORKER_CRASHED;
    }
    return false;
}

void berth_worker_set_state(struct berth_worker *w, enum berth_worker_state state)
{
    assert(berth_engine_is_here(w->ground->engine));
    assert(state_may_follow(w->state, state));
    assert(state != BERTH_WORKER_RUNNING || w->rpc);
    assert((state != BERTH_WORKER_STOPPED && state != BERTH_WORKER_CRASHED &&
            state != BERTH_WORKER_BACKOFF) ||
           !w->rpc);
    pthread_mutex_lock(&w->ground->lock);
    w->state = state;
    w->pid = w->rpc ? berth_process_pid(berth_rpc_process(w->rpc)) : 0;
    pthread_cond_broadcast(&w->ground->changed);
    pthread_mutex_unlock(&w->ground->lock);
}

/* --- what is said about it --- */

char *berth_worker_clean_text(const struct berth_worker *w, const char *text)
{
    size_t len = strnlen(text, TEXT_BYTES_MAX + 1);
    char *clean = w->log ? berth_worker_log_clean(w->log, text, len) : strndup(text, len);
    if (clean && len > TEXT_BYTES_MAX) /* the end of the text may be half of a secret */
        clean[TEXT_BYTES_MAX / 2] = '\0';
    if (clean)
        berth_utf8_mend(clean);
    return clean ? clean : strdup("");
}

void berth_worker_report(struct berth_worker *w, enum berth_log_level level, const char *event,
                         const char *text)
{
    auto_free char *clean = berth_worker_clean_text(w, text);
    w->ground->host.report(w->ground->host.ctx, w->id, level, event, clean ? clean : "");
    if (w->log)
        berth_worker_log_write(w->log, "host", level >= BERTH_LOG_WARN ? "warn" : "info", text,
                               strlen(text));
}

void berth_worker_set_error(struct berth_worker *w, const char *text)
{
    auto_free char *clean = berth_worker_clean_text(w, text);
    pthread_mutex_lock(&w->ground->lock);
    (void)snprintf(w->error, sizeof w->error, "%s", clean ? clean : "");
    berth_utf8_mend(w->error);
    pthread_mutex_unlock(&w->ground->lock);
}

void berth_worker_keep_text(char **kept, const char *text)
{
    free(*kept);
    *kept = strdup(text);
}

/* --- health --- */

void berth_worker_kill(struct berth_worker *w)
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
    if (!unheard) { /* a worker that answers has its earlier crashes forgotten */
        pthread_mutex_lock(&w->ground->lock);
        w->crashes = 0;
        pthread_mutex_unlock(&w->ground->lock);
    }
    if (w->missed >= HEALTH_MISSES_MAX) {
        berth_worker_report(w, BERTH_LOG_WARN, "plugin worker hangs",
                            "It did not answer health; it is killed.");
        berth_worker_kill(w);
        return;
    }
    berth_timer_set(w->ground->engine, &w->health, BERTH_WORKER_HEALTH_MS);
}

static void on_health_timer(struct berth_timer *timer)
{
    struct berth_worker *w = berth_container_of(timer, struct berth_worker, health);
    struct berth_rpc_request request = {.method = "health",
                                        .params_json = "{}",
                                        .timeout_ms = BERTH_WORKER_CALL_MS,
                                        .on_reply = on_health,
                                        .ctx = w};
    if (w->state != BERTH_WORKER_RUNNING)
        return;
    w->heard = berth_rpc_heard(w->rpc);
    berth_rpc_call(w->rpc, &request);
}

/* --- crashes --- */

void berth_worker_clear_timers(struct berth_worker *w)
{
    struct berth_engine *engine = w->ground->engine;
    berth_timer_clear(engine, &w->restart);
    berth_timer_clear(engine, &w->health);
    berth_timer_clear(engine, &w->stopping);
}

/* Returns 1 s, 2 s, 4 s ... 5 min, less or more by up to a quarter. */
static int64_t restart_after_ms(int crashes)
{
    uint32_t random = 0;
    (void)getrandom(&random, sizeof random, 0);
    double jitter = 0.75 + 0.5 * ((double)random / UINT32_MAX);
    int doublings = crashes <= RESTART_DOUBLINGS_MAX ? crashes - 1 : RESTART_DOUBLINGS_MAX;
    double wait = RESTART_MS * pow(2, doublings) * jitter;
    return wait < RESTART_MAX_MS ? llround(wait) : RESTART_MAX_MS;
}

void berth_worker_crash(struct berth_worker *w, const char *text)
{
    berth_worker_clear_timers(w);
    berth_worker_set_error(w, text);
    pthread_mutex_lock(&w->ground->lock);
    w->crashes++;
    w->crashes_in_all++;
    w->last_crash_ms = berth_time_wall_ms();
    int64_t wait_ms = restart_after_ms(w->crashes);
    w->next_restart_ms = w->last_crash_ms + wait_ms;
    w->attempts++;
    pthread_mutex_unlock(&w->ground->lock);
    berth_worker_report(w, BERTH_LOG_WARN, "plugin worker crashed", text);
    berth_timer_set(w->ground->engine, &w->restart, wait_ms);
    berth_worker_set_state(w, BERTH_WORKER_BACKOFF);
}

static void on_restart_timer(struct berth_timer *timer)
{
    berth_worker_start(berth_container_of(timer, struct berth_worker, restart));
}

/* --- the end of the process --- */

void berth_worker_end_stop(struct berth_worker *w)
{
    pthread_mutex_lock(&w->ground->lock);
    bool again = w->restart_wanted && !w->ground->closing;
    pthread_mutex_unlock(&w->ground->lock);
    berth_worker_clear_timers(w);
    berth_timer_clear(w->ground->engine, &w->halt);
    w->stop_wanted = w->shutdown_sent = w->restart_wanted = false;
    if (!again)
        berth_worker_release_parked(w);
    pthread_mutex_lock(&w->ground->lock);
    w->attempts++;
    w->stops++;
    w->next_restart_ms = 0;
    pthread_mutex_unlock(&w->ground->lock);
    berth_worker_set_state(w, BERTH_WORKER_STOPPED);
    if (again)
        berth_worker_start(w);
}

static void worker_strays_job(void *ctx)
{
    auto_free char *label = ctx;
    (void)berth_strays_end((const char *const[]){label, NULL});
}

/* Ends what the worker started, also what has left its process group. */
static void worker_end_strays(struct berth_worker *w)
{
    char *label = take_ptr(w->label);
    struct berth_error ignored;
    if (label && berth_pool_submit(w->ground->pool, worker_strays_job, label, &ignored) < 0)
        free(label);
}

/* Runs after all calls have been told of the end. */
static void run_reap(struct berth_post *post)
{
    struct berth_worker *w = berth_container_of(post, struct berth_worker, reap);
    berth_rpc_free(w->dead);
    w->dead = NULL;
    worker_end_strays(w);
    if (w->stop_wanted)
        berth_worker_end_stop(w);
    else
        berth_worker_crash(w, w->why);
}

static const char *signal_name(int number, char out[16])
{
    const char *name = number ? sigabbrev_np(number) : NULL;
    (void)snprintf(out, 16, "%s%s", name ? "SIG" : "", name ? name : "null");
    return out;
}

/* Writes how the process ended and the end of what it said on stderr, which has no secrets left. */
static void write_end(struct berth_worker *w, const struct berth_exec_end *end,
                      struct berth_buf *text)
{
    char code[16], name[16];
    struct berth_buf *said = &w->excerpt;
    (void)snprintf(code, sizeof code, "%d", end->exit_code);
    berth_buf_printf(text, "Worker process exited (code=%s, signal=%s)",
                     end->exit_code < 0 ? "null" : code, signal_name(end->signal, name));
    while (said->len && strchr("\n \t", said->data[said->len - 1]))
        berth_buf_truncate(said, said->len - 1);
    size_t kept =
        said->len < BERTH_WORKER_EXCERPT_BYTES_MAX ? said->len : BERTH_WORKER_EXCERPT_BYTES_MAX;
    if (kept)
        berth_buf_printf(text, "\n\nWorker stderr:\n%s", said->data + said->len - kept);
}

void berth_worker_on_end(void *ctx, const struct berth_exec_end *end, struct berth_buf *text)
{
    struct berth_worker *w = ctx;
    if (w->errors.buf.len > w->errors.taken)
        berth_worker_on_stderr(w, "\n", 1); /* completes the last line */
    write_end(w, end, text);
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
    berth_worker_clear_timers(w);
    berth_worker_set_state(w, w->stop_wanted ? BERTH_WORKER_STOPPING : BERTH_WORKER_CRASHED);
    struct berth_error ignored;
    /* Cannot fail: this is the engine's thread. */
    (void)berth_engine_post(w->ground->engine, &w->reap, &ignored);
}

/* --- stopping --- */

static void on_shutdown(void *ctx, const struct berth_reply *reply)
{
    struct berth_worker *w = ctx;
    (void)reply; /* the worker was asked, whatever it answered */
    if (!w->rpc)
        return;
    berth_process_close_stdin(berth_rpc_process(w->rpc));
    berth_timer_set(w->ground->engine, &w->stopping, EXIT_MS);
}

/* Takes the next step of a stop: waits for calls in flight, sends `shutdown`, then SIGTERM. */
static void on_worker_stop_timer(struct berth_timer *timer)
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
        berth_worker_end_stop(w);
        return;
    }
    if (w->stop_wanted)
        return;
    w->stop_wanted = true;
    if (!w->rpc)
        return; /* the launch sees stop_wanted, or run_reap does */
    berth_worker_clear_timers(w);
    berth_worker_set_state(w, BERTH_WORKER_STOPPING);
    w->stop_by_ms = berth_time_mono_ms() + DRAIN_MS;
    on_worker_stop_timer(&w->stopping);
}

static void on_halt_timer(struct berth_timer *timer)
{
    struct berth_worker *w = berth_container_of(timer, struct berth_worker, halt);
    if (w->rpc)
        berth_worker_kill(w);
}

void berth_worker_halt(struct berth_worker *w)
{
    pthread_mutex_lock(&w->ground->lock);
    int64_t halt_ms = w->ground->halt_ms;
    pthread_mutex_unlock(&w->ground->lock);
    berth_timer_set(w->ground->engine, &w->halt, halt_ms); /* cleared when the stop is completed */
    berth_worker_stop(w, false);
}

/* --- changes of its row --- */

static void on_config_told(void *ctx, const struct berth_reply *reply)
{
    struct berth_worker *w = ctx;
    if (!w->stop_wanted && reply->kind == BERTH_REPLY_ERROR &&
        (reply->code == BERTH_RPC_NO_METHOD || reply->code == BERTH_RPC_NOT_IMPLEMENTED))
        berth_worker_stop(w, true); /* it reads its config only when it starts */
}

static void worker_tell_config(struct berth_worker *w, const char *config_json)
{
    auto_buf params = {.max = BERTH_MESSAGE_BYTES_MAX, .secret = true};
    struct berth_json_writer p = {.buf = &params};
    berth_worker_keep_text(&w->config_json, config_json);
    berth_json_open(&p, '{');
    berth_json_put_raw(&p, "config", config_json);
    berth_json_close(&p, '}');
    if (params.failed)
        return;
    struct berth_rpc_request request = {.method = "configChanged",
                                        .params_json = berth_buf_str(&params),
                                        .timeout_ms = BERTH_WORKER_CALL_MS,
                                        .on_reply = on_config_told,
                                        .ctx = w};
    berth_rpc_call(w->rpc, &request);
}

static bool text_is_same(const char *a, const char *b)
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
        return; /* every start reads the row again */
    if (!text_is_same(w->package, row->package) ||
        !text_is_same(w->manifest_json, row->manifest_json) ||
        !text_is_same(w->settings_json, row->settings_json) ||
        text_is_same(w->config_json, row->config_json)) {
        berth_worker_stop(w, false); /* the next call starts it from the new row */
        return;
    }
    pthread_mutex_lock(&w->ground->lock);
    w->row_version = row->row_version;
    pthread_mutex_unlock(&w->ground->lock);
    worker_tell_config(w, row->config_json);
}

/* --- the object --- */

struct berth_worker *berth_worker_new(struct berth_worker_ground *ground, const char *plugin_id)
{
    struct berth_worker *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->ground = ground;
    (void)snprintf(w->id, sizeof w->id, "%s", plugin_id);
    w->restart.run = on_restart_timer;
    w->health.run = on_health_timer;
    w->stopping.run = on_worker_stop_timer;
    w->halt.run = on_halt_timer;
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
    free(w->state_path);
    free(w->manifest_json);
    free(w->config_json);
    free(w->settings_json);
    free(w);
}
