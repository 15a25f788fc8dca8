/* SPDX-License-Identifier: Apache-2.0
 * src/driver/ssh_exec.c - see ssh_exec.h. What the session says before the mark is the login
 * shell's; what it says after a second mark is how the command ended. Without that the end is not
 * known, whatever status ssh(1) has. */
#include "driver/ssh_exec.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/failpoint.h"
#include "base/limits.h"
#include "os/spawn.h"

#define LATE_MS 10000  /* added to time-out and grace, which the far end keeps; then it is lost */
#define LINGER_MS 1000 /* how long streams may stay open after the command's end */
#define TRAILER_BYTES_MAX 64

/* One stream of the session. Used on the engine's thread only. */
struct sieve {
    bool flows;     /* the mark has been read: the command's output follows */
    bool over;      /* the end of the output has been read */
    size_t matched; /* bytes held back, since they may begin a mark */
    char trailer[TRAILER_BYTES_MAX];
    size_t trailer_len;
    bool in_trailer;
};

struct ssh_running {
    struct berth_running base;
    struct berth_exec_handlers handlers;
    struct berth_ssh_link *link;
    struct berth_process *process;
    struct berth_ssh_mark mark;
    bool terminal;
    struct berth_ssh_line line;   /* kept until the terminal is ready for it */
    struct berth_ssh_line cancel; /* the line that ends the command */
    int64_t grace_ms;
    pthread_mutex_t lock; /* guards the input: */
    bool input_open;      /* writes reach the command */
    bool input_closed;
    struct berth_ssh_line early; /* input before that; wiped, since it may hold a password */
    _Atomic bool ended, cancelled;
    struct sieve sieves[2];
    size_t ready_matched;
    uint64_t bytes[2];
    bool told; /* `end` was received */
    struct berth_exec_end end;
};

bool berth_ssh_read_end(const char *text, struct berth_exec_end *end)
{
    static const struct {
        const char *name;
        enum berth_end_cause cause;
    } causes[] = {
        {"", BERTH_END_EXITED}, {"timeout", BERTH_END_TIMEOUT}, {"cancelled", BERTH_END_CANCELLED}};
    char *rest;
    long status = strtol(text, &rest, 10);
    if (rest == text || *rest != ' ' || status < 0 || status > 255)
        return false;
    for (unsigned i = 0; i < sizeof causes / sizeof causes[0]; i++)
        if (strcmp(rest + 1, causes[i].name) == 0) {
            bool by_signal = status > 128 && status < 128 + _NSIG; /* as shells report it */
            end->cause = by_signal && i == 0 ? BERTH_END_SIGNALLED : causes[i].cause;
            end->signal = by_signal ? (int)status - 128 : 0;
            end->exit_code = by_signal ? -1 : (int)status;
            return true;
        }
    return false;
}

/* --- on the engine's thread --- */

static void ssh_exec_emit(struct ssh_running *r, enum berth_stream stream, const char *bytes,
                          size_t len)
{
    if (!len)
        return;
    r->bytes[stream] += len;
    if (r->handlers.on_output)
        r->handlers.on_output(r->handlers.ctx, stream, bytes, len);
}

static void send_line(struct ssh_running *r)
{
    struct berth_error err;
    if (berth_process_write(r->process, r->line.buf.data, r->line.buf.len, &err) < 0)
        berth_process_cancel(r->process); /* the session would wait for the line for ever */
    berth_ssh_line_clear(&r->line);
}

/* Sends the line when the terminal has reported that it is ready. */
static void look_for_ready(struct ssh_running *r, char byte)
{
    static const char ready[] = BERTH_SSH_READY;
    if (!r->terminal || !r->line.buf.data)
        return;
    if (byte != ready[r->ready_matched])
        r->ready_matched = byte == ready[0] ? 1 : 0;
    else if (!ready[++r->ready_matched])
        send_line(r);
}

/* The terminal is the command's from the mark on; what was typed before would have been read by
 * our own shell. */
