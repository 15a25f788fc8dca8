/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/watch.c - see watch.h. */
#include "api/stream/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/stream/input.h"
#include "api/stream/stream.h"
#include "base/auto.h"
#include "base/base64.h"
#include "base/container.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"
#include "core/run/exec.h"
#include "core/run/exec_result.h"
#include "core/run/exec_rows.h"
#include "core/run/run.h"
#include "os/framelog.h"
#include "os/pool.h"

#define PIECE_BYTES_MAX ((size_t)8 * 1024) /* of output, in one event */
#define BATCH_BYTES ((size_t)16 * 1024)    /* of events, in one go */
#define EVENTS_BYTES_MAX ((size_t)1024 * 1024)
#define LOOK_MS 50 /* between looks at a log that another process writes */
#define LOOK_MAX_MS 400

struct berth_api_watch {
    struct berth_api_stream s; /* first */
    struct berth_api *api;
    struct berth_api_watch_options options; /* the ids are in exec_id and run_id */
    const struct voice *voice;
    struct berth_api_input input; /* of a WebSocket */
    char exec_id[BERTH_ID_SIZE], run_id[BERTH_ID_SIZE];
    char last_id[BERTH_ID_SIZE]; /* of the run's command before this one, or "" */
    uint64_t position; /* bytes that were passed on, or are not wanted: the reader's offset */
    uint64_t before;   /* bytes of the commands before */
    uint64_t seen[2];  /* of this command: where its next byte is */
    uint64_t mark;     /* in the log: the first frame that has something new; 0: at its beginning */

    bool gone;    /* the client has left */
    bool hurried; /* the daemon is about to end: do not wait for other processes */
    bool reading; /* a job is running; the fields below belong to it */
    struct berth_buf batch;
    bool idle, over;  /* no more output for now; no more at all */
    bool cut[2];      /* the log has no more of that stream */
    bool ended;       /* its row says that the command is over */
    bool logless;     /* it has no log, or none yet */
    int64_t pause_ms; /* until the next look, when the last brought nothing */
    struct berth_error trouble;
    struct berth_post post;

    struct berth_timer look;
    struct berth_api_live *live; /* that it listens to, or NULL */
    struct berth_api_watch *next, **link;
};

static struct berth_api_watch *of_post(struct berth_post *post)
{
    return berth_container_of(post, struct berth_api_watch, post);
}

static struct berth_api_watch *of_look(struct berth_timer *timer)
{
    return berth_container_of(timer, struct berth_api_watch, look);
}

static struct berth_api_watch *of_stream(struct berth_api_stream *s)
{
    return (struct berth_api_watch *)s;
}

/* --- how it is said --- */

static const char *const stream_names[] = {"stdout", "stderr"};

struct piece {
    uint64_t id; /* the reader's offset behind it */
    enum berth_stream stream;
    uint64_t offset; /* in its stream */
    int64_t at_ms;   /* when it was written, by the wall clock */
    const char *bytes;
    size_t len;
};

struct voice {
    const char *type; /* content type of the answer; NULL for a WebSocket */
    void (*output)(struct berth_buf *out, const struct piece *p);
    /* By the members of an object; NULL: nothing is said but the output. */
    void (*event)(struct berth_buf *out, const char *name, uint64_t id,
                  const struct berth_buf *members);
};

static void put_bare(struct berth_buf *out, const struct piece *p)
{
    berth_buf_append(out, p->bytes, p->len);
}

static void put_sse(struct berth_buf *out, const char *name, uint64_t id,
                    const struct berth_buf *members)
{
    berth_buf_printf(out, "id: %llu\nevent: %s\ndata: {", (unsigned long long)id, name);
    berth_buf_append(out, members->data, members->len);
    berth_buf_puts(out, "}\n\n");
}

/* Bytes that are no text come as base64. */
static void put_sse_output(struct berth_buf *out, const struct piece *p)
{
    auto_buf members = BERTH_BUF_INIT(EVENTS_BYTES_MAX);
    struct berth_json_writer w = {.buf = &members};
    char copy[PIECE_BYTES_MAX + 1], text[BERTH_BASE64_SIZE(PIECE_BYTES_MAX)];
    memcpy(copy, p->bytes, p->len);
    copy[p->len] = '\0';
    berth_json_put_str(&w, "stream", stream_names[p->stream]);
    berth_json_put_int(&w, "offset", (int64_t)p->offset);
    berth_json_put_time(&w, "at", p->at_ms);
    if (berth_utf8_valid_bytes(copy, p->len)) {
        berth_json_put_bytes(&w, "data", copy, p->len);
    } else {
        berth_base64_encode(copy, p->len, text);
        berth_json_put_str(&w, "base64", text);
    }
    put_sse(out, "output", p->id, &members);
    out->failed |= members.failed;
}

