/* SPDX-License-Identifier: Apache-2.0
 * sdk/berth_plugin.c - implements berth_plugin.h. The main thread reads requests, and each request
 * is answered by its own thread. */
#include "berth_plugin.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "net/lines.h"
#include "net/message.h"

#define READ_BYTES (64 * 1024)
#define CHUNK_BYTES_MAX 200000 /* streamed output in one message */
#define SHORT_BYTES_MAX ((size_t)64 * 1024)
#define PASSED_MAX 8 /* short lines that may go before a long one that waits */

static const struct berth_plugin *plugin;
static bool initialized;
/* Whose line goes to stdout next: one at a time, so that lines stay whole. Short lines go before
 * long ones, so that the answer to a short command does not wait for the output of all others. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t freed;
    bool busy;
    int shorts, longs; /* lines that wait */
    int passed;        /* short lines that have gone before a long one since the last long one */
} turns = {.lock = PTHREAD_MUTEX_INITIALIZER, .freed = PTHREAD_COND_INITIALIZER};

/* --- messages to the host --- */

static void turn_take(bool is_short)
{
    pthread_mutex_lock(&turns.lock);
    *(is_short ? &turns.shorts : &turns.longs) += 1;
    while (turns.busy || (is_short ? turns.longs && turns.passed >= PASSED_MAX
                                   : turns.shorts && turns.passed < PASSED_MAX))
        (void)pthread_cond_wait(&turns.freed, &turns.lock);
    *(is_short ? &turns.shorts : &turns.longs) -= 1;
    turns.passed = is_short && turns.longs ? turns.passed + 1 : 0;
    turns.busy = true;
    pthread_mutex_unlock(&turns.lock);
}

static void turn_give(void)
{
    pthread_mutex_lock(&turns.lock);
    turns.busy = false;
    (void)pthread_cond_broadcast(&turns.freed);
    pthread_mutex_unlock(&turns.lock);
}

/* Writes the line to stdout and clears the buffer. A buffer that has failed is not written. */
static void send_line(struct berth_buf *line)
{
    turn_take(line->len <= SHORT_BYTES_MAX);
    for (size_t at = 0; !line->failed && at < line->len;) {
        ssize_t wrote = write(STDOUT_FILENO, line->data + at, line->len - at);
        if (wrote > 0)
            at += (size_t)wrote;
        else if (errno != EINTR)
            break; /* the host is gone; stdin ends as well */
    }
    turn_give();
    berth_buf_clear(line);
}

/* Sends a notification. `params` is JSON; `invocation` may be NULL. */
static void notify(const char *method, const char *params, const char *invocation)
{
    struct berth_buf line = BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX);
    struct berth_message_request request = {
        .method = method, .params_json = params, .invocation = invocation};
    berth_message_write(&line, &request);
    send_line(&line);
}

void berth_plugin_log(const char *level, const char *fmt, ...)
{
    auto_free char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int len = vasprintf(&text, fmt, args);
    va_end(args);
    if (len < 0)
        return;
    auto_buf params = BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX);
    struct berth_json_writer w = {.buf = &params};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "level", level);
    berth_json_put_bytes(&w, "message", text, (size_t)len);
    berth_json_close(&w, '}');
    if (!params.failed)
        notify("log", berth_buf_str(&params), NULL);
}

size_t berth_plugin_output(const struct berth_plugin_call *call, const char *stream,
                           const char *bytes, size_t len)
{
    const char *id = berth_json_str(berth_json_get(call->invocation, "id"));
    len = berth_utf8_whole(bytes, len);
    for (size_t at = 0; id && at < len;) {
        size_t part = len - at;
        if (part > CHUNK_BYTES_MAX) /* do not split a character */
            part = berth_utf8_whole(bytes + at, CHUNK_BYTES_MAX);
        struct berth_buf text = BERTH_BUF_INIT(CHUNK_BYTES_MAX + 1);
        berth_buf_append(&text, bytes + at, part);
        auto_buf params = BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX);
        struct berth_json_writer w = {.buf = &params};
        berth_json_open(&w, '{');
        berth_json_put_str(&w, "stream", stream);
        berth_json_put_bytes(&w, "chunk", berth_buf_str(&text), text.len);
        berth_json_close(&w, '}');
        if (!params.failed)
            notify("execute.log", berth_buf_str(&params), id);
        berth_buf_clear(&text);
        at += part;
    }
    return len;
}

