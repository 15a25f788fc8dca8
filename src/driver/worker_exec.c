/* SPDX-License-Identifier: Apache-2.0
 * src/driver/worker_exec.c - a command in the place of a worker: one call, which is answered when
 * the command has ended. Its input is sent whole, so the call waits for the end of that. The
 * protocol has no word for "stop": a second command in the same place ends the first by its label.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/budget.h"
#include "base/container.h"
#include "base/failpoint.h"
#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"
#include "crypto/locked.h"
#include "driver/worker_ask.h"
#include "os/engine.h"

#define STDIN_BYTES_MAX (64 * 1024 * 1024)
#define STOP_MS 15000                      /* for the command that ends another */
#define STOP_GRACE_MS_MAX (STOP_MS - 3000) /* leaves time to kill what did not end in its grace */
#define AFTER_STOP_MS 1000                 /* then the place is asked again */
#define STOPS_MAX 5                        /* and its end is not waited for any more */
#define STOP_OVERHEAD_MS BERTH_WORKER_OVERHEAD_MS

/* Ends what carries $1 in its environment: TERM, up to $2 tenths of a second, KILL. POSIX sh and
 * /proc; where that is missing, nothing is found and nothing is done. To look at all processes
 * takes longer than a tenth, so it is done once a second, and when those that were found are gone.
 */
static const char stop_script[] =
    "find_them() { pids=; for e in /proc/[0-9]*/environ; do p=${e#/proc/}; p=${p%/environ};"
    " [ \"$p\" != $$ ] && tr '\\0' '\\n' 2>/dev/null <\"$e\" | grep -qxF \"$1\" && pids=\"$pids "
    "$p\";"
    " done; }\n"
    "find_them \"$1\"; [ -n \"$pids\" ] || exit 0; kill -TERM $pids 2>/dev/null\n"
    "i=0; while [ $i -lt \"$2\" ]; do sleep 0.1; i=$((i+1)); left=;"
    " for p in $pids; do kill -0 \"$p\" 2>/dev/null && left=1; done;"
    " [ -n \"$left\" ] && [ $((i%10)) -ne 0 ] && continue;"
    " find_them \"$1\"; [ -n \"$pids\" ] || exit 0; done\n"
    "find_them \"$1\"; [ -z \"$pids\" ] || kill -KILL $pids 2>/dev/null; exit 0\n";

struct worker_running {
    struct berth_running base;
    struct berth_worker_driver *driver;
    struct berth_engine *engine;
    struct berth_exec_handlers handlers;
    struct berth_locked *secrets; /* what the worker was told */
    int secret_count;
    char *invocation, *company_id;
    int64_t timeout_ms;                   /* of the call */
    struct berth_buf params, stop_params; /* the first is complete but for stdin */
    int64_t started_at_ms;

    int stops;            /* times that the place was asked; the engine's thread alone */
    uint64_t streamed[2]; /* bytes that came before the answer; the engine's thread alone */
    uint64_t skipped[2];  /* and those that are left to it, as `muted` */
    bool muted;
    struct berth_post timer_post;
    struct berth_timer timer;

    pthread_mutex_t lock;
    int refs; /* the caller's, and one for every call that is not answered */
    struct berth_buf input;
    struct berth_charge input_charge;
    bool with_stdin, input_given; /* the caller may write input; it has, perhaps no bytes */
    bool input_refused;           /* there was no memory for it */
    bool sent, cancelled, ended, paused;
};

static struct worker_running *worker_exec_ours(struct berth_running *r)
{
    return (struct worker_running *)(void *)r;
}

