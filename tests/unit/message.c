/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/message.c - what a line is taken for, and lines that every reader takes for one. */
#include "net/message.h"

#include "fixture.h"

#include "base/auto.h"
#include "base/limits.h"

#define LS "\xe2\x80\xa8" /* U+2028 */
#define PS "\xe2\x80\xa9"
#define FFFD "\xef\xbf\xbd"

static struct {
    struct berth_error err;
} t;

/* Of a copy with nothing but its NUL behind it. */
static int read_bytes(const char *bytes, size_t len, struct berth_message *out)
{
    char *exact = malloc(len + 1);
    assert_non_null(exact);
    memcpy(exact, bytes, len);
    exact[len] = '\0';
    int rc = berth_message_read(exact, len, out, &t.err);
    free(exact); /* a message does not need its line any more */
    return rc;
}

static struct berth_message read_fine(const char *line)
{
    struct berth_message m;
    assert_ok(&t, read_bytes(line, strlen(line), &m));
    return m;
}

static struct berth_message read_back(const struct berth_buf *written)
{
    const char *line = berth_buf_str(written);
    assert_non_null(line);
    assert_int_equal(strlen(line), written->len);
    assert_ptr_equal(strchr(line, '\n'), line + written->len - 1); /* one line, and all of it */
    assert_null(strstr(line, LS));
    assert_null(strstr(line, PS));
    struct berth_message m;
    assert_ok(&t, read_bytes(line, written->len - 1, &m));
    return m;
}

/* --- reading --- */

#define NOT_TWO "Invalid or missing jsonrpc version (expected \"2.0\", got "

static void refusals_to_the_letter(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"this is not json", "Invalid JSON: this is not json"},
        {"hello stdout noise", "Invalid JSON: hello stdout noise"},
        {"{\"jsonrpc\":\"2.0\"", "Invalid JSON: {\"jsonrpc\":\"2.0\""},
        {"b\"}}}", "Invalid JSON: b\"}}}"},
        {"%s%n", "Invalid JSON: %s%n"},
        {"{} {}", "Invalid JSON: {} {}"},
        {"42", "Message must be a JSON object"},
        {"2.5", "Message must be a JSON object"},
        {"\"2.0\"", "Message must be a JSON object"},
        {"null", "Message must be a JSON object"},
        {"true", "Message must be a JSON object"},
        {"[]", NOT_TWO "undefined)"},
        {"[{\"jsonrpc\":\"2.0\",\"id\":90,\"method\":\"health\",\"params\":{}}]",
         NOT_TWO "undefined)"},
        {"{}", NOT_TWO "undefined)"},
        {"{\"id\":1,\"result\":1}", NOT_TWO "undefined)"},
        {"{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":1}", NOT_TWO "\"1.0\")"},
        {"{\"jsonrpc\":\"\"}", NOT_TWO "\"\")"},
        {"{\"jsonrpc\":2}", NOT_TWO "2)"},
        {"{\"jsonrpc\":null}", NOT_TWO "null)"},
        {"{\"jsonrpc\":true}", NOT_TWO "true)"},
        {"{\"jsonrpc\":[\"2.0\"]}", NOT_TWO "[\"2.0\"])"},
        {"{\"jsonrpc\":{\"v\":\"2.0\"}}", NOT_TWO "{\"v\":\"2.0\"})"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct berth_message m;
        assert_int_equal(read_bytes(rows[i][0], strlen(rows[i][0]), &m), BERTH_E_INVALID);
        assert_string_equal(t.err.message, rows[i][1]);
        assert_null(m.whole);
        berth_message_clear(&m); /* fine after a failure, too */
    }
}

static void long_noise_is_quoted_in_part(void **state)
{
    (void)state;
    char line[301] = {0}, want[400];
    memset(line, 'x', sizeof line - 1);
    (void)snprintf(want, sizeof want, "Invalid JSON: %.200s", line);
    struct berth_message m;
    assert_int_equal(read_bytes(line, strlen(line), &m), BERTH_E_INVALID);
    assert_string_equal(t.err.message, want);
}