static void put_message(struct berth_buf *out, const char *name, uint64_t id,
                        const struct berth_buf *members)
{
    static const char type[] = "{\"type\":\"", next[] = "\",", end[] = "}";
    (void)id; /* WebSocket clients count the bytes themselves */
    berth_http_websocket_frame(out, true,
                               sizeof type - 1 + strlen(name) + sizeof next - 1 + members->len +
                                   sizeof end - 1);
    berth_buf_printf(out, "%s%s%s", type, name, next);
    berth_buf_append(out, members->data, members->len);
    berth_buf_puts(out, end);
}

/* Which stream it is, and its bytes. */
static void put_message_output(struct berth_buf *out, const struct piece *p)
{
    char stream = p->stream == BERTH_STDERR ? 2 : 1;
    berth_http_websocket_frame(out, false, 1 + p->len);
    berth_buf_append(out, &stream, 1);
    berth_buf_append(out, p->bytes, p->len);
}

static const struct voice bare = {"application/octet-stream", put_bare, NULL},
                          events = {"text/event-stream", put_sse_output, put_sse},
                          messages = {NULL, put_message_output, put_message};

static void watch_say(const struct berth_api_watch *w, struct berth_buf *out, const char *name,
                      uint64_t id, const struct berth_buf *members)
{
    if (!w->voice->event)
        return;
    w->voice->event(out, name, id, members);
    out->failed |= members->failed;
}

/* So much of it goes into one event; a character is not split if that can be helped. */
static size_t piece_of(const char *bytes, size_t len)
{
    size_t piece = len < PIECE_BYTES_MAX ? len : PIECE_BYTES_MAX;
    size_t whole = piece < len ? berth_utf8_whole(bytes, piece) : piece;
    return whole ? whole : piece;
}

static bool wants(const struct berth_api_watch *w, enum berth_stream stream)
{
    return w->options.stream < 0 || w->options.stream == (int)stream;
}

/* Where it is when it has heard all that the command said. */
static uint64_t position_at(const struct berth_api_watch *w, const uint64_t said[2])
{
    return w->before + (w->options.stream < 0 ? said[0] + said[1] : said[w->options.stream]);
}

/* --- the log, on the pool --- */

/* What a reader who comes back does not want again is passed over. */
static void put_bytes(struct berth_api_watch *w, const struct berth_frame *frame, size_t from)
{
    enum berth_stream stream = (enum berth_stream)frame->kind;
    const char *bytes = frame->bytes + from;
    size_t len = frame->len - from;
    while (len && w->batch.len < BATCH_BYTES) {
        uint64_t at = position_at(w, w->seen);
        size_t step = piece_of(bytes, len);
        if (at < w->options.offset && w->options.offset - at < step)
            step = (size_t)(w->options.offset - at);
        struct piece piece = {at + step, stream, w->seen[stream], frame->at_ms, bytes, step};
        if (at >= w->options.offset)
            w->voice->output(&w->batch, &piece);
        w->seen[stream] += step;
        bytes += step;
        len -= step;
    }
}

/* All of the frame that is new, or as much as fits. */
static bool put_output_frame(struct berth_api_watch *w, const struct berth_frame *frame)
{
    enum berth_stream stream = (enum berth_stream)frame->kind;
    uint64_t end = frame->offset + frame->len;
    if (w->seen[stream] < frame->offset)
        w->seen[stream] = frame->offset;
    if (w->seen[stream] < end)
        put_bytes(w, frame, (size_t)(w->seen[stream] - frame->offset));
    return w->seen[stream] >= end;
}

static void put_event(struct berth_api_watch *w, const char *name, const char *key,
                      const char *value, const char *rest)
{
    auto_buf members = BERTH_BUF_INIT(EVENTS_BYTES_MAX);
    struct berth_json_writer j = {.buf = &members};
    berth_json_put_str(&j, key, value);
    if (rest)
        berth_json_put_raw(&j, "result", rest);
    uint64_t at = position_at(w, w->seen); /* the event's id is never below the client's offset */
    watch_say(w, &w->batch, name, at > w->options.offset ? at : w->options.offset, &members);
}

