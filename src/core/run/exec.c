/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/exec.c - a command in the place of a lease. Its output goes, masked, to the caller
 * and to a queue on the engine's thread; a job on the pool writes the queue to the log, and the
 * child waits when that cannot follow. What comes after its end is a job there, too. */
#include "core/run/exec.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/container.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/lock.h"
#include "base/time.h"
#include "core/lease/lease.h"
#include "core/lease/lease_work.h"
#include "core/lease/lease_execs.h"
#include "core/lease/ledger.h"
#include "core/lease/node.h"
#include "core/lock_order.h"
#include "core/metrics.h"
#include "core/paths.h"
#include "core/run/exec_command.h"
#include "core/run/exec_journal.h"
#include "core/run/exec_result.h"
#include "core/run/exec_rows.h"
#include "core/run/masking.h"
#include "os/engine.h"
#include "os/framelog.h"
#include "os/fs.h"
#include "os/pool.h"
#include "os/shares.h"
#include "os/spawn.h"
#include "store/store.h"

#define RESULT_BYTES_MAX 4096
#define SETTLE_MS 30000
#define SLICE_BYTES ((size_t)64 * 1024) /* of output, masked in one turn of the engine */

/* One stream of a command. */
struct exec_stream {
    struct berth_exec *x;
    struct berth_mask *mask; /* used on the engine's thread only */
    bool lost;               /* there was no memory for some of the output */
};

/* Output on its way: from another thread to the engine's, or masked and on its way to the log. */
struct chunk {
    struct berth_post post;
    struct chunk *next;
    struct exec_stream *stream;
    int64_t at_ms;
    size_t len, masked; /* masked: how many of the bytes were handed on */
    char bytes[];
};

struct berth_exec {
    struct berth *b;
    struct berth_arena arena;
    struct berth_id id;
    char label[sizeof "BERTH_EXEC_ID=" + BERTH_ID_SIZE];
    char *log_path;
    struct berth_lease *lease;
    const struct berth_route *route;
    const char *words;               /* the command line as it may be shown */
    struct berth_exec_record record; /* its row */
    bool begun;                      /* the node knows of it */
    struct berth_lease_exec entry;
    struct berth_exec_handlers handlers; /* the caller's */
    struct exec_stream streams[2];
    struct berth_masking masking; /* of its secrets; its mask is that of the first stream */

    /* Output that is masked in later turns, and whether the end waits behind it: the engine's
     * thread alone. */
    struct chunk *unmasked, **unmasked_tail;
    struct berth_post slice_post;
    bool ending;

    struct berth_framelog *log; /* the job's alone; NULL until there is output */
    bool logless;               /* it cannot be made */
    uint64_t log_limit;

    struct berth_lock lock;
    pthread_cond_t changed;
    struct berth_running *running; /* NULL until it has been started */
    struct chunk *head, **tail;
    size_t queued;
    bool behind;   /* the log cannot follow */
    bool held;     /* the caller wants no more for now */
    bool unwanted; /* its lease is over */
    bool writing;  /* a job is at work on the queue */
    bool ended;    /* the command is; `end` says how */
    bool done;     /* and everything after it */
    struct berth_job settle_job;
    struct berth_post end_post; /* carries an end from another thread to the engine's */
    int waiters; /* one of them does what comes after the end, and no thread is woken for it */
    struct berth_exec_end end;
};

bool berth_exec_outlasted(struct berth_exec *x)
{
    berth_lock_take(&x->lock);
    bool unwanted = x->unwanted;
    berth_lock_drop(&x->lock);
    return unwanted;
}

bool berth_exec_truncated(const struct berth_exec *x)
{
    return x->record.truncated;
}

static enum berth_stream stream_number(const struct exec_stream *s)
{
    return (enum berth_stream)(s - s->x->streams);
}

/* Returns whether the place must be asked how the command ended, or what is left of it. */
static bool exec_needs_settle(const struct berth_exec *x)
{
    return x->end.cause == BERTH_END_LOST || x->end.cut[0] || x->end.cut[1];
}

/* --- the log, on the pool --- */

/* Asks the place how the command ended, when the connection broke or a process still held its
 * streams. When the place cannot be asked, the end is not known; remaining processes end with the
 * lease at the latest. */
