/* SPDX-License-Identifier: Apache-2.0
 * src/driver/ssh_exec.c - see ssh_exec.h. What the session says before the mark is the login
 * shell's; what it says after a second mark is how the command ended. Without that the end is not
 * known, whatever status ssh(1) has. */
#include "driver/ssh_exec.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "os/spawn.h"

#define LATE_MS 10000  /* the far end keeps time-out and grace; after so much more it is lost */
#define LINGER_MS 1000 /* for what still holds the command's streams after its end */
#define TRAILER_BYTES_MAX 64

/* One stream of the session. Only the engine's thread has it. */
struct sieve {
    bool flows;     /* the mark has been seen: what comes is the command's */
    bool over;      /* and so has its end */
    size_t matched; /* bytes of a mark that are held back */
    char trailer[TRAILER_BYTES_MAX];
    size_t trailer_len;
    bool in_trailer;
};

struct ssh_running {
    struct berth_running base;
    struct berth_exec_handlers handlers;
    struct berth_ssh_link *link;
    struct berth_process *process;
    struct berth_engine *engine;
    struct berth_ssh_mark mark;
    bool terminal, with_stdin;
    struct berth_ssh_line line;   /* until a terminal is ready for it */
    struct berth_ssh_line cancel; /* what ends the command */
    int64_t grace_ms;
    struct sieve sieves[2];
    size_t ready_matched;
    uint64_t bytes[2];
    bool told; /* `end` is */
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
            bool by_signal = status > 128 && status < 128 + _NSIG; /* all that a shell tells */
            end->cause = by_signal && i == 0 ? BERTH_END_SIGNALLED : causes[i].cause;
            end->signal = by_signal ? (int)status - 128 : 0;
            end->exit_code = by_signal ? -1 : (int)status;
            return true;
        }
    return false;
}

/* --- on the engine's thread --- */

static void emit(struct ssh_running *r, enum berth_stream stream, const char *bytes, size_t len)
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
        berth_process_cancel(r->process); /* without it nothing would ever run */
    berth_ssh_line_clear(&r->line);
}

/* Before the mark: a terminal says when it is ready for the line. */
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

static void take_trailer(struct ssh_running *r, struct sieve *s, char byte)
{
    if (byte != ';') {
        if (s->trailer_len < sizeof s->trailer - 1)
            s->trailer[s->trailer_len++] = byte;
        return;
    }
    s->over = true;
    r->told = berth_ssh_read_end(s->trailer, &r->end);
    berth_process_limit(r->process, LINGER_MS);
}

/* One byte that may belong to a mark. */
static void take_byte(struct ssh_running *r, enum berth_stream stream, char byte)
{
    struct sieve *s = &r->sieves[stream];
    const char *mark = r->mark.text;
    if (s->in_trailer) {
        take_trailer(r, s, byte);
        return;
    }
    if (s->matched && byte != mark[s->matched]) {
        if (s->flows)
            emit(r, stream, mark, s->matched);
        s->matched = 0;
    }
    if (byte != mark[s->matched]) {
        if (s->flows)
            emit(r, stream, &byte, 1);
        else
            look_for_ready(r, byte);
        return;
    }
    if (!s->flows)
        look_for_ready(r, byte);
    if (mark[++s->matched])
        return;
    s->matched = 0;
    s->in_trailer = s->flows;
    s->flows = true;
}

static void on_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    struct ssh_running *r = ctx;
    struct sieve *s = &r->sieves[stream];
    while (len && !s->over) {
        /* What cannot be part of a mark passes at once. */
        const char *next = memchr(bytes, r->mark.text[0], len);
        size_t plain =
            s->flows && !s->matched && !s->in_trailer ? (next ? (size_t)(next - bytes) : len) : 0;
        emit(r, stream, bytes, plain);
        if (!plain)
            take_byte(r, stream, *bytes);
        plain += !plain;
        bytes += plain;
        len -= plain;
    }
}

static void on_stdin_room(void *ctx)
{
    struct ssh_running *r = ctx;
    if (r->handlers.on_stdin_room)
        r->handlers.on_stdin_room(r->handlers.ctx);
}

static void on_end(void *ctx, const struct berth_exec_end *session)
{
    struct ssh_running *r = ctx;
    struct berth_exec_end end = r->end;
    if (!r->told)
        end = (struct berth_exec_end){.cause = BERTH_END_LOST, .exit_code = -1};
    end.started_at_ms = session->started_at_ms;
    end.finished_at_ms = session->finished_at_ms;
    memcpy(end.bytes, r->bytes, sizeof end.bytes);
    for (int i = 0; i < 2; i++) /* somebody held them when we stopped listening */
        end.cut[i] = session->cut[i] || (r->told && session->cause == BERTH_END_TIMEOUT);
    r->handlers.on_end(r->handlers.ctx, &end);
}

/* --- what others want of it --- */

struct canceller {
    struct berth_process *process;
    struct berth_ssh_link *link;
};

static void on_cancel_end(void *ctx, const struct berth_exec_end *end)
{
    (void)end;
    struct canceller *c = ctx;
    berth_process_free(c->process);
    berth_ssh_link_drop(c->link);
    free(c);
}

/* Asks the far end, over a session of its own; the trailer tells what came of it. If that cannot
 * be, the session is ended here, and core settles the rest. */
