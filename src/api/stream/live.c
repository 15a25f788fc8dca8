/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/live.c - see live.h. */
#include "api/stream/live.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <berth/run.h>

#include "base/container.h"
#include "base/limits.h"
#include "base/time.h"

#define AGAIN_MS 100

static void run_live(struct berth_work *work);

int berth_api_live_new(struct berth_api *api, struct berth_api_live **out, struct berth_error *err)
{
    struct berth_api_live *live = calloc(1, sizeof *live);
    if (!live)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: command.");
    live->api = api;
    live->work.run = run_live;
    berth_lock_take(&api->lives_lock);
    bool closing = api->closing;
    api->live_count += !closing;
    berth_lock_drop(&api->lives_lock);
    if (closing) {
        free(live);
        return berth_fail(err, BERTH_E_UNAVAILABLE, "The daemon is about to end.");
    }
    *out = live;
    return BERTH_OK;
}

/* Writes the input to the command, then closes its standard input. Bytes that do not fit wait for
 * room. Lock held. */
static void live_feed(struct berth_api_live *live)
{
    struct berth_error err;
    struct berth_buf *in = &live->input;
    if (!live->exec || !in->data)
        return;
    do { /* an empty input is written, too: a place of a plugin is told that it was given */
        size_t left = in->len - live->input_at;
        size_t step = left < BERTH_STDIN_STEP_BYTES ? left : BERTH_STDIN_STEP_BYTES;
        int rc = berth_exec_write(live->exec, in->data + live->input_at, step, &err);
        if (rc == BERTH_E_UNAVAILABLE)
            return;
        live->input_at = rc < 0 ? in->len : live->input_at + step; /* it reads no more */
    } while (live->input_at < in->len);
    explicit_bzero(in->data, in->len);
    berth_buf_clear(in);
    berth_exec_close_stdin(live->exec);
}

void berth_api_live_begin(struct berth_api_live *live, struct berth_exec *exec,
                          struct berth_buf *input)
{
    struct berth_api *api = live->api;
    berth_lock_take(&api->lives_lock);
    (void)snprintf(live->id, sizeof live->id, "%s", berth_exec_id(exec));
    live->exec = exec;
    if (!berth_map_put(&api->lives, live->id, live))
        berth_exec_cancel(exec); /* requests could not find it */
    if (input) {
        live->input = *input;
        *input = (struct berth_buf){0};
    }
    live_feed(live);
    berth_lock_drop(&api->lives_lock);
}

/* --- waiters for room --- */

void berth_api_waiter_leave(struct berth_api_waiter *w)
{
    struct berth_api_live *live = w->live;
    if (!live)
        return;
    *(w->previous ? &w->previous->next : &live->waiters) = w->next;
    *(w->next ? &w->next->previous : &live->last_waiter) = w->previous;
    w->live = NULL;
}

/* Adds the waiter behind `previous`; NULL: at the front. */
static void waiter_join(struct berth_api_live *live, struct berth_api_waiter *previous,
                        struct berth_api_waiter *w)
{
    w->live = live;
    w->previous = previous;
    w->next = previous ? previous->next : live->waiters;
    *(previous ? &previous->next : &live->waiters) = w;
    *(w->next ? &w->next->previous : &live->last_waiter) = w;
}

bool berth_api_live_wait(struct berth_api *api, const char *id, struct berth_api_waiter *w)
{
    struct berth_api_live *live = berth_api_live_find(api, id);
    if (!live)
        return false;
    waiter_join(live, live->last_waiter, w);
    return true;
}

/* Wakes waiters in their order, until one finds no room: it stays the first. */
static void wake(struct berth_api_live *live)
{
    for (struct berth_api_waiter *w; (w = live->waiters);) {
        berth_api_waiter_leave(w);
        w->on_room(w); /* frees it, unless it waits again */
        if (live->last_waiter != w)
            continue;
        berth_api_waiter_leave(w);
        waiter_join(live, NULL, w);
        return;
    }
}

void berth_api_live_room(struct berth_api_live *live)
{
    berth_lock_take(&live->api->lives_lock);
    live_feed(live);
    berth_lock_drop(&live->api->lives_lock);
    wake(live);
}

void berth_api_live_output(struct berth_api_live *live, enum berth_stream stream, const char *bytes,
                           size_t len)
{
    if (live->watches) {
        berth_api_fan_add(&live->fan, stream, live->said[stream], bytes, len);
        berth_work_put(live->api->b->engine, &live->work);
    }
    live->said[stream] += len;
}

/* --- its end --- */

static void live_free(struct berth_api_live *live)
{
    struct berth_api *api = live->api;
    if (live->on_over)
        live->on_over(live->ctx);
    berth_api_fan_clear(&live->fan);
    free(live);
    berth_lock_take(&api->lives_lock);
    api->live_count--;
    pthread_cond_broadcast(&api->lives_changed);
    berth_lock_drop(&api->lives_lock);
}

static void run_live(struct berth_work *work)
{
    struct berth_api_live *live = berth_container_of(work, struct berth_api_live, work);
    if (live->watches && live->listeners->step(live))
        berth_work_put(live->api->b->engine, work);
    else if (live->over)
        live_free(live);
}

