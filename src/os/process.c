/* SPDX-License-Identifier: Apache-2.0
 * src/os/process.c - see process.h. A process is started by its caller and handed to the loop; from
 * then on only the loop's thread touches it, and what others want of it is posted there. */
#include "os/process.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/container.h"
#include "base/limits.h"
#include "os/cage.h"
#include "os/children.h"
#include "os/inits.h"
#include "os/loop.h"
#include "os/spawn.h"

#define INIT_ANSWER_MS 5000 /* for an init to kill its tree; after that it is killed itself */
#define INHERITED_STEP_MS 5
#define INHERITED_STEPS_MAX 1000

enum phase {
    RUNNING,
    TERMINATING, /* SIGTERM was sent; SIGKILL follows */
    KILLED,      /* SIGKILL was sent */
    LINGERING,   /* the process has ended; its pipes are still open */
};

struct output {
    uv_pipe_t pipe;
    struct berth_process *process;
    bool open, drained; /* drained: there is no more, and it is closed when the program has ended */
    uint64_t due;       /* so many bytes it had written when it ended: they are waited for */
};

struct berth_process {
    struct berth_engine *engine;
    struct berth_exec_handlers handlers;
    struct berth_guest guest; /* of the engine */
    int64_t grace_ms, linger_ms;
    struct berth_child child; /* pid 0: it runs elsewhere, behind the socket in pidfd */
    struct berth_adoption elsewhere;
    struct berth_init *init; /* the parent of the program, or NULL; then pidfd is -1 */
    bool clearing;           /* the init was told to kill its tree, and is waited for */
    bool init_dead;          /* the init was killed; what it had below it may have become ours */
    bool tree_gone;          /* there is nothing left below the init */
    int inherited_steps;     /* how often inherited processes were killed */
    bool in_cage; /* `child` is the first process of a cage, and says how the program ended */
    int fds[3];   /* ours, until the loop has them: stdin, stdout, stderr */
    bool terminal;

    uv_poll_t exit;
    struct output outputs[2];
    uv_pipe_t input;
    bool has_input, input_closing;
    struct berth_timer timer; /* for its time-out, the grace, those who hold its pipes */
    enum phase phase;
    bool exited, lost, paused, ended;
    bool hurried; /* somebody wants it to end: readers are not waited for */
    int handles;  /* that libuv still holds */
    struct berth_exec_end end;

    bool let_go; /* the caller has: it is freed when it has ended */

    struct berth_post cancel_post, free_post; /* these need no memory */
    pthread_mutex_t lock;                     /* of what other threads look at: */
    size_t waiting;                           /* bytes for stdin that have not gone */
    bool input_closed, over, cancelling;
};

/* Changes the phase, which only goes forward. LINGERING and an exit come together. */
static void process_enter(struct berth_process *p, enum phase phase)
{
    assert(berth_engine_is_here(p->engine));
    assert(phase > p->phase && !p->ended);
    assert(phase != KILLED || p->phase == TERMINATING);
    assert((phase == LINGERING) == p->exited);
    p->phase = phase;
}

/* --- signals --- */

static void signal_group(const struct berth_process *p, int number)
{
    if (p->lost) /* its number may be somebody else's by now */
        return;
    if (p->init) {
        if (number == SIGKILL)
            berth_init_clear(p->init);
        else
            berth_init_signal(p->init, number);
        return;
    }
    if (p->child.pid == 0) { /* nobody to signal: we hang up */
        (void)shutdown(p->child.pidfd, SHUT_RDWR);
        return;
    }
    if (kill(-p->child.pid, number) < 0 && !p->exited)
        (void)kill(p->child.pid, number);
}

static void process_terminate(struct berth_process *p, enum berth_end_cause cause)
{
    p->hurried = true;
    if (p->phase != RUNNING || p->exited)
        return;
    process_enter(p, TERMINATING);
    p->end.cause = cause;
    signal_group(p, SIGTERM);
    signal_group(p, SIGCONT); /* a stopped one would not hear it */
    berth_timer_set(p->engine, &p->timer, p->grace_ms);
}