static void drop(struct worker_running *r)
{
    pthread_mutex_lock(&r->lock);
    bool last = --r->refs == 0;
    pthread_mutex_unlock(&r->lock);
    if (!last)
        return;
    berth_locked_free_all(r->secrets, r->secret_count);
    free(r->invocation);
    free(r->company_id);
    berth_buf_clear(&r->params);
    berth_buf_clear(&r->stop_params);
    berth_buf_clear(&r->input);
    berth_charge_drop(&r->input_charge);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* --- how it ended --- */

/* The first to know says it. */
static bool claim_end(struct worker_running *r)
{
    pthread_mutex_lock(&r->lock);
    bool first = !r->ended;
    r->ended = true;
    pthread_mutex_unlock(&r->lock);
    return first;
}

static void tell_end(struct worker_running *r, struct berth_exec_end end)
{
    end.started_at_ms = r->started_at_ms;
    end.finished_at_ms = berth_time_wall_ms();
    for (int i = 0; i < 2; i++) {
        end.bytes[i] = r->streamed[i];
        end.cut[i] = r->skipped[i] > 0;
    }
    r->handlers.on_end(r->handlers.ctx, &end);
}

static void worker_exec_emit(struct worker_running *r, enum berth_stream stream, const char *bytes,
                             size_t len)
{
    r->streamed[stream] += len;
    if (len && r->handlers.on_output)
        r->handlers.on_output(r->handlers.ctx, stream, bytes, len);
}

/* What the answer has beyond what was streamed. */
static void emit_rest(struct worker_running *r, enum berth_stream stream,
                      const struct berth_json *text)
{
    size_t len = berth_json_str_len(text), seen = (size_t)r->streamed[stream];
    if (!berth_json_is(text, BERTH_JSON_STRING) || len <= seen)
        return;
    worker_exec_emit(r, stream, berth_json_str(text) + seen, len - seen);
    r->skipped[stream] -= len - seen < r->skipped[stream] ? len - seen : r->skipped[stream];
}

static int signal_number(const char *name)
{
    if (!name || strncmp(name, "SIG", 3) != 0)
        return 0;
    for (int i = 1; i < NSIG; i++) {
        const char *known = sigabbrev_np(i);
        if (known && strcmp(known, name + 3) == 0)
            return i;
    }
    return 0;
}

/* Returns the signal that a negative status stands for. Some vendors answer the negative number of
 * the signal. Others answer -1 for any signal, as Go does: SIGKILL is assumed. */
static int signal_of_status(int64_t status)
{
    return status < -1 && status > -NSIG ? (int)-status : SIGKILL;
}

static struct berth_exec_end read_end(const struct berth_json *result, bool cancelled)
{
    const struct berth_json *code = berth_json_get(result, "exitCode");
    int64_t status = berth_json_int(code);
    bool given = berth_json_is(code, BERTH_JSON_INT);
    struct berth_exec_end end = {
        .cause = BERTH_END_EXITED,
        .exit_code = !given || status < 0 ? -1
                     : status > 255       ? 255
                                          : (int)status,
        .signal = signal_number(berth_json_str(berth_json_get(result, "signal")))};
    bool timed_out = berth_json_true(berth_json_get(result, "timedOut"));
    if (given && status < 0 && !end.signal && !timed_out)
        end.signal = signal_of_status(status);
    if (end.signal)
        end.exit_code = -1;
    if (cancelled)
        end.cause = BERTH_END_CANCELLED;
    else if (timed_out)
        end.cause = BERTH_END_TIMEOUT;
    else if (end.signal)
        end.cause = BERTH_END_SIGNALLED;
    else if (end.exit_code < 0)
        end.cause = BERTH_END_LOST; /* it does not say how */
    return end;
}

/* An error is told where the command's own would be; the statuses are a shell's. */
static struct berth_exec_end read_trouble(struct worker_running *r, const struct berth_reply *reply)
{
    const char *text = reply->text ? reply->text : "";
    struct berth_exec_end end = {.cause = BERTH_END_LOST, .exit_code = -1};
    if (reply->kind == BERTH_REPLY_ERROR && strstr(text, "ENOENT"))
        end = (struct berth_exec_end){.cause = BERTH_END_EXITED, .exit_code = 127};
    else if (reply->kind == BERTH_REPLY_ERROR && strstr(text, "EACCES"))
        end = (struct berth_exec_end){.cause = BERTH_END_EXITED, .exit_code = 126};
    else if (reply->kind == BERTH_REPLY_TIMEOUT)
        end.cause = BERTH_END_TIMEOUT;
    char line[1100];
    (void)snprintf(line, sizeof line, "berth: %.1000s\n", text);
    worker_exec_emit(r, BERTH_STDERR, line, strlen(line));
    return end;
}

static void stop_place(struct worker_running *r);

static void on_reply(void *ctx, const struct berth_reply *reply)
{
    struct worker_running *r = ctx;
    BERTH_FAILPOINT(worker_after_call);
    pthread_mutex_lock(&r->lock);
    bool cancelled = r->cancelled;
    pthread_mutex_unlock(&r->lock);
    if (berth_engine_is_here(r->engine) && r->timer.deadline.index) {
        berth_timer_clear(r->engine, &r->timer);
        drop(r); /* the timer's own reference */
    }
    if (reply->kind == BERTH_REPLY_TIMEOUT)
        stop_place(r); /* it may still run */
    if (claim_end(r)) {
        if (reply->kind == BERTH_REPLY_RESULT) {
            emit_rest(r, BERTH_STDOUT, berth_json_get(reply->result, "stdout"));
            emit_rest(r, BERTH_STDERR, berth_json_get(reply->result, "stderr"));
            tell_end(r, read_end(reply->result, cancelled));
        } else {
            tell_end(r, read_trouble(r, reply));
        }
    }
    drop(r);
}

static void on_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    struct worker_running *r = ctx;
    pthread_mutex_lock(&r->lock);
    bool ended = r->ended;
    r->muted |= r->paused || r->streamed[0] + r->streamed[1] + len > BERTH_MESSAGE_BYTES_MAX;
    pthread_mutex_unlock(&r->lock);
    if (!ended && r->muted)
        r->skipped[stream] += len;
    else if (!ended)
        worker_exec_emit(r, stream, bytes, len);
}

