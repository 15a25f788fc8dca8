/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/worker_message.c - what a worker says: requests and notifications on stdout, lines
 * that are not messages, and stderr. See worker.h. */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "plugin/worker.h"

#define NOISE_BYTES_MAX 4096    /* of a line that is not a message */
#define CHUNK_BYTES_MAX 4000000 /* of streamed output: a million characters of UTF-8 */
#define INVALID_JSON "Invalid JSON"

/* --- stderr --- */

/* Appends a line to the excerpt, which keeps the end of what was said. */
static void excerpt_add(struct berth_buf *excerpt, const char *line, size_t len)
{
    size_t max = BERTH_WORKER_EXCERPT_BYTES_MAX;
    if (excerpt->len + len + 1 > 2 * max) {
        size_t from = excerpt->len - (excerpt->len < max ? excerpt->len : max);
        memmove(excerpt->data, excerpt->data + from, excerpt->len - from);
        berth_buf_truncate(excerpt, excerpt->len - from);
    }
    size_t kept = len < max ? len : max;
    berth_buf_append(excerpt, line + len - kept, kept);
    berth_buf_append(excerpt, "\n", 1);
}

void berth_worker_on_stderr(void *ctx, const char *bytes, size_t len)
{
    static const char too_long[] = "(a line that was too long)";
    struct berth_worker *w = ctx;
    char *whole;
    size_t whole_len, dropped;
    berth_lines_put(&w->errors, bytes, len);
    while (berth_lines_next(&w->errors, &whole, &whole_len, &dropped)) {
        auto_free char *clean = berth_worker_log_clean(w->log, dropped ? too_long : whole,
                                                       dropped ? strlen(too_long) : whole_len);
        const char *line = clean ? clean : "";
        berth_worker_log_write(w->log, "stderr", "warn", line, strlen(line));
        excerpt_add(&w->excerpt, line, strlen(line));
    }
}

/* --- stdout --- */

void berth_worker_on_noise(void *ctx, const char *line, size_t len, const char *why)
{
    struct berth_worker *w = ctx;
    char text[1500];
    size_t looked = len < NOISE_BYTES_MAX ? len : NOISE_BYTES_MAX;
    /* Secrets are hidden before the text is cut, so that half of one is not shown. */
    auto_free char *clean = berth_worker_log_clean(w->log, line, looked);
    bool quoted = strncmp(why, INVALID_JSON, sizeof INVALID_JSON - 1) == 0; /* quotes the line */
    (void)snprintf(text, sizeof text, "%.*s: %.200s", quoted ? (int)sizeof INVALID_JSON - 1 : 300,
                   why, clean ? clean : "");
    berth_worker_log_write(w->log, "stdout", "warn", text, strlen(text));
}

static void message_take_log(struct berth_worker *w, const struct berth_json *params)
{
    static const char *const levels[] = {"info", "warn", "error", "debug"};
    const struct berth_json *message = berth_json_get(params, "message");
    const char *level = berth_json_str(berth_json_get(params, "level"));
    const char *text = berth_json_str(message);
    size_t known = 0;
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
        if (level && strcmp(level, levels[i]) == 0)
            known = i;
    berth_worker_log_write(w->log, "log", levels[known], text ? text : "",
                           text ? berth_json_str_len(message) : 0);
}

static void message_take_output(struct berth_worker *w, const struct berth_message *m)
{
    const struct berth_json *chunk = berth_json_get(m->params, "chunk");
    const char *stream = berth_json_str(berth_json_get(m->params, "stream"));
    bool errors = stream && strcmp(stream, "stderr") == 0;
    if (m->invocation && stream && (errors || strcmp(stream, "stdout") == 0) &&
        berth_json_is(chunk, BERTH_JSON_STRING) && berth_json_str_len(chunk) <= CHUNK_BYTES_MAX)
        berth_worker_hand_output(w, m->invocation, errors ? BERTH_STDERR : BERTH_STDOUT,
                                 berth_json_str(chunk), berth_json_str_len(chunk));
}

/* Answers what published providers ask for. Other methods are refused at once, so that the worker
 * does not wait for an answer. */
static void message_answer(struct berth_worker *w, const struct berth_message *m)
{
    static const char *const accepted[] = {"log", "metrics.write", "telemetry.track",
                                           "activity.log", NULL};
    struct berth_buf line = BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX);
    bool taken = false;
    for (int i = 0; accepted[i]; i++)
        taken |= strcmp(m->method, accepted[i]) == 0;
    if (strcmp(m->method, "log") == 0)
        message_take_log(w, m->params);
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

void berth_worker_on_message(void *ctx, const struct berth_message *m)
{
    struct berth_worker *w = ctx;
    if (m->kind == BERTH_MESSAGE_REQUEST)
        message_answer(w, m);
    else if (strcmp(m->method, "log") == 0)
        message_take_log(w, m->params);
    else if (strcmp(m->method, "execute.log") == 0)
        message_take_output(w, m);
}