static void end_guest(struct berth_guest *guest)
{
    process_terminate(berth_container_of(guest, struct berth_process, guest), BERTH_END_CANCELLED);
}

static void stop_reading(struct berth_process *p);
static void end_if_done(struct berth_process *p);
static void end_inherited(struct berth_process *p);

/* Returns how many bytes are in the pipe of an output. */
static int bytes_waiting(const struct output *output)
{
    uv_os_fd_t fd;
    int waiting = 0;
    bool known = output->open && uv_fileno((const uv_handle_t *)&output->pipe, &fd) == 0 &&
                 ioctl(fd, FIONREAD, &waiting) == 0;
    return known ? waiting : 0;
}

/* Returns whether output of the command itself is still to be read. Then nothing is cut off,
 * however long the reader takes, unless the command is to end. A background process may have taken
 * bytes out of the pipe: those never come. */
static bool owes_bytes(const struct berth_process *p)
{
    if (p->hurried)
        return false;
    bool owes = p->paused && (p->outputs[0].open || p->outputs[1].open);
    for (int i = 0; i < 2; i++)
        owes |= p->end.bytes[i] < p->outputs[i].due && bytes_waiting(&p->outputs[i]) > 0;
    return owes;
}

static void on_process_timer(struct berth_timer *timer)
{
    struct berth_process *p = berth_container_of(timer, struct berth_process, timer);
    switch (p->phase) {
    case RUNNING:
        process_terminate(p, BERTH_END_TIMEOUT);
        break;
    case TERMINATING:
        process_enter(p, KILLED);
        signal_group(p, SIGKILL);
        if (p->init)
            berth_timer_set(p->engine, &p->timer, INIT_ANSWER_MS);
        break;
    case LINGERING:
        if (p->init_dead) {
            end_inherited(p);
            break;
        }
        if (p->clearing) {
            berth_init_kill(p->init);
            break;
        }
        if (owes_bytes(p)) {
            berth_timer_set(p->engine, &p->timer, p->linger_ms);
            break;
        }
        signal_group(p, SIGKILL);
        stop_reading(p);
        end_if_done(p);
        break;
    case KILLED:
        if (p->init && !p->init_dead)
            berth_init_kill(p->init);
        break;
    }
}

/* --- the end --- */

static void free_process(struct berth_process *p)
{
    for (int i = 0; i < 3; i++)
        if (p->fds[i] >= 0)
            (void)close(p->fds[i]);
    if (p->child.pidfd >= 0)
        (void)close(p->child.pidfd);
    berth_init_drop(p->init);
    if (p->elsewhere.free)
        p->elsewhere.free(p->elsewhere.ctx);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct berth_process *p = handle->data;
    p->handles--;
    end_if_done(p);
}

static void close_handle(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, on_handle_closed);
}

static void close_output(struct output *o)
{
    if (!o->open)
        return;
    o->open = false;
    close_handle((uv_handle_t *)&o->pipe);
}

static void stop_reading(struct berth_process *p)
{
    for (int i = 0; i < 2; i++) {
        p->end.cut[i] |= p->outputs[i].open;
        close_output(&p->outputs[i]);
    }
}

static void process_close_input(struct berth_process *p)
{
    if (!p->has_input)
        return;
    p->has_input = false;
    close_handle((uv_handle_t *)&p->input);
}

/* Returns whether nothing of the program is left. If something is, the init is told to kill it. The
 * program has ended, and its pipes are closed. */
static bool clear_tree(struct berth_process *p)
{
    if (!p->init || p->tree_gone)
        return true;
    if (!p->clearing && !p->init_dead) {
        p->clearing = true;
        berth_init_clear(p->init);
        berth_timer_set(p->engine, &p->timer, INIT_ANSWER_MS);
    }
    return false;
}