/* --- sending it --- */

static void send_call(struct worker_running *r, const struct berth_buf *params, int64_t timeout_ms,
                      bool streams, berth_reply_fn *on_answer)
{
    struct berth_workers *workers = r->driver->options.workers;
    struct berth_worker_call call = {.plugin_id = r->driver->options.plugin_id,
                                     .method = "environmentExecute",
                                     .params_json = berth_buf_str(params),
                                     .timeout_ms = timeout_ms,
                                     .secrets = r->secrets,
                                     .secret_count = r->secret_count,
                                     .invocation = streams ? r->invocation : NULL,
                                     .company_id = r->company_id,
                                     .on_output = on_output,
                                     .on_reply = on_answer,
                                     .ctx = r};
    workers->ops->call(workers, &call);
}

/* It did not begin. */
static void worker_exec_refuse(struct worker_running *r, const struct berth_error *why)
{
    char line[sizeof why->message + 16];
    (void)snprintf(line, sizeof line, "berth: %s\n", why->message);
    if (claim_end(r)) {
        worker_exec_emit(r, BERTH_STDERR, line, strlen(line));
        tell_end(r, (struct berth_exec_end){.cause = BERTH_END_EXITED, .exit_code = 126});
    }
    drop(r);
}

static int fail_refused_input(const struct worker_running *r, struct berth_error *err)
{
    return berth_fail(err, BERTH_E_TOO_LARGE,
                      "There is no memory for the standard input, which the places of plugin "
                      "\"%s\" take as a whole. The command does not start: start it again later.",
                      r->driver->options.plugin_key);
}

static int write_input(struct worker_running *r, struct berth_error *err)
{
    struct berth_json_writer w = {.buf = &r->params, .comma = true};
    int rc = r->input_refused ? fail_refused_input(r, err)
                              : berth_buf_check(&r->input, "The standard input", err);
    if (rc == BERTH_OK && !berth_utf8_valid_bytes(berth_buf_str(&r->input), r->input.len))
        rc = berth_fail(err, BERTH_E_INVALID,
                        "The standard input is no UTF-8, and the places of plugin \"%s\" take "
                        "nothing else: encode it (base64).",
                        r->driver->options.plugin_key);
    if (rc < 0)
        return rc;
    if (r->input_given) /* some workers write an empty input to a command that has already exited */
        berth_json_put_bytes(&w, "stdin", berth_buf_str(&r->input), r->input.len);
    berth_json_close(&w, '}');
    return berth_buf_check(&r->params, "The command with its input", err);
}