static void exec_settle(struct berth_exec *x)
{
    struct berth_error err;
    auto_driver_input use = {0};
    struct berth_call call = berth_ledger_call(x->b, x->route, &x->arena, SETTLE_MS, -1);
    struct berth_place place = berth_ledger_place(x->lease);
    struct berth_exec_end end = x->end; /* one that is known stays: only what is left is ended */
    int rc = berth_ledger_input(x->b, &x->arena, x->lease, &use, &err);
    if (rc == BERTH_OK)
        rc = berth_driver_exec_settle(x->route, &call, &use.who, &place, x->id.text, &end, &err);
    if (x->end.cause == BERTH_END_LOST)
        x->end = end;
    if (rc < 0) {
        berth_driver_input_mask_error(&use, &err);
        berth_log_line(&x->b->log, BERTH_LOG_WARN, "end of a command not known", "execId",
                       x->id.text, "error", err.message, NULL);
    }
}

static void end_log(struct berth_exec *x)
{
    auto_buf buf = BERTH_BUF_INIT(RESULT_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    struct berth_error err;
    berth_json_open(&w, '{');
    berth_exec_end_fields(&w, &x->end, x->record.truncated);
    berth_json_close(&w, '}');
    if (buf.failed ||
        berth_framelog_end(x->log, berth_buf_str(&buf), x->end.finished_at_ms, &err) < 0)
        berth_log_line(&x->b->log, BERTH_LOG_WARN, "end of a log not written", "execId", x->id.text,
                       NULL);
}

static void exec_finish(struct berth_exec *x)
{
    for (int i = 0; i < 2; i++)
        x->record.truncated |= x->streams[i].lost || x->end.cut[i] || x->logless ||
                               (x->log && berth_framelog_was_cut(x->log, (enum berth_frame_kind)i));
    if (exec_needs_settle(x))
        exec_settle(x);
    berth_metrics_observe(x->b->metrics, BERTH_METRIC_EXEC,
                          (x->end.finished_at_ms - x->end.started_at_ms) * 1000);
    x->record.ended = true;
    x->record.end = x->end;
    berth_exec_journal_end(x->b, &x->record);
    if (x->log)
        end_log(x);
    berth_lease_execs_leave(x->b, &x->entry);
    if (x->handlers.on_end)
        x->handlers.on_end(x->handlers.ctx, &x->end);
    berth_lock_take(&x->lock);
    x->done = true;
    pthread_cond_broadcast(&x->changed);
    berth_lock_drop(&x->lock);
}

/* With the first output. The directory is there, but for the first time. */
static int open_log(struct berth_exec *x, struct berth_error *err)
{
    auto_free char *directory = NULL;
    int rc = berth_framelog_create(x->log_path, x->log_limit, &x->log, err);
    if (rc == BERTH_OK || err->os_errno != ENOENT)
        return rc;
    rc = berth_directory(x->b, "logs", &directory, err);
    if (rc == BERTH_OK)
        rc = berth_fs_mkdirs(directory, 0700, err);
    return rc < 0 ? rc : berth_framelog_create(x->log_path, x->log_limit, &x->log, err);
}

static void write_chunk(struct berth_exec *x, struct chunk *chunk)
{
    struct berth_error err;
    int rc = BERTH_OK;
    if (!x->log && !x->logless) {
        rc = open_log(x, &err);
        x->logless = rc < 0;
    }
    if (x->log)
        rc = berth_framelog_write(x->log, (enum berth_frame_kind)stream_number(chunk->stream),
                                  chunk->bytes, chunk->len, chunk->at_ms, &err);
    if (rc < 0) /* once: the rest is counted only */
        berth_log_line(&x->b->log, BERTH_LOG_WARN, "log cut", "execId", x->id.text, "error",
                       err.message, NULL);
    free(chunk);
}

/* Pauses or resumes the command's output. Does nothing before it is started. Lock held. */
static void set_pause(struct berth_exec *x)
{
    if (x->running && !x->ended)
        x->running->ops->pause(x->running, x->behind || x->held);
}

static void finish_job(void *ctx)
{
    exec_finish(ctx);
}

/* Queues finish_job. It has a share of its own: a job of the provider's share may wait for it. */
static int settle_put(struct berth_exec *x)
{
    struct berth_error none;
    struct berth_share *share;
    auto_free char *name = NULL;
    const struct berth_lease *l = x->lease;
    if (asprintf(&name, "ends of commands: %s", l->provider ? l->provider : l->driver) < 0) {
        name = NULL;
        return BERTH_E_NO_MEMORY;
    }
    int rc = berth_share_open(x->b->providers, name, NULL, &share, &none);
    if (rc < 0)
        return rc;
    x->settle_job = (struct berth_job){.fn = finish_job, .ctx = x};
    berth_share_put(share, &x->settle_job);
    berth_share_close(share);
    return BERTH_OK;
}

static void log_job(void *ctx)
{
    struct berth_exec *x = ctx;
    berth_lock_take(&x->lock);
    while (x->head) {
        struct chunk *chunk = x->head;
        x->head = chunk->next;
        if (!x->head)
            x->tail = &x->head;
        size_t len = chunk->len;
        berth_lock_drop(&x->lock);
        write_chunk(x, chunk);
        berth_lock_take(&x->lock);
        x->queued -= len;
        if (x->behind && x->queued < BERTH_PIPE_QUEUE_BYTES_MAX / 2) {
            x->behind = false;
            set_pause(x);
        }
    }
    bool last = x->ended && !x->done;
    x->writing = last; /* no other thread may finish it */
    berth_lock_drop(&x->lock);
    bool asks = last && exec_needs_settle(x);
    /* To ask the place takes long: not here, where heartbeats and logs would wait behind it. */
    if (asks && settle_put(x) == BERTH_OK)
        return;
    if (last)
        exec_finish(x);
}

/* Lock held. Without a thread or memory for the job the writing is done here, for once. */
static bool start_job(struct berth_exec *x)
{
    struct berth_error ignored;
    if (x->writing)
        return true;
    x->writing = true;
    return berth_pool_submit(x->b->pool, log_job, x, &ignored) == BERTH_OK;
}

/* --- on the engine's thread --- */

static struct chunk *chunk_new(struct exec_stream *s, const char *bytes, size_t len)
{
    struct chunk *chunk = malloc(sizeof *chunk + len);
    if (!chunk)
        return NULL;
    *chunk = (struct chunk){.stream = s, .at_ms = berth_time_wall_ms(), .len = len};
    memcpy(chunk->bytes, bytes, len);
    return chunk;
}

/* Queues masked output for the log and hands it to the caller. */
static void exec_emit(void *ctx, const char *bytes, size_t len)
{
    struct exec_stream *s = ctx;
    struct berth_exec *x = s->x;
    if (!len)
        return;
    struct chunk *chunk = chunk_new(s, bytes, len);
    bool here = false;
    berth_lock_take(&x->lock);
    if (chunk) {
        *x->tail = chunk;
        x->tail = &chunk->next;
        x->queued += len;
        if (x->queued > BERTH_PIPE_QUEUE_BYTES_MAX && !x->behind) {
            x->behind = true;
            set_pause(x);
        }
        here = !start_job(x);
    } else {
        s->lost = true;
    }
    berth_lock_drop(&x->lock);
    if (here)
        log_job(x);
    if (x->handlers.on_output)
        x->handlers.on_output(x->handlers.ctx, stream_number(s), bytes, len);
}

static void run_end(struct berth_post *post);

/* Masks one slice of the output that waits. The engine serves others before the next one. */
static void run_slice(struct berth_post *post)
{
    struct berth_exec *x = berth_container_of(post, struct berth_exec, slice_post);
    struct chunk *chunk = x->unmasked;
    size_t left = chunk->len - chunk->masked, len = left < SLICE_BYTES ? left : SLICE_BYTES;
    struct exec_stream *s = chunk->stream;
    berth_mask_put(s->mask, chunk->bytes + chunk->masked, len, exec_emit, s);
    chunk->masked += len;
    if (len == left) {
        x->unmasked = chunk->next;
        free(chunk);
    }
    struct berth_error none; /* the engine runs, so a post cannot fail */
    if (x->unmasked)
        (void)berth_engine_post(x->b->engine, &x->slice_post, &none);
    else if (x->ending)
        run_end(&x->end_post);
}

/* Takes over a chunk, to mask it behind the others in slices. */
static void exec_queue_chunk(struct berth_exec *x, struct chunk *chunk)
{
    struct berth_error none;
    chunk->next = NULL;
    if (!x->unmasked) {
        x->unmasked_tail = &x->unmasked;
        (void)berth_engine_post(x->b->engine, &x->slice_post, &none);
    }
    *x->unmasked_tail = chunk;
    x->unmasked_tail = &chunk->next;
}

static void run_chunk(struct berth_post *post)
{
    struct chunk *chunk = berth_container_of(post, struct chunk, post);
    struct exec_stream *s = chunk->stream;
    if (s->x->unmasked || chunk->len > SLICE_BYTES) {
        exec_queue_chunk(s->x, chunk);
        return;
    }
    berth_mask_put(s->mask, chunk->bytes, chunk->len, exec_emit, s);
    free(chunk);
}

/* Takes output of the driver, which may speak on any thread. */
static void on_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    struct berth_exec *x = ctx;
    struct exec_stream *s = &x->streams[stream];
    struct berth_error none;
    bool here = berth_engine_is_here(x->b->engine);
    if (here && !x->unmasked && len <= SLICE_BYTES) {
        berth_mask_put(s->mask, bytes, len, exec_emit, s);
        return;
    }
    struct chunk *chunk = chunk_new(s, bytes, len);
    if (chunk && here) {
        exec_queue_chunk(x, chunk);
        return;
    }
    if (chunk)
        chunk->post.run = run_chunk;
    if (!chunk || berth_engine_post(x->b->engine, &chunk->post, &none) < 0) {
        berth_lock_take(&x->lock);
        s->lost = true;
        berth_lock_drop(&x->lock);
        free(chunk);
    }
}

