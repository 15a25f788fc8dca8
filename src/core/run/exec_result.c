/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/exec_result.c - see exec_result.h. */
#include "core/run/exec_result.h"

#include <string.h>

#include "base/utf8.h"
#include "os/framelog.h"
#include "store/exec.h"

const char *berth_end_cause_name(enum berth_end_cause cause)
{
    return berth_end_causes.names[cause];
}

void berth_exec_end_fields(struct berth_json_writer *w, const struct berth_exec_end *end,
                           bool truncated)
{
    if (end->exit_code < 0)
        berth_json_put_str(w, "exitCode", NULL);
    else
        berth_json_put_int(w, "exitCode", end->exit_code);
    berth_json_put_str(w, "signal", end->signal ? sigabbrev_np(end->signal) : NULL);
    berth_json_put_bool(w, "timedOut", end->cause == BERTH_END_TIMEOUT);
    berth_json_put_int(w, "stdoutBytes", (int64_t)end->bytes[BERTH_STDOUT]);
    berth_json_put_int(w, "stderrBytes", (int64_t)end->bytes[BERTH_STDERR]);
    berth_json_put_bool(w, "truncated", truncated);
    berth_json_put_str(w, "cause", berth_end_cause_name(end->cause));
    berth_json_put_time(w, "startedAt", end->started_at_ms);
    berth_json_put_time(w, "finishedAt", end->finished_at_ms);
}

/* Reads the first bytes of both streams, whole characters only. A command without output has no
 * log. */
static int read_texts(const char *log_path, const struct berth_exec_end *end,
                      struct berth_buf texts[2], bool *cut, struct berth_error *err)
{
    struct berth_framereader *reader;
    struct berth_frame frame;
    bool more = true;
    int rc = berth_framereader_open(log_path, &reader, err);
    if (rc == BERTH_E_NOT_FOUND) { /* else it could not be made, or is removed */
        *cut |= end->bytes[BERTH_STDOUT] || end->bytes[BERTH_STDERR];
        return BERTH_OK;
    }
    if (rc < 0)
        return rc;
    while (rc == BERTH_OK && more) {
        rc = berth_framereader_next(reader, &frame, &more, err);
        if (rc < 0 || !more || frame.kind > BERTH_FRAME_STDERR)
            continue;
        struct berth_buf *text = &texts[frame.kind];
        size_t room = BERTH_RESULT_TEXT_BYTES_MAX - text->len;
        *cut |= frame.len > room;
        berth_buf_append(text, frame.bytes, frame.len < room ? frame.len : room);
    }
    berth_framereader_close(reader);
    for (int i = 0; i < 2 && *cut; i++)
        if (texts[i].len == BERTH_RESULT_TEXT_BYTES_MAX)
            berth_buf_truncate(&texts[i], berth_utf8_whole(texts[i].data, texts[i].len));
    return rc;
}

void berth_exec_put_result(struct berth_json_writer *w, const char *exec_id,
                           const struct berth_exec_end *end, bool truncated,
                           struct berth_buf texts[2])
{
    berth_json_open(w, '{');
    if (exec_id)
        berth_json_put_str(w, "execId", exec_id);
    berth_exec_end_fields(w, end, truncated);
    berth_json_put_bytes(w, "stdout", berth_buf_str(&texts[0]), texts[0].len);
    berth_json_put_bytes(w, "stderr", berth_buf_str(&texts[1]), texts[1].len);
    berth_json_close(w, '}');
}

int berth_exec_result_json(struct berth_json_writer *w, const char *log_path, const char *exec_id,
                           const struct berth_exec_end *end, bool truncated,
                           struct berth_error *err)
{
    struct berth_buf texts[2] = {BERTH_BUF_INIT(BERTH_RESULT_TEXT_BYTES_MAX + 1),
                                 BERTH_BUF_INIT(BERTH_RESULT_TEXT_BYTES_MAX + 1)};
    int rc = read_texts(log_path, end, texts, &truncated, err);
    berth_exec_put_result(w, exec_id, end, truncated, texts);
    berth_buf_clear(&texts[0]);
    berth_buf_clear(&texts[1]);
    return rc;
}
