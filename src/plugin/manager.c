/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/manager.c - see manager.h. */
#include "plugin/manager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/container.h"
#include "base/json.h"
#include "base/utf8.h"
#include "crypto/locked.h"
#include "os/pool.h"
#include "plugin/stage.h"
#include "plugin/worker.h"

#define THREADS_MAX 4 /* for what blocks: starting, long messages, logs */
#define RETRY_US 1000 /* for memory to be free again */

struct berth_manager {
    struct berth_workers base;
    struct berth_worker_ground ground;
    struct berth_worker *first; /* under the lock; they stay until the end */
    bool passed;                /* the last order was carried out */
};

static struct berth_manager *manager_of(struct berth_workers *w)
{
    return berth_container_of(w, struct berth_manager, base);
}

/* Lock held. NULL: nobody has ever wanted it. */
static struct berth_worker *manager_find(struct berth_manager *m, const char *plugin_id)
{
    struct berth_worker *w = m->first;
    while (w && strcmp(w->id, plugin_id) != 0)
        w = w->next;
    return w;
}

/* Lock held. NULL: no memory. */
static struct berth_worker *find_or_make(struct berth_manager *m, const char *plugin_id)
{
    struct berth_worker *w = manager_find(m, plugin_id);
    if (w || m->ground.closing)
        return w;
    w = berth_worker_new(&m->ground, plugin_id);
    if (w) {
        w->next = m->first;
        m->first = w;
    }
    return w;
}

static struct berth_worker *look_up(struct berth_manager *m, const char *plugin_id)
{
    pthread_mutex_lock(&m->ground.lock);
    struct berth_worker *w = manager_find(m, plugin_id);
    pthread_mutex_unlock(&m->ground.lock);
    return w;
}

/* --- to the engine's thread --- */

struct order {
    struct berth_post post;
    struct berth_worker *worker;
    void (*run)(struct berth_worker *w);
};

static void run_order(struct berth_post *post)
{
    struct order *order = berth_container_of(post, struct order, post);
    order->run(order->worker);
    free(order);
}

/* False: no memory, or no thread. */
static bool give_order(struct berth_worker *w, void (*run)(struct berth_worker *w))
{
    struct order *order = calloc(1, sizeof *order);
    struct berth_error ignored;
    if (order)
        *order = (struct order){.post = {.run = run_order}, .worker = w, .run = run};
    if (order && berth_engine_post(w->ground->engine, &order->post, &ignored) == BERTH_OK)
        return true;
    free(order);
    return false;
}

static void worker_stop_order(struct berth_worker *w)
{
    berth_worker_stop(w, false);
}

/* What a worker's row says, on its way to it. */
struct following {
    struct berth_post post;
    struct berth_parked parked;
    struct berth_worker *worker;
    struct berth_arena arena;
    struct berth_worker_row row;
};

static void free_following(struct following *f)
{
    berth_arena_wipe(&f->arena);
    free(f);
}

static void go_follow(struct berth_parked *parked)
{
    struct following *f = berth_container_of(parked, struct following, parked);
    berth_worker_follow(f->worker, &f->row);
    free_following(f);
}

static void run_follow(struct berth_post *post)
{
    struct following *f = berth_container_of(post, struct following, post);
    f->parked.go = go_follow;
    if (f->row.ready)
        berth_worker_enter(f->worker, &f->parked); /* one that is starting knows an older row */
    else
        go_follow(&f->parked);
}

static void send_row(struct berth_worker *w, const struct berth_worker_row *row)
{
    struct following *f = calloc(1, sizeof *f);
    struct berth_error ignored;
    if (!f)
        return; /* it hears of it the next time */
    f->post.run = run_follow;
    f->worker = w;
    f->row = *row;
    f->row.plugin_id = w->id;
    f->row.package = berth_arena_strdup(&f->arena, row->package);
    f->row.manifest_json = berth_arena_strdup(&f->arena, row->manifest_json);
    f->row.config_json = berth_arena_strdup(&f->arena, row->config_json);
    f->row.settings_json = berth_arena_strdup(&f->arena, row->settings_json);
    if (f->arena.failed || berth_engine_post(w->ground->engine, &f->post, &ignored) < 0)
        free_following(f);
}

/* --- struct berth_workers --- */

