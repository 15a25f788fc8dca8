/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/check_command.c - checks of commands: their results, streamed output, and their end.
 */
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/time.h"
#include "plugin/check_trial.h"

#define LATE_MS 300             /* what the worker sends after an answer has come by then */
#define UNDER_WAY_MS 700        /* a command has begun by then */
#define TIMEOUT_ANSWER_MS 15000 /* the answer after a timeoutMs of 1000 has come by then */
#define HELD_UP_MS 2500         /* less than the slow command takes */
#define CANCEL_ANSWER_MS 10000  /* a killed command is answered by then; it would run longer */
#define CHUNK_CHARACTERS_MAX 1000000
#define LONG_OUTPUT_BYTES 1200000 /* more than one chunk may have */
#define STREAM_ID "berth-check-stream"

/* Reads the result of environmentExecute. Fails when a member is missing. */
static bool read_result(struct berth_trial *t, const struct berth_json *r, int64_t *code,
                        const char **out, const char **err)
{
    const struct berth_json *exit_code = berth_json_get(r, "exitCode");
    *out = berth_json_str(berth_json_get(r, "stdout"));
    *err = berth_json_str(berth_json_get(r, "stderr"));
    *code = berth_json_is(exit_code, BERTH_JSON_INT) ? berth_json_int(exit_code) : -1;
    if (!*out || !*err)
        return berth_trial_wrong(t, "environmentExecute answered without stdout or stderr");
    if (!berth_json_is(berth_json_get(r, "timedOut"), BERTH_JSON_BOOL))
        return berth_trial_wrong(t, "environmentExecute answered without timedOut");
    return true;
}

/* Returns whether the answer has both streams as the command wrote them. A provider that runs
 * commands in a terminal has both in stdout, and nothing in stderr. */
static bool is_output(const char *out, const char *err, const char *out_text, const char *err_text)
{
    if (strcmp(out, out_text) == 0 && strcmp(err, err_text) == 0)
        return true;
    const char *at = *err ? NULL : strstr(out, err_text);
    size_t before = at ? (size_t)(at - out) : 0;
    return at && strncmp(out, out_text, before) == 0 &&
           strcmp(at + strlen(err_text), out_text + before) == 0;
}

bool berth_check_execute(struct berth_trial *t)
{
    if (!berth_trial_begin(t))
        return false;
    struct berth_trial_command c = {
        .script = "cat; printf %s \"$BERTH_CHECK\"; echo out; echo err >&2; pwd; exit 3",
        .variable = "BERTH_CHECK",
        .value = "value-of-it ",
        .input = "input "};
    auto_reply r = berth_trial_execute(t, &c);
    int64_t code;
    const char *out, *err;
    if (!berth_trial_answered(t, "environmentExecute", &r) ||
        !read_result(t, r.result, &code, &out, &err))
        return false;
    if (code != 3)
        return berth_trial_wrong(t, "a command that exits with 3 gave exitCode %lld",
                                 (long long)code);
    if (!strstr(out, "out\n") || !strstr(*err ? err : out, "err\n"))
        return berth_trial_wrong(t, "stdout and stderr are not what the command wrote");
    if (strncmp(out, "input ", 6) != 0)
        return berth_trial_wrong(t, "stdin did not reach the command");
    if (!strstr(out, "value-of-it"))
        return berth_trial_wrong(t, "env did not reach the command");
    if (!strstr(out, "\n/\n"))
        return berth_trial_wrong(t, "cwd was not heeded");
    return berth_trial_finish(t);
}

