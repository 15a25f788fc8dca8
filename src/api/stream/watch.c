/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/watch.c - see watch.h. */
#include "api/stream/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/quick.h"
#include "api/stream/input.h"
#include "api/stream/log_cursor.h"
#include "api/stream/stream.h"
#include "base/auto.h"
#include "base/container.h"
#include "base/json.h"
#include "os/file_watch.h"

/* Between looks at the log and the row of a command that another process runs. */
#define LOOK_MS 50
#define LOOK_MAX_MS 400
#define STEP_WATCHES 16 /* served in one step */
#define CHANGED_MS 10   /* after a change of the log: a busy command is looked at this often */
#define WATCHED_MS 1000 /* while changes of the log are reported: the row may say that it ended */

struct berth_api_watch {
    struct berth_api_stream s; /* first */
    struct berth_api *api;
    bool cancel;                  /* the command ends when the client leaves */
    struct berth_api_input input; /* of a WebSocket */
    uint64_t position;            /* the client's offset: bytes that were sent or skipped */
    bool gone;                    /* the client has left */
    bool hurried;                 /* the daemon is about to end: do not wait for other processes */
    int64_t pause_ms;             /* until the next look, when the last one found nothing */
    struct berth_timer look;
    struct berth_file_watch *log; /* of the log that another process writes, or NULL */
    char log_id[BERTH_ID_SIZE];   /* the command that `log` belongs to */
    bool changed;                 /* the log has changed since the last read began */
    bool waiting;                 /* `look` is set */
    struct berth_api_live *live;  /* the command that sends its output here, or NULL */
    struct berth_api_watch *next, **link;

    struct berth_api_reader reader;
    bool reading; /* a job is running or waits for its turn, and owns the fields below */
    struct berth_api_log_cursor cursor;
    struct berth_error trouble;
    struct berth_post post;
    char turn[BERTH_API_TURN_SIZE]; /* of its call */
};

static struct berth_api_watch *of_post(struct berth_post *post)
{
    return berth_container_of(post, struct berth_api_watch, post);
}

static struct berth_api_watch *of_reader(struct berth_api_reader *reader)
{
    return berth_container_of(reader, struct berth_api_watch, reader);
}

static struct berth_api_watch *of_look(struct berth_timer *timer)
{
    return berth_container_of(timer, struct berth_api_watch, look);
}

static struct berth_api_watch *of_stream(struct berth_api_stream *s)
{
    return (struct berth_api_watch *)s;
}

static void on_read(struct berth_post *post);

static void read_job(void *ctx)
{
    struct berth_api_watch *w = ctx;
    struct berth_error none;
    if (berth_api_log_read(&w->cursor, &w->trouble) == BERTH_OK)
        w->trouble.code = BERTH_OK;
    w->post.run = on_read;
    (void)berth_engine_post(w->api->b->engine, &w->post, &none); /* its loop runs */
}

/* --- on the loop's thread --- */

static void unwatch_log(struct berth_api_watch *w)
{
    berth_file_watch_free(take_ptr(w->log));
}

static void free_watch(struct berth_api_watch *w)
{
    unwatch_log(w);
    berth_timer_clear(w->s.engine, &w->look);
    berth_api_log_clear(&w->cursor);
    berth_api_input_clear(&w->input);
    struct berth_api *api = w->api;
    free(w);
    berth_api_count_stream(api, -1);
}

static void leave(struct berth_api_watch *w)
{
    if (!w->live)
        return;
    if (w->live->at == w)
        w->live->at = w->next;
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    w->live = NULL;
}

static bool watches_step(struct berth_api_live *live);

static const struct berth_api_live_listeners watch_listeners = {.step = watches_step};

static void join(struct berth_api_watch *w, struct berth_api_live *live)
{
    w->live = live;
    w->link = &live->watches;
    w->next = live->watches;
    if (w->next)
        w->next->link = &w->next;
    live->watches = w;
    unwatch_log(w);
    live->listeners = &watch_listeners;
}

static void finish_gone(struct berth_api_watch *w)
{
    struct berth_error none;
    if (w->cancel)
        (void)berth_api_live_cancel(w->api, w->cursor.exec_id, &none);
    free_watch(w);
}

