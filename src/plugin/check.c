/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/check.c - see check.h. Every check starts a worker of its own, and what it acquires it
 * gives back. */
#include "plugin/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "plugin/session.h"

#define ASK_MS 30000
#define QUICK_MS 5000 /* an answer that needs no place */
#define EXIT_MS 2000
#define LATE_MS 300 /* what comes after an answer has come by then */

#define CHUNK_CHARACTERS_MAX 1000000
#define LONG_OUTPUT_BYTES 1200000 /* more than a chunk may have */
#define NO_PLACE "berth-check-no-such-place"
#define STREAM_ID "berth-check-stream"

/* One check under way. */
struct trial {
    struct berth_engine *engine;
    const struct berth_check_request *request;
    struct berth_worker_spec spec;
    struct berth_arena arena;
    struct berth_buf json; /* what is being written */
    const char *driver_key, *config_json;
    struct berth_id company, environment, run, lease;
    struct berth_session *s;
    struct berth_json *methods; /* that it says it has */
    const char *place;          /* what was acquired, or NULL */
    const char *metadata;       /* and what came with it */
    bool skipped;
    char detail[800];
};

/* Says what is wrong; the check is over. Always false. */
static bool wrong(struct trial *t, const char *fmt, ...) BERTH_PRINTF(2, 3);
static bool wrong(struct trial *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (!t->detail[0])
        (void)vsnprintf(t->detail, sizeof t->detail, fmt, args);
    va_end(args);
    return false;
}

static bool skip(struct trial *t, const char *why)
{
    t->skipped = true;
    return wrong(t, "%s", why);
}

/* --- speaking --- */

static bool is_error(const struct berth_session_reply *r)
{
    return r->kind == BERTH_REPLY_ERROR;
}

/* It answered, with a result. */
static bool answered(struct trial *t, const char *what, const struct berth_session_reply *r)
{
    if (r->kind == BERTH_REPLY_RESULT)
        return true;
    return wrong(t, "%s: %s%s", what, is_error(r) ? "error: " : "", r->text);
}

/* Texts of others go into JSON by its writer alone. The text that comes of it lives in the arena,
 * and is NULL when memory ran out. */
static struct berth_json_writer open_json(struct trial *t)
{
    struct berth_json_writer w = {.buf = &t->json};
    berth_buf_truncate(&t->json, 0);
    berth_json_open(&w, '{');
    return w;
}

static const char *close_json(struct trial *t, struct berth_json_writer *w)
{
    berth_json_close(w, '}');
    t->arena.failed |= t->json.failed;
    return berth_arena_strdup(&t->arena, berth_buf_str(&t->json));
}

/* The members that begin every environment call. */
static struct berth_json_writer open_params(struct trial *t)
{
    struct berth_json_writer w = open_json(t);
    berth_json_put_str(&w, "driverKey", t->driver_key);
    berth_json_put_str(&w, "companyId", t->company.text);
    berth_json_put_str(&w, "environmentId", t->environment.text);
    berth_json_put_str(&w, "issueId", NULL);
    berth_json_put_raw(&w, "config", t->config_json);
    return w;
}

static const char *bare_params(struct trial *t)
{
    struct berth_json_writer w = open_params(t);
    return close_json(t, &w);
}

static const char *place_params(struct trial *t, const char *place)
{
    struct berth_json_writer w = open_params(t);
    berth_json_put_str(&w, "providerLeaseId", place);
    berth_json_put_raw(&w, "leaseMetadata", t->metadata ? t->metadata : "{}");
    return close_json(t, &w);
}

static const char *validate_params(struct trial *t, const char *padding)
{
    struct berth_json_writer w = open_json(t);
    berth_json_put_str(&w, "driverKey", t->driver_key);
    berth_json_put_raw(&w, "config", t->config_json);
    if (padding)
        berth_json_put_str(&w, "padding", padding);
    return close_json(t, &w);
}

static void put_lease(struct trial *t, struct berth_json_writer *w)
{
    berth_json_open_in(w, "lease", '{');
    berth_json_put_str(w, "providerLeaseId", t->place);
    berth_json_put_raw(w, "metadata", t->metadata);
    berth_json_put_str(w, "expiresAt", NULL);
    berth_json_close(w, '}');
}

static const char *realize_params(struct trial *t)
{
    struct berth_json_writer w = open_params(t);
    put_lease(t, &w);
    berth_json_open_in(&w, "workspace", '{');
    berth_json_put_str(&w, "mode", "ephemeral");
    berth_json_close(&w, '}');
    return close_json(t, &w);
}

/* What is to run in the place. */
struct command {
    const char *script;           /* for sh, or NULL */
    const char *program;          /* without arguments, else */
    const char *variable, *value; /* in its environment, or NULL */
    const char *input;            /* its stdin, or NULL */
    int64_t timeout_ms;           /* 0: there is time enough */
};