/* Kills what became ours when the init died, until there is nothing more. */
static void end_inherited(struct berth_process *p)
{
    bool inherited = berth_init_is_dead(p->init);
    if ((!inherited || berth_children_end_inherited() > 0) &&
        p->inherited_steps++ < INHERITED_STEPS_MAX) {
        berth_timer_set(p->engine, &p->timer, INHERITED_STEP_MS);
        return;
    }
    p->tree_gone = true;
    stop_reading(p);
    end_if_done(p);
}

/* Keeps an init that has nothing left to do for another command. */
static void return_init(struct berth_process *p)
{
    if (p->init && p->tree_gone && !p->init_dead)
        berth_engine_give_init(p->engine, p->init);
    else
        berth_init_drop(p->init);
    p->init = NULL;
}

/* It is over when the program has ended, its pipes are closed, and libuv has let go of all. */
static void end_if_done(struct berth_process *p)
{
    if (p->ended)
        return;
    if (p->exited && !p->outputs[0].open && !p->outputs[1].open && clear_tree(p)) {
        berth_timer_clear(p->engine, &p->timer);
        process_close_input(p);
        close_handle((uv_handle_t *)&p->exit);
    }
    if (!p->exited || p->handles > 0)
        return;
    p->ended = true;
    if (p->init) {
        return_init(p);
    } else if (p->child.pid) {
        (void)waitid(P_PID, (id_t)p->child.pid, &(siginfo_t){0}, WEXITED | WNOHANG);
        berth_children_forget(p->child.pid);
    }
    p->end.finished_at_ms = berth_time_wall_ms();
    struct berth_exec_handlers handlers = p->handlers;
    struct berth_exec_end end = p->end;
    pthread_mutex_lock(&p->lock);
    p->over = true;
    pthread_mutex_unlock(&p->lock);
    handlers.on_end(handlers.ctx, &end); /* may let go of it, which is done later */
    berth_engine_leave(p->engine, &p->guest);
    if (p->let_go)
        free_process(p);
}

static void note_status(struct berth_process *p, int code, int status)
{
    bool by_signal = code == CLD_KILLED || code == CLD_DUMPED;
    p->end.signal = by_signal ? status : p->in_cage ? berth_cage_signal(status) : 0;
    p->end.exit_code = p->end.signal || p->lost ? -1 : status;
}

/* Reads what the init says. Returns whether the program has ended. */
static bool read_reports(struct berth_process *p)
{
    struct berth_init_report report;
    bool exited = false;
    int got;
    while ((got = berth_init_read(p->init, &report)) > 0) {
        p->tree_gone |= report.kind == BERTH_INIT_GONE || report.gone;
        if (report.kind == BERTH_INIT_EXITED) {
            exited = true;
            note_status(p, report.code, report.status);
        }
    }
    if (got == 0)
        return exited;
    /* The init is dead. Without its report the end is not known, nor what is left. */
    p->init_dead = true;
    p->lost = !exited && !p->exited;
    if (p->lost)
        p->end.exit_code = -1;
    for (int i = 0; i < 2; i++)
        p->end.cut[i] |= p->phase != RUNNING && !p->tree_gone;
    return true;
}

/* False: it has not ended yet. */
static bool read_status(struct berth_process *p)
{
    siginfo_t info = {0};
    if (p->init)
        return read_reports(p);
    if (p->child.pid == 0) {
        p->end.exit_code = -1;
        if (!p->elsewhere.read_exit(p->elsewhere.ctx, p->child.pidfd, &p->end.exit_code))
            return false;
        p->lost = p->end.exit_code < 0;
        return true;
    }
    /* It stays a zombie until all is over: so long its number, and its group's, means nobody else.
     */
    int rc = waitid(P_PID, (id_t)p->child.pid, &info, WEXITED | WNOHANG | WNOWAIT);
    p->lost = rc < 0 && errno == ECHILD; /* somebody in this process has taken its status */
    if (!p->lost && (rc < 0 || info.si_pid == 0))
        return false;
    note_status(p, info.si_code, info.si_status);
    return true;
}