static void on_stdin_room(void *ctx)
{
    struct berth_exec *x = ctx;
    if (x->handlers.on_stdin_room)
        x->handlers.on_stdin_room(x->handlers.ctx);
}

/* The command has ended as x->end says, and all of its output has come. */
static void run_end(struct berth_post *post)
{
    struct berth_exec *x = berth_container_of(post, struct berth_exec, end_post);
    x->ending = true;
    if (x->unmasked)
        return; /* run_slice comes back to it */
    for (int i = 0; i < 2; i++)
        berth_mask_end(x->streams[i].mask, exec_emit, &x->streams[i]);
    berth_lock_take(&x->lock);
    assert(!x->ended);
    x->ended = true;
    bool here = false;
    bool asks = exec_needs_settle(x);
    if (x->waiters)
        pthread_cond_broadcast(&x->changed);
    else if (x->handlers.quick_end && !x->writing && !asks) /* all that is left is a short write */
        here = x->writing = true;
    else
        here = !start_job(x); /* one that is at work sees the end, too */
    berth_lock_drop(&x->lock);
    if (here)
        log_job(x);
}

/* Set while this thread calls the driver for a caller, who may hold locks that the end needs. An
 * end that the driver reports meanwhile is posted. */
static _Thread_local bool calls_driver;