/* Writes the first message of a WebSocket. */
static void put_started(struct berth_api_watch *w)
{
    auto_buf members = BERTH_BUF_INIT(EVENTS_BYTES_MAX);
    struct berth_json_writer j = {.buf = &members};
    berth_json_put_str(&j, "execId", w->exec_id);
    berth_json_put_int(&j, "offset", (int64_t)w->options.offset);
    watch_say(w, &w->batch, "started", w->options.offset, &members);
}

/* The command is over: what is watched is, too, or the next command of the run comes. */
static void end_command(struct berth_api_watch *w, const struct berth_frame *frame)
{
    char *result = strndup(frame->bytes, frame->len);
    put_event(w, w->run_id[0] ? "exit" : "end", "execId", w->exec_id, result);
    free(result);
    w->before = position_at(w, w->seen);
    w->seen[0] = w->seen[1] = w->mark = 0;
    w->cut[0] = w->cut[1] = w->ended = false;
    memcpy(w->last_id, w->exec_id, sizeof w->last_id);
    w->exec_id[0] = '\0';
    w->over = !w->run_id[0];
}

static bool put_frame(struct berth_api_watch *w, const struct berth_frame *frame)
{
    if (frame->kind <= BERTH_FRAME_STDERR)
        return put_output_frame(w, frame);
    if (frame->kind == BERTH_FRAME_END) {
        end_command(w, frame);
        return true;
    }
    bool errors = frame->bytes[0] == '1';
    w->cut[errors] = true;
    put_event(w, "cut", "stream", stream_names[errors], NULL);
    return true;
}

/* What it has, and what it does not want. */
static void pass_over(const struct berth_api_watch *w, struct berth_framereader *reader)
{
    for (int i = BERTH_STDOUT; i <= BERTH_STDERR; i++)
        berth_framereader_from(reader, (enum berth_frame_kind)i,
                               wants(w, (enum berth_stream)i) ? w->seen[i] : UINT64_MAX);
    if (w->mark)
        berth_framereader_seek(reader, w->mark);
}

static int read_log(struct berth_api_watch *w, struct berth_error *err)
{
    auto_free char *path = NULL;
    struct berth_framereader *reader;
    struct berth_frame frame;
    bool more = true;
    int rc = berth_exec_rows_log(w->api->b, w->exec_id, &path, err);
    if (rc == BERTH_OK)
        rc = berth_framereader_open(path, &reader, err);
    if (rc < 0) {
        w->idle = w->logless = rc == BERTH_E_NOT_FOUND; /* the log is made with the first output */
        return w->logless ? BERTH_OK : rc;
    }
    w->logless = false;
    pass_over(w, reader);
    while (rc == BERTH_OK && w->exec_id[0] && w->batch.len < BATCH_BYTES) {
        w->mark = berth_framereader_tell(reader);
        rc = berth_framereader_next(reader, &frame, &more, err);
        if (rc < 0 || !more)
            break;
        if (put_frame(w, &frame) && w->exec_id[0])
            w->mark = berth_framereader_tell(reader);
    }
    w->idle = !more;
    berth_framereader_close(reader);
    return rc;
}

/* Checks whether a log that does not grow is complete. The process that wrote it may be gone. */
static int look_at_exec(struct berth_api_watch *w, struct berth_arena *arena,
                        struct berth_error *err)
{
    struct berth_exec_record *record;
    int rc = berth_exec_rows_get(w->api->b, arena, w->exec_id, &record, err);
    if (rc == BERTH_E_NOT_FOUND) /* it is written late */
        return BERTH_OK;
    bool told = w->ended; /* the end of its log comes a moment later, or never */
    w->ended = rc == BERTH_OK && record->ended;
    if (w->ended && !told && w->logless) {
        rc = read_log(w, err); /* what it wrote is there before the row of its end */
        told = w->logless;
    }
    if (rc < 0 || !w->ended || !told)
        return rc;
    for (int i = BERTH_STDOUT; i <= BERTH_STDERR && w->logless; i++)
        if (record->end.bytes[i] && !w->voice->event) /* half of it must not look like all */
            return berth_fail(err, BERTH_E_NOT_FOUND, "The log of command %s is gone.", w->exec_id);
        else if (record->end.bytes[i])
            put_event(w, "cut", "stream", stream_names[i], NULL);
    auto_buf result = BERTH_BUF_INIT(4096);
    struct berth_json_writer j = {.buf = &result};
    berth_json_open(&j, '{');
    berth_exec_end_fields(&j, &record->end, record->truncated);
    berth_json_close(&j, '}');
    struct berth_frame frame = {
        .kind = BERTH_FRAME_END, .bytes = berth_buf_str(&result), .len = result.len};
    if (frame.bytes)
        end_command(w, &frame);
    return BERTH_OK;
}

