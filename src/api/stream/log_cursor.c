/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/log_cursor.c - see log_cursor.h. */
#include "api/stream/log_cursor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/time.h"
#include "core/run/exec_result.h"
#include "core/run/exec_rows.h"
#include "core/run/run.h"
#include "os/framelog.h"

#define BATCH_BYTES ((size_t)16 * 1024) /* of events, in one read */

bool berth_api_log_wants(const struct berth_api_log_cursor *c, enum berth_stream stream)
{
    return c->stream < 0 || c->stream == (int)stream;
}

uint64_t berth_api_log_position(const struct berth_api_log_cursor *c)
{
    return c->before + (c->stream < 0 ? c->seen[0] + c->seen[1] : c->seen[c->stream]);
}

void berth_api_log_clear(struct berth_api_log_cursor *c)
{
    berth_buf_clear(&c->batch);
    free(take_ptr(c->log));
}

/* Writes the frame from byte `from` on. Leaves out what is before the client's offset. */
static void put_bytes(struct berth_api_log_cursor *c, const struct berth_frame *frame, size_t from)
{
    enum berth_stream stream = (enum berth_stream)frame->kind;
    const char *bytes = frame->bytes + from;
    size_t len = frame->len - from;
    while (len && c->batch.len < BATCH_BYTES) {
        uint64_t at = berth_api_log_position(c);
        size_t step = berth_api_piece_len(bytes, len);
        if (at < c->offset && c->offset - at < step)
            step = (size_t)(c->offset - at);
        struct berth_api_piece piece = {at + step,    stream, c->seen[stream],
                                        frame->at_ms, bytes,  step};
        if (at >= c->offset)
            c->format->output(&c->batch, &piece);
        c->seen[stream] += step;
        bytes += step;
        len -= step;
    }
}

/* Writes the new part of the frame. Returns false when not all of it has fitted. */
static bool put_output_frame(struct berth_api_log_cursor *c, const struct berth_frame *frame)
{
    enum berth_stream stream = (enum berth_stream)frame->kind;
    uint64_t end = frame->offset + frame->len;
    if (c->seen[stream] < frame->offset)
        c->seen[stream] = frame->offset;
    if (c->seen[stream] < end)
        put_bytes(c, frame, (size_t)(c->seen[stream] - frame->offset));
    return c->seen[stream] >= end;
}

/* The id of an event is never below the client's offset. */
static void put_members(struct berth_api_log_cursor *c, const char *name,
                        const struct berth_buf *members)
{
    uint64_t at = berth_api_log_position(c);
    berth_api_put_event(c->format, &c->batch, name, at > c->offset ? at : c->offset, members);
}

void berth_api_log_put_event(struct berth_api_log_cursor *c, const char *name, const char *key,
                             const char *value, const char *result_json)
{
    auto_buf members = BERTH_BUF_INIT(BERTH_API_EVENTS_BYTES_MAX);
    struct berth_json_writer j = {.buf = &members};
    berth_json_put_str(&j, key, value);
    if (result_json)
        berth_json_put_raw(&j, "result", result_json);
    put_members(c, name, &members);
}

/* Writes that the command has ended. A run goes on with its next command. */
static void end_command(struct berth_api_log_cursor *c, const struct berth_frame *frame)
{
    char *result = strndup(frame->bytes, frame->len);
    berth_api_log_put_event(c, c->run_id[0] ? "exit" : "end", "execId", c->exec_id, result);
    free(result);
    c->before = berth_api_log_position(c);
    c->seen[0] = c->seen[1] = c->mark = 0;
    c->cut[0] = c->cut[1] = c->ended = false;
    memcpy(c->last_id, c->exec_id, sizeof c->last_id);
    c->exec_id[0] = '\0';
    free(take_ptr(c->log));
    c->over = !c->run_id[0];
}

static bool put_frame(struct berth_api_log_cursor *c, const struct berth_frame *frame)
{
    if (frame->kind <= BERTH_FRAME_STDERR)
        return put_output_frame(c, frame);
    if (frame->kind == BERTH_FRAME_END) {
        end_command(c, frame);
        return true;
    }
    bool errors = frame->bytes[0] == '1';
    c->cut[errors] = true;
    berth_api_log_put_event(c, "cut", "stream", berth_api_stream_names[errors], NULL);
    return true;
}

/* Leaves out what was seen, and the stream that is not wanted. */
static void pass_over(const struct berth_api_log_cursor *c, struct berth_framereader *reader)
{
    for (int i = BERTH_STDOUT; i <= BERTH_STDERR; i++)
        berth_framereader_from(reader, (enum berth_frame_kind)i,
                               berth_api_log_wants(c, (enum berth_stream)i) ? c->seen[i]
                                                                            : UINT64_MAX);
    if (c->mark)
        berth_framereader_seek(reader, c->mark);
}

static int read_log(struct berth_api_log_cursor *c, struct berth_error *err)
{
    auto_free char *path = NULL;
    struct berth_framereader *reader;
    struct berth_frame frame;
    bool more = true;
    int rc = berth_exec_rows_log(c->api->b, c->exec_id, &path, err);
    if (rc == BERTH_OK)
        rc = berth_framereader_open(path, &reader, err);
    free(take_ptr(c->log));
    if (rc < 0) {
        c->idle = rc == BERTH_E_NOT_FOUND; /* the log is made with the first output */
        return c->idle ? BERTH_OK : rc;
    }
    c->log = take_ptr(path);
    pass_over(c, reader);
    while (rc == BERTH_OK && c->exec_id[0] && c->batch.len < BATCH_BYTES) {
        c->mark = berth_framereader_tell(reader);
        rc = berth_framereader_next(reader, &frame, &more, err);
        if (rc < 0 || !more)
            break;
        if (put_frame(c, &frame) && c->exec_id[0])
            c->mark = berth_framereader_tell(reader);
    }
    c->idle = !more;
    berth_framereader_close(reader);
    return rc;
}