void berth_plugin_put_found(struct berth_json_writer *answer, const char *lease_id,
                            const char *provider_lease_id)
{
    berth_json_open_in(answer, NULL, '{');
    berth_json_put_str(answer, "leaseId", lease_id);
    berth_json_put_str(answer, "providerLeaseId", provider_lease_id);
    berth_json_close(answer, '}');
}

/* --- config --- */

const char *berth_plugin_text(const struct berth_json *object, const char *key, const char *absent,
                              char *out, size_t size)
{
    const char *text = berth_json_str(berth_json_get(object, key));
    while (text && isspace((unsigned char)*text))
        text++;
    size_t len = text ? strlen(text) : 0;
    while (len && isspace((unsigned char)text[len - 1]))
        len--;
    if (!len)
        return absent;
    (void)snprintf(out, size, "%.*s", (int)(len < size ? len : size - 1), text);
    return out;
}

int64_t berth_plugin_int(const struct berth_json *object, const char *key, int64_t absent)
{
    char text[64], *end;
    const struct berth_json *value = berth_json_get(object, key);
    double number = berth_json_number(value);
    if (berth_json_is(value, BERTH_JSON_STRING)) {
        if (!berth_plugin_text(object, key, NULL, text, sizeof text))
            return absent;
        number = strtod(text, &end);
        if (*end)
            return absent;
    } else if (!berth_json_is(value, BERTH_JSON_INT) && !berth_json_is(value, BERTH_JSON_REAL)) {
        return absent;
    }
    return isfinite(number) && fabs(number) < 9e15 ? (int64_t)trunc(number) : absent;
}

bool berth_plugin_bool(const struct berth_json *object, const char *key, bool absent)
{
    const struct berth_json *value = berth_json_get(object, key);
    return berth_json_is(value, BERTH_JSON_BOOL) ? berth_json_true(value) : absent;
}

/* --- requests --- */

/* The methods of the protocol that have a handler. */
static const struct {
    const char *name;
    size_t handler; /* offset of the handler in struct berth_plugin */
    enum { OBJECT, VOID, LIST } answer;
} methods[] = {
    {"configChanged", offsetof(struct berth_plugin, config_changed), VOID},
    {"health", offsetof(struct berth_plugin, health), OBJECT},
    {"environmentValidateConfig", offsetof(struct berth_plugin, validate_config), OBJECT},
    {"environmentProbe", offsetof(struct berth_plugin, probe), OBJECT},
    {"environmentAcquireLease", offsetof(struct berth_plugin, acquire), OBJECT},
    {"environmentResumeLease", offsetof(struct berth_plugin, resume), OBJECT},
    {"environmentReleaseLease", offsetof(struct berth_plugin, release), VOID},
    {"environmentDestroyLease", offsetof(struct berth_plugin, destroy), VOID},
    {"environmentRealizeWorkspace", offsetof(struct berth_plugin, realize), OBJECT},
    {"environmentExecute", offsetof(struct berth_plugin, execute), OBJECT},
    {"environmentFindLeases", offsetof(struct berth_plugin, find), LIST},
};
#define METHODS (sizeof methods / sizeof methods[0])

/* Returns the handler of methods[method], or NULL. */
static berth_plugin_fn *handler_of(size_t method)
{
    berth_plugin_fn *fn;
    memcpy(&fn, (const char *)plugin + methods[method].handler, sizeof fn);
    return fn;
}