/* Once; a reference for the answer was taken. */
static void send_execute(struct worker_running *r)
{
    struct berth_error err;
    if (write_input(r, &err) < 0) {
        worker_exec_refuse(r, &err);
        return;
    }
    BERTH_FAILPOINT(worker_before_call);
    auto_buf params = r->params, input = r->input; /* it may be over before the call returns */
    r->params = (struct berth_buf)BERTH_WORKER_PARAMS_INIT;
    r->input = (struct berth_buf)BERTH_WORKER_PARAMS_INIT;
    berth_buf_clear(&input);
    berth_charge_drop(&r->input_charge);
    send_call(r, &params, r->timeout_ms, true, on_reply);
}

/* --- while it runs --- */

static void stop_again(struct worker_running *r);

/* It may not have begun when the place was asked: so it is asked again, and then no more. */
static void on_stop_timer(struct berth_timer *timer)
{
    struct worker_running *r = berth_container_of(timer, struct worker_running, timer);
    struct berth_exec_end end = {.cause = BERTH_END_CANCELLED, .exit_code = -1};
    if (++r->stops < STOPS_MAX) {
        stop_again(r);
        return; /* with the reference */
    }
    if (claim_end(r))
        tell_end(r, end);
    drop(r);
}

static void run_set_timer(struct berth_post *post)
{
    struct worker_running *r = berth_container_of(post, struct worker_running, timer_post);
    pthread_mutex_lock(&r->lock);
    bool wait = !r->ended;
    pthread_mutex_unlock(&r->lock);
    if (wait)
        berth_timer_set(r->engine, &r->timer, AFTER_STOP_MS);
    else
        drop(r);
}

/* The place was asked to end it. Its own answer is waited for a little longer. */
static void on_stopped(void *ctx, const struct berth_reply *reply)
{
    struct worker_running *r = ctx;
    struct berth_error ignored;
    (void)reply;
    if (berth_engine_post(r->engine, &r->timer_post, &ignored) < 0) /* the reference goes with it */
        drop(r);
}

/* The reference is the caller's own, and goes on. */
static void stop_again(struct worker_running *r)
{
    send_call(r, &r->stop_params, STOP_MS + STOP_OVERHEAD_MS, false, on_stopped);
}

static void stop_place(struct worker_running *r)
{
    pthread_mutex_lock(&r->lock);
    r->refs++;
    pthread_mutex_unlock(&r->lock);
    stop_again(r);
}

static void worker_cancel(struct berth_running *running)
{
    struct worker_running *r = worker_exec_ours(running);
    pthread_mutex_lock(&r->lock);
    bool first = !r->cancelled && !r->ended, sent = r->sent;
    r->cancelled = true;
    r->sent = true; /* it will not be, any more */
    pthread_mutex_unlock(&r->lock);
    struct berth_exec_end end = {.cause = BERTH_END_CANCELLED, .exit_code = -1};
    if (first && sent)
        stop_place(r);
    else if (first && claim_end(r))
        tell_end(r, end);
}

/* Lock held. Adds to the input, which is kept until it is closed. When the budget is full, the
 * command does not start: to wait would never end when each of two commands holds what the other
 * one needs. */
static int keep_input(struct worker_running *r, const void *bytes, size_t len,
                      struct berth_error *err)
{
    struct berth_budget *budget = r->driver->options.inputs;
    bool fits = r->input.len + len <= r->input.max;
    r->input_refused |=
        budget && fits &&
        !berth_charge_set(&r->input_charge, budget, r->company_id, (int64_t)(r->input.len + len));
    if (r->input_refused) {
        berth_buf_clear(&r->input);
        berth_charge_drop(&r->input_charge);
        return fail_refused_input(r, err);
    }
    berth_buf_append(&r->input, bytes, len);
    return berth_buf_check(&r->input, "The standard input", err);
}

static int worker_write(struct berth_running *running, const void *bytes, size_t len,
                        struct berth_error *err)
{
    struct worker_running *r = worker_exec_ours(running);
    pthread_mutex_lock(&r->lock);
    int rc = r->sent || !r->with_stdin
                 ? berth_fail(err, BERTH_E_CONFLICT, "The standard input is closed.")
                 : keep_input(r, bytes, len, err);
    r->input_given |= rc == BERTH_OK;
    pthread_mutex_unlock(&r->lock);
    return rc;
}

static void worker_close_stdin(struct berth_running *running)
{
    struct worker_running *r = worker_exec_ours(running);
    pthread_mutex_lock(&r->lock);
    bool go = !r->sent;
    r->sent = true;
    r->refs += go;
    pthread_mutex_unlock(&r->lock);
    if (go)
        send_execute(r);
}