/* Its own bytes are in the pipes by now; whatever comes behind them is somebody else's. */
static void note_due(struct berth_process *p)
{
    for (int i = 0; i < 2; i++)
        p->outputs[i].due = p->end.bytes[i] + (uint64_t)bytes_waiting(&p->outputs[i]);
}

static void process_exited(struct berth_process *p)
{
    p->exited = true;
    if (p->phase != RUNNING)
        signal_group(p, SIGKILL); /* the command is gone; nothing of it may stay */
    else
        p->end.cause = p->lost         ? BERTH_END_LOST
                       : p->end.signal ? BERTH_END_SIGNALLED
                                       : BERTH_END_EXITED;
    process_enter(p, LINGERING);
    if (p->outputs[0].drained)
        close_output(&p->outputs[0]);
    if (p->child.pid) { /* elsewhere the pipes close when all has come through, or by a limit */
        note_due(p);
        berth_timer_set(p->engine, &p->timer,
                        p->linger_ms); /* for those who still hold its pipes */
    }
}

static void on_exit_readable(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    struct berth_process *p = poll->data;
    bool ended = read_status(p);
    if (ended && (!p->init || p->init_dead || p->tree_gone))
        (void)uv_poll_stop(poll);
    if (ended && !p->exited)
        process_exited(p);
    if (p->init_dead && !p->tree_gone)
        end_inherited(p);
    else
        end_if_done(p);
}

/* --- output --- */

static void on_process_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    const struct berth_process *p = handle->data;
    *buf = berth_engine_chunk(p->engine);
}

static struct output *output_of(uv_stream_t *stream)
{
    return berth_container_of((uv_pipe_t *)stream, struct output, pipe);
}

static void output_deliver(struct output *o, const char *bytes, size_t len)
{
    struct berth_process *p = o->process;
    enum berth_stream which = o == &p->outputs[0] ? BERTH_STDOUT : BERTH_STDERR;
    p->end.bytes[which] += (uint64_t)len;
    if (p->handlers.on_output)
        p->handlers.on_output(p->handlers.ctx, which, bytes, len);
}

/* libuv takes a hang-up for the end once a read gave less than was asked for. A terminal gives its
 * bytes in small portions: what it still holds is read here. */
static void drain_terminal(struct output *o)
{
    uv_buf_t chunk = berth_engine_chunk(o->process->engine);
    uv_os_fd_t fd;
    ssize_t got;
    if (uv_fileno((const uv_handle_t *)&o->pipe, &fd) != 0)
        return;
    while ((got = read(fd, chunk.base, chunk.len)) > 0 || (got < 0 && errno == EINTR))
        if (got > 0)
            output_deliver(o, chunk.base, (size_t)got);
}

static void on_process_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    struct output *o = output_of(stream);
    struct berth_process *p = o->process;
    if (len > 0) {
        output_deliver(o, buf->base, (size_t)len);
    } else if (len < 0) { /* the end; a terminal whose other side is gone says EIO */
        if (p->terminal && len == UV_EOF)
            drain_terminal(o);
        if (p->terminal && p->child.pid && !p->exited) { /* our closing it would be a hang-up */
            o->drained = true;
            (void)uv_read_stop(stream);
            return;
        }
        close_output(o);
        end_if_done(p);
    }
}

static void read_outputs(struct berth_process *p)
{
    for (int i = 0; i < 2; i++)
        if (p->outputs[i].drained)
            continue;
        else if (p->outputs[i].open && p->paused)
            (void)uv_read_stop((uv_stream_t *)&p->outputs[i].pipe);
        else if (p->outputs[i].open)
            (void)uv_read_start((uv_stream_t *)&p->outputs[i].pipe, on_process_alloc,
                                on_process_read);
}

/* --- input --- */