static void running_cancel(struct berth_running *base)
{
    struct ssh_running *r = (struct ssh_running *)base;
    struct berth_ssh_session session;
    struct berth_process_options options = BERTH_PROCESS_OPTIONS_INIT;
    struct berth_error err;
    struct canceller *c = calloc(1, sizeof *c);
    berth_process_limit(r->process, r->grace_ms + LATE_MS);
    if (!c) {
        berth_process_cancel(r->process);
        return;
    }
    c->link = berth_ssh_link_again(r->link);
    berth_ssh_link_session(c->link, false, &session);
    options.argv = session.argv;
    options.env = session.env;
    options.with_stdin = true;
    options.timeout_ms = r->grace_ms + LATE_MS;
    struct berth_exec_handlers handlers = {.on_end = on_cancel_end, .ctx = c};
    if (berth_process_start(r->engine, &options, &handlers, &c->process, &err) < 0) {
        berth_ssh_link_drop(c->link);
        free(c);
        berth_process_cancel(r->process);
        return;
    }
    /* It cannot end, and so cannot be freed, before its input is closed. */
    if (berth_process_write(c->process, r->cancel.buf.data, r->cancel.buf.len, &err) < 0)
        berth_process_cancel(r->process);
    berth_process_close_stdin(c->process);
}

static int running_write(struct berth_running *base, const void *bytes, size_t len,
                         struct berth_error *err)
{
    return berth_process_write(((struct ssh_running *)base)->process, bytes, len, err);
}

static void running_close_stdin(struct berth_running *base)
{
    berth_process_close_stdin(((struct ssh_running *)base)->process);
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

/* The whole of what the far end is told. */
static int write_lines(struct ssh_running *r, const char *directory,
                       const struct berth_command *command, struct berth_error *err)
{
    char timeout[32] = "", grace[32];
    int64_t limit_ms = command->timeout_ms > 0 ? command->timeout_ms : 0;
    if (limit_ms > 0)
        (void)snprintf(timeout, sizeof timeout, "%lld.%03lld", (long long)limit_ms / 1000,
                       (long long)limit_ms % 1000);
    (void)snprintf(grace, sizeof grace, "%lld", (long long)(command->grace_ms + 99) / 100);
    struct berth_ssh_line *line = &r->line;
    berth_ssh_line_set(line, "m", r->mark.text);
    berth_ssh_line_set(line, "d", directory);
    berth_ssh_line_set(line, "x", command->id);
    berth_ssh_line_set(line, "h", command->cwd);
    berth_ssh_line_set(line, "t", timeout);
    berth_ssh_line_set(line, "g", grace);
    berth_ssh_line_set(line, "p",
                       berth_env_get(command->env, "PATH") ? "" : berth_ssh_link_path(r->link));
    for (const char *const *pair = command->env; *pair; pair++)
        berth_ssh_line_export(line, *pair);
    berth_ssh_line_export(line, berth_ssh_link_label(r->link));
    if (command->terminal && !berth_env_get(command->env, "TERM"))
        berth_ssh_line_export(line, "TERM=xterm-256color");
    berth_ssh_line_args(line, command->argv);
    berth_ssh_line_end(line, command->terminal ? berth_ssh_run_tty : berth_ssh_run);
    berth_ssh_line_set(&r->cancel, "d", directory);
    berth_ssh_line_set(&r->cancel, "x", command->id);
    berth_ssh_line_set(&r->cancel, "g", grace);
    berth_ssh_line_set(&r->cancel, "c", "cancelled");
    berth_ssh_line_end(&r->cancel, berth_ssh_cancel);
    int rc = berth_buf_check(&line->buf, "The command", err);
    return rc < 0 ? rc : berth_buf_check(&r->cancel.buf, "The command", err);
}

static int start(struct ssh_running *r, struct berth_call *call,
                 const struct berth_command *command, struct berth_error *err)
{
    struct berth_ssh_session session;
    struct berth_process_options options = BERTH_PROCESS_OPTIONS_INIT;
    struct berth_exec_handlers handlers = {
        .on_output = on_output, .on_stdin_room = on_stdin_room, .on_end = on_end, .ctx = r};
    berth_ssh_link_session(r->link, command->terminal, &session);
    options.argv = session.argv;
    options.env = session.env;
    options.with_stdin = true;
    options.terminal = command->terminal;
    options.rows = command->rows;
    options.columns = command->columns;
    options.grace_ms = 500;
    if (command->timeout_ms > 0)
        options.timeout_ms = command->timeout_ms + command->grace_ms + LATE_MS;
    int rc = berth_process_start(call->engine, &options, &handlers, &r->process, err);
    if (rc < 0 || command->terminal)
        return rc;
    send_line(r);
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
                              .engine = call->engine,
                              .mark = berth_ssh_mark_new(),
                              .terminal = command->terminal,
                              .line = BERTH_SSH_LINE_INIT,
                              .cancel = BERTH_SSH_LINE_INIT,
                              .grace_ms = command->grace_ms};
    int rc = write_lines(r, directory, command, err);
    if (rc == BERTH_OK)
        rc = start(r, call, command, err);
    if (rc < 0) {
        r->process = NULL;
        free_running(r);
        return rc;
    }
    *out = &r->base;
    return BERTH_OK;
}