bool berth_check_text(struct berth_trial *t)
{
    if (!berth_trial_begin(t))
        return false;
    /* A, U+2028, U+00E9, NUL, an invalid byte, Z. */
    struct berth_trial_command c = {.script = "printf 'A\\342\\200\\250\\303\\251\\000\\377Z'"};
    auto_reply r = berth_trial_execute(t, &c);
    int64_t code;
    const char *out, *err;
    if (r.kind == BERTH_REPLY_TIMEOUT)
        return berth_trial_wrong(
            t, "output with U+2028, NUL and bytes that are no UTF-8 lost the answer");
    if (!berth_trial_answered(t, "environmentExecute", &r) ||
        !read_result(t, r.result, &code, &out, &err))
        return false;
    size_t len = berth_json_str_len(berth_json_get(r.result, "stdout"));
    if (strncmp(out, "A\xe2\x80\xa8\xc3\xa9", 6) != 0 || len < 8 || out[len - 1] != 'Z')
        return berth_trial_wrong(
            t, "output with U+2028, NUL and bytes that are no UTF-8 was cut or changed");
    return berth_trial_finish(t);
}

/* Returns all execute.log messages so far, with those that came after the answer. */
static struct berth_json *trial_take_streamed(struct berth_trial *t)
{
    (void)usleep(LATE_MS * 1000);
    return berth_session_take_streamed(t->s);
}

static size_t count_characters(const char *text, size_t len)
{
    size_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

/* Checks one message, and appends its chunk to the text of its stream. */
static bool read_chunk(struct berth_trial *t, const struct berth_json *message,
                       struct berth_buf texts[2])
{
    const struct berth_json *params = berth_json_get(message, "params");
    const struct berth_json *chunk = berth_json_get(params, "chunk");
    const char *stream = berth_json_str(berth_json_get(params, "stream"));
    const char *id = berth_json_str(berth_json_get(message, "paperclipInvocationId"));
    if (!id || strcmp(id, STREAM_ID) != 0)
        return berth_trial_wrong(
            t, "execute.log came with the paperclipInvocationId %.100s, not the command's",
            id ? id : "(none)");
    if (!stream || (strcmp(stream, "stdout") != 0 && strcmp(stream, "stderr") != 0))
        return berth_trial_wrong(t, "execute.log came with the stream %.100s, not stdout or stderr",
                                 stream ? stream : "(none)");
    if (!berth_json_is(chunk, BERTH_JSON_STRING))
        return berth_trial_wrong(t, "execute.log came with a chunk that is no text");
    size_t len = berth_json_str_len(chunk), count = count_characters(berth_json_str(chunk), len);
    if (count > CHUNK_CHARACTERS_MAX)
        return berth_trial_wrong(
            t, "execute.log came with a chunk of %zu characters: a million is the most", count);
    berth_buf_append(&texts[strcmp(stream, "stderr") == 0], berth_json_str(chunk), len);
    return true;
}

/* A host takes from the answer only what is behind the bytes that were streamed, so these have to
 * be the beginning of it. */
static bool is_beginning(struct berth_trial *t, const char *name, const struct berth_buf *streamed,
                         const char *whole)
{
    const char *text = berth_buf_str(streamed);
    if (!text)
        return berth_trial_wrong(t, "out of memory");
    size_t same = 0;
    while (text[same] && text[same] == whole[same])
        same++;
    if (same == streamed->len)
        return true;
    if (strncmp(text + same, "\xef\xbf\xbd", 3) == 0)
        return berth_trial_wrong(t, "a chunk of %s was cut inside of a character", name);
    return berth_trial_wrong(t, "the chunks of %s are not the beginning of what the answer has",
                             name);
}

/* Runs a command with an invocation, and checks what is streamed before its answer. */
static bool check_streamed(struct berth_trial *t, const struct berth_trial_command *c,
                           const char *out_text, const char *err_text, bool *streams)
{
    struct berth_json_writer w = berth_trial_open_json(t);
    berth_json_put_str(&w, "id", STREAM_ID);
    berth_json_open_in(&w, "scope", '{');
    berth_json_put_str(&w, "companyId", t->company.text);
    berth_json_close(&w, '}');
    auto_reply r =
        berth_session_await(berth_trial_begin_execute(t, c, berth_trial_close_json(t, &w)));
    auto_json *messages = trial_take_streamed(t);
    int64_t code;
    const char *out, *err;
    if (!berth_trial_answered(t, "a command with a paperclipInvocation", &r) ||
        !read_result(t, r.result, &code, &out, &err))
        return false;
    *streams = berth_json_count(messages) > 0;
    if (!*streams)
        return true;
    if (berth_json_count(messages) > r.streamed)
        return berth_trial_wrong(t, "execute.log came after the answer");
    struct berth_buf texts[2] = {BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX),
                                 BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX)};
    bool ok = true;
    for (size_t i = 0; ok && i < berth_json_count(messages); i++)
        ok = read_chunk(t, berth_json_at(messages, i), texts);
    ok = ok && is_beginning(t, "stdout", &texts[0], out) &&
         is_beginning(t, "stderr", &texts[1], err);
    berth_buf_clear(&texts[0]);
    berth_buf_clear(&texts[1]);
    if (ok && !is_output(out, err, out_text, err_text))
        return berth_trial_wrong(
            t, "stdout and stderr are not what the command wrote while it was streamed");
    return ok;
}