/* Returns a text member, or "" if it is absent or not a text. */
static const char *text_at(const struct berth_json *object, const char *key)
{
    const char *text = berth_json_str(berth_json_get(object, key));
    return text ? text : "";
}

/* Returns the request for a handler. It borrows from `m`, and from `nothing`, an empty object. */
static struct berth_plugin_call read_call(const struct berth_message *m,
                                          const struct berth_json *nothing)
{
    const struct berth_json *params =
        berth_json_is(m->params, BERTH_JSON_OBJECT) ? m->params : nothing;
    const struct berth_json *lease = berth_json_get(params, "lease");
    const struct berth_json *config = berth_json_get(params, "config");
    return (struct berth_plugin_call){
        .method = m->method,
        .params = params,
        .config = berth_json_is(config, BERTH_JSON_OBJECT) ? config : nothing,
        .driver_key = text_at(params, "driverKey"),
        .company_id = text_at(params, "companyId"),
        .environment_id = text_at(params, "environmentId"),
        .run_id = text_at(params, "runId"),
        .lease_id = text_at(params, "leaseId"),
        .provider_lease_id = text_at(lease ? lease : params, "providerLeaseId"),
        .metadata = berth_json_get(lease ? lease : params, lease ? "metadata" : "leaseMetadata"),
        .invocation = berth_json_get(m->whole, "paperclipInvocation")};
}

/* Answers the request with an error. */
static void refuse(const struct berth_message *m, int code, const char *text)
{
    struct berth_buf line = BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX);
    berth_message_write_error(&line, m->id, code, text);
    send_line(&line);
}

/* Calls the handler and sends its answer. */
static void run_handler(const struct berth_message *m, size_t method)
{
    auto_json *nothing = berth_json_new_object();
    struct berth_error err = {0};
    struct berth_plugin_call call = read_call(m, nothing);
    auto_buf text = BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX);
    struct berth_json_writer answer = {.buf = &text};
    bool list = methods[method].answer == LIST;
    berth_json_open(&answer, '{');
    if (list)
        berth_json_open_in(&answer, "leases", '[');
    int rc = handler_of(method)(&call, &answer, &err);
    if (list)
        berth_json_close(&answer, ']');
    berth_json_close(&answer, '}');
    if (rc == BERTH_OK)
        rc = berth_buf_check(&text, "The answer", &err);
    berth_utf8_mend(err.message);
    if (rc < 0) {
        refuse(m, BERTH_RPC_WORKER_ERROR, err.message);
        return;
    }
    struct berth_buf line = BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX);
    berth_message_write_result(&line, m->id,
                               methods[method].answer == VOID ? NULL : berth_buf_str(&text));
    send_line(&line);
}

/* A request on its way to its thread, which frees it. */
struct task {
    struct berth_message message;
    size_t method;
};

static void *task_main(void *ctx)
{
    struct task *task = ctx;
    run_handler(&task->message, task->method);
    berth_message_clear(&task->message);
    free(task);
    return NULL;
}

/* Runs the handler on a new thread, or on this one if no thread can be created. Takes ownership of
 * the content of *m. */
static void start_task(struct berth_message *m, size_t method)
{
    struct task *task = malloc(sizeof *task);
    pthread_attr_t detached;
    pthread_t thread;
    if (!task) {
        refuse(m, BERTH_RPC_INTERNAL, "Out of memory.");
        berth_message_clear(m);
        return;
    }
    *task = (struct task){.message = *m, .method = method};
    *m = (struct berth_message){0};
    (void)pthread_attr_init(&detached);
    (void)pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &detached, task_main, task) != 0)
        (void)task_main(task);
    (void)pthread_attr_destroy(&detached);
}