static bool manager_is_running(struct berth_workers *workers, const char *plugin_id)
{
    struct berth_manager *m = manager_of(workers);
    pthread_mutex_lock(&m->ground.lock);
    const struct berth_worker *w = manager_find(m, plugin_id);
    bool running = w && w->state == BERTH_WORKER_RUNNING;
    pthread_mutex_unlock(&m->ground.lock);
    return running;
}

static void manager_want(struct berth_workers *workers, const char *plugin_id, int64_t wait_ms)
{
    struct berth_manager *m = manager_of(workers);
    struct timespec until = berth_time_until(wait_ms);
    pthread_mutex_lock(&m->ground.lock);
    struct berth_worker *w = find_or_make(m, plugin_id);
    bool start = w && !m->ground.closing &&
                 (w->state == BERTH_WORKER_STOPPED || w->state == BERTH_WORKER_STOPPING);
    pthread_mutex_unlock(&m->ground.lock);
    if (!w || (start && !give_order(w, berth_worker_start)))
        return;
    pthread_mutex_lock(&m->ground.lock);
    unsigned before = w->attempts;
    while (w->state != BERTH_WORKER_RUNNING && w->state != BERTH_WORKER_BACKOFF &&
           w->attempts == before && !m->ground.closing)
        if (pthread_cond_timedwait(&m->ground.changed, &m->ground.lock, &until) != 0)
            break;
    pthread_mutex_unlock(&m->ground.lock);
}

static void manager_explain(struct berth_workers *workers, const char *plugin_id,
                            struct berth_worker_absence *out)
{
    struct berth_manager *m = manager_of(workers);
    *out = (struct berth_worker_absence){0};
    pthread_mutex_lock(&m->ground.lock);
    const struct berth_worker *w = manager_find(m, plugin_id);
    if (w) {
        out->starting = w->state == BERTH_WORKER_STARTING;
        out->attempts = w->attempts;
        out->start_failed = !w->initialized &&
                            (w->state == BERTH_WORKER_CRASHED || w->state == BERTH_WORKER_BACKOFF);
        (void)snprintf(out->error, sizeof out->error, "%.*s", (int)sizeof out->error - 1, w->error);
    }
    pthread_mutex_unlock(&m->ground.lock);
    berth_utf8_mend(out->error);
}

static bool manager_supports(struct berth_workers *workers, const char *plugin_id,
                             const char *method)
{
    struct berth_manager *m = manager_of(workers);
    bool found = false;
    pthread_mutex_lock(&m->ground.lock);
    const struct berth_worker *w = manager_find(m, plugin_id);
    for (size_t i = 0; w && i < berth_json_count(w->methods); i++) {
        const char *name = berth_json_str(berth_json_at(w->methods, i));
        found |= name && strcmp(name, method) == 0;
    }
    pthread_mutex_unlock(&m->ground.lock);
    return found;
}

static int manager_stage(struct berth_workers *workers, const char *plugin_id,
                         struct berth_arena *arena, struct berth_worker_stage *out,
                         struct berth_error *err)
{
    struct berth_manager *m = manager_of(workers);
    pthread_mutex_lock(&m->ground.lock);
    const struct berth_worker *w = manager_find(m, plugin_id);
    bool running = w && w->state == BERTH_WORKER_RUNNING && w->state_path;
    const char *state = running ? berth_arena_strdup(arena, w->state_path) : NULL;
    uid_t uid = running ? w->uid : 0;
    pthread_mutex_unlock(&m->ground.lock);
    if (!running)
        return berth_fail(err, BERTH_E_UNAVAILABLE, "The worker does not run.");
    int rc = berth_arena_check(arena, err);
    return rc < 0 ? rc : berth_plugin_stage_make(state, uid, arena, out, err);
}

/* A call on its way; what is lent with it is copied, in memory that is wiped. */
struct calling {
    struct berth_post post;
    struct berth_parked parked;
    struct berth_worker *worker;
    struct berth_worker_call call;
    struct berth_arena arena;
    struct berth_locked *secrets;
};

static void free_calling(struct calling *c)
{
    berth_locked_free_all(c->secrets, c->call.secret_count);
    berth_arena_wipe(&c->arena);
    free(c);
}

static void calling_go(struct berth_parked *parked)
{
    struct calling *c = berth_container_of(parked, struct calling, parked);
    berth_worker_call(c->worker, &c->call);
    free_calling(c);
}

static void run_manager_call(struct berth_post *post)
{
    struct calling *c = berth_container_of(post, struct calling, post);
    c->parked.go = calling_go;
    berth_worker_enter(c->worker, &c->parked);
}