static void on_over(struct berth_post *post)
{
    struct berth_api_live *live = berth_container_of(post, struct berth_api_live, post);
    live->over = true;
    wake(live);
    berth_work_put(live->api->b->engine, &live->work);
}

void berth_api_live_end(struct berth_api_live *live)
{
    struct berth_api *api = live->api;
    struct berth_error none;
    berth_lock_take(&api->lives_lock);
    if (live->id[0])
        (void)berth_map_remove(&api->lives, live->id);
    live->exec = NULL;
    if (live->input.data)
        explicit_bzero(live->input.data, live->input.len);
    berth_buf_clear(&live->input);
    berth_lock_drop(&api->lives_lock);
    live->post.run = on_over;
    (void)berth_engine_post(api->b->engine, &live->post, &none); /* its loop runs */
}

/* --- by name --- */

/* Lock held. */
static struct berth_api_live *live_of(struct berth_api *api, const char *id)
{
    struct berth_id parsed;
    struct berth_error none;
    return berth_id_parse(id, "Exec", &parsed, &none) < 0 ? NULL
                                                          : berth_map_get(&api->lives, parsed.text);
}

static struct berth_exec *exec_of(struct berth_api *api, const char *id)
{
    const struct berth_api_live *live = live_of(api, id);
    return live ? live->exec : NULL;
}

static int not_here(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_CONFLICT, "The command does not run here, or not any more.");
}

int berth_api_live_cancel(struct berth_api *api, const char *id, struct berth_error *err)
{
    berth_lock_take(&api->lives_lock);
    struct berth_exec *exec = exec_of(api, id);
    if (exec)
        berth_exec_cancel(exec);
    berth_lock_drop(&api->lives_lock);
    return exec ? BERTH_OK : not_here(err);
}

int berth_api_live_write(struct berth_api *api, const char *id, const char *bytes, size_t len,
                         bool close, struct berth_error *err)
{
    berth_lock_take(&api->lives_lock);
    struct berth_exec *exec = exec_of(api, id);
    int rc = exec ? BERTH_OK : not_here(err);
    if (rc == BERTH_OK && live_of(api, id)->input.data)
        rc = berth_fail(err, BERTH_E_CONFLICT, "The command still reads what came with it.");
    if (rc == BERTH_OK && len)
        rc = berth_exec_write(exec, bytes, len, err);
    if (rc == BERTH_OK && close)
        berth_exec_close_stdin(exec);
    berth_lock_drop(&api->lives_lock);
    return rc;
}

int berth_api_live_resize(struct berth_api *api, const char *id, unsigned short rows,
                          unsigned short columns, struct berth_error *err)
{
    berth_lock_take(&api->lives_lock);
    struct berth_exec *exec = exec_of(api, id);
    if (exec)
        berth_exec_resize(exec, rows, columns);
    berth_lock_drop(&api->lives_lock);
    return exec ? BERTH_OK : not_here(err);
}

struct berth_api_live *berth_api_live_find(struct berth_api *api, const char *id)
{
    berth_lock_take(&api->lives_lock);
    struct berth_api_live *live = berth_map_get(&api->lives, id);
    berth_lock_drop(&api->lives_lock);
    return live;
}

void berth_api_count_stream(struct berth_api *api, int by)
{
    berth_lock_take(&api->lives_lock);
    api->stream_count += by;
    pthread_cond_broadcast(&api->lives_changed);
    berth_lock_drop(&api->lives_lock);
}

void berth_api_await_streams(struct berth_api *api)
{
    berth_lock_take(&api->lives_lock);
    while (api->stream_count)
        berth_lock_wait(&api->lives_lock, &api->lives_changed);
    berth_lock_drop(&api->lives_lock);
}

/* Lock held. */
static void cancel_all(struct berth_api *api)
{
    const char *id;
    size_t at = 0;
    for (struct berth_api_live *live; (live = berth_map_next(&api->lives, &at, &id));)
        berth_exec_cancel(live->exec);
    at = 0;
    for (struct berth_api_run *run; (run = berth_map_next(&api->runs, &at, &id));)
        berth_run_cancel(run->job);
}

void berth_api_live_end_all(struct berth_api *api, int64_t end_ms)
{
    bool calls_cancelled = false;
    berth_lock_take(&api->lives_lock);
    api->closing |= end_ms <= berth_time_mono_ms();
    while (api->live_count || api->run_count) {
        int64_t left_ms = end_ms - berth_time_mono_ms();
        api->closing |= left_ms <= 0;
        if (left_ms <= 0)
            cancel_all(api);
        if (left_ms <= -BERTH_STOP_CALLS_MS && !calls_cancelled) {
            calls_cancelled = true;
            berth_lock_drop(&api->lives_lock);
            berth_cancel_calls(api->b, BERTH_STOP_WORKERS_MS);
            berth_lock_take(&api->lives_lock);
            continue;
        }
        struct timespec until = berth_time_until(
            left_ms > 0 && left_ms < AGAIN_MS ? left_ms : AGAIN_MS); /* one may have begun */
        (void)berth_lock_wait_until(&api->lives_lock, &api->lives_changed, &until);
    }
    api->closing = true;
    berth_lock_drop(&api->lives_lock);
}