static void worker_pause(struct berth_running *running, bool paused)
{
    struct worker_running *r = worker_exec_ours(running);
    pthread_mutex_lock(&r->lock);
    r->paused = paused; /* its worker has others to serve, and is not held up */
    pthread_mutex_unlock(&r->lock);
}

static void worker_resize(struct berth_running *running, unsigned short rows,
                          unsigned short columns)
{
    (void)running, (void)rows, (void)columns;
}

static void worker_free(struct berth_running *running)
{
    drop(worker_exec_ours(running));
}

static const struct berth_running_ops running_ops = {.cancel = worker_cancel,
                                                     .write = worker_write,
                                                     .close_stdin = worker_close_stdin,
                                                     .pause = worker_pause,
                                                     .resize = worker_resize,
                                                     .free = worker_free};

/* --- starting --- */

static void put_env(struct berth_json_writer *w, const char *const *env)
{
    berth_json_open_in(w, "env", '{');
    for (; *env; env++) {
        const char *equals = strchr(*env, '=');
        auto_free char *name = strndup(*env, (size_t)(equals - *env));
        w->buf->failed |= !name;
        berth_json_put_bytes(w, name ? name : "", equals + 1, strlen(equals + 1));
    }
    berth_json_close(w, '}');
}

static void put_words(struct berth_json_writer *w, const char *const *argv)
{
    berth_json_put_bytes(w, "command", argv[0], strlen(argv[0]));
    berth_json_open_in(w, "args", '[');
    for (argv++; *argv; argv++)
        berth_json_put_bytes(w, NULL, *argv, strlen(*argv));
    berth_json_close(w, ']');
}

/* What is not text would arrive as something else. */
static int check_words(const struct berth_worker_driver *d, const struct berth_command *command,
                       struct berth_error *err)
{
    const char *wrong = command->cwd && !berth_utf8_valid(command->cwd) ? "directory" : NULL;
    for (const char *const *word = command->argv; *word; word++)
        if (!berth_utf8_valid(*word))
            wrong = "command";
    for (const char *const *pair = command->env; *pair; pair++)
        if (!berth_utf8_valid(*pair))
            wrong = "environment";
    if (!wrong)
        return BERTH_OK;
    return berth_fail(err, BERTH_E_INVALID,
                      "The %s is no UTF-8, and the places of plugin \"%s\" take nothing else.",
                      wrong, d->options.plugin_key);
}

/* Where nobody says otherwise, it runs where the provider said that one works. */
static void put_cwd(struct berth_json_writer *w, const struct berth_place *place, const char *cwd)
{
    auto_json *metadata = NULL;
    struct berth_error ignored;
    const char *words = place->metadata_json;
    if (!cwd && words &&
        berth_json_parse(words, strlen(words), BERTH_JSON_FOREIGN, &metadata, &ignored) == BERTH_OK)
        cwd = berth_json_str(berth_json_get(metadata, "remoteCwd"));
    if (cwd)
        berth_json_put_bytes(w, "cwd", cwd, strlen(cwd));
}

/* Of the command that ends the one with that id. */
static void write_stop(struct berth_buf *params, const struct berth_worker_driver *d,
                       const struct berth_place_request *who, const struct berth_place *place,
                       const char *exec_id, int64_t grace_ms)
{
    auto_json *config = berth_worker_config(d, who->config_json);
    char label[80], tenths[24];
    (void)snprintf(label, sizeof label, "BERTH_EXEC_ID=%s", exec_id);
    (void)snprintf(
        tenths, sizeof tenths, "%lld",
        (long long)((grace_ms < STOP_GRACE_MS_MAX ? grace_ms : STOP_GRACE_MS_MAX) / 100));
    const char *const argv[] = {"sh", "-c", stop_script, "sh", label, tenths, NULL};
    struct berth_json_writer w = {.buf = params};
    berth_worker_begin(&w, d, who, config);
    berth_worker_put_lease(&w, place);
    put_words(&w, argv);
    berth_json_put_str(&w, "cwd", "/");
    berth_json_put_int(&w, "timeoutMs", STOP_MS);
    berth_json_close(&w, '}');
    params->failed |= !config;
}