bool berth_check_stream(struct berth_trial *t)
{
    if (!berth_trial_begin(t))
        return false;
    /* What is streamed for a command without an invocation is dropped by a host. Paperclip's SDK
     * sends it, too. */
    struct berth_trial_command plain = {.script = "echo one; echo warm >&2"};
    auto_reply r = berth_trial_execute(t, &plain);
    auto_json *uninvited = trial_take_streamed(t);
    if (!berth_trial_answered(t, "environmentExecute", &r))
        return false;
    /* The second character comes in two pieces. */
    struct berth_trial_command slow = {
        .script = "printf 'o\\303'; sleep 1; printf '\\251\\n'; echo warm >&2; echo two"};
    bool streams;
    if (!check_streamed(t, &slow, "o\xc3\xa9\ntwo\n", "warm\n", &streams))
        return false;
    char *zeros = streams ? berth_arena_alloc(&t->arena, LONG_OUTPUT_BYTES + 1) : NULL;
    if (zeros) {
        struct berth_trial_command loud = {
            .script = berth_arena_printf(&t->arena, "printf %%0%dd 0", LONG_OUTPUT_BYTES)};
        memset(zeros, '0', LONG_OUTPUT_BYTES);
        if (!check_streamed(t, &loud, zeros, "", &streams))
            return false;
    }
    return berth_trial_finish(t);
}

bool berth_check_timeout(struct berth_trial *t)
{
    if (!berth_trial_begin(t))
        return false;
    int64_t before = berth_time_mono_ms();
    struct berth_trial_command c = {.script = "echo begun; sleep 25", .timeout_ms = 1000};
    auto_reply r = berth_trial_execute(t, &c);
    int64_t code;
    const char *out, *err;
    if (!berth_trial_answered(t, "environmentExecute", &r) ||
        !read_result(t, r.result, &code, &out, &err))
        return false;
    if (!berth_json_true(berth_json_get(r.result, "timedOut")))
        return berth_trial_wrong(t,
                                 "a command beyond its timeoutMs did not end with timedOut: true");
    if (berth_time_mono_ms() - before > TIMEOUT_ANSWER_MS)
        return berth_trial_wrong(t, "a command with timeoutMs 1000 was answered after %lld ms",
                                 (long long)(berth_time_mono_ms() - before));
    return berth_trial_finish(t);
}

/* A host can tell a program that is not there only by a status, or by ENOENT in the error. */
static bool judge_missing(struct berth_trial *t, const struct berth_session_reply *r)
{
    if (berth_trial_is_error(r))
        return strstr(r->text, "ENOENT")
                   ? true
                   : berth_trial_wrong(t,
                                       "a program that is not there gave the error \"%.200s\": "
                                       "answer exitCode 127, or an error with ENOENT in it",
                                       r->text);
    if (r->kind != BERTH_REPLY_RESULT)
        return berth_trial_wrong(t, "a program that is not there: %s", r->text);
    const struct berth_json *code = berth_json_get(r->result, "exitCode");
    if (!berth_json_is(code, BERTH_JSON_INT))
        return berth_trial_wrong(t, "a program that is not there ended without an exitCode");
    if (berth_json_int(code) <= 0)
        return berth_trial_wrong(t, "a program that is not there ended with exitCode %lld",
                                 (long long)berth_json_int(code));
    return true;
}