static void open_input(struct ssh_running *r)
{
    struct berth_error err;
    pthread_mutex_lock(&r->lock);
    r->input_open = true;
    if (r->early.buf.len)
        (void)berth_process_write(r->process, r->early.buf.data, r->early.buf.len, &err);
    berth_ssh_line_clear(&r->early);
    if (r->input_closed)
        berth_process_close_stdin(r->process);
    pthread_mutex_unlock(&r->lock);
}

/* Ignores the output of the login shell, up to the mark. */
static void await_mark(struct ssh_running *r, struct sieve *s, char byte)
{
    const char *mark = r->mark.text;
    look_for_ready(r, byte);
    if (byte != mark[s->matched])
        s->matched = 0;
    if (byte == mark[s->matched])
        s->matched++;
    if (mark[s->matched])
        return;
    s->matched = 0;
    s->flows = true;
    if (r->terminal)
        open_input(r);
}

/* The command's own output is complete. When both streams are, other processes that hold them are
 * given a moment only. */
static void end_stream(struct ssh_running *r, struct sieve *s)
{
    s->over = true;
    if (r->terminal || (r->sieves[0].over && r->sieves[1].over))
        berth_process_limit(r->process, LINGER_MS);
}

static void take_trailer(struct ssh_running *r, struct sieve *s, char byte)
{
    if (byte != ';') {
        if (s->trailer_len < sizeof s->trailer - 1)
            s->trailer[s->trailer_len++] = byte;
        return;
    }
    r->told = berth_ssh_read_end(s->trailer, &r->end);
    end_stream(r, s);
}

/* Hands on what is the command's, up to a mark or the end, in one piece. What may be the beginning
 * of a mark is held back. Answers how far it came. */
static const char *pass(struct ssh_running *r, enum berth_stream stream, const char *bytes,
                        const char *end)
{
    struct sieve *s = &r->sieves[stream];
    const char *mark = r->mark.text, *at = bytes;
    size_t before = s->matched; /* of the mark, from earlier bytes */
    while (at < end && mark[s->matched]) {
        if (*at == mark[s->matched]) {
            s->matched++;
            at++;
        } else if (s->matched) { /* not a mark; this byte may begin one */
            ssh_exec_emit(r, stream, mark, before);
            before = s->matched = 0;
        } else {
            at = memchr(at, mark[0], (size_t)(end - at));
            at = at ? at : end;
        }
    }
    ssh_exec_emit(r, stream, bytes, (size_t)(at - bytes) - (s->matched - before));
    if (mark[s->matched])
        return at;
    s->matched = 0;
    s->in_trailer = stream == BERTH_STDERR || r->terminal; /* on stdout the mark is the end */
    if (!s->in_trailer)
        end_stream(r, s);
    return at;
}

static void on_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    struct ssh_running *r = ctx;
    struct sieve *s = &r->sieves[stream];
    for (const char *end = bytes + len; bytes < end && !s->over;)
        if (s->in_trailer)
            take_trailer(r, s, *bytes++);
        else if (!s->flows)
            await_mark(r, s, *bytes++);
        else
            bytes = pass(r, stream, bytes, end);
}

static void on_stdin_room(void *ctx)
{
    struct ssh_running *r = ctx;
    if (r->handlers.on_stdin_room)
        r->handlers.on_stdin_room(r->handlers.ctx);
}

/* Asks the shell that holds the connection to end the command and its processes. */
static bool ask_to_end(struct ssh_running *r)
{
    struct berth_error err;
    return berth_ssh_link_tell(r->link, &r->cancel, &err) == BERTH_OK;
}

static void on_end(void *ctx, const struct berth_exec_end *session)
{
    struct ssh_running *r = ctx;
    struct berth_exec_end end = r->end;
    atomic_store(&r->ended, true);
    for (int i = 0; i < 2; i++) /* held back bytes that were not a mark */
        if (r->sieves[i].flows)
            ssh_exec_emit(r, (enum berth_stream)i, r->mark.text, r->sieves[i].matched);
    if (!r->told)
        end = (struct berth_exec_end){.cause = BERTH_END_LOST, .exit_code = -1};
    else if (atomic_load(&r->cancelled)) /* whatever its status is */
        end.cause = BERTH_END_CANCELLED;
    end.started_at_ms = session->started_at_ms;
    end.finished_at_ms = session->finished_at_ms;
    memcpy(end.bytes, r->bytes, sizeof end.bytes);
    /* A background process kept the streams open. */
    bool held =
        r->told && (session->cause == BERTH_END_TIMEOUT || session->cut[0] || session->cut[1]);
    for (int i = 0; i < 2; i++)
        end.cut[i] = session->cut[i] || held;
    if (held)
        (void)ask_to_end(r);
    r->handlers.on_end(r->handlers.ctx, &end);
}

