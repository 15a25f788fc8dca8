/* SPDX-License-Identifier: Apache-2.0
 * tests/fuzz/lines.c - a stream of foreign bytes, cut anywhere: the lines are those of the simplest
 * splitter there is, and what is read of one as a message can be written, and read again. */
#include "net/lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "fuzz.h"
#include "net/message.h"

#define STREAM_BYTES_MAX (1024 * 1024)
#define NO_LIMIT 255

/* The input: a byte for the longest line, one for the number of cuts, that many lengths of pieces
 * (which are used over and over), and the stream. */
struct input {
    size_t max;
    const uint8_t *pieces, *stream;
    size_t piece_count, len;
};

static bool read_input(const uint8_t *data, size_t size, struct input *in)
{
    if (size < 2 || size > STREAM_BYTES_MAX)
        return false;
    size_t cuts = data[1] % 16;
    if (size < 2 + cuts)
        return false;
    *in = (struct input){.max = data[0] == NO_LIMIT ? STREAM_BYTES_MAX : data[0],
                         .pieces = data + 2,
                         .stream = data + 2 + cuts,
                         .piece_count = cuts,
                         .len = size - 2 - cuts};
    return true;
}

/* --- messages --- */

/* The line that was written, as it is read again. */
static struct berth_message read_back(const struct berth_buf *written)
{
    struct berth_error err;
    struct berth_message m;
    const char *line = berth_buf_str(written);
    CHECK(line && strlen(line) == written->len);
    CHECK(strchr(line, '\n') == line + written->len - 1);
    CHECK(!strchr(line, '\r') && !strstr(line, "\xe2\x80\xa8") && !strstr(line, "\xe2\x80\xa9"));
    CHECK(berth_message_read(line, written->len - 1, &m, &err) == BERTH_OK);
    return m;
}

static void check_call(const struct berth_message *m)
{
    auto_buf out = BERTH_BUF_INIT(16 * STREAM_BYTES_MAX);
    auto_free char *params = m->params ? berth_json_canonical(m->params) : NULL;
    int64_t id = berth_json_int(m->id);
    berth_message_write(&out, &(struct berth_message_request){.id = id,
                                                              .method = m->method,
                                                              .params_json = params,
                                                              .invocation_json = params,
                                                              .invocation = m->invocation});
    struct berth_message back = read_back(&out);
    CHECK(back.kind == (id ? BERTH_MESSAGE_REQUEST : BERTH_MESSAGE_NOTIFICATION));
    CHECK(berth_json_int(back.id) == id && strcmp(back.method, m->method) == 0);
    CHECK(!m->params || berth_json_equal(back.params, m->params));
    CHECK(!m->invocation || strcmp(back.invocation, m->invocation) == 0);
    berth_message_clear(&back);
}

static void check_answer(const struct berth_message *m)
{
    auto_buf out = BERTH_BUF_INIT(16 * STREAM_BYTES_MAX);
    auto_free char *result = m->result ? berth_json_canonical(m->result) : NULL;
    berth_message_write_result(&out, m->id, result);
    struct berth_message back = read_back(&out);
    CHECK(back.kind == BERTH_MESSAGE_RESPONSE && back.result);
    CHECK(m->id ? berth_json_equal(back.id, m->id) : !back.id);
    CHECK(!m->result || berth_json_equal(back.result, m->result));
    berth_message_clear(&back);
    berth_buf_truncate(&out, 0);
    const char *text = berth_json_str(berth_json_get(m->error, "message"));
    berth_message_write_error(&out, m->id, -32002, text ? text : "");
    back = read_back(&out);
    CHECK(back.kind == BERTH_MESSAGE_RESPONSE && back.error);
    CHECK(m->id ? berth_json_equal(back.id, m->id) : !back.id);
    CHECK(strcmp(berth_json_str(berth_json_get(back.error, "message")), text ? text : "") == 0);
    berth_message_clear(&back);
}

static void check_message(const char *line, size_t len)
{
    auto_free char *exact = malloc(len + 1);
    struct berth_error err = {0};
    struct berth_message m;
    CHECK(exact);
    memcpy(exact, line, len + 1);
    int rc = berth_message_read(exact, len, &m, &err);
    if (rc < 0) {
        CHECK(rc == BERTH_E_INVALID && err.code == rc && err.message[0] && !m.whole);
        return;
    }
    if (m.kind == BERTH_MESSAGE_REQUEST || m.kind == BERTH_MESSAGE_NOTIFICATION) {
        CHECK(m.method && (m.kind == BERTH_MESSAGE_REQUEST) == (m.id != NULL));
        check_call(&m);
    }
    if (m.kind == BERTH_MESSAGE_RESPONSE)
        CHECK(m.result || m.error);
    check_answer(&m);
    berth_message_clear(&m);
}

/* --- lines --- */

/* The line at *at by the definition, and *at behind it; false: there is no whole one. */
static bool split(const struct input *in, size_t upto, size_t *at, size_t *len)
{
    for (size_t i = *at; i < upto; i++) {
        if (in->stream[i] != '\n')
            continue;
        *len = i - *at;
        *at = i + 1;
        return true;
    }
    return false;
}

/* Every line that is whole when `upto` bytes are there, and none else. */
static void check_lines(const struct input *in, struct berth_lines *lines, size_t upto, size_t *at)
{
    char *line;
    size_t len, dropped, want_len, from = *at;
    while (berth_lines_next(lines, &line, &len, &dropped)) {
        CHECK(split(in, upto, at, &want_len));
        CHECK(dropped == (want_len > in->max ? want_len : 0));
        if (dropped)
            want_len = 0;
        else if (want_len && in->stream[from + want_len - 1] == '\r')
            want_len--;
        CHECK(len == want_len && line[len] == '\0');
        CHECK(memcmp(line, in->stream + from, len) == 0);
        check_message(line, len);
        from = *at;
    }
    CHECK(!split(in, upto, at, &want_len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in;
    struct berth_lines lines;
    if (!read_input(data, size, &in))
        return 0;
    berth_lines_init(&lines, in.max);
    size_t taken = 0;
    for (size_t at = 0, turn = 0, piece; at < in.len; at += piece, turn++) {
        piece = in.piece_count ? in.pieces[turn % in.piece_count] + (size_t)1 : in.len;
        piece = piece < in.len - at ? piece : in.len - at;
        auto_free char *exact = malloc(piece);
        CHECK(exact);
        memcpy(exact, in.stream + at, piece);
        berth_lines_put(&lines, exact, piece);
        check_lines(&in, &lines, at + piece, &taken);
    }
    berth_lines_clear(&lines);
    return 0;
}