bool berth_check_missing_program(struct berth_trial *t)
{
    if (!berth_trial_begin(t))
        return false;
    struct berth_trial_command there = {.script = "exit 0"};
    auto_reply first =
        berth_trial_execute(t, &there); /* an execute that always fails says nothing */
    if (!berth_trial_answered(t, "environmentExecute", &first))
        return false;
    struct berth_trial_command c = {.program = "/no/such/program", .timeout_ms = 10000};
    auto_reply r = berth_trial_execute(t, &c);
    return judge_missing(t, &r) && berth_trial_finish(t);
}

bool berth_check_unknown_lease(struct berth_trial *t)
{
    if (!berth_trial_start(t))
        return false;
    t->place = BERTH_TRIAL_NO_PLACE;
    t->metadata = "{}";
    struct berth_trial_command c = {.script = "exit 0", .timeout_ms = 10000};
    auto_reply r = berth_trial_execute(t, &c);
    if (r.kind == BERTH_REPLY_TIMEOUT || r.kind == BERTH_REPLY_GONE)
        return berth_trial_wrong(t, "execute in a place that is not there: %s", r.text);
    auto_reply health = berth_session_ask(t->s, "health", "{}", BERTH_TRIAL_QUICK_MS);
    return berth_trial_answered(t, "health after an unknown place", &health);
}

bool berth_check_concurrency(struct berth_trial *t)
{
    if (!berth_trial_begin(t))
        return false;
    struct berth_trial_command long_one = {.script = "sleep 3; echo slow"},
                               short_one = {.script = "echo quick"};
    struct berth_session_question *slow = berth_trial_begin_execute(t, &long_one, NULL);
    int64_t before = berth_time_mono_ms();
    auto_reply quick = berth_trial_execute(t, &short_one);
    int64_t took = berth_time_mono_ms() - before;
    auto_reply last = berth_session_await(slow);
    if (!berth_trial_answered(t, "the quick command", &quick) ||
        !berth_trial_answered(t, "the slow command", &last))
        return false;
    if (took > HELD_UP_MS)
        return berth_trial_wrong(
            t, "a command of 3 s held up another in the same place for %lld ms", (long long)took);
    return berth_trial_finish(t);
}

/* A host ends a command by another one that kills it. */
bool berth_check_cancel(struct berth_trial *t)
{
    if (!berth_trial_begin(t))
        return false;
    struct berth_trial_command victim = {
        .script = "sleep 15", .variable = "BERTH_EXEC_ID", .value = "check-cancel"};
    struct berth_trial_command hunt = {
        .script = "for e in /proc/[0-9]*/environ; do p=${e#/proc/}; p=${p%/environ};"
                  " tr '\\0' '\\n' <$e 2>/dev/null | grep -qx BERTH_EXEC_ID=check-cancel &&"
                  " kill -TERM $p; done; exit 0",
        .timeout_ms = 10000};
    struct berth_session_question *slow = berth_trial_begin_execute(t, &victim, NULL);
    (void)usleep(UNDER_WAY_MS * 1000);
    int64_t before = berth_time_mono_ms();
    auto_reply killer = berth_trial_execute(t, &hunt);
    auto_reply ended = berth_session_await(slow);
    if (!berth_trial_answered(t, "the command that ends another", &killer))
        return false;
    if (ended.kind == BERTH_REPLY_TIMEOUT || berth_time_mono_ms() - before > CANCEL_ANSWER_MS)
        return berth_trial_wrong(
            t, "a command that was killed in its place was not answered soon: env does "
               "not reach it, or its end is not seen");
    return berth_trial_answered(t, "the command that was ended", &ended) && berth_trial_finish(t);
}