static void classes_in_their_order(void **state)
{
    (void)state;
    static const struct {
        const char *rest;
        enum berth_message_kind kind;
    } rows[] = {
        {"\"id\":1,\"result\":{}", BERTH_MESSAGE_RESPONSE},
        {"\"id\":1,\"result\":null", BERTH_MESSAGE_RESPONSE},
        {"\"id\":1,\"error\":{\"code\":1,\"message\":\"x\"}", BERTH_MESSAGE_RESPONSE},
        {"\"id\":1,\"error\":null", BERTH_MESSAGE_RESPONSE},
        {"\"id\":1,\"method\":\"m\",\"result\":{}", BERTH_MESSAGE_RESPONSE},
        {"\"method\":\"m\",\"error\":{},\"id\":1", BERTH_MESSAGE_RESPONSE},
        {"\"id\":null,\"error\":{\"code\":-32700,\"message\":\"\"}", BERTH_MESSAGE_RESPONSE},
        {"\"id\":null,\"method\":\"m\",\"result\":1", BERTH_MESSAGE_RESPONSE},
        {"\"id\":1,\"method\":\"m\"", BERTH_MESSAGE_REQUEST},
        {"\"id\":0,\"method\":\"m\",\"params\":{}", BERTH_MESSAGE_REQUEST},
        {"\"id\":\"\",\"method\":\"m\"", BERTH_MESSAGE_REQUEST},
        {"\"id\":false,\"method\":\"\"", BERTH_MESSAGE_REQUEST},
        {"\"method\":\"m\"", BERTH_MESSAGE_NOTIFICATION},
        {"\"method\":\"m\",\"params\":{\"id\":1,\"result\":2}", BERTH_MESSAGE_NOTIFICATION},
        {"\"method\":\"m\",\"result\":1", BERTH_MESSAGE_NOTIFICATION},
        {"\"id\":null,\"method\":\"m\"", BERTH_MESSAGE_UNKNOWN},
        {"\"id\":1,\"method\":7", BERTH_MESSAGE_UNKNOWN},
        {"\"method\":null", BERTH_MESSAGE_UNKNOWN},
        {"\"id\":1", BERTH_MESSAGE_UNKNOWN},
        {"\"result\":1", BERTH_MESSAGE_UNKNOWN},
        {"\"more\":1", BERTH_MESSAGE_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[200];
        (void)snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",%s}", rows[i].rest);
        struct berth_message m = read_fine(line);
        if (m.kind != rows[i].kind)
            fail_msg("%s: %d", line, m.kind);
        berth_message_clear(&m);
    }
}

static void members_are_found(void **state)
{
    (void)state;
    struct berth_message m = read_fine(" {\"params\":[1,2],\"method\":\"log\",\"id\":5,"
                                       "\"paperclipInvocationId\":\"inv-1\",\"later\":{},"
                                       "\"jsonrpc\":\"2.0\"}\t");
    assert_int_equal(m.kind, BERTH_MESSAGE_REQUEST);
    assert_string_equal(m.method, "log");
    assert_int_equal(berth_json_int(m.id), 5);
    assert_int_equal(berth_json_count(m.params), 2);
    assert_string_equal(m.invocation, "inv-1");
    assert_null(m.result);
    assert_null(m.error);
    berth_message_clear(&m);
    assert_null(m.whole);
    assert_null(m.method);
    berth_message_clear(&m);

    m = read_fine("{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":null,\"error\":{\"code\":3}}");
    assert_null(m.id); /* null counts as missing */
    assert_null(m.method);
    assert_null(m.params);
    assert_null(m.invocation);
    assert_true(berth_json_is(m.result, BERTH_JSON_NULL)); /* but a result of null is there */
    assert_int_equal(berth_json_int(berth_json_get(m.error, "code")), 3);
    berth_message_clear(&m);
}

/* What Node writes, and what it would read. */
static void odd_texts_are_kept(void **state)
{
    (void)state;
    struct berth_message m = read_fine("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{"
                                       "\"nul\":\"a\\u0000b\",\"lone\":\"x\\ud800y\\udc00\","
                                       "\"pair\":\"\\ud83d\\ude00\",\"raw\":\"" LS PS "\"}}");
    const struct berth_json *nul = berth_json_get(m.result, "nul");
    assert_int_equal(berth_json_str_len(nul), 3);
    assert_memory_equal(berth_json_str(nul), "a\0b", 3);
    assert_string_equal(berth_json_str(berth_json_get(m.result, "lone")), "x" FFFD "y" FFFD);
    assert_string_equal(berth_json_str(berth_json_get(m.result, "pair")), "\xf0\x9f\x98\x80");
    assert_string_equal(berth_json_str(berth_json_get(m.result, "raw")), LS PS);
    berth_message_clear(&m);
}

static void bytes_that_are_no_utf8(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"a\xc3", "a" FFFD},                          /* the first half of two */
        {"\xa9z", FFFD "z"},                          /* the second */
        {"\xff\xfe", FFFD FFFD},                      /* never any */
        {"\xed\xa0\x80\\ud800", FFFD FFFD FFFD FFFD}, /* surrogates of both kinds */
        {"\xc3\xa9\xc3", "\xc3\xa9" FFFD},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[200];
        (void)snprintf(line, sizeof line,
                       "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[\"%s\",\"\xc3\xa9\"]}",
                       rows[i][0]);
        struct berth_message m = read_fine(line);
        assert_int_equal(m.kind, BERTH_MESSAGE_RESPONSE);
        assert_string_equal(berth_json_str(berth_json_at(m.result, 0)), rows[i][1]);
        assert_string_equal(berth_json_str(berth_json_at(m.result, 1)), "\xc3\xa9");
        berth_message_clear(&m);
    }
    struct berth_message m;
    assert_int_equal(read_bytes("{\"jsonrpc\":\"2.0\"}\xe2\x80", 19, &m), BERTH_E_INVALID);
    assert_int_equal(read_bytes("\xe2\x80", 2, &m), BERTH_E_INVALID);
}