/* --- from any thread --- */

/* Asks the far end to end the command; the trailer reports the result. If it cannot be asked, the
 * session is ended here, and core settles the command later. */
static void running_cancel(struct berth_running *base)
{
    struct ssh_running *r = (struct ssh_running *)base;
    if (atomic_load(&r->ended) || atomic_exchange(&r->cancelled, true))
        return;
    berth_process_hurry(r->process);
    berth_process_limit(r->process, r->grace_ms + LATE_MS);
    if (!ask_to_end(r))
        berth_process_cancel(r->process);
}

/* Lock held. */
static int write_early(struct ssh_running *r, const void *bytes, size_t len,
                       struct berth_error *err)
{
    if (r->input_closed || atomic_load(&r->ended))
        return berth_fail(err, BERTH_E_CONFLICT, "The standard input is closed.");
    if (r->early.buf.len && r->early.buf.len + len > BERTH_PIPE_QUEUE_BYTES_MAX)
        return berth_fail(err, BERTH_E_UNAVAILABLE, "The standard input is full.");
    berth_buf_append(&r->early.buf, bytes, len);
    return berth_buf_check(&r->early.buf, "The input", err);
}

static int running_write(struct berth_running *base, const void *bytes, size_t len,
                         struct berth_error *err)
{
    struct ssh_running *r = (struct ssh_running *)base;
    pthread_mutex_lock(&r->lock);
    int rc = r->input_open ? berth_process_write(r->process, bytes, len, err)
                           : write_early(r, bytes, len, err);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

static void running_close_stdin(struct berth_running *base)
{
    struct ssh_running *r = (struct ssh_running *)base;
    pthread_mutex_lock(&r->lock);
    r->input_closed = true;
    if (r->input_open)
        berth_process_close_stdin(r->process);
    pthread_mutex_unlock(&r->lock);
}

static void running_pause(struct berth_running *base, bool paused)
{
    berth_process_pause(((struct ssh_running *)base)->process, paused);
}

static void running_resize(struct berth_running *base, unsigned short rows, unsigned short columns)
{
    berth_process_resize(((struct ssh_running *)base)->process, rows, columns);
}

static void free_running(struct ssh_running *r)
{
    berth_process_free(r->process);
    berth_ssh_link_drop(r->link);
    berth_ssh_line_clear(&r->line);
    berth_ssh_line_clear(&r->cancel);
    berth_ssh_line_clear(&r->early);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static void running_free(struct berth_running *base)
{
    free_running((struct ssh_running *)base);
}

static const struct berth_running_ops running_ops = {.cancel = running_cancel,
                                                     .write = running_write,
                                                     .close_stdin = running_close_stdin,
                                                     .pause = running_pause,
                                                     .resize = running_resize,
                                                     .free = running_free};

/* --- starting --- */

/* Writes the line for the far end. */
static int write_lines(struct ssh_running *r, const char *directory,
                       const struct berth_command *command, struct berth_error *err)
{
    char timeout[32], grace[32];
    bool timed = command->timeout_ms > 0;
    (void)snprintf(timeout, sizeof timeout, "%lld.%03lld", (long long)command->timeout_ms / 1000,
                   (long long)command->timeout_ms % 1000);
    (void)snprintf(grace, sizeof grace, "%lld", (long long)(command->grace_ms + 99) / 100);
    struct berth_ssh_line *line = &r->line;
    berth_ssh_line_set(line, "m", r->mark.text);
    berth_ssh_line_set(line, "d", directory);
    berth_ssh_line_set(line, "x", command->id);
    berth_ssh_line_set(line, "h", command->cwd);
    berth_ssh_line_set(line, "p", berth_ssh_link_path(r->link));
    if (timed) {
        berth_ssh_line_set(line, "t", timeout);
        berth_ssh_line_set(line, "g", grace);
    }
    berth_ssh_line_env(line, command->env);
    berth_ssh_line_args(line, command->argv);
    int rc =
        berth_ssh_line_end(line,
                           command->terminal ? timed ? berth_ssh_run_tty_timed : berth_ssh_run_tty
                           : timed           ? berth_ssh_run_timed
                                             : berth_ssh_run,
                           err);
    if (rc < 0)
        return rc;
    berth_ssh_line_set(&r->cancel, "d", directory);
    berth_ssh_line_set(&r->cancel, "x", command->id);
    berth_ssh_line_set(&r->cancel, "g", grace);
    berth_ssh_line_set(&r->cancel, "c", "cancelled");
    return berth_ssh_line_end(&r->cancel, berth_ssh_cancel, err);
}

/* Returns the variables of the command, the label of the connection, and TERM for a terminal. */
static const char *const *whole_env(struct berth_arena *arena, const struct berth_ssh_link *link,
                                    const struct berth_command *command)
{
    static char term[] = "TERM=xterm-256color";
    struct berth_list env = {0};
    for (const char *const *pair = command->env; *pair; pair++)
        (void)berth_list_add(&env, arena, (char *)(uintptr_t)*pair);
    (void)berth_list_add(&env, arena, (char *)(uintptr_t)berth_ssh_link_label(link));
    if (command->terminal && !berth_env_get(command->env, "TERM"))
        (void)berth_list_add(&env, arena, term);
    (void)berth_list_add(&env, arena, NULL);
    return arena->failed ? NULL : (const char *const *)(void *)env.items;
}

static int ssh_exec_start(struct ssh_running *r, struct berth_call *call,
                          const struct berth_command *command, struct berth_error *err)
{
    struct berth_process_options options = BERTH_PROCESS_OPTIONS_INIT;
    struct berth_exec_handlers handlers = {
        .on_output = on_output, .on_stdin_room = on_stdin_room, .on_end = on_end, .ctx = r};
    options.with_stdin = true;
    options.terminal = command->terminal;
    options.rows = command->rows;
    options.columns = command->columns;
    options.grace_ms = BERTH_SSH_GRACE_MS;
    if (command->timeout_ms > 0)
        options.timeout_ms = command->timeout_ms + command->grace_ms + LATE_MS;
    int rc = berth_ssh_link_start(r->link, call, &options, &handlers, &r->process, err);
    if (rc < 0 || command->terminal)
        return rc;
    send_line(r);
    BERTH_FAILPOINT(ssh_after_session);
    if (!command->with_stdin)
        berth_process_close_stdin(r->process);
    return BERTH_OK;
}

int berth_ssh_exec_start(struct berth_ssh_link *link, struct berth_call *call,
                         const char *directory, const struct berth_command *command,
                         const struct berth_exec_handlers *handlers, struct berth_running **out,
                         struct berth_error *err)
{
    struct ssh_running *r = calloc(1, sizeof *r);
    if (!r) {
        berth_ssh_link_drop(link);
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: command.");
    }
    *r = (struct ssh_running){.base = {.ops = &running_ops},
                              .handlers = *handlers,
                              .link = link,
                              .mark = berth_ssh_mark_new(),
                              .terminal = command->terminal,
                              .line = BERTH_SSH_LINE_INIT,
                              .cancel = BERTH_SSH_LINE_INIT,
                              .early = BERTH_SSH_LINE_INIT,
                              .input_open = !command->terminal,
                              .grace_ms = command->grace_ms};
    pthread_mutex_init(&r->lock, NULL);
    struct berth_command whole = *command;
    whole.env = whole_env(call->arena, link, command);
    int rc =
        whole.env ? write_lines(r, directory, &whole, err) : berth_arena_check(call->arena, err);
    if (rc == BERTH_OK)
        rc = ssh_exec_start(r, call, command, err);
    if (rc < 0) {
        r->process = NULL;
        free_running(r);
        return rc;
    }
    *out = &r->base;
    return BERTH_OK;
}