static void manager_call(struct berth_workers *workers, const struct berth_worker_call *what)
{
    struct berth_manager *m = manager_of(workers);
    struct berth_worker *w = look_up(m, what->plugin_id);
    struct calling *c = w ? calloc(1, sizeof *c) : NULL;
    struct berth_error err;
    const char *trouble = w ? "Out of memory: call." : "The worker was never started.";
    if (c) {
        c->post.run = run_manager_call;
        c->worker = w;
        c->call = *what;
        c->call.plugin_id = w->id;
        c->call.method = berth_arena_strdup(&c->arena, what->method);
        c->call.params_json = berth_arena_strdup(&c->arena, what->params_json);
        c->call.invocation = berth_arena_strdup(&c->arena, what->invocation);
        c->call.company_id = berth_arena_strdup(&c->arena, what->company_id);
        c->secrets = berth_locked_copy_all(what->secrets, what->secret_count);
        c->call.secrets = c->secrets;
        if (c->secrets && !c->arena.failed &&
            berth_engine_post(m->ground.engine, &c->post, &err) == BERTH_OK)
            return;
        free_calling(c);
    }
    struct berth_reply reply = {
        .kind = BERTH_REPLY_UNSENT, .code = BERTH_RPC_UNAVAILABLE, .text = trouble};
    what->on_reply(what->ctx, &reply);
}

static const struct berth_workers_ops workers_ops = {.is_running = manager_is_running,
                                                     .want = manager_want,
                                                     .explain = manager_explain,
                                                     .supports = manager_supports,
                                                     .stage = manager_stage,
                                                     .call = manager_call};

/* --- struct berth_manager_ops --- */

static int manager_open(struct berth_engine *engine, const struct berth_worker_host *host,
                        struct berth_manager **out, struct berth_error *err)
{
    struct berth_pool *pool = NULL;
    struct berth_manager *m = calloc(1, sizeof *m);
    int rc = m ? berth_pool_new(THREADS_MAX, &pool, err)
               : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: workers.");
    if (rc < 0) {
        free(m);
        return rc;
    }
    m->base.ops = &workers_ops;
    m->ground = (struct berth_worker_ground){.engine = engine, .pool = pool, .host = *host};
    pthread_mutex_init(&m->ground.lock, NULL);
    berth_time_cond_init(&m->ground.changed);
    *out = m;
    return BERTH_OK;
}

static struct berth_workers *manager_workers(struct berth_manager *m)
{
    return &m->base;
}

static unsigned count_stops(struct berth_manager *m, const struct berth_worker *w)
{
    pthread_mutex_lock(&m->ground.lock);
    unsigned stops = w->stops;
    pthread_mutex_unlock(&m->ground.lock);
    return stops;
}

/* Until it has been stopped once more; somebody may have started it again by then. */
static void await_stop(struct berth_manager *m, const struct berth_worker *w, unsigned before)
{
    pthread_mutex_lock(&m->ground.lock);
    while (w->stops == before)
        pthread_cond_wait(&m->ground.changed, &m->ground.lock);
    pthread_mutex_unlock(&m->ground.lock);
}

static void manager_stop(struct berth_manager *m, const char *plugin_id)
{
    struct berth_worker *w = look_up(m, plugin_id);
    unsigned before = w ? count_stops(m, w) : 0;
    if (w && give_order(w, worker_stop_order))
        await_stop(m, w, before);
}

static const struct berth_worker_row *row_of(const struct berth_worker_row *rows, int count,
                                             const char *plugin_id)
{
    for (int i = 0; i < count; i++)
        if (strcmp(rows[i].plugin_id, plugin_id) == 0)
            return &rows[i];
    return NULL;
}

static void manager_follow(struct berth_manager *m, const struct berth_worker_row *rows, int count)
{
    pthread_mutex_lock(&m->ground.lock);
    struct berth_worker *w = m->ground.closing ? NULL : m->first;
    pthread_mutex_unlock(&m->ground.lock);
    for (; w; w = w->next) { /* new ones come before the first, and none goes */
        static const struct berth_worker_row gone = {.ready = false};
        const struct berth_worker_row *found = row_of(rows, count, w->id);
        const struct berth_worker_row *row = found ? found : &gone;
        pthread_mutex_lock(&m->ground.lock);
        bool behind =
            w->state != BERTH_WORKER_STOPPED && (!row->ready || w->row_version < row->row_version);
        pthread_mutex_unlock(&m->ground.lock);
        if (behind)
            send_row(w, row);
    }
}