/* Takes the end from the driver, on any thread: it comes after all output that was posted. */
static void on_end(void *ctx, const struct berth_exec_end *end)
{
    struct berth_exec *x = ctx;
    struct berth_error none;
    x->end = *end; /* the others read it once x->ended is set */
    if ((berth_engine_is_here(x->b->engine) && !calls_driver) ||
        berth_engine_post(x->b->engine, &x->end_post, &none) < 0)
        run_end(&x->end_post);
}

/* --- starting --- */

static int make_masks(struct berth_exec *x, const struct berth_exec_request *r,
                      const struct berth_driver_input *use, struct berth_error *err)
{
    int known = use->values ? use->references.count : 0, count = known + r->secret_count;
    struct berth_pattern *all = berth_arena_alloc(&x->arena, (size_t)(count + 1) * sizeof *all);
    if (!all)
        return berth_arena_check(&x->arena, err);
    for (int i = 0; i < count; i++) {
        const struct berth_locked *value = i < known ? &use->values[i] : &r->secrets[i - known];
        all[i] = (struct berth_pattern){value->bytes, value->len};
    }
    berth_masking_init(&x->masking, x->b, x->lease->company_id, all, (size_t)count);
    int rc = berth_masking_make(&x->masking, err);
    if (rc < 0)
        return rc;
    x->streams[0].mask = x->masking.mask;
    rc = berth_mask_twin(x->streams[0].mask, &x->streams[1].mask, err);
    if (rc == BERTH_OK) /* before the command starts, its streams are free for its words */
        rc = berth_exec_command_words(&x->arena, r->argv, &x->masking, &x->words, err);
    return rc;
}