struct write {
    struct berth_post post;
    uv_write_t request;
    struct berth_process *process;
    size_t len;
    char bytes[];
};

static void count_written(struct berth_process *p, size_t len)
{
    pthread_mutex_lock(&p->lock);
    p->waiting -= len;
    bool closing = p->input_closing && p->waiting == 0;
    pthread_mutex_unlock(&p->lock);
    if (closing)
        process_close_input(p);
    else if (p->handlers.on_stdin_room && !p->ended)
        p->handlers.on_stdin_room(p->handlers.ctx);
}

/* It may have held a secret. */
static void free_write(struct write *w)
{
    explicit_bzero(w->bytes, w->len);
    free(w);
}

static void on_process_written(uv_write_t *request, int status)
{
    struct write *w = request->data;
    struct berth_process *p = w->process;
    if (status < 0 && status != UV_ECANCELED) { /* nobody reads any more: not our failure */
        process_close_input(p);
        pthread_mutex_lock(&p->lock);
        p->input_closed = true;
        pthread_mutex_unlock(&p->lock);
    }
    count_written(p, w->len);
    free_write(w);
}

static void run_process_write(struct berth_post *post)
{
    struct write *w = berth_container_of(post, struct write, post);
    struct berth_process *p = w->process;
    uv_buf_t buf = uv_buf_init(w->bytes, (unsigned)w->len);
    w->request.data = w;
    if (p->has_input &&
        uv_write(&w->request, (uv_stream_t *)&p->input, &buf, 1, on_process_written) == 0)
        return;
    count_written(p, w->len);
    free_write(w);
}

int berth_process_write(struct berth_process *p, const void *bytes, size_t len,
                        struct berth_error *err)
{
    int rc = BERTH_OK;
    pthread_mutex_lock(&p->lock);
    if (p->input_closed || p->over)
        rc = berth_fail(err, BERTH_E_CONFLICT, "The standard input is closed.");
    else if (p->waiting && p->waiting + len > BERTH_PIPE_QUEUE_BYTES_MAX)
        rc = berth_fail(err, BERTH_E_UNAVAILABLE, "The standard input is full.");
    else
        p->waiting += len;
    pthread_mutex_unlock(&p->lock);
    if (rc < 0)
        return rc;
    struct write *w = malloc(sizeof *w + len);
    if (!w) {
        pthread_mutex_lock(&p->lock);
        p->waiting -= len;
        pthread_mutex_unlock(&p->lock);
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: standard input.");
    }
    *w = (struct write){.post = {.run = run_process_write}, .process = p, .len = len};
    memcpy(w->bytes, bytes, len);
    berth_engine_put(p->engine, &w->post);
    return BERTH_OK;
}

/* --- what others want of a process --- */

struct wish {
    struct berth_post post;
    struct berth_process *process;
    unsigned short rows, columns;
    int64_t limit_ms;
    bool flag;
};

/* Without memory the wish is lost. */
static struct wish *new_wish(struct berth_process *p, void (*run)(struct berth_post *post))
{
    struct wish *wish = calloc(1, sizeof *wish);
    if (wish) {
        wish->post.run = run;
        wish->process = p;
    }
    return wish;
}

static void run_cancel(struct berth_post *post)
{
    struct berth_process *p = berth_container_of(post, struct berth_process, cancel_post);
    if (!p->ended)
        process_terminate(p, BERTH_END_CANCELLED);
}

void berth_process_cancel(struct berth_process *p)
{
    pthread_mutex_lock(&p->lock);
    bool already = p->cancelling || p->over;
    p->cancelling = true;
    pthread_mutex_unlock(&p->lock);
    if (!already)
        berth_engine_put(p->engine, &p->cancel_post);
}

void berth_process_kill(struct berth_process *p)
{
    assert(berth_engine_is_here(p->engine));
    if (!p->ended && !p->exited)
        signal_group(p, SIGKILL);
}