/* Checks whether a log that does not grow is complete. The process that wrote it may be gone. */
static int look_at_exec(struct berth_api_log_cursor *c, struct berth_arena *arena,
                        struct berth_error *err)
{
    struct berth_exec_record *record;
    int rc = berth_exec_rows_get(c->api->b, arena, c->exec_id, &record, err);
    if (rc == BERTH_E_NOT_FOUND) /* it is written late */
        return BERTH_OK;
    bool told = c->ended; /* the end of its log comes a moment later, or never */
    c->ended = rc == BERTH_OK && record->ended;
    if (c->ended && !told && !c->log) {
        rc = read_log(c, err); /* what it wrote is there before the row of its end */
        told = !c->log;
    }
    if (rc < 0 || !c->ended || !told)
        return rc;
    for (int i = BERTH_STDOUT; i <= BERTH_STDERR && !c->log; i++)
        if (record->end.bytes[i] && !c->format->event) /* half of it must not look like all */
            return berth_fail(err, BERTH_E_NOT_FOUND, "The log of command %s is gone.", c->exec_id);
        else if (record->end.bytes[i])
            berth_api_log_put_event(c, "cut", "stream", berth_api_stream_names[i], NULL);
    auto_buf result = BERTH_BUF_INIT(4096);
    struct berth_json_writer j = {.buf = &result};
    berth_json_open(&j, '{');
    berth_exec_end_fields(&j, &record->end, record->truncated);
    berth_json_close(&j, '}');
    struct berth_frame frame = {
        .kind = BERTH_FRAME_END, .bytes = berth_buf_str(&result), .len = result.len};
    if (frame.bytes)
        end_command(c, &frame);
    return BERTH_OK;
}

static int end_run(struct berth_api_log_cursor *c, const struct berth_run *run)
{
    auto_buf text = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    berth_run_json(&(struct berth_json_writer){.buf = &text}, run);
    berth_api_log_put_event(c, "end", "runId", c->run_id, berth_buf_str(&text));
    c->over = true;
    return BERTH_OK;
}

bool berth_api_is_performed(struct berth_api *api, const char *run_id)
{
    berth_lock_take(&api->lives_lock);
    bool performed = berth_map_get(&api->runs, run_id) != NULL;
    berth_lock_drop(&api->lives_lock);
    return performed;
}

/* Writes how far the files of a run are that this daemon performs, when that has changed. */
static void put_progress(struct berth_api_log_cursor *c)
{
    struct berth_api_run now = {0};
    berth_lock_take(&c->api->lives_lock);
    const struct berth_api_run *run = berth_map_get(&c->api->runs, c->run_id);
    if (run)
        now = *run;
    berth_lock_drop(&c->api->lives_lock);
    const struct berth_workspace_progress *p = &now.progress;
    if (now.changes == c->changes_seen || !p->files_total)
        return;
    auto_buf members = BERTH_BUF_INIT(BERTH_API_EVENTS_BYTES_MAX);
    struct berth_json_writer w = {.buf = &members};
    int64_t passed_ms = berth_time_mono_ms() - now.began_ms;
    c->changes_seen = now.changes;
    berth_json_put_str(&w, "runId", c->run_id);
    berth_json_put_str(&w, "phase", p->returning ? "returning" : "sending");
    berth_json_put_int(&w, "files", (int64_t)p->files);
    berth_json_put_int(&w, "filesTotal", (int64_t)p->files_total);
    berth_json_put_int(&w, "bytes", p->bytes);
    berth_json_put_int(&w, "bytesTotal", p->bytes_total);
    berth_json_put_int(&w, "bytesPerSecond", passed_ms > 0 ? p->bytes * 1000 / passed_ms : 0);
    put_members(c, "progress", &members);
}

/* Goes on with the next command of the run, or finds that the run has ended. */
static int next_command(struct berth_api_log_cursor *c, struct berth_arena *arena,
                        struct berth_error *err)
{
    struct berth_exec_record *next = NULL;
    struct berth_run *run;
    /* In reverse order of their changes, so that no command is missed. */
    bool performed = berth_api_is_performed(c->api, c->run_id);
    int rc = berth_run_get(c->api->b, arena, c->run_id, &run, err);
    if (rc == BERTH_OK)
        rc = berth_exec_rows_next(c->api->b, arena, c->run_id, c->last_id, &next, err);
    if (rc < 0)
        return rc;
    put_progress(c);
    if (next) {
        (void)snprintf(c->exec_id, sizeof c->exec_id, "%s", next->id);
        berth_api_log_put_event(c, "exec", "execId", c->exec_id, NULL);
        return BERTH_OK;
    }
    c->idle = true;
    return berth_run_ended((int)run->status) && !performed ? end_run(c, run) : BERTH_OK;
}

int berth_api_log_read(struct berth_api_log_cursor *c, struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    int rc = BERTH_OK;
    c->idle = false;
    while (rc == BERTH_OK && !c->idle && !c->over && c->batch.len < BATCH_BYTES)
        rc = c->exec_id[0] ? read_log(c, err) : next_command(c, &arena, err);
    if (rc == BERTH_OK && c->idle && !c->over && c->exec_id[0])
        rc = look_at_exec(c, &arena, err);
    if (rc == BERTH_OK && c->idle && !c->over && !c->follow)
        berth_api_log_put_event(c, "idle", c->run_id[0] ? "runId" : "execId",
                                c->run_id[0] ? c->run_id : c->exec_id, NULL);
    return rc;
}