static void depth_is_bounded(void **state)
{
    (void)state;
    for (int depth = 60; depth <= 100; depth += 40) {
        auto_buf line = BERTH_BUF_INIT(4096);
        berth_buf_puts(&line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":");
        for (int i = 0; i < depth; i++)
            berth_buf_puts(&line, "[");
        for (int i = 0; i < depth; i++)
            berth_buf_puts(&line, "]");
        berth_buf_puts(&line, "}");
        struct berth_message m;
        int rc = read_bytes(line.data, line.len, &m);
        assert_int_equal(rc, depth == 60 ? BERTH_OK : BERTH_E_INVALID);
        if (rc < 0)
            assert_ptr_equal(strstr(t.err.message, "Invalid JSON: {\"jsonrpc\""), t.err.message);
        berth_message_clear(&m);
    }
}

/* Longer than any document of ours may be. */
static void a_long_text_passes(void **state)
{
    (void)state;
    size_t len = (size_t)BERTH_JSON_BYTES_MAX + 1024;
    auto_free char *text = malloc(len + 1);
    memset(text, 'x', len);
    text[len] = '\0';
    auto_buf line = BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX);
    berth_buf_printf(&line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"%s\"}", text);
    struct berth_message m;
    assert_ok(&t, read_bytes(line.data, line.len, &m));
    assert_int_equal(berth_json_str_len(m.result), len);
    assert_true(strcmp(berth_json_str(m.result), text) == 0);
    berth_message_clear(&m);
}

/* --- writing --- */

static void shapes_to_the_letter(void **state)
{
    (void)state;
    auto_buf out = BERTH_BUF_INIT(4096);
    berth_message_write(
        &out, &(struct berth_message_request){.id = 7, .method = "m", .params_json = "{\"a\":1}"});
    berth_message_write(&out, &(struct berth_message_request){.method = "log"});
    berth_message_write(&out, &(struct berth_message_request){.id = INT64_C(9007199254740990),
                                                              .method = "a\nb\"",
                                                              .params_json = "[]",
                                                              .invocation_json = "{\"id\":\"i\"}",
                                                              .invocation = "i-1"});
    auto_json *seven = parse_json("7");
    berth_message_write_result(&out, seven, NULL);
    berth_message_write_result(&out, seven, "{\"k\":\"v\"}");
    berth_message_write_error(&out, seven, BERTH_RPC_WORKER_ERROR, "spawn ENOENT");
    berth_message_write_error(&out, NULL, BERTH_RPC_PARSE_ERROR, "Parse error: \x01\t");
    assert_string_equal(
        berth_buf_str(&out),
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\",\"params\":{\"a\":1}}\n"
        "{\"jsonrpc\":\"2.0\",\"method\":\"log\",\"params\":{}}\n"
        "{\"jsonrpc\":\"2.0\",\"id\":9007199254740990,\"method\":\"a\\nb\\\"\",\"params\":[],"
        "\"paperclipInvocation\":{\"id\":\"i\"},\"paperclipInvocationId\":\"i-1\"}\n"
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":null}\n"
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"k\":\"v\"}}\n"
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32002,\"message\":\"spawn ENOENT\"}}\n"
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,"
        "\"message\":\"Parse error: \\u0001\\t\"}}\n");
}

/* A number stays a number, and a text a text. */
static void ids_are_echoed(void **state)
{
    (void)state;
    static const char *const ids[] = {
        "1",     "0",         "-3",   "9007199254740991", "9223372036854775807", "1.5",
        "\"1\"", "\"str-1\"", "\"\"", "\"a\\u0000b\"",    "\"\\\"\\\\\"",        "\"\\u2028\"",
        "true"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char line[200], want[200];
        (void)snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"health\"}",
                       ids[i]);
        struct berth_message m = read_fine(line);
        assert_int_equal(m.kind, BERTH_MESSAGE_REQUEST);
        auto_buf out = BERTH_BUF_INIT(4096);
        berth_message_write_result(&out, m.id, "{}");
        (void)snprintf(want, sizeof want, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n",
                       ids[i]);
        assert_string_equal(berth_buf_str(&out), want);
        berth_buf_truncate(&out, 0);
        berth_message_write_error(&out, m.id, -1, "x");
        struct berth_message back = read_back(&out);
        assert_true(berth_json_equal(m.id, back.id));
        berth_message_clear(&back);
        berth_message_clear(&m);
    }
}