static void run_close_stdin(struct berth_post *post)
{
    struct wish *wish = berth_container_of(post, struct wish, post);
    struct berth_process *p = wish->process;
    p->input_closing = true;
    pthread_mutex_lock(&p->lock);
    bool now = p->waiting == 0;
    pthread_mutex_unlock(&p->lock);
    if (now && !p->terminal)
        process_close_input(p);
    free(wish);
}

void berth_process_close_stdin(struct berth_process *p)
{
    pthread_mutex_lock(&p->lock);
    bool already = p->input_closed;
    p->input_closed = true;
    pthread_mutex_unlock(&p->lock);
    struct wish *wish = already ? NULL : new_wish(p, run_close_stdin);
    if (wish)
        berth_engine_put(p->engine, &wish->post);
}

static void set_paused(struct berth_process *p, bool paused)
{
    bool resumed = p->paused && !paused;
    p->paused = paused;
    read_outputs(p);
    if (resumed && p->phase == LINGERING && p->timer.deadline.index && !p->ended && !p->clearing &&
        !p->init_dead)
        berth_timer_set(p->engine, &p->timer, p->linger_ms);
}

static void run_pause(struct berth_post *post)
{
    struct wish *wish = berth_container_of(post, struct wish, post);
    set_paused(wish->process, wish->flag);
    free(wish);
}

void berth_process_pause(struct berth_process *p, bool paused)
{
    if (berth_engine_is_here(p->engine)) {
        set_paused(p, paused);
        return;
    }
    struct wish *wish = new_wish(p, run_pause);
    if (!wish)
        return;
    wish->flag = paused;
    berth_engine_put(p->engine, &wish->post);
}

static void run_resize(struct berth_post *post)
{
    struct wish *wish = berth_container_of(post, struct wish, post);
    struct winsize size = {.ws_row = wish->rows, .ws_col = wish->columns};
    uv_os_fd_t fd;
    const struct berth_process *p = wish->process;
    if (p->terminal && p->outputs[0].open &&
        uv_fileno((const uv_handle_t *)&p->outputs[0].pipe, &fd) == 0)
        (void)ioctl(fd, TIOCSWINSZ, &size);
    free(wish);
}

void berth_process_resize(struct berth_process *p, unsigned short rows, unsigned short columns)
{
    struct wish *wish = new_wish(p, run_resize);
    if (!wish)
        return;
    wish->rows = rows;
    wish->columns = columns;
    berth_engine_put(p->engine, &wish->post);
}

static void run_limit(struct berth_post *post)
{
    struct wish *wish = berth_container_of(post, struct wish, post);
    struct berth_process *p = wish->process;
    bool may = p->phase == RUNNING || (p->phase == LINGERING && !p->child.pid);
    if (may && !p->ended && wish->limit_ms)
        berth_timer_set(p->engine, &p->timer, wish->limit_ms);
    else if (may && !p->ended)
        berth_timer_clear(p->engine, &p->timer);
    free(wish);
}

static void run_hurry(struct berth_post *post)
{
    struct wish *wish = berth_container_of(post, struct wish, post);
    wish->process->hurried = true;
    free(wish);
}

void berth_process_hurry(struct berth_process *p)
{
    struct wish *wish = new_wish(p, run_hurry);
    if (wish)
        berth_engine_put(p->engine, &wish->post);
}

void berth_process_limit(struct berth_process *p, int64_t timeout_ms)
{
    struct wish *wish = new_wish(p, run_limit);
    if (!wish)
        return;
    wish->limit_ms = timeout_ms;
    berth_engine_put(p->engine, &wish->post);
}

int berth_process_pid(const struct berth_process *p)
{
    return (int)p->child.pid;
}

static void run_process_free(struct berth_post *post)
{
    struct berth_process *p = berth_container_of(post, struct berth_process, free_post);
    p->let_go = true;
    if (p->ended)
        free_process(p);
    else
        process_terminate(p, BERTH_END_CANCELLED);
}

/* --- the beginning --- */

