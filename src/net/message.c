/* SPDX-License-Identifier: Apache-2.0
 * src/net/message.c - see message.h. */
#include "net/message.h"

#include <string.h>

#include "base/auto.h"

#define QUOTED_MAX 200
#define ENVELOPE_BYTES 512 /* about what stands around params */

/* --- reading --- */

static int not_two(const struct berth_json *version, struct berth_error *err)
{
    auto_free char *text = version ? berth_json_canonical(version) : NULL;
    return berth_fail(err, BERTH_E_INVALID,
                      "Invalid or missing jsonrpc version (expected \"2.0\", got %.200s)",
                      text ? text : "undefined");
}

static void classify(struct berth_message *m)
{
    const struct berth_json *id = berth_json_get(m->whole, "id");
    const struct berth_json *error = berth_json_get(m->whole, "error");
    m->result = berth_json_get(m->whole, "result");
    m->method = berth_json_str(berth_json_get(m->whole, "method"));
    m->params = berth_json_get(m->whole, "params");
    m->invocation = berth_json_str(berth_json_get(m->whole, "paperclipInvocationId"));
    m->error = error;
    if (id && (m->result || error))
        m->kind = BERTH_MESSAGE_RESPONSE;
    else if (m->method && id && berth_json_type(id) != BERTH_JSON_NULL)
        m->kind = BERTH_MESSAGE_REQUEST;
    else if (m->method && !id)
        m->kind = BERTH_MESSAGE_NOTIFICATION;
    else
        m->kind = BERTH_MESSAGE_UNKNOWN;
    m->id = berth_json_type(id) == BERTH_JSON_NULL ? NULL : id;
}

int berth_message_read(const char *line, size_t len, struct berth_message *out,
                       struct berth_error *err)
{
    struct berth_error why;
    *out = (struct berth_message){0};
    int rc = berth_json_parse(line, len, BERTH_JSON_FRAME, &out->whole, &why);
    if (rc == BERTH_E_NO_MEMORY)
        return berth_fail(err, rc, "%s", why.message);
    if (rc < 0)
        return berth_fail(err, BERTH_E_INVALID, "Invalid JSON: %.*s", QUOTED_MAX, line);
    if (berth_json_is(out->whole, BERTH_JSON_OBJECT)) {
        const struct berth_json *version = berth_json_get(out->whole, "jsonrpc");
        const char *text = berth_json_str(version);
        rc = text && strcmp(text, "2.0") == 0 ? BERTH_OK : not_two(version, err);
    } else if (berth_json_is(out->whole, BERTH_JSON_ARRAY)) {
        rc = not_two(NULL, err); /* no batches */
    } else {
        rc = berth_fail(err, BERTH_E_INVALID, "Message must be a JSON object");
    }
    if (rc == BERTH_OK)
        classify(out);
    else
        berth_message_clear(out);
    return rc;
}

void berth_message_clear(struct berth_message *message)
{
    berth_json_free(message->whole);
    *message = (struct berth_message){0};
}

/* --- writing --- */

/* The first U+2028 or U+2029, or NULL. Node 24 takes either for the end of a line. */
static const char *separator(const char *text, size_t len)
{
    const char *end = text + len;
    while ((text = memmem(text, (size_t)(end - text), "\xe2\x80", 2))) {
        if (text[2] == '\xa8' || text[2] == '\xa9') /* there is a NUL behind the end */
            return text;
        text += 2;
    }
    return NULL;
}

/* Ends the line. Separators can only stand in texts, where they may be written as escapes. */
static void message_finish(struct berth_buf *out, size_t from)
{
    const char *at = out->failed ? NULL : separator(out->data + from, out->len - from);
    if (at) {
        struct berth_buf raw = BERTH_BUF_INIT(out->max);
        raw.secret = out->secret;
        berth_buf_append(&raw, out->data + from, out->len - from);
        out->failed |= raw.failed;
        berth_buf_truncate(out, from);
        const char *rest = raw.data, *end = raw.failed ? rest : rest + raw.len;
        for (; rest && (at = separator(rest, (size_t)(end - rest))); rest = at + 3) {
            berth_buf_append(out, rest, (size_t)(at - rest));
            berth_buf_puts(out, at[2] == '\xa8' ? "\\u2028" : "\\u2029");
        }
        berth_buf_append(out, rest, (size_t)(end - rest));
        berth_buf_clear(&raw);
    }
    berth_buf_append(out, "\n", 1);
}

static struct berth_json_writer open_message(struct berth_buf *out)
{
    struct berth_json_writer w = {.buf = out};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "jsonrpc", "2.0");
    return w;
}

void berth_message_write(struct berth_buf *out, const struct berth_message_request *request)
{
    size_t from = out->len;
    if (request->params_json)
        berth_buf_reserve(out, strlen(request->params_json) + ENVELOPE_BYTES);
    struct berth_json_writer w = open_message(out);
    if (request->id)
        berth_json_put_int(&w, "id", request->id);
    berth_json_put_str(&w, "method", request->method);
    berth_json_put_raw(&w, "params", request->params_json ? request->params_json : "{}");
    if (request->invocation_json)
        berth_json_put_raw(&w, "paperclipInvocation", request->invocation_json);
    if (request->invocation)
        berth_json_put_str(&w, "paperclipInvocationId", request->invocation);
    berth_json_close(&w, '}');
    message_finish(out, from);
}

static void message_put_id(struct berth_json_writer *w, const struct berth_json *id)
{
    auto_free char *text = id ? berth_json_canonical(id) : NULL;
    if (id && !text)
        w->buf->failed = true;
    berth_json_put_raw(w, "id", text);
}

void berth_message_write_result(struct berth_buf *out, const struct berth_json *id,
                                const char *result_json)
{
    size_t from = out->len;
    struct berth_json_writer w = open_message(out);
    message_put_id(&w, id);
    berth_json_put_raw(&w, "result", result_json);
    berth_json_close(&w, '}');
    message_finish(out, from);
}

void berth_message_write_error(struct berth_buf *out, const struct berth_json *id, int64_t code,
                               const char *text)
{
    size_t from = out->len;
    struct berth_json_writer w = open_message(out);
    message_put_id(&w, id);
    berth_json_open_in(&w, "error", '{');
    berth_json_put_int(&w, "code", code);
    berth_json_put_str(&w, "message", text);
    berth_json_close(&w, '}');
    berth_json_close(&w, '}');
    message_finish(out, from);
}