/* Answers `initialize` with the list of methods that have a handler. */
static void initialize(const struct berth_message *m)
{
    struct berth_error err = {0};
    if (initialized) {
        refuse(m, BERTH_RPC_WORKER_ERROR, "Worker already initialized");
        return;
    }
    if (plugin->setup && plugin->setup(berth_json_get(m->params, "config"), &err) < 0) {
        refuse(m, BERTH_RPC_WORKER_ERROR, err.message);
        return;
    }
    initialized = true;
    berth_plugin_log("info", "%s ready", plugin->name);
    auto_buf text = BERTH_BUF_INIT(4096);
    struct berth_json_writer w = {.buf = &text};
    berth_json_open(&w, '{');
    berth_json_put_bool(&w, "ok", true);
    berth_json_open_in(&w, "supportedMethods", '[');
    for (size_t i = 0; i < METHODS; i++)
        if (handler_of(i))
            berth_json_put_str(&w, NULL, methods[i].name);
    berth_json_close(&w, ']');
    berth_json_close(&w, '}');
    struct berth_buf line = BERTH_BUF_INIT(8192);
    berth_message_write_result(&line, m->id, berth_buf_str(&text));
    send_line(&line);
}

/* Sends a result; result_json NULL: null. */
static void answer_plain(const struct berth_message *m, const char *result_json)
{
    struct berth_buf line = BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX);
    berth_message_write_result(&line, m->id, result_json);
    send_line(&line);
}

/* Handles one request. Returns false after `shutdown`. */
static bool take_request(struct berth_message *m)
{
    if (strcmp(m->method, "initialize") == 0) {
        initialize(m);
        return true;
    }
    if (strcmp(m->method, "shutdown") == 0) {
        if (plugin->shutdown)
            plugin->shutdown();
        answer_plain(m, NULL);
        return false;
    }
    size_t i = 0;
    while (i < METHODS && strcmp(methods[i].name, m->method) != 0)
        i++;
    char text[300];
    if (i < METHODS && handler_of(i)) {
        start_task(m, i);
    } else if (strcmp(m->method, "health") == 0) {
        answer_plain(m, "{\"status\":\"ok\"}");
    } else if (strcmp(m->method, "configChanged") == 0) {
        answer_plain(m, NULL);
    } else if (i < METHODS || strcmp(m->method, "validateConfig") == 0) {
        (void)snprintf(text, sizeof text, "%.200s is not implemented by this plugin", m->method);
        refuse(m, BERTH_RPC_NOT_IMPLEMENTED, text);
    } else {
        (void)snprintf(text, sizeof text, "Unknown method: %.200s", m->method);
        berth_utf8_mend(text);
        refuse(m, BERTH_RPC_NO_METHOD, text);
    }
    return true;
}

/* Handles one line from the host. Returns false after `shutdown`. */
static bool take_line(const char *line, size_t len)
{
    struct berth_message m;
    struct berth_error err;
    char text[600];
    bool more = true;
    if (strspn(line, " \t\r") >= len)
        return true;
    if (berth_message_read(line, len, &m, &err) < 0) {
        struct berth_message nobody = {0};
        (void)snprintf(text, sizeof text, "Parse error: %.500s", err.message);
        berth_utf8_mend(text);
        refuse(&nobody, BERTH_RPC_PARSE_ERROR, text);
        return true;
    }
    if (m.kind == BERTH_MESSAGE_REQUEST)
        more = take_request(&m);
    berth_message_clear(&m);
    return more;
}

int berth_plugin_main(const struct berth_plugin *what)
{
    plugin = what;
    berth_json_tune_process();
    struct berth_lines lines;
    berth_lines_init(&lines, BERTH_MESSAGE_BYTES_MAX);
    static char chunk[READ_BYTES];
    bool more = true;
    while (more) {
        ssize_t got = read(STDIN_FILENO, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) { /* the host is gone */
            if (plugin->shutdown)
                plugin->shutdown();
            break;
        }
        char *line;
        size_t len, dropped;
        berth_lines_put(&lines, chunk, (size_t)got);
        while (more && berth_lines_next(&lines, &line, &len, &dropped))
            more = take_line(line, len);
    }
    /* Handlers may still run on other threads, so exit without freeing what they use. */
    (void)fflush(stderr);
    _exit(0);
}