static const char *command_params(struct trial *t, const struct command *c)
{
    struct berth_json_writer w = open_params(t);
    put_lease(t, &w);
    berth_json_put_str(&w, "command", c->script ? "sh" : c->program);
    berth_json_open_in(&w, "args", '[');
    if (c->script) {
        berth_json_put_str(&w, NULL, "-c");
        berth_json_put_str(&w, NULL, c->script);
    }
    berth_json_close(&w, ']');
    berth_json_put_str(&w, "cwd", "/");
    berth_json_open_in(&w, "env", '{');
    if (c->variable)
        berth_json_put_str(&w, c->variable, c->value);
    berth_json_close(&w, '}');
    if (c->input)
        berth_json_put_str(&w, "stdin", c->input);
    berth_json_put_int(&w, "timeoutMs", c->timeout_ms ? c->timeout_ms : 20000);
    return close_json(t, &w);
}

static struct berth_session_question *begin_execute(struct trial *t, const struct command *c,
                                                    const char *invocation_json)
{
    return berth_session_begin(t->s, "environmentExecute", command_params(t, c), invocation_json,
                               ASK_MS);
}

static struct berth_session_reply execute(struct trial *t, const struct command *c)
{
    return berth_session_await(begin_execute(t, c, NULL));
}

static bool has_method(const struct trial *t, const char *name)
{
    for (size_t i = 0; i < berth_json_count(t->methods); i++) {
        const char *method = berth_json_str(berth_json_at(t->methods, i));
        if (method && strcmp(method, name) == 0)
            return true;
    }
    return false;
}

static const char *initialize_params(struct trial *t)
{
    auto_free char *manifest = berth_json_canonical(t->request->manifest);
    struct berth_json_writer w = open_json(t);
    berth_json_put_raw(&w, "manifest", manifest ? manifest : "{}");
    berth_json_put_raw(&w, "config", "{}");
    berth_json_open_in(&w, "instanceInfo", '{');
    berth_json_put_str(&w, "instanceId", "check");
    berth_json_put_str(&w, "hostVersion", BERTH_VERSION);
    berth_json_close(&w, '}');
    berth_json_put_int(&w, "apiVersion", 1);
    berth_json_put_str(&w, "databaseNamespace", NULL);
    return close_json(t, &w);
}

static bool start(struct trial *t)
{
    struct berth_error err;
    if (berth_session_open(t->engine, &t->spec, &t->s, &err) < 0)
        return wrong(t, "it does not start: %s", err.message);
    auto_reply r = berth_session_ask(t->s, "initialize", initialize_params(t), 15000);
    if (!answered(t, "initialize", &r))
        return false;
    const struct berth_json *ok = berth_json_get(r.result, "ok");
    const struct berth_json *methods = berth_json_get(r.result, "supportedMethods");
    berth_json_free(t->methods);
    t->methods = methods ? berth_json_copy(methods) : NULL;
    return berth_json_true(ok) ? true : wrong(t, "initialize did not answer ok: true");
}

static bool stop(struct trial *t)
{
    berth_session_close(t->s);
    t->s = NULL;
    return true;
}

static bool acquire(struct trial *t)
{
    struct berth_json_writer w = open_params(t);
    berth_json_put_str(&w, "runId", t->run.text);
    berth_json_put_str(&w, "leaseId", t->lease.text);
    berth_json_put_str(&w, "workspaceMode", "shared_workspace");
    auto_reply r = berth_session_ask(t->s, "environmentAcquireLease", close_json(t, &w), ASK_MS);
    if (!answered(t, "environmentAcquireLease", &r))
        return false;
    const char *id = berth_json_str(berth_json_get(r.result, "providerLeaseId"));
    const struct berth_json *metadata = berth_json_get(r.result, "metadata");
    if (!id || !*id)
        return wrong(t, "environmentAcquireLease answered without a providerLeaseId");
    if (metadata && !berth_json_is(metadata, BERTH_JSON_OBJECT) &&
        berth_json_type(metadata) != BERTH_JSON_NULL)
        return wrong(t, "environmentAcquireLease answered with metadata that is no object");
    t->place = berth_arena_strdup(&t->arena, id);
    t->metadata = berth_json_is(metadata, BERTH_JSON_OBJECT)
                      ? berth_json_canonical_in(&t->arena, metadata)
                      : "{}";
    return true;
}

static bool give_back(struct trial *t, const char *method)
{
    auto_reply r = berth_session_ask(t->s, method, place_params(t, t->place), ASK_MS);
    return answered(t, method, &r);
}

static bool begin(struct trial *t)
{
    return start(t) && acquire(t);
}

static bool finish(struct trial *t)
{
    return give_back(t, has_method(t, "environmentDestroyLease") ? "environmentDestroyLease"
                                                                 : "environmentReleaseLease");
}

/* --- the checks --- */