struct berth_masking *berth_exec_masking(struct berth_exec *x)
{
    return &x->masking;
}

static int begin_record(struct berth_exec *x, const struct berth_exec_request *r,
                        struct berth_error *err)
{
    const char *cwd = berth_exec_command_text(&x->arena, &x->masking, r->cwd);
    x->record = (struct berth_exec_record){.id = x->id.text,
                                           .company_id = x->lease->company_id,
                                           .environment_id = x->lease->environment_id,
                                           .lease_id = x->lease->id,
                                           .run_id = x->lease->heartbeat_run_id,
                                           .command = x->words,
                                           .cwd = cwd,
                                           .owner = berth_node_id(x->b->node),
                                           .end = {.started_at_ms = berth_time_wall_ms()}};
    int rc = berth_arena_check(&x->arena, err);
    if (rc == BERTH_OK)
        rc = berth_node_claim(x->b->node, x->id.text, err); /* no sweep takes it for a dead one's */
    x->begun = rc == BERTH_OK;
    return rc < 0 ? rc : berth_exec_journal_begin(x->b, &x->record, err);
}

static int exec_start(struct berth_exec *x, const struct berth_exec_request *r,
                      struct berth_error *err)
{
    struct berth_command command = {.id = x->id.text,
                                    .argv = r->argv,
                                    .cwd = r->cwd,
                                    .with_stdin = r->with_stdin,
                                    .terminal = r->terminal,
                                    .rows = r->rows,
                                    .columns = r->columns,
                                    .timeout_ms = r->timeout_ms,
                                    .grace_ms = r->grace_ms};
    auto_driver_input use = {0};
    auto_arena names = BERTH_ARENA_INIT; /* what it holds of values is the caller's */
    int rc = berth_lease_begin_use(x->b, &x->arena, r->lease_id, &x->lease, &x->route, err);
    if (rc == BERTH_OK)
        rc = berth_lease_work_renew(x->b, x->lease, err); /* the command may make new work */
    if (rc == BERTH_OK)
        rc = berth_exec_command_env(&names, x->lease, x->label, r->env, &command.env, err);
    if (rc == BERTH_OK)
        rc = berth_ledger_input(x->b, &x->arena, x->lease, &use, err);
    if (rc == BERTH_OK)
        rc = make_masks(x, r, &use, err);
    if (rc == BERTH_OK)
        rc = berth_exec_rows_log(x->b, x->id.text, &x->log_path, err);
    if (rc < 0)
        return rc;
    x->log_limit = r->log_bytes_max ? r->log_bytes_max : x->b->settings.log_bytes_max;
    if (r->typed_stdin && berth_route_traits(x->route)->whole_stdin)
        command.with_stdin = false; /* it would wait for a person who waits for it */
    struct berth_place place = berth_ledger_place(x->lease);
    struct berth_exec_handlers ours = {
        .on_output = on_output, .on_stdin_room = on_stdin_room, .on_end = on_end, .ctx = x};
    struct berth_running *running;
    struct berth_call call = berth_ledger_call(x->b, x->route, &x->arena, 0, -1);
    rc = begin_record(x, r, err);
    if (rc < 0)
        return rc;
    rc = berth_driver_exec_start(x->route, &call, &use.who, &place, &command, &ours, &running, err);
    if (rc < 0) {
        berth_driver_input_mask_error(&use, err);
        berth_masking_hide_error(&x->masking, err); /* errors name the command */
        berth_exec_journal_void(x->b, x->id.text);
        return rc;
    }
    berth_exec_journal_started(x->b, x->id.text);
    berth_lock_take(&x->lock);
    x->running = running;
    set_pause(x);
    if (x->unwanted)
        running->ops->cancel(running);
    berth_lock_drop(&x->lock);
    return BERTH_OK;
}

/* With the roster's lock: it is not freed meanwhile. */
static void end_unwanted(struct berth_lease_exec *entry)
{
    struct berth_exec *x = berth_container_of(entry, struct berth_exec, entry);
    berth_lock_take(&x->lock);
    bool now = x->running && !x->unwanted;
    x->unwanted = true;
    if (now)
        x->running->ops->cancel(x->running);
    berth_lock_drop(&x->lock);
}