struct arrival {
    struct berth_post post;
    struct berth_process *process;
    int64_t timeout_ms;
};

static void adopt_pipe(struct berth_process *p, uv_pipe_t *pipe, int *fd, bool *open)
{
    (void)uv_pipe_init(berth_engine_loop(p->engine), pipe, 0);
    pipe->data = p;
    p->handles++;
    *open = uv_pipe_open(pipe, *fd) == 0;
    if (*open)
        *fd = -1;
    else
        close_handle((uv_handle_t *)pipe);
}

static void run_arrival(struct berth_post *post)
{
    struct arrival *arrival = berth_container_of(post, struct arrival, post);
    struct berth_process *p = arrival->process;
    p->guest.end = end_guest;
    bool may_run = berth_engine_enter(p->engine, &p->guest);
    for (int i = 0; i < 2; i++) {
        p->outputs[i].process = p;
        if (p->fds[1 + i] >= 0)
            adopt_pipe(p, &p->outputs[i].pipe, &p->fds[1 + i], &p->outputs[i].open);
    }
    if (p->fds[0] >= 0)
        adopt_pipe(p, &p->input, &p->fds[0], &p->has_input);
    (void)uv_poll_init(berth_engine_loop(p->engine), &p->exit,
                       p->init ? berth_init_fd(p->init) : p->child.pidfd);
    p->exit.data = p;
    p->handles++;
    (void)uv_poll_start(&p->exit, UV_READABLE, on_exit_readable);
    read_outputs(p);
    if (arrival->timeout_ms > 0)
        berth_timer_set(p->engine, &p->timer, arrival->timeout_ms);
    if (!may_run)
        process_terminate(p, BERTH_END_CANCELLED);
    free(arrival);
}

static int open_pipe(int *ours, int *theirs, bool we_read, struct berth_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return berth_fail(err, BERTH_E_UNAVAILABLE, "Cannot make a pipe: %s.", strerror(errno));
    *ours = ends[we_read ? 0 : 1];
    *theirs = ends[we_read ? 1 : 0];
    return BERTH_OK;
}

/* A PTY: one descriptor of ours reads, a copy of it writes. */
static int open_terminal(struct berth_process *p, const struct berth_process_options *options,
                         char name[64], struct berth_error *err)
{
    int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    p->fds[1] = fd;
    struct winsize size = {.ws_row = options->rows, .ws_col = options->columns};
    if (fd < 0 || grantpt(fd) < 0 || unlockpt(fd) < 0 || ptsname_r(fd, name, 64) != 0 ||
        ioctl(fd, TIOCSWINSZ, &size) < 0 || (p->fds[0] = fcntl(fd, F_DUPFD_CLOEXEC, 3)) < 0)
        return berth_fail(err, BERTH_E_UNAVAILABLE, "Cannot make a terminal: %s.", strerror(errno));
    return BERTH_OK;
}

/* Runs the program below an init. */
static int spawn_below_init(struct berth_process *p, const struct berth_spawn *what,
                            const char *user, struct berth_error *err)
{
    char file[PATH_MAX];
    struct berth_inits *inits = berth_engine_inits(p->engine);
    int rc = berth_spawn_prepare(what, file, err);
    if (rc == BERTH_OK)
        rc = berth_inits_take(inits, user, &p->init, err);
    if (rc < 0)
        return rc;
    rc = berth_init_run(p->init, what, file, err);
    if (rc == BERTH_OK)
        p->child.pid = berth_init_command(p->init);
    else if (berth_init_is_usable(p->init))
        berth_inits_give(inits, take_ptr(p->init));
    return rc;
}