static bool check_initialize(struct trial *t)
{
    static const char *const needed[] = {"environmentAcquireLease", "environmentReleaseLease",
                                         "environmentRealizeWorkspace", "environmentExecute"};
    if (!start(t))
        return false;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!has_method(t, needed[i]))
            return wrong(t, "supportedMethods does not list %s", needed[i]);
    auto_reply again =
        berth_session_ask(t->s, "initialize", "{\"manifest\":{},\"config\":{}}", QUICK_MS);
    return is_error(&again) ? true : wrong(t, "a second initialize was not refused");
}

static bool check_health(struct trial *t)
{
    if (!start(t))
        return false;
    auto_reply r = berth_session_ask(t->s, "health", "{}", QUICK_MS);
    if (!answered(t, "health", &r))
        return false;
    const char *status = berth_json_str(berth_json_get(r.result, "status"));
    return status && (strcmp(status, "ok") == 0 || strcmp(status, "degraded") == 0)
               ? true
               : wrong(t, "health answered status %s", status ? status : "(none)");
}

static bool check_unknown_method(struct trial *t)
{
    if (!start(t))
        return false;
    auto_reply r = berth_session_ask(t->s, "environmentTeleport", "{}", QUICK_MS);
    if (r.kind == BERTH_REPLY_TIMEOUT)
        return wrong(t, "an unknown method was never answered");
    return is_error(&r) && (r.code == -32601 || r.code == -32004)
               ? true
               : wrong(t, "an unknown method gave code %lld, not -32601", (long long)r.code);
}

static bool check_garbage(struct trial *t)
{
    static const char *const lines[] = {"this is not json\n",
                                        "\n",
                                        "{\"jsonrpc\":\"2.0\"\n",
                                        "[1,2,3]\n",
                                        "null\n",
                                        "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"health\"}\n",
                                        "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"health\"}\n",
                                        "{\"jsonrpc\":\"2.0\",\"method\":\"no.such.thing\"}\n",
                                        "\xff\xfe\x80\n",
                                        "   \r\n"};
    if (!start(t))
        return false;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        berth_session_write(t->s, lines[i], strlen(lines[i]));
    auto_reply r = berth_session_ask(t->s, "health", "{}", QUICK_MS);
    if (r.kind != BERTH_REPLY_RESULT)
        return wrong(t, "after lines that are no messages it is of no more use: %s", r.text);
    return true;
}

static bool check_long_line(struct trial *t)
{
    if (!start(t))
        return false;
    size_t len = 4 * 1024 * 1024;
    auto_free char *text = malloc(len + 1);
    if (!text)
        return wrong(t, "out of memory");
    memset(text, 'x', len);
    text[len] = '\0';
    auto_reply r =
        berth_session_ask(t->s, "environmentValidateConfig", validate_params(t, text), ASK_MS);
    if (r.kind == BERTH_REPLY_TIMEOUT || r.kind == BERTH_REPLY_GONE)
        return wrong(t, "a request of 4 MiB: %s", r.text);
    return true;
}

static bool check_validate(struct trial *t)
{
    if (!start(t))
        return false;
    if (!has_method(t, "environmentValidateConfig"))
        return skip(t, "it does not offer environmentValidateConfig");
    auto_reply r =
        berth_session_ask(t->s, "environmentValidateConfig", validate_params(t, NULL), ASK_MS);
    if (!answered(t, "environmentValidateConfig", &r))
        return false;
    if (!berth_json_is(berth_json_get(r.result, "ok"), BERTH_JSON_BOOL))
        return wrong(t, "environmentValidateConfig answered without ok: true or false");
    if (!berth_json_true(berth_json_get(r.result, "ok"))) {
        const struct berth_json *errors = berth_json_get(r.result, "errors");
        const char *first = berth_json_str(berth_json_at(errors, 0));
        return wrong(t, "it refuses the config (give a good one by --config): %s",
                     first ? first : "(no reason)");
    }
    return true;
}

static bool check_unknown_keys(struct trial *t)
{
    if (!start(t))
        return false;
    auto_json *config = NULL;
    struct berth_error err;
    if (berth_json_parse(t->config_json, strlen(t->config_json), BERTH_JSON_OURS, &config, &err) <
            0 ||
        !berth_json_set(config, "berthCheckUnknownKey", berth_json_new_str("x")))
        return wrong(t, "the config cannot be read");
    const char *plain = t->config_json;
    t->config_json = berth_json_canonical_in(&t->arena, config);
    bool ok = acquire(t) && finish(t);
    t->config_json = plain;
    return ok ? true : wrong(t, "unknown config keys and params are not ignored");
}

static bool check_probe(struct trial *t)
{
    if (!start(t))
        return false;
    if (!has_method(t, "environmentProbe"))
        return skip(t, "it does not offer environmentProbe");
    auto_reply r = berth_session_ask(t->s, "environmentProbe", bare_params(t), ASK_MS);
    if (!answered(t, "environmentProbe", &r))
        return false;
    return berth_json_is(berth_json_get(r.result, "ok"), BERTH_JSON_BOOL)
               ? true
               : wrong(t, "environmentProbe answered without ok: true or false");
}