/* Starts the job of a watch whose turn it is, unless it needs none or cannot. */
static void start_reading(struct berth_api_watch *w)
{
    struct berth_error err;
    if (w->s.x && berth_api_quick(w->api->quick, w->turn, read_job, w, &err) == BERTH_OK)
        return;
    berth_api_read_turns_done(&w->api->log_reads, w->turn);
    w->reading = false;
    if (w->s.x)
        berth_timer_set(w->s.engine, &w->look, LOOK_MS);
    else if (w->gone)
        finish_gone(w);
}

/* Lets those read that wait for it. What they find is in memory until the loop has taken it. */
static void let_read(struct berth_api *api)
{
    for (struct berth_api_reader *r; (r = berth_api_read_turns_take(&api->log_reads));)
        start_reading(of_reader(r));
}

static void read_on(struct berth_api_watch *w)
{
    if (w->reading || w->live)
        return;
    w->waiting = w->changed = false;
    w->reading = berth_api_read_turns_put(&w->api->log_reads, w->turn, &w->reader);
    if (w->reading)
        let_read(w->api);
    else
        berth_timer_set(w->s.engine, &w->look, LOOK_MS);
}

static void on_look(struct berth_timer *timer)
{
    read_on(of_look(timer));
}

static void on_gone(struct berth_api_stream *s)
{
    struct berth_api_watch *w = of_stream(s);
    leave(w);
    w->gone = true;
    if (!w->reading)
        finish_gone(w);
}

/* Reads on from the log, which has the output that the client was too slow for. */
static void on_room(struct berth_api_stream *s)
{
    read_on(of_stream(s));
}

static void say_dropped(struct berth_api_watch *w, const char *reason)
{
    auto_buf out = BERTH_BUF_INIT(BERTH_API_EVENTS_BYTES_MAX);
    auto_buf members = BERTH_BUF_INIT(BERTH_API_EVENTS_BYTES_MAX);
    struct berth_json_writer j = {.buf = &members};
    berth_json_put_str(&j, "reason", reason);
    berth_json_put_int(&j, "offset", (int64_t)w->position);
    berth_api_put_event(w->cursor.format, &out, "dropped", w->position, &members);
    if (!out.failed)
        berth_api_stream_put(&w->s, out.data, out.len);
}

static void on_stalled(struct berth_api_stream *s)
{
    struct berth_api_watch *w = of_stream(s);
    say_dropped(w, "The reader did not follow: come back with this offset.");
    w->cancel = false;
    s->code = BERTH_HTTP_CLOSE_POLICY;
    if (!w->cursor.format->event)
        berth_api_stream_abort(s);
}

/* Hurries the watch. Closing a WebSocket here does not cancel its command, which gets the same
 * grace time as every other command. */
static void on_drain(struct berth_api_stream *s)
{
    struct berth_api_watch *w = of_stream(s);
    w->hurried = true;
    if (s->ws)
        w->cancel = false;
    else if (!berth_api_stream_full(s))
        read_on(w);
}

static void end_watch(struct berth_api_watch *w)
{
    leave(w);
    berth_api_stream_end(&w->s);
    free_watch(w);
}

static bool has_heard(const struct berth_api_watch *w, const struct berth_api_live *live,
                      enum berth_stream stream)
{
    return !berth_api_log_wants(&w->cursor, stream) || w->cursor.cut[stream] ||
           w->cursor.seen[stream] == live->said[stream];
}

static void on_log_change(void *ctx)
{
    struct berth_api_watch *w = ctx;
    if (w->waiting && !w->changed)
        berth_timer_set(w->s.engine, &w->look, CHANGED_MS);
    w->changed = true;
}

/* Watches the log of the command. Returns false when that is not possible. */
static bool watch_log(struct berth_api_watch *w)
{
    const struct berth_api_log_cursor *c = &w->cursor;
    if (w->log && strcmp(w->log_id, c->exec_id) == 0)
        return true;
    unwatch_log(w);
    if (!c->log)
        return false;
    memcpy(w->log_id, c->exec_id, sizeof w->log_id);
    w->log = berth_file_watch_new(w->s.engine, c->log, on_log_change, w);
    w->changed = w->log != NULL; /* perhaps: it was read before */
    return w->log;
}