static int end_run(struct berth_api_watch *w, const struct berth_run *run)
{
    auto_buf text = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    berth_run_json(&(struct berth_json_writer){.buf = &text}, run);
    put_event(w, "end", "runId", w->run_id, berth_buf_str(&text));
    w->over = true;
    return BERTH_OK;
}

/* A run that we perform is over when its place is given back, too. */
static bool is_performed(struct berth_api *api, const char *run_id)
{
    berth_lock_take(&api->lives_lock);
    bool performed = berth_map_get(&api->runs, run_id) != NULL;
    berth_lock_drop(&api->lives_lock);
    return performed;
}

/* The next command of the run, or its end. */
static int next_command(struct berth_api_watch *w, struct berth_arena *arena,
                        struct berth_error *err)
{
    struct berth_exec_record *next = NULL;
    struct berth_run *run;
    bool performed = is_performed(w->api, w->run_id); /* the last to change is asked for first */
    int rc = berth_run_get(w->api->b, arena, w->run_id, &run, err); /* before its last commands */
    if (rc == BERTH_OK)
        rc = berth_exec_rows_next(w->api->b, arena, w->run_id, w->last_id, &next, err);
    if (rc < 0)
        return rc;
    if (next) {
        (void)snprintf(w->exec_id, sizeof w->exec_id, "%s", next->id);
        put_event(w, "exec", "execId", w->exec_id, NULL);
        return BERTH_OK;
    }
    w->idle = true;
    return berth_run_ended((int)run->status) && !performed ? end_run(w, run) : BERTH_OK;
}

static void on_read(struct berth_post *post);

static void read_job(void *ctx)
{
    struct berth_api_watch *w = ctx;
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_error err = {0}, none;
    int rc = BERTH_OK;
    w->idle = false;
    while (rc == BERTH_OK && !w->idle && !w->over && w->batch.len < BATCH_BYTES)
        rc = w->exec_id[0] ? read_log(w, &err) : next_command(w, &arena, &err);
    if (rc == BERTH_OK && w->idle && !w->over && w->exec_id[0])
        rc = look_at_exec(w, &arena, &err);
    if (rc == BERTH_OK && w->idle && !w->over && !w->options.follow)
        put_event(w, "idle", w->run_id[0] ? "runId" : "execId",
                  w->run_id[0] ? w->run_id : w->exec_id, NULL);
    if (rc < 0)
        w->trouble = err;
    w->post.run = on_read;
    (void)berth_engine_post(w->api->b->engine, &w->post, &none); /* its loop runs */
}

/* --- on the loop's thread --- */

static void free_watch(struct berth_api_watch *w)
{
    berth_timer_clear(w->s.engine, &w->look);
    berth_buf_clear(&w->batch);
    berth_api_input_clear(&w->input);
    struct berth_api *api = w->api;
    free(w);
    berth_api_count_stream(api, -1);
}

static void leave(struct berth_api_watch *w)
{
    if (!w->live)
        return;
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    w->live = NULL;
}

static void watches_hear(struct berth_api_live *live, enum berth_stream stream, uint64_t offset,
                         const char *bytes, size_t len);
static void watches_let_go(struct berth_api_live *live);

static const struct berth_api_live_listeners watch_listeners = {.hear = watches_hear,
                                                                .let_go = watches_let_go};

static void join(struct berth_api_watch *w, struct berth_api_live *live)
{
    w->live = live;
    w->link = &live->watches;
    w->next = live->watches;
    if (w->next)
        w->next->link = &w->next;
    live->watches = w;
    live->listeners = &watch_listeners;
}

static void read_on(struct berth_api_watch *w)
{
    struct berth_error err;
    if (w->reading || w->live)
        return;
    w->reading = true;
    if (berth_pool_submit(w->api->quick, read_job, w, &err) == BERTH_OK)
        return;
    w->reading = false;
    berth_timer_set(w->s.engine, &w->look, LOOK_MS);
}