static bool check_lease(struct trial *t)
{
    return begin(t) && give_back(t, "environmentReleaseLease") && finish(t);
}

static bool check_double_release(struct trial *t)
{
    if (!begin(t) || !give_back(t, "environmentReleaseLease"))
        return false;
    if (!give_back(t, "environmentReleaseLease")) {
        t->detail[0] = '\0';
        return wrong(t, "a second release failed; it must be a success");
    }
    return finish(t);
}

static bool check_double_destroy(struct trial *t)
{
    if (!start(t))
        return false;
    if (!has_method(t, "environmentDestroyLease"))
        return skip(t, "it does not offer environmentDestroyLease");
    if (!acquire(t) || !finish(t))
        return false;
    if (!finish(t)) {
        t->detail[0] = '\0';
        return wrong(t, "a second destroy failed; an unknown place is a success");
    }
    return true;
}

/* What resume answers for a place that is not there. */
static bool resume_is_gone(struct trial *t, const char *place)
{
    auto_reply r =
        berth_session_ask(t->s, "environmentResumeLease", place_params(t, place), ASK_MS);
    if (r.kind == BERTH_REPLY_TIMEOUT || r.kind == BERTH_REPLY_GONE)
        return wrong(t, "resume of a place that is gone: %s", r.text);
    const char *id = berth_json_str(berth_json_get(r.result, "providerLeaseId"));
    if (r.kind == BERTH_REPLY_RESULT && id && *id)
        return wrong(t, "resume of a place that is gone answered with the place %.100s", id);
    return true;
}

static bool check_resume(struct trial *t)
{
    if (!start(t))
        return false;
    if (!has_method(t, "environmentResumeLease"))
        return skip(t, "it does not offer environmentResumeLease");
    if (!acquire(t))
        return false;
    auto_reply r =
        berth_session_ask(t->s, "environmentResumeLease", place_params(t, t->place), ASK_MS);
    if (!answered(t, "environmentResumeLease", &r))
        return false;
    const char *id = berth_json_str(berth_json_get(r.result, "providerLeaseId"));
    if (!id || strcmp(id, t->place) != 0)
        return wrong(t, "resume of a live place answered with %s",
                     id ? "another place" : "nothing");
    return finish(t);
}

static bool check_stale_resume(struct trial *t)
{
    if (!start(t))
        return false;
    if (!has_method(t, "environmentResumeLease") || !has_method(t, "environmentDestroyLease"))
        return skip(t, "it does not offer resume and destroy");
    return acquire(t) && finish(t) && resume_is_gone(t, t->place) && resume_is_gone(t, NO_PLACE);
}

static bool check_realize(struct trial *t)
{
    if (!begin(t))
        return false;
    auto_reply r =
        berth_session_ask(t->s, "environmentRealizeWorkspace", realize_params(t), ASK_MS);
    if (!answered(t, "environmentRealizeWorkspace", &r))
        return false;
    const char *cwd = berth_json_str(berth_json_get(r.result, "cwd"));
    if (!cwd || cwd[0] != '/')
        return wrong(t, "environmentRealizeWorkspace answered without an absolute cwd");
    return finish(t);
}

/* A result of execute, whole. */
static bool read_result(struct trial *t, const struct berth_json *r, int64_t *code,
                        const char **out, const char **err)
{
    const struct berth_json *exit_code = berth_json_get(r, "exitCode");
    *out = berth_json_str(berth_json_get(r, "stdout"));
    *err = berth_json_str(berth_json_get(r, "stderr"));
    *code = berth_json_is(exit_code, BERTH_JSON_INT) ? berth_json_int(exit_code) : -1;
    if (!*out || !*err)
        return wrong(t, "environmentExecute answered without stdout or stderr");
    if (!berth_json_is(berth_json_get(r, "timedOut"), BERTH_JSON_BOOL))
        return wrong(t, "environmentExecute answered without timedOut");
    return true;
}

static bool check_execute(struct trial *t)
{
    if (!begin(t))
        return false;
    struct command c = {.script =
                            "cat; printf %s \"$BERTH_CHECK\"; echo out; echo err >&2; pwd; exit 3",
                        .variable = "BERTH_CHECK",
                        .value = "value-of-it ",
                        .input = "input "};
    auto_reply r = execute(t, &c);
    int64_t code;
    const char *out, *err;
    if (!answered(t, "environmentExecute", &r) || !read_result(t, r.result, &code, &out, &err))
        return false;
    if (code != 3)
        return wrong(t, "a command that exits with 3 gave exitCode %lld", (long long)code);
    if (!strstr(out, "out\n") || !strstr(err, "err\n"))
        return wrong(t, "stdout and stderr are not what the command wrote");
    if (strncmp(out, "input ", 6) != 0)
        return wrong(t, "stdin did not reach the command");
    if (!strstr(out, "value-of-it"))
        return wrong(t, "env did not reach the command");
    if (!strstr(out, "\n/\n"))
        return wrong(t, "cwd was not heeded");
    return finish(t);
}