/* Waits for more output after everything was read. */
static void wait_for_more(struct berth_api_watch *w)
{
    struct berth_api_live *live =
        w->cursor.exec_id[0] ? berth_api_live_find(w->api, w->cursor.exec_id) : NULL;
    bool all = live && has_heard(w, live, BERTH_STDOUT) && has_heard(w, live, BERTH_STDERR) &&
               berth_api_log_position(&w->cursor) >= w->cursor.offset;
    if (all) {
        join(w, live);
        return;
    }
    if (w->hurried && !live && !berth_api_is_performed(w->api, w->cursor.run_id)) {
        say_dropped(w, "The daemon ends: come back with this offset.");
        if (!w->cursor.format->event)
            berth_api_stream_abort(&w->s); /* half of it must not look like all */
        end_watch(w);
        return;
    }
    bool watched = !live && watch_log(w) && !w->cursor.ended;
    int64_t least = live ? 1 : LOOK_MS;
    w->pause_ms = w->pause_ms * 2 > LOOK_MAX_MS ? LOOK_MAX_MS : w->pause_ms * 2;
    w->pause_ms = w->pause_ms < least ? least : w->pause_ms;
    w->waiting = true;
    berth_timer_set(w->s.engine, &w->look,
                    w->changed ? CHANGED_MS
                    : watched  ? WATCHED_MS
                               : w->pause_ms);
}

static void on_read(struct berth_post *post)
{
    struct berth_api_watch *w = of_post(post);
    w->reading = false;
    berth_api_read_turns_done(&w->api->log_reads, w->turn);
    let_read(w->api);
    if (!w->s.x) { /* the client has left; on_gone has been called or will be */
        if (w->gone)
            finish_gone(w);
        return;
    }
    uint64_t at = berth_api_log_position(&w->cursor);
    w->position = at > w->cursor.offset ? at : w->cursor.offset;
    if (w->cursor.batch.failed || w->trouble.code)
        say_dropped(w, w->cursor.batch.failed ? "Out of memory." : w->trouble.message);
    else if (w->cursor.batch.len)
        berth_api_stream_put(&w->s, w->cursor.batch.data, w->cursor.batch.len);
    if (w->cursor.batch.len)
        w->pause_ms = 0;
    bool broken = w->cursor.batch.failed || w->trouble.code;
    bool end = broken || w->cursor.over || (w->cursor.idle && !w->cursor.follow);
    berth_buf_clear(&w->cursor.batch); /* nothing is kept while it waits */
    w->cursor.batch = (struct berth_buf)BERTH_BUF_INIT(BERTH_API_EVENTS_BYTES_MAX);
    if (broken) {
        w->s.code = BERTH_HTTP_CLOSE_TROUBLE;
        berth_log_line(&w->api->b->log, BERTH_LOG_WARN, "stream dropped", "execId",
                       w->cursor.exec_id, "error",
                       w->trouble.code ? w->trouble.message : "Out of memory.", NULL);
    }
    if (broken && !w->cursor.format->event)
        berth_api_stream_abort(&w->s); /* half of it must not look like all */
    if (end)
        end_watch(w);
    else if (w->cursor.idle)
        wait_for_more(w);
    else if (!berth_api_stream_full(&w->s))
        read_on(w);
}

/* Lets the watch read the rest from the log, as soon as its client has taken everything. */
static void watch_return_to_log(struct berth_api_watch *w)
{
    leave(w);
    if (!berth_api_stream_full(&w->s))
        read_on(w);
}

static void watch_hear(struct berth_api_watch *w)
{
    const struct berth_buf *text = berth_api_fan_give(&w->live->fan, &w->cursor);
    if (!text) {
        watch_return_to_log(w);
        return;
    }
    w->position = berth_api_log_position(&w->cursor);
    if (text->len)
        berth_api_stream_put(&w->s, text->data, text->len);
    if (w->live && berth_api_stream_full(&w->s))
        leave(w);
}

static bool watches_let_go(struct berth_api_live *live)
{
    for (int i = 0; i < STEP_WATCHES && live->watches; i++)
        watch_return_to_log(live->watches);
    return live->watches;
}

static bool watches_step(struct berth_api_live *live)
{
    if (!live->fan.handing) {
        /* The last round comes before the end: a log that is cut does not have its output. */
        if (!berth_api_fan_begin(&live->fan))
            return live->over && watches_let_go(live);
        live->at = live->watches;
    }
    for (int i = 0; i < STEP_WATCHES && live->at; i++) {
        struct berth_api_watch *w = live->at;
        live->at = w->next;
        watch_hear(w);
    }
    if (!live->at)
        berth_api_fan_end(&live->fan);
    return true;
}

/* --- the beginning --- */

static void on_message(struct berth_api_stream *s, bool text, const char *bytes, size_t len)
{
    berth_api_input_hear(&of_stream(s)->input, text, bytes, len);
}