/* Node 24 ends a line at either. What stands around them, or looks like one, stays as it is. */
#define SEPARATED LS "a" PS LS "\xe2\x80\xa7\xe2\x80\xaa\xc3\xa9" PS
#define ESCAPED "\\u2028a\\u2029\\u2028\xe2\x80\xa7\xe2\x80\xaa\xc3\xa9\\u2029"

static void separators_in_a_call(void **state)
{
    (void)state;
    auto_buf out = BERTH_BUF_INIT(4096);
    berth_message_write(&out, &(struct berth_message_request){
                                  .id = 1,
                                  .method = SEPARATED,
                                  .params_json = "{\"" SEPARATED "\":\"" SEPARATED "\"}",
                                  .invocation_json = "[\"" SEPARATED "\"]",
                                  .invocation = SEPARATED});
    assert_string_equal(berth_buf_str(&out), "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" ESCAPED
                                             "\",\"params\":{\"" ESCAPED "\":\"" ESCAPED
                                             "\"},\"paperclipInvocation\":[\"" ESCAPED
                                             "\"],\"paperclipInvocationId\":\"" ESCAPED "\"}\n");
    struct berth_message m = read_back(&out);
    assert_string_equal(m.method, SEPARATED);
    assert_string_equal(m.invocation, SEPARATED);
    assert_string_equal(berth_json_str(berth_json_get(m.params, SEPARATED)), SEPARATED);
    berth_message_clear(&m);
}

static void separators_in_answers(void **state)
{
    (void)state;
    auto_json *id = berth_json_new_str(SEPARATED);
    auto_buf out = BERTH_BUF_INIT(4096);
    berth_message_write_result(&out, id, "\"" SEPARATED "\"");
    assert_string_equal(berth_buf_str(&out), "{\"jsonrpc\":\"2.0\",\"id\":\"" ESCAPED
                                             "\",\"result\":\"" ESCAPED "\"}\n");
    struct berth_message m = read_back(&out);
    assert_string_equal(berth_json_str(m.result), SEPARATED);
    assert_true(berth_json_equal(m.id, id));
    berth_message_clear(&m);
    berth_buf_truncate(&out, 0);
    berth_message_write_error(&out, id, 404, SEPARATED);
    assert_string_equal(berth_buf_str(&out),
                        "{\"jsonrpc\":\"2.0\",\"id\":\"" ESCAPED
                        "\",\"error\":{\"code\":404,\"message\":\"" ESCAPED "\"}}\n");
    m = read_back(&out);
    assert_string_equal(berth_json_str(berth_json_get(m.error, "message")), SEPARATED);
    berth_message_clear(&m);
}

/* Lines are appended: earlier content of the buffer stays. */
static void earlier_lines_stay(void **state)
{
    (void)state;
    auto_buf out = BERTH_BUF_INIT(4096);
    out.secret = true;
    berth_buf_puts(&out, "before " LS "\n");
    for (int i = 0; i < 100; i++) {
        berth_buf_truncate(&out, strlen("before " LS "\n"));
        berth_message_write_result(&out, NULL, i % 2 ? "\"" LS "\"" : "\"plain\"");
    }
    assert_string_equal(berth_buf_str(&out),
                        "before " LS
                        "\n{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":\"\\u2028\"}\n");
    assert_true(out.secret);
}

/* Half a line must not pass for a whole one: at no ceiling. */
static void ceiling_of_the_buffer(void **state)
{
    (void)state;
    static const char whole[] =
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":\"\\u2028b\\u2029\"}\n";
    for (size_t max = 0; max < sizeof whole + 5; max++) {
        auto_buf out = BERTH_BUF_INIT(max);
        berth_message_write_result(&out, NULL, "\"" LS "b" PS "\"");
        assert_int_equal(out.failed, max < sizeof whole - 1);
        if (!out.failed)
            assert_string_equal(berth_buf_str(&out), whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_to_the_letter), cmocka_unit_test(long_noise_is_quoted_in_part),
        cmocka_unit_test(classes_in_their_order), cmocka_unit_test(members_are_found),
        cmocka_unit_test(odd_texts_are_kept),     cmocka_unit_test(bytes_that_are_no_utf8),
        cmocka_unit_test(depth_is_bounded),       cmocka_unit_test(a_long_text_passes),
        cmocka_unit_test(shapes_to_the_letter),   cmocka_unit_test(ids_are_echoed),
        cmocka_unit_test(separators_in_a_call),   cmocka_unit_test(separators_in_answers),
        cmocka_unit_test(earlier_lines_stay),     cmocka_unit_test(ceiling_of_the_buffer),
    };
    return cmocka_run_group_tests_name("message", tests, NULL, NULL);
}