static bool check_text(struct trial *t)
{
    if (!begin(t))
        return false;
    /* A, U+2028, U+00E9, NUL, an invalid byte, Z. */
    struct command c = {.script = "printf 'A\\342\\200\\250\\303\\251\\000\\377Z'"};
    auto_reply r = execute(t, &c);
    int64_t code;
    const char *out, *err;
    if (r.kind == BERTH_REPLY_TIMEOUT)
        return wrong(t, "output with U+2028, NUL and bytes that are no UTF-8 lost the answer");
    if (!answered(t, "environmentExecute", &r) || !read_result(t, r.result, &code, &out, &err))
        return false;
    size_t len = berth_json_str_len(berth_json_get(r.result, "stdout"));
    if (strncmp(out, "A\xe2\x80\xa8\xc3\xa9", 6) != 0 || len < 8 || out[len - 1] != 'Z')
        return wrong(t, "output with U+2028, NUL and bytes that are no UTF-8 was cut or changed");
    return finish(t);
}

/* --- streams --- */

/* All that was streamed, what came after the answer, too. */
static struct berth_json *take_streamed(struct trial *t)
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

/* One message; its chunk goes to the others of its stream. */
static bool read_chunk(struct trial *t, const struct berth_json *message, struct berth_buf texts[2])
{
    const struct berth_json *params = berth_json_get(message, "params");
    const struct berth_json *chunk = berth_json_get(params, "chunk");
    const char *stream = berth_json_str(berth_json_get(params, "stream"));
    const char *id = berth_json_str(berth_json_get(message, "paperclipInvocationId"));
    if (!id || strcmp(id, STREAM_ID) != 0)
        return wrong(t, "execute.log came with the paperclipInvocationId %.100s, not the command's",
                     id ? id : "(none)");
    if (!stream || (strcmp(stream, "stdout") != 0 && strcmp(stream, "stderr") != 0))
        return wrong(t, "execute.log came with the stream %.100s, not stdout or stderr",
                     stream ? stream : "(none)");
    if (!berth_json_is(chunk, BERTH_JSON_STRING))
        return wrong(t, "execute.log came with a chunk that is no text");
    size_t len = berth_json_str_len(chunk), count = count_characters(berth_json_str(chunk), len);
    if (count > CHUNK_CHARACTERS_MAX)
        return wrong(t, "execute.log came with a chunk of %zu characters: a million is the most",
                     count);
    berth_buf_append(&texts[strcmp(stream, "stderr") == 0], berth_json_str(chunk), len);
    return true;
}

/* The host takes from the answer what is behind as many bytes as came before. */
static bool is_beginning(struct trial *t, const char *name, const struct berth_buf *streamed,
                         const char *whole)
{
    const char *text = berth_buf_str(streamed);
    if (!text)
        return wrong(t, "out of memory");
    size_t same = 0;
    while (text[same] && text[same] == whole[same])
        same++;
    if (same == streamed->len)
        return true;
    if (strncmp(text + same, "\xef\xbf\xbd", 3) == 0)
        return wrong(t, "a chunk of %s was cut inside of a character", name);
    return wrong(t, "the chunks of %s are not the beginning of what the answer has", name);
}

/* Runs a command with an invocation, and looks at what comes before its answer. */
static bool stream(struct trial *t, const struct command *c, const char *out_text,
                   const char *err_text, bool *streams)
{
    struct berth_json_writer w = open_json(t);
    berth_json_put_str(&w, "id", STREAM_ID);
    berth_json_open_in(&w, "scope", '{');
    berth_json_put_str(&w, "companyId", t->company.text);
    berth_json_close(&w, '}');
    auto_reply r = berth_session_await(begin_execute(t, c, close_json(t, &w)));
    auto_json *messages = take_streamed(t);
    int64_t code;
    const char *out, *err;
    if (!answered(t, "a command with a paperclipInvocation", &r) ||
        !read_result(t, r.result, &code, &out, &err))
        return false;
    *streams = berth_json_count(messages) > 0;
    if (!*streams)
        return true;
    if (berth_json_count(messages) > r.streamed)
        return wrong(t, "execute.log came after the answer");
    struct berth_buf texts[2] = {BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX),
                                 BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX)};
    bool ok = true;
    for (size_t i = 0; ok && i < berth_json_count(messages); i++)
        ok = read_chunk(t, berth_json_at(messages, i), texts);
    ok = ok && is_beginning(t, "stdout", &texts[0], out) &&
         is_beginning(t, "stderr", &texts[1], err);
    berth_buf_clear(&texts[0]);
    berth_buf_clear(&texts[1]);
    if (ok && (strcmp(out, out_text) != 0 || strcmp(err, err_text) != 0))
        return wrong(t, "stdout and stderr are not what the command wrote while it was streamed");
    return ok;
}