static void on_look(struct berth_timer *timer)
{
    read_on(of_look(timer));
}

static void finish_gone(struct berth_api_watch *w)
{
    struct berth_error none;
    if (w->options.cancel)
        (void)berth_api_live_cancel(w->api, w->exec_id, &none);
    free_watch(w);
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
    auto_buf out = BERTH_BUF_INIT(EVENTS_BYTES_MAX), members = BERTH_BUF_INIT(EVENTS_BYTES_MAX);
    struct berth_json_writer j = {.buf = &members};
    berth_json_put_str(&j, "reason", reason);
    berth_json_put_int(&j, "offset", (int64_t)w->position);
    watch_say(w, &out, "dropped", w->position, &members);
    if (!out.failed)
        berth_api_stream_put(&w->s, out.data, out.len);
}

static void on_stalled(struct berth_api_stream *s)
{
    struct berth_api_watch *w = of_stream(s);
    say_dropped(w, "The reader did not follow: come back with this offset.");
    w->options.cancel = false;
    s->code = BERTH_HTTP_CLOSE_POLICY;
    if (!w->voice->event)
        berth_api_stream_abort(s);
}

/* Hurries the watch. Closing a WebSocket here does not cancel its command, which gets the same
 * grace time as every other command. */
static void on_drain(struct berth_api_stream *s)
{
    struct berth_api_watch *w = of_stream(s);
    w->hurried = true;
    if (s->ws)
        w->options.cancel = false;
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
    return !wants(w, stream) || w->cut[stream] || w->seen[stream] == live->said[stream];
}

/* There is nothing to be read for now. */
static void wait_for_more(struct berth_api_watch *w)
{
    struct berth_api_live *live = w->exec_id[0] ? berth_api_live_find(w->api, w->exec_id) : NULL;
    bool all = live && has_heard(w, live, BERTH_STDOUT) && has_heard(w, live, BERTH_STDERR) &&
               position_at(w, w->seen) >= w->options.offset;
    if (all) {
        join(w, live);
        return;
    }
    if (w->hurried && !live && !is_performed(w->api, w->run_id)) {
        say_dropped(w, "The daemon ends: come back with this offset.");
        if (!w->voice->event)
            berth_api_stream_abort(&w->s); /* half of it must not look like all */
        end_watch(w);
        return;
    }
    int64_t least = live ? 1 : LOOK_MS;
    w->pause_ms = w->pause_ms * 2 > LOOK_MAX_MS ? LOOK_MAX_MS : w->pause_ms * 2;
    w->pause_ms = w->pause_ms < least ? least : w->pause_ms;
    berth_timer_set(w->s.engine, &w->look, w->pause_ms);
}

static void on_read(struct berth_post *post)
{
    struct berth_api_watch *w = of_post(post);
    w->reading = false;
    if (!w->s.x) { /* who wanted it has left; else on_gone is still to come */
        if (w->gone)
            finish_gone(w);
        return;
    }
    uint64_t at = position_at(w, w->seen);
    w->position = at > w->options.offset ? at : w->options.offset;
    if (w->batch.failed || w->trouble.code)
        say_dropped(w, w->batch.failed ? "Out of memory." : w->trouble.message);
    else if (w->batch.len)
        berth_api_stream_put(&w->s, w->batch.data, w->batch.len);
    if (w->batch.len)
        w->pause_ms = 0;
    bool broken = w->batch.failed || w->trouble.code;
    bool end = broken || w->over || (w->idle && !w->options.follow);
    berth_buf_clear(&w->batch); /* nothing is kept while it waits */
    w->batch = (struct berth_buf)BERTH_BUF_INIT(EVENTS_BYTES_MAX);
    if (broken) {
        w->s.code = BERTH_HTTP_CLOSE_TROUBLE;
        berth_log_line(&w->api->b->log, BERTH_LOG_WARN, "stream dropped", "execId", w->exec_id,
                       "error", w->trouble.code ? w->trouble.message : "Out of memory.", NULL);
    }
    if (broken && !w->voice->event)
        berth_api_stream_abort(&w->s); /* half of it must not look like all */
    if (end)
        end_watch(w);
    else if (w->idle)
        wait_for_more(w);
    else if (!berth_api_stream_full(&w->s))
        read_on(w);
}

