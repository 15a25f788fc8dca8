/* SPDX-License-Identifier: Apache-2.0
 * src/base/log.c - see log.h. */
#include "base/log.h"

#include <stdarg.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/time.h"

#define LINE_BYTES_MAX (64 * 1024)

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void berth_log_line(const struct berth_log *log, enum berth_log_level level, const char *event, ...)
{
    if (!log->write || level < __atomic_load_n(&log->min_level, __ATOMIC_RELAXED))
        return;
    auto_buf buf = BERTH_BUF_INIT(LINE_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    char now[BERTH_TIME_ISO_SIZE];
    berth_time_iso(berth_time_wall_ms(), now);

    berth_json_open(&w, '{');
    berth_json_put_str(&w, "time", now);
    berth_json_put_str(&w, "level", level_names[level]);
    berth_json_put_str(&w, "event", event);
    va_list args;
    va_start(args, event);
    for (const char *name; (name = va_arg(args, const char *)) != NULL;) {
        const char *text = va_arg(args, const char *);
        if (text)
            berth_json_put_str(&w, name, text);
    }
    va_end(args);
    berth_json_close(&w, '}');
    if (buf.too_long) { /* log the event without its pairs */
        berth_buf_clear(&buf);
        w = (struct berth_json_writer){.buf = &buf};
        berth_json_open(&w, '{');
        berth_json_put_str(&w, "time", now);
        berth_json_put_str(&w, "level", level_names[level]);
        berth_json_put_str(&w, "event", event);
        berth_json_put_bool(&w, "truncated", true);
        berth_json_close(&w, '}');
    }
    if (!buf.failed)
        log->write(log->ctx, level, berth_buf_str(&buf));
}