static bool check_stream(struct trial *t)
{
    if (!begin(t))
        return false;
    struct command plain = {.script = "echo one; echo warm >&2"};
    auto_reply r = execute(t, &plain);
    auto_json *uninvited = take_streamed(t);
    if (!answered(t, "environmentExecute", &r))
        return false;
    if (berth_json_count(uninvited) > 0)
        return wrong(t, "execute.log came for a command without a paperclipInvocation");
    /* Its second character comes in two pieces. */
    struct command slow = {
        .script = "printf 'o\\303'; sleep 1; printf '\\251\\n'; echo warm >&2; echo two"};
    bool streams;
    if (!stream(t, &slow, "o\xc3\xa9\ntwo\n", "warm\n", &streams))
        return false;
    char *zeros = streams ? berth_arena_alloc(&t->arena, LONG_OUTPUT_BYTES + 1) : NULL;
    if (zeros) {
        struct command loud = {
            .script = berth_arena_printf(&t->arena, "printf %%0%dd 0", LONG_OUTPUT_BYTES)};
        memset(zeros, '0', LONG_OUTPUT_BYTES);
        if (!stream(t, &loud, zeros, "", &streams))
            return false;
    }
    return finish(t);
}

/* --- commands and workers that end --- */

static bool check_timeout(struct trial *t)
{
    if (!begin(t))
        return false;
    int64_t before = berth_time_mono_ms();
    struct command c = {.script = "echo begun; sleep 25", .timeout_ms = 1000};
    auto_reply r = execute(t, &c);
    int64_t code;
    const char *out, *err;
    if (!answered(t, "environmentExecute", &r) || !read_result(t, r.result, &code, &out, &err))
        return false;
    if (!berth_json_true(berth_json_get(r.result, "timedOut")))
        return wrong(t, "a command beyond its timeoutMs did not end with timedOut: true");
    if (berth_time_mono_ms() - before > 15000)
        return wrong(t, "a command with timeoutMs 1000 was answered after %lld ms",
                     (long long)(berth_time_mono_ms() - before));
    return finish(t);
}

static bool check_missing_program(struct trial *t)
{
    if (!begin(t))
        return false;
    struct command c = {.program = "/no/such/program", .timeout_ms = 10000};
    auto_reply r = execute(t, &c);
    if (r.kind == BERTH_REPLY_TIMEOUT || r.kind == BERTH_REPLY_GONE)
        return wrong(t, "a program that is not there: %s", r.text);
    if (r.kind == BERTH_REPLY_RESULT && berth_json_int(berth_json_get(r.result, "exitCode")) == 0 &&
        berth_json_is(berth_json_get(r.result, "exitCode"), BERTH_JSON_INT))
        return wrong(t, "a program that is not there ended with exitCode 0");
    return finish(t);
}

static bool check_unknown_lease(struct trial *t)
{
    if (!start(t))
        return false;
    t->place = NO_PLACE;
    t->metadata = "{}";
    struct command c = {.script = "exit 0", .timeout_ms = 10000};
    auto_reply r = execute(t, &c);
    if (r.kind == BERTH_REPLY_TIMEOUT || r.kind == BERTH_REPLY_GONE)
        return wrong(t, "execute in a place that is not there: %s", r.text);
    auto_reply health = berth_session_ask(t->s, "health", "{}", QUICK_MS);
    return answered(t, "health after an unknown place", &health);
}

static bool check_concurrency(struct trial *t)
{
    if (!begin(t))
        return false;
    struct command long_one = {.script = "sleep 3; echo slow"},
                   short_one = {.script = "echo quick"};
    struct berth_session_question *slow = begin_execute(t, &long_one, NULL);
    int64_t before = berth_time_mono_ms();
    auto_reply quick = execute(t, &short_one);
    int64_t took = berth_time_mono_ms() - before;
    auto_reply last = berth_session_await(slow);
    if (!answered(t, "the quick command", &quick) || !answered(t, "the slow command", &last))
        return false;
    if (took > 2500)
        return wrong(t, "a command of 3 s held up another in the same place for %lld ms",
                     (long long)took);
    return finish(t);
}

/* The way in which a host ends a command: by another one that kills it. */
static bool check_cancel(struct trial *t)
{
    if (!begin(t))
        return false;
    struct command victim = {
        .script = "sleep 15", .variable = "BERTH_EXEC_ID", .value = "check-cancel"};
    struct command hunt = {
        .script = "for e in /proc/[0-9]*/environ; do p=${e#/proc/}; p=${p%/environ};"
                  " tr '\\0' '\\n' <$e 2>/dev/null | grep -qx BERTH_EXEC_ID=check-cancel &&"
                  " kill -TERM $p; done; exit 0",
        .timeout_ms = 10000};
    struct berth_session_question *slow = begin_execute(t, &victim, NULL);
    (void)usleep(700 * 1000);
    int64_t before = berth_time_mono_ms();
    auto_reply killer = execute(t, &hunt);
    auto_reply ended = berth_session_await(slow);
    if (!answered(t, "the command that ends another", &killer))
        return false;
    if (ended.kind == BERTH_REPLY_TIMEOUT || berth_time_mono_ms() - before > 10000)
        return wrong(t, "a command that was killed in its place was not answered soon: env does "
                        "not reach it, or its end is not seen");
    return answered(t, "the command that was ended", &ended) && finish(t);
}