static void write_params(struct worker_running *r, const struct berth_place_request *who,
                         const struct berth_place *place, const struct berth_command *command)
{
    auto_json *config = berth_worker_config(r->driver, who->config_json);
    int64_t asked =
        command->timeout_ms ? command->timeout_ms : berth_worker_timeout(config, "timeoutMs");
    r->timeout_ms = asked ? asked + BERTH_WORKER_OVERHEAD_MS : 0;
    struct berth_json_writer w = {.buf = &r->params};
    berth_worker_begin(&w, r->driver, who, config);
    berth_worker_put_lease(&w, place);
    put_words(&w, command->argv);
    put_cwd(&w, place, command->cwd);
    put_env(&w, command->env);
    if (command->timeout_ms)
        berth_json_put_int(&w, "timeoutMs", command->timeout_ms);
    r->params.failed |= !config;
}

static struct worker_running *new_running(struct berth_worker_driver *d,
                                          const struct berth_place_request *who,
                                          const struct berth_place *place,
                                          const struct berth_command *command,
                                          const struct berth_exec_handlers *handlers)
{
    struct worker_running *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    *r = (struct worker_running){.base = {.ops = &running_ops},
                                 .driver = d,
                                 .engine = d->options.engine,
                                 .handlers = *handlers,
                                 .invocation = strdup(command->id),
                                 .company_id = strdup(who->company_id),
                                 .secrets = berth_locked_copy_all(who->secrets, who->secret_count),
                                 .secret_count = who->secret_count,
                                 .params = BERTH_WORKER_PARAMS_INIT,
                                 .stop_params = BERTH_WORKER_PARAMS_INIT,
                                 .input = {.max = STDIN_BYTES_MAX, .secret = true},
                                 .started_at_ms = berth_time_wall_ms(),
                                 .timer_post = {.run = run_set_timer},
                                 .timer = {.run = on_stop_timer},
                                 .refs = 1,
                                 .with_stdin = command->with_stdin};
    pthread_mutex_init(&r->lock, NULL);
    write_params(r, who, place, command);
    write_stop(&r->stop_params, d, who, place, command->id, command->grace_ms);
    if (r->secrets && r->invocation && r->company_id && !r->params.failed && !r->stop_params.failed)
        return r;
    drop(r);
    return NULL;
}

int berth_worker_exec_start(struct berth_driver *base, struct berth_call *call,
                            const struct berth_place_request *who, const struct berth_place *place,
                            const struct berth_command *command,
                            const struct berth_exec_handlers *handlers, struct berth_running **out,
                            struct berth_error *err)
{
    struct berth_worker_driver *d = (struct berth_worker_driver *)(void *)base;
    if (command->terminal)
        return berth_fail(err, BERTH_E_UNSUPPORTED,
                          "The places of plugin \"%s\" have no terminals: leave out -t.",
                          d->options.plugin_key);
    int rc = check_words(d, command, err);
    if (rc == BERTH_OK)
        rc = berth_worker_ready(d, call, err);
    if (rc < 0)
        return rc;
    struct worker_running *r = new_running(d, who, place, command, handlers);
    if (!r)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: command.");
    *out = &r->base;
    if (!command->with_stdin)
        worker_close_stdin(&r->base);
    return BERTH_OK;
}

int berth_worker_exec_settle(struct berth_driver *base, struct berth_call *call,
                             const struct berth_place_request *who, const struct berth_place *place,
                             const char *exec_id, struct berth_exec_end *end,
                             struct berth_error *err)
{
    struct berth_worker_driver *d = (struct berth_worker_driver *)(void *)base;
    (void)end; /* no place keeps it */
    int rc = berth_worker_ready(d, call, err);
    if (rc < 0)
        return rc;
    auto_buf params = BERTH_WORKER_PARAMS_INIT;
    auto_json *answer = NULL;
    write_stop(&params, d, who, place, exec_id, 0);
    struct berth_worker_question question = {.method = "environmentExecute",
                                             .params = &params,
                                             .who = who,
                                             .timeout_ms = STOP_MS + STOP_OVERHEAD_MS};
    return berth_worker_ask(d, call, &question, &answer, err);
}