/* Made once for all who hear and count in the same way. */
struct shared_event {
    struct berth_buf text;
    const struct voice *voice;
    uint64_t id;
    int64_t at_ms;
};

static void hear_piece(struct berth_api_watch *w, enum berth_stream stream, uint64_t offset,
                       const char *bytes, size_t len, struct shared_event *shared)
{
    w->seen[stream] = offset + len;
    if (!wants(w, stream))
        return;
    w->position = position_at(w, w->seen);
    if (!shared->text.len || shared->voice != w->voice || shared->id != w->position) {
        struct piece piece = {w->position, stream, offset, shared->at_ms, bytes, len};
        berth_buf_truncate(&shared->text, 0);
        shared->voice = w->voice;
        shared->id = w->position;
        w->voice->output(&shared->text, &piece);
    }
    if (!shared->text.failed)
        berth_api_stream_put(&w->s, shared->text.data, shared->text.len);
    if (w->live && berth_api_stream_full(&w->s))
        leave(w);
}

static void watches_hear(struct berth_api_live *live, enum berth_stream stream, uint64_t offset,
                         const char *bytes, size_t len)
{
    struct shared_event shared = {.text = BERTH_BUF_INIT(EVENTS_BYTES_MAX),
                                  .at_ms = berth_time_wall_ms()};
    while (len && live->watches) {
        size_t step = piece_of(bytes, len);
        berth_buf_truncate(&shared.text, 0);
        for (struct berth_api_watch *w = live->watches, *next; w; w = next) {
            next = w->next;
            hear_piece(w, stream, offset, bytes, step, &shared);
        }
        offset += step;
        bytes += step;
        len -= step;
    }
    berth_buf_clear(&shared.text);
}

static void watches_let_go(struct berth_api_live *live)
{
    while (live->watches) {
        struct berth_api_watch *w = live->watches;
        leave(w);
        if (!berth_api_stream_full(&w->s))
            read_on(w);
    }
}

/* --- the beginning --- */

static void on_message(struct berth_api_stream *s, bool text, const char *bytes, size_t len)
{
    berth_api_input_hear(&of_stream(s)->input, text, bytes, len);
}

static void on_start(struct berth_post *post)
{
    struct berth_api_watch *w = of_post(post);
    w->look.run = on_look;
    berth_api_stream_begin(&w->s, w->voice->type);
    if (w->s.x)
        read_on(w);
}

int berth_api_watch_start(const struct berth_api_call *c,
                          const struct berth_api_watch_options *options, struct berth_error *err)
{
    struct berth_api *api = c->api;
    struct berth_api_watch *w = calloc(1, sizeof *w);
    if (!w)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: stream.");
    *w = (struct berth_api_watch){.api = api,
                                  .options = *options,
                                  .voice = options->websocket ? &messages
                                           : options->events  ? &events
                                                              : &bare,
                                  .batch = BERTH_BUF_INIT(EVENTS_BYTES_MAX),
                                  .position = options->offset,
                                  .post = {.run = on_start}};
    w->s = (struct berth_api_stream){.x = c->x,
                                     .engine = api->b->engine,
                                     .events = options->events,
                                     .ws = options->websocket,
                                     .on_message = on_message,
                                     .on_room = on_room,
                                     .on_stalled = on_stalled,
                                     .on_drain = on_drain,
                                     .on_gone = on_gone};
    berth_api_stream_let_in(&w->s, c);
    (void)snprintf(w->exec_id, sizeof w->exec_id, "%s", options->exec_id ? options->exec_id : "");
    (void)snprintf(w->run_id, sizeof w->run_id, "%s", options->run_id ? options->run_id : "");
    berth_api_input_init(&w->input, api, w->exec_id, &w->s);
    if (options->announce)
        put_event(w, "exec", "execId", w->exec_id, NULL);
    if (options->websocket)
        put_started(w);
    berth_api_count_stream(api, 1);
    int rc = berth_engine_post(api->b->engine, &w->post, err);
    if (rc < 0) {
        berth_api_count_stream(api, -1);
        berth_buf_clear(&w->batch);
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
    if (rc < 0)
        return rc;
    bool as_events = berth_api_wants_events(c);
    if (as_events)
        (void)berth_api_last_event(c, &offset);
    *out = (struct berth_api_watch_options){.stream = stream,
                                            .offset = (uint64_t)offset,
                                            .events = as_events,
                                            .follow = follow == 1 || (as_events && follow != 0)};
    return BERTH_OK;
}