/* Is what was acquired among what it finds? */
static bool find_place(struct trial *t, bool *found)
{
    auto_reply r = berth_session_ask(t->s, "environmentFindLeases", bare_params(t), ASK_MS);
    if (!answered(t, "environmentFindLeases", &r))
        return false;
    const struct berth_json *leases = berth_json_get(r.result, "leases");
    *found = false;
    for (size_t i = 0; i < berth_json_count(leases); i++) {
        const struct berth_json *l = berth_json_at(leases, i);
        const char *lease = berth_json_str(berth_json_get(l, "leaseId"));
        const char *place = berth_json_str(berth_json_get(l, "providerLeaseId"));
        *found |=
            lease && place && strcmp(lease, t->lease.text) == 0 && strcmp(place, t->place) == 0;
    }
    return true;
}

static bool check_find(struct trial *t)
{
    bool found;
    if (!start(t))
        return false;
    if (!has_method(t, "environmentFindLeases"))
        return skip(t, "it does not offer environmentFindLeases");
    if (!acquire(t) || !find_place(t, &found))
        return false;
    if (!found)
        return wrong(t, "environmentFindLeases does not list what was acquired");
    if (!finish(t) || !find_place(t, &found))
        return false;
    return found ? wrong(t, "environmentFindLeases lists a place that was destroyed") : true;
}

static bool check_same_lease(struct trial *t)
{
    if (!start(t))
        return false;
    if (!has_method(t, "environmentFindLeases"))
        return skip(t, "it does not offer environmentFindLeases, which goes with leaseId");
    if (!acquire(t))
        return false;
    const char *first = t->place;
    if (!acquire(t))
        return false;
    if (strcmp(first, t->place) != 0)
        return wrong(t, "acquire with the same leaseId made a second place");
    return finish(t);
}

static bool check_kill(struct trial *t)
{
    if (!begin(t))
        return false;
    struct command c = {.script = "sleep 5", .timeout_ms = 8000};
    struct berth_session_question *busy = begin_execute(t, &c, NULL);
    (void)usleep(300 * 1000);
    berth_session_kill(t->s);
    auto_reply lost = berth_session_await(busy);
    if (lost.kind != BERTH_REPLY_GONE)
        return wrong(t, "a kill in the middle of execute was answered all the same");
    (void)stop(t);
    if (!start(t) || !finish(t)) {
        t->detail[0] = '\0';
        return wrong(t, "a new worker cannot end a place that a killed one made");
    }
    bool found = false;
    if (has_method(t, "environmentFindLeases") && !find_place(t, &found))
        return false;
    return found ? wrong(t, "a place that a killed worker made is still there when a new one has "
                            "said that it ended it")
                 : true;
}

static bool check_shutdown(struct trial *t)
{
    if (!start(t))
        return false;
    auto_reply r = berth_session_ask(t->s, "shutdown", "{}", 10000);
    if (r.kind == BERTH_REPLY_TIMEOUT)
        return wrong(t, "shutdown was not answered within 10 s");
    if (!berth_session_wait_end(t->s, EXIT_MS))
        return wrong(t, "it does not end after shutdown");
    return t->s->end.exit_code == 0
               ? true
               : wrong(t, "after shutdown it ended with status %d", t->s->end.exit_code);
}

static bool check_hang_up(struct trial *t)
{
    if (!start(t))
        return false;
    berth_session_hang_up(t->s);
    return berth_session_wait_end(t->s, EXIT_MS)
               ? true
               : wrong(t, "it does not end when its stdin does: it would outlive its host");
}

static bool check_clean_stdout(struct trial *t)
{
    if (!begin(t) || !finish(t))
        return false;
    return t->s->noise == 0 ? true
                            : wrong(t, "it prints on stdout what is no message: %s", t->s->odd);
}