static void free_exec(struct berth_exec *x)
{
    berth_lease_execs_leave(x->b, &x->entry);
    if (x->begun)
        berth_node_unclaim(x->b->node, x->id.text);
    if (x->running)
        x->running->ops->free(x->running);
    for (struct chunk *chunk = x->head, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    berth_mask_free(x->streams[1].mask);
    berth_masking_clear(&x->masking);
    berth_framelog_close(x->log);
    free(x->log_path);
    berth_arena_clear(&x->arena);
    pthread_cond_destroy(&x->changed);
    berth_lock_destroy(&x->lock);
    free(x);
}

int berth_exec_start(struct berth *b, const struct berth_exec_request *request,
                     const struct berth_exec_handlers *handlers, struct berth_exec **out,
                     struct berth_error *err)
{
    if (!request->argv || !request->argv[0])
        return berth_fail(err, BERTH_E_INVALID, "The command is missing.");
    struct berth_exec *x = calloc(1, sizeof *x);
    if (!x)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: command.");
    x->b = b;
    x->id = berth_id_new();
    (void)snprintf(x->label, sizeof x->label, "BERTH_EXEC_ID=%s", x->id.text);
    x->tail = &x->head;
    x->end_post.run = run_end;
    x->slice_post.run = run_slice;
    x->streams[0].x = x->streams[1].x = x;
    if (handlers)
        x->handlers = *handlers;
    berth_lock_init(&x->lock, BERTH_RANK_EXEC);
    pthread_cond_init(&x->changed, NULL);
    x->entry.end = end_unwanted;
    x->entry.label = x->label;
    if (berth_id_parse(request->lease_id, "Lease", &x->entry.lease_id, err) == BERTH_OK)
        berth_lease_execs_enter(b, &x->entry);
    int rc = exec_start(x, request, err);
    if (rc < 0)
        free_exec(x);
    else
        *out = x;
    return rc;
}

/* --- while it runs --- */

void berth_exec_wait(struct berth_exec *x, struct berth_exec_end *end)
{
    assert(!berth_engine_is_here(x->b->engine)); /* it would wait for itself */
    berth_lock_take(&x->lock);
    x->waiters++;
    while (!x->done) {
        if (!x->ended || x->writing) {
            berth_lock_wait(&x->lock, &x->changed);
            continue;
        }
        x->writing = true;
        berth_lock_drop(&x->lock);
        log_job(x);
        berth_lock_take(&x->lock);
    }
    x->waiters--;
    *end = x->end;
    berth_lock_drop(&x->lock);
}

void berth_exec_cancel(struct berth_exec *x)
{
    calls_driver = true;
    x->running->ops->cancel(x->running);
    calls_driver = false;
}

int berth_exec_write(struct berth_exec *x, const void *bytes, size_t len, struct berth_error *err)
{
    calls_driver = true;
    int rc = x->running->ops->write(x->running, bytes, len, err);
    calls_driver = false;
    return rc;
}

void berth_exec_close_stdin(struct berth_exec *x)
{
    calls_driver = true;
    x->running->ops->close_stdin(x->running);
    calls_driver = false;
}

void berth_exec_pause(struct berth_exec *x, bool paused)
{
    berth_lock_take(&x->lock);
    if (x->held != paused) {
        x->held = paused;
        set_pause(x);
    }
    berth_lock_drop(&x->lock);
}

void berth_exec_resize(struct berth_exec *x, unsigned short rows, unsigned short columns)
{
    x->running->ops->resize(x->running, rows, columns);
}

const char *berth_exec_id(const struct berth_exec *x)
{
    return x->id.text;
}

const char *berth_exec_log(const struct berth_exec *x)
{
    return x->log_path;
}

bool berth_exec_free_now(struct berth_exec *x)
{
    berth_lock_take(&x->lock);
    bool quick = x->done && x->running->ops->quick_free;
    berth_lock_drop(&x->lock);
    if (quick)
        free_exec(x);
    return quick;
}

void berth_exec_free(struct berth_exec *x)
{
    if (!x)
        return;
    struct berth_exec_end ignored;
    berth_exec_wait(x, &ignored);
    free_exec(x);
}
