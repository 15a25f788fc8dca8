/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/input.c - see input.h. */
#include "api/stream/input.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/call.h"
#include "api/command.h"
#include "base/container.h"
#include "base/json.h"
#include "base/limits.h"

#define ERROR_BYTES_MAX ((size_t)64 * 1024)
/* While it is held, a message and what the WebSocket has read ahead still come. */
#define BYTES_MAX (2 * BERTH_WEBSOCKET_MESSAGE_BYTES_MAX)

static void input_tell(struct berth_api_input *in, const struct berth_error *err)
{
    auto_buf text = BERTH_BUF_INIT(ERROR_BYTES_MAX), out = BERTH_BUF_INIT(ERROR_BYTES_MAX);
    struct berth_json_writer w = {.buf = &text};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "type", "error");
    berth_json_put_str(&w, "error", err->message);
    berth_json_put_str(&w, "code", berth_code_wire(err->code));
    berth_json_close(&w, '}');
    berth_http_websocket_frame(&out, true, text.len);
    berth_buf_append(&out, text.data, text.len);
    if (!text.failed && !out.failed)
        berth_api_stream_put(in->s, out.data, out.len);
}

/* --- bytes --- */

static void hold(struct berth_api_input *in, bool held)
{
    if (in->s->ws)
        berth_http_websocket_hold(in->s->ws, held);
}

static void forget_bytes(struct berth_api_input *in)
{
    berth_buf_clear(&in->bytes);
    in->bytes = (struct berth_buf){.max = BYTES_MAX, .secret = true};
    in->at = 0;
}

/* UNAVAILABLE: the rest waits for room. */
static int write_bytes(struct berth_api_input *in, struct berth_error *err)
{
    int rc = BERTH_OK;
    while (rc == BERTH_OK && in->at < in->bytes.len) {
        size_t left = in->bytes.len - in->at;
        size_t step = left < BERTH_STDIN_STEP_BYTES ? left : BERTH_STDIN_STEP_BYTES;
        rc = berth_api_live_write(in->api, in->exec_id, in->bytes.data + in->at, step, false, err);
        if (rc == BERTH_OK)
            in->at += step;
        else if (rc == BERTH_E_UNAVAILABLE &&
                 !berth_api_live_wait(in->api, in->exec_id, &in->waiter))
            rc = BERTH_OK; /* it ended just now, and the next write says so */
    }
    return rc;
}

static void input_feed(struct berth_api_input *in)
{
    struct berth_error err;
    int rc = write_bytes(in, &err);
    if (rc != BERTH_E_UNAVAILABLE)
        forget_bytes(in);
    if (rc == BERTH_OK && in->closing)
        rc = berth_api_live_write(in->api, in->exec_id, "", 0, true, &err);
    if (rc < 0 && rc != BERTH_E_UNAVAILABLE)
        input_tell(in, &err);
    hold(in, rc == BERTH_E_UNAVAILABLE);
}

static void on_room(struct berth_api_waiter *w)
{
    input_feed(berth_container_of(w, struct berth_api_input, waiter));
}

static void hear_bytes(struct berth_api_input *in, const char *bytes, size_t len)
{
    struct berth_error err;
    if (in->closing) {
        (void)berth_fail(&err, BERTH_E_CONFLICT, "The standard input is closed.");
        input_tell(in, &err);
        return;
    }
    berth_buf_append(&in->bytes, bytes, len);
    if (berth_buf_check(&in->bytes, "The standard input", &err) < 0) {
        forget_bytes(in);
        berth_api_waiter_leave(&in->waiter);
        input_tell(in, &err);
        hold(in, false);
    } else if (!in->waiter.live) {
        input_feed(in);
    }
}

/* --- wishes --- */

static int input_resize(struct berth_api_input *in, const struct berth_json *wish,
                        struct berth_error *err)
{
    int64_t rows = berth_json_int(berth_json_get(wish, "rows"));
    int64_t columns = berth_json_int(berth_json_get(wish, "columns"));
    if (!berth_api_is_size(rows) || !berth_api_is_size(columns))
        return berth_fail(err, BERTH_E_INVALID, "rows and columns are numbers from 1 to 10000.");
    return berth_api_live_resize(in->api, in->exec_id, (unsigned short)rows,
                                 (unsigned short)columns, err);
}

static int close_stdin(struct berth_api_input *in, const struct berth_json *wish,
                       struct berth_error *err)
{
    (void)wish, (void)err;
    bool already = in->closing;
    in->closing = true;
    if (!already && !in->waiter.live)
        input_feed(in);
    return BERTH_OK;
}

static int input_cancel(struct berth_api_input *in, const struct berth_json *wish,
                        struct berth_error *err)
{
    (void)wish;
    return berth_api_live_cancel(in->api, in->exec_id, err);
}

static const char *const names[] = {"resize", "closeStdin", "cancel", NULL};
static const struct {
    int (*grant)(struct berth_api_input *in, const struct berth_json *wish,
                 struct berth_error *err);
    size_t members; /* all that it has */
} wishes[] = {{input_resize, 3}, {close_stdin, 1}, {input_cancel, 1}};

static int hear_wish(struct berth_api_input *in, const char *bytes, size_t len,
                     struct berth_error *err)
{
    auto_json *wish = NULL;
    if (len > BERTH_WEBSOCKET_WISH_BYTES_MAX)
        return berth_fail(err, BERTH_E_TOO_LARGE, "A text message has at most %zu bytes.",
                          BERTH_WEBSOCKET_WISH_BYTES_MAX);
    int rc = berth_json_parse(bytes, len, BERTH_JSON_OURS, &wish, err);
    if (rc < 0)
        return rc;
    int which = berth_api_find_word(names, berth_json_str(berth_json_get(wish, "type")));
    if (which < 0)
        return berth_fail(err, BERTH_E_INVALID,
                          "A text message has the type resize, closeStdin or cancel; bytes for the "
                          "standard input come as a binary one.");
    if (berth_json_count(wish) > wishes[which].members)
        return berth_fail(err, BERTH_E_INVALID, "%s has a key that is not known.", names[which]);
    return wishes[which].grant(in, wish, err);
}

void berth_api_input_hear(struct berth_api_input *in, bool text, const char *bytes, size_t len)
{
    struct berth_error err;
    if (!text)
        hear_bytes(in, bytes, len);
    else if (hear_wish(in, bytes, len, &err) < 0)
        input_tell(in, &err);
}

void berth_api_input_init(struct berth_api_input *in, struct berth_api *api, const char *exec_id,
                          struct berth_api_stream *s)
{
    *in = (struct berth_api_input){.api = api, .s = s, .waiter = {.on_room = on_room}};
    (void)snprintf(in->exec_id, sizeof in->exec_id, "%s", exec_id);
    forget_bytes(in);
}

void berth_api_input_clear(struct berth_api_input *in)
{
    berth_api_waiter_leave(&in->waiter);
    berth_buf_clear(&in->bytes);
}