/* Puts the first message of a WebSocket into the batch. */
static void put_started(struct berth_api_watch *w)
{
    auto_buf members = BERTH_BUF_INIT(BERTH_API_EVENTS_BYTES_MAX);
    struct berth_json_writer j = {.buf = &members};
    struct berth_api_log_cursor *c = &w->cursor;
    berth_json_put_str(&j, "execId", c->exec_id);
    berth_json_put_int(&j, "offset", (int64_t)c->offset);
    berth_api_put_event(c->format, &c->batch, "started", c->offset, &members);
}

static void on_start(struct berth_post *post)
{
    struct berth_api_watch *w = of_post(post);
    struct berth_buf *batch = &w->cursor.batch;
    w->look.run = on_look;
    if (w->s.ws) /* what has come behind the request is answered after the first message */
        berth_http_websocket_hold(w->s.ws, true);
    berth_api_stream_begin(&w->s, w->cursor.format->type);
    if (w->s.ws && !batch->failed) {
        berth_api_stream_put(&w->s, batch->data, batch->len);
        berth_buf_truncate(batch, 0);
    }
    if (w->s.ws)
        berth_http_websocket_hold(w->s.ws, false);
    if (w->s.x)
        read_on(w);
}

static const struct berth_api_output_format *
format_of(const struct berth_api_watch_options *options)
{
    return options->websocket ? &berth_api_format_messages
           : options->events  ? &berth_api_format_events
                              : &berth_api_format_bytes;
}

int berth_api_watch_start(const struct berth_api_call *c,
                          const struct berth_api_watch_options *options, struct berth_error *err)
{
    struct berth_api *api = c->api;
    struct berth_api_watch *w = calloc(1, sizeof *w);
    if (!w)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: stream.");
    *w = (struct berth_api_watch){.api = api,
                                  .cancel = options->cancel,
                                  .position = options->offset,
                                  .post = {.run = on_start}};
    w->cursor = (struct berth_api_log_cursor){.api = api,
                                              .format = format_of(options),
                                              .stream = options->stream,
                                              .offset = options->offset,
                                              .follow = options->follow,
                                              .batch = BERTH_BUF_INIT(BERTH_API_EVENTS_BYTES_MAX)};
    w->s = (struct berth_api_stream){.x = c->x,
                                     .engine = api->b->engine,
                                     .events = options->events,
                                     .ws = options->websocket,
                                     .on_message = on_message,
                                     .on_room = on_room,
                                     .on_stalled = on_stalled,
                                     .on_drain = on_drain,
                                     .on_gone = on_gone};
    (void)snprintf(w->turn, sizeof w->turn, "%s", c->turn);
    berth_api_stream_let_in(&w->s, c);
    (void)snprintf(w->cursor.exec_id, sizeof w->cursor.exec_id, "%s",
                   options->exec_id ? options->exec_id : "");
    (void)snprintf(w->cursor.run_id, sizeof w->cursor.run_id, "%s",
                   options->run_id ? options->run_id : "");
    berth_api_input_init(&w->input, api, w->cursor.exec_id, &w->s);
    if (options->announce)
        berth_api_log_put_event(&w->cursor, "exec", "execId", w->cursor.exec_id, NULL);
    if (options->websocket)
        put_started(w);
    berth_api_count_stream(api, 1);
    int rc = berth_engine_post(api->b->engine, &w->post, err);
    if (rc < 0) {
        berth_api_count_stream(api, -1);
        berth_api_log_clear(&w->cursor);
        free(w);
    }
    return rc;
}

int berth_api_watch_query(struct berth_api_call *c, struct berth_api_watch_options *out,
                          struct berth_error *err)
{
    static const char *const streams[] = {"stdout", "stderr", NULL};
    static const char *const words[] = {"false", "true", NULL};
    int64_t offset;
    int stream, follow;
    int rc = berth_api_query_word(c, "stream", streams, &stream, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_word(c, "follow", words, &follow, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_number(c, "offset", 0, INT64_MAX, 0, &offset, err);
    bool as_events = berth_api_wants_events(c);
    if (rc == BERTH_OK && as_events)
        rc = berth_api_last_event(c, &offset, err);
    if (rc < 0)
        return rc;
    *out = (struct berth_api_watch_options){.stream = stream,
                                            .offset = (uint64_t)offset,
                                            .events = as_events,
                                            .follow = follow == 1 || (as_events && follow != 0)};
    return BERTH_OK;
}