static const struct {
    const char *name, *about;
    bool (*run)(struct trial *t);
} checks[] = {
    {"initialize", "starts, says what it offers, refuses to start twice", check_initialize},
    {"health", "answers health", check_health},
    {"unknown-method", "refuses what it does not know, at once", check_unknown_method},
    {"garbage", "survives lines that are no messages", check_garbage},
    {"long-line", "reads a request of 4 MiB", check_long_line},
    {"validate", "accepts the config", check_validate},
    {"unknown-keys", "ignores config keys and params that it does not know", check_unknown_keys},
    {"probe", "probes", check_probe},
    {"lease", "acquires, releases, destroys", check_lease},
    {"double-release", "takes a second release for a success", check_double_release},
    {"double-destroy", "takes a second destroy for a success", check_double_destroy},
    {"resume", "resumes a live place", check_resume},
    {"stale-resume", "says of a place that is gone that it is", check_stale_resume},
    {"realize", "makes a workspace", check_realize},
    {"execute", "runs a command: status, streams, stdin, env, cwd", check_execute},
    {"text", "hands on any output", check_text},
    {"stream", "streams output as its answer has it, or none", check_stream},
    {"timeout", "ends a command at its timeoutMs", check_timeout},
    {"missing-program", "says that a program is not there", check_missing_program},
    {"unknown-lease", "survives a place that it does not know", check_unknown_lease},
    {"concurrency", "answers while a slow command runs", check_concurrency},
    {"cancel", "lets a command be ended by another", check_cancel},
    {"find", "finds its places by their labels", check_find},
    {"same-lease", "makes one place for one lease, however often it is asked", check_same_lease},
    {"kill", "gives back what a killed worker had made", check_kill},
    {"shutdown", "ends when it is told to", check_shutdown},
    {"hang-up", "ends when its host is gone", check_hang_up},
    {"clean-stdout", "prints nothing but messages on stdout", check_clean_stdout},
};
#define CHECKS (sizeof checks / sizeof checks[0])

/* --- running them --- */

static bool is_wanted(const char *const *only, const char *name)
{
    if (!only || !*only)
        return true;
    for (; *only; only++)
        if (strcmp(*only, name) == 0)
            return true;
    return false;
}

static int check_names(const char *const *only, struct berth_error *err)
{
    for (; only && *only; only++) {
        size_t i = 0;
        while (i < CHECKS && strcmp(checks[i].name, *only) != 0)
            i++;
        if (i == CHECKS)
            return berth_fail(err, BERTH_E_INVALID, "There is no check \"%s\".", *only);
    }
    return BERTH_OK;
}

/* A check that failed half-way leaves no place behind, if the worker lets us. */
static void tidy(struct trial *t)
{
    if (t->s && t->place) {
        auto_reply r =
            berth_session_ask(t->s,
                              has_method(t, "environmentDestroyLease") ? "environmentDestroyLease"
                                                                       : "environmentReleaseLease",
                              place_params(t, t->place), QUICK_MS);
    }
    (void)stop(t);
    berth_json_free(t->methods);
    berth_buf_clear(&t->json);
    berth_arena_clear(&t->arena);
}

static void run_check(size_t i, const struct trial *like,
                      void (*each)(void *ctx, const struct berth_check_result *result), void *ctx)
{
    struct trial t = *like;
    t.company = berth_id_new();
    t.environment = berth_id_new();
    t.run = berth_id_new();
    t.lease = berth_id_new();
    bool ok = checks[i].run(&t) && !t.arena.failed;
    struct berth_check_result result = {.name = checks[i].name,
                                        .about = checks[i].about,
                                        .outcome = ok          ? BERTH_CHECK_PASSED
                                                   : t.skipped ? BERTH_CHECK_SKIPPED
                                                               : BERTH_CHECK_FAILED,
                                        .detail = ok ? "" : t.detail};
    each(ctx, &result);
    tidy(&t);
}

int berth_plugin_check(struct berth_engine *engine, const struct berth_check_request *request,
                       void (*each)(void *ctx, const struct berth_check_result *result), void *ctx,
                       struct berth_error *err)
{
    const struct berth_json *m = request->manifest;
    const struct berth_json *driver = berth_json_at(berth_json_get(m, "environmentDrivers"), 0);
    const char *key = berth_json_str(berth_json_get(driver, "driverKey"));
    const char *worker = berth_json_str(berth_json_get(berth_json_get(m, "entrypoints"), "worker"));
    int rc = check_names(request->only, err);
    if (rc == BERTH_OK && (!key || !worker))
        rc = berth_fail(err, BERTH_E_INVALID, "The plugin declares no environment driver.");
    if (rc < 0)
        return rc;
    auto_arena arena = BERTH_ARENA_INIT;
    const char *entry =
        worker[0] == '/' ? worker : berth_arena_printf(&arena, "%s/%s", request->package, worker);
    rc = berth_arena_check(&arena, err);
    if (rc < 0)
        return rc;
    struct trial like = {
        .engine = engine,
        .request = request,
        .json = BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX),
        .driver_key = key,
        .config_json = request->config_json,
        .spec = {.plugin_key = berth_json_str(berth_json_get(m, "id")),
                 .package = request->package,
                 .entry = entry,
                 .manifest_json = "{}",
                 .config_json = "{}",
                 .state = request->scratch},
    };
    for (size_t i = 0; i < CHECKS; i++)
        if (is_wanted(request->only, checks[i].name))
            run_check(i, &like, each, ctx);
    return BERTH_OK;
}