static int process_spawn(struct berth_process *p, const struct berth_process_options *options,
                         struct berth_error *err)
{
    char name[64];
    int theirs[3] = {-1, -1, -1};
    struct berth_spawn what = {.argv = options->argv,
                               .env = options->env,
                               .cwd = options->cwd,
                               .confinement = options->confinement};
    int rc = BERTH_OK;
    if (options->terminal) {
        rc = open_terminal(p, options, name, err);
        what.terminal = name;
    } else {
        if (options->with_stdin)
            rc = open_pipe(&p->fds[0], &theirs[0], false, err);
        for (int i = 1; i < 3 && rc == BERTH_OK; i++)
            rc = open_pipe(&p->fds[i], &theirs[i], true, err);
    }
    memcpy(what.fds, theirs, sizeof theirs);
    if (rc == BERTH_OK)
        rc = options->init_user ? spawn_below_init(p, &what, options->init_user, err)
                                : berth_spawn(&what, &p->child, err);
    for (int i = 0; i < 3; i++)
        if (theirs[i] >= 0)
            (void)close(theirs[i]);
    return rc;
}

static struct berth_process *new_process(struct berth_engine *engine,
                                         const struct berth_process_options *options,
                                         const struct berth_exec_handlers *handlers)
{
    struct berth_process *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    *p = (struct berth_process){.engine = engine,
                                .handlers = *handlers,
                                .grace_ms = options->grace_ms,
                                .linger_ms = options->linger_ms,
                                .child = {.pidfd = -1},
                                .fds = {-1, -1, -1},
                                .terminal = options->terminal,
                                .in_cage = options->confinement && options->confinement->cage};
    p->timer.run = on_process_timer;
    p->cancel_post.run = run_cancel;
    p->free_post.run = run_process_free;
    p->input_closed = !options->with_stdin && !options->terminal;
    pthread_mutex_init(&p->lock, NULL);
    p->end.started_at_ms = berth_time_wall_ms();
    return p;
}

/* To the loop, which has it from here on. */
static void process_arrive(struct berth_process *p, struct arrival *arrival, int64_t timeout_ms)
{
    *arrival =
        (struct arrival){.post = {.run = run_arrival}, .process = p, .timeout_ms = timeout_ms};
    berth_engine_put(p->engine, &arrival->post);
}

int berth_process_start(struct berth_engine *engine, const struct berth_process_options *options,
                        const struct berth_exec_handlers *handlers, struct berth_process **out,
                        struct berth_error *err)
{
    int rc = berth_engine_start(engine, err);
    if (rc < 0)
        return rc;
    struct berth_process *p = new_process(engine, options, handlers);
    struct arrival *arrival = calloc(1, sizeof *arrival);
    rc = p && arrival ? process_spawn(p, options, err)
                      : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: process.");
    if (rc < 0) {
        free(arrival);
        if (p)
            free_process(p);
    } else {
        *out = p;
        process_arrive(p, arrival, options->timeout_ms);
    }
    if (options->init_user) /* while the program runs */
        berth_inits_replenish(berth_engine_inits(engine));
    return rc;
}

int berth_process_adopt(struct berth_engine *engine, const struct berth_adoption *what,
                        const struct berth_process_options *options,
                        const struct berth_exec_handlers *handlers, struct berth_process **out,
                        struct berth_error *err)
{
    int rc = berth_engine_start(engine, err);
    struct berth_process *p = rc < 0 ? NULL : new_process(engine, options, handlers);
    struct arrival *arrival = calloc(1, sizeof *arrival);
    if (p && arrival) {
        memcpy(p->fds, what->fds, sizeof p->fds);
        p->child.pidfd = what->exit_fd;
        p->elsewhere = *what;
        *out = p;
        process_arrive(p, arrival, options->timeout_ms);
        return BERTH_OK;
    }
    free(arrival);
    if (p)
        free_process(p);
    for (int i = 0; i < 3; i++)
        if (what->fds[i] >= 0)
            (void)close(what->fds[i]);
    (void)close(what->exit_fd);
    if (what->free)
        what->free(what->ctx);
    return rc < 0 ? rc : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: process.");
}

void berth_process_free(struct berth_process *p)
{
    if (!p)
        return;
    berth_engine_put(p->engine, &p->free_post);
}