static void manager_start(struct berth_manager *m, const char *plugin_id, int64_t wait_ms)
{
    manager_want(&m->base, plugin_id, wait_ms);
}

static int manager_status(struct berth_manager *m, const char *plugin_id, struct berth_arena *arena,
                          struct berth_worker_status *out, struct berth_error *err)
{
    *out = (struct berth_worker_status){.status = berth_worker_states[BERTH_WORKER_STOPPED]};
    pthread_mutex_lock(&m->ground.lock);
    const struct berth_worker *w = manager_find(m, plugin_id);
    if (w)
        *out = (struct berth_worker_status){
            .status = berth_worker_states[w->state],
            .pid = w->pid,
            .uptime_ms =
                w->state == BERTH_WORKER_RUNNING ? berth_time_mono_ms() - w->running_since_ms : 0,
            .crashes = w->crashes,
            .crashes_in_all = w->crashes_in_all,
            .pending = w->pending,
            .last_crash_at_ms = w->last_crash_ms,
            .next_restart_at_ms = w->next_restart_ms,
            .methods_json = w->methods ? berth_json_canonical_in(arena, w->methods) : NULL,
            .confinement = w->confinement[0] ? berth_arena_strdup(arena, w->confinement) : NULL,
            .last_error = w->error[0] ? berth_arena_strdup(arena, w->error) : NULL};
    pthread_mutex_unlock(&m->ground.lock);
    return berth_arena_check(arena, err);
}

/* Nobody starts one any more. */
static void manager_await_end(struct berth_manager *m, const struct berth_worker *w)
{
    pthread_mutex_lock(&m->ground.lock);
    while (w->state != BERTH_WORKER_STOPPED)
        pthread_cond_wait(&m->ground.changed, &m->ground.lock);
    pthread_mutex_unlock(&m->ground.lock);
}

static void manager_pass(struct berth_worker *w)
{
    struct berth_manager *m = berth_container_of(w->ground, struct berth_manager, ground);
    pthread_mutex_lock(&m->ground.lock);
    m->passed = true;
    pthread_cond_broadcast(&m->ground.changed);
    pthread_mutex_unlock(&m->ground.lock);
}

/* What was on its way to a worker when it stopped has arrived afterwards. */
static void pass_all_orders(struct berth_manager *m)
{
    if (!m->first || !give_order(m->first, manager_pass))
        return;
    pthread_mutex_lock(&m->ground.lock);
    while (!m->passed)
        pthread_cond_wait(&m->ground.changed, &m->ground.lock);
    pthread_mutex_unlock(&m->ground.lock);
}

/* Returns false when it was closing already. */
static bool manager_begin_close(struct berth_manager *m, int64_t halt_ms)
{
    pthread_mutex_lock(&m->ground.lock);
    bool first = !m->ground.closing;
    m->ground.closing = true;
    m->ground.halt_ms = first ? halt_ms : m->ground.halt_ms;
    pthread_cond_broadcast(&m->ground.changed);
    pthread_mutex_unlock(&m->ground.lock);
    return first;
}

/* To all at once. */
static void manager_order_all(struct berth_manager *m, void (*run)(struct berth_worker *w))
{
    for (struct berth_worker *w = m->first; w; w = w->next)
        while (!give_order(w, run))
            (void)usleep(RETRY_US);
}

static void manager_halt(struct berth_manager *m, int64_t wait_ms)
{
    if (manager_begin_close(m, wait_ms))
        manager_order_all(m, berth_worker_halt);
}

static void manager_close(struct berth_manager *m)
{
    if (!m)
        return;
    (void)manager_begin_close(m, 0);
    manager_order_all(m, worker_stop_order);
    for (struct berth_worker *w = m->first; w; w = w->next)
        manager_await_end(m, w);
    pass_all_orders(m);
    for (struct berth_worker *w = m->first, *next; w; w = next) {
        next = w->next;
        berth_worker_free(w);
    }
    berth_pool_free(m->ground.pool);
    pthread_cond_destroy(&m->ground.changed);
    pthread_mutex_destroy(&m->ground.lock);
    free(m);
}

const struct berth_manager_ops berth_plugin_manager = {
    .open = manager_open,
    .workers = manager_workers,
    .start = manager_start,
    .stop = manager_stop,
    .follow = manager_follow,
    .status = manager_status,
    .halt = manager_halt,
    .close = manager_close,
};
