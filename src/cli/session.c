/* SPDX-License-Identifier: Apache-2.0
 * src/cli/session.c - see session.h. Output is queued on the engine's thread and written by a
 * thread that may wait. */
#include "cli/session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <berth/exec.h>

#include "base/limits.h"
#include "base/time.h"
#include "cli/exit_status.h"
#include "cli/follow.h"
#include "cli/interrupt.h"
#include "cli/run_socket.h"
#include "os/fs.h"

struct piece {
    struct piece *next;
    int fd;
    size_t len;
    char bytes[];
};

#define INPUT_BYTES (64 * 1024) /* that are read from stdin at once */
#define STATUS_WAIT_MS 300      /* for the terminal to take the output before a status line */

static int window_fd = -1; /* written to by the handler of SIGWINCH */

/* --- output --- */

void cli_session_output(struct cli_session *s, int fd, const char *bytes, size_t len)
{
    struct piece *piece = malloc(sizeof *piece + len);
    if (!piece) {
        s->cli->unwritten = ENOMEM; /* the log has it */
        return;
    }
    *piece = (struct piece){.fd = fd, .len = len};
    memcpy(piece->bytes, bytes, len);
    pthread_mutex_lock(&s->lock);
    *s->tail = piece;
    s->tail = &piece->next;
    s->queued += len;
    if (s->queued > BERTH_PIPE_QUEUE_BYTES_MAX && s->exec)
        berth_exec_pause(s->exec, true);
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* The status lock is held. */
static void erase_status(struct cli_session *s)
{
    if (s->status_shown) {
        (void)fputs("\r\033[K", stderr);
        (void)fflush(stderr);
    }
    s->status_shown = false;
}

/* Erases the status line first, and holds its lock until the output is written. */
bool cli_session_write(struct cli_session *s, int fd, const char *bytes, size_t len)
{
    pthread_mutex_lock(&s->status_lock);
    erase_status(s);
    struct berth_error unwritten;
    bool written = berth_fs_write_all(fd, bytes, len, &unwritten) == BERTH_OK;
    if (!written && !s->cli->unwritten)
        s->cli->unwritten = unwritten.os_errno;
    if (s->has_status && isatty(fd))
        s->at_line_start = bytes[len - 1] == '\n';
    pthread_mutex_unlock(&s->status_lock);
    return written;
}

/* Writes queued output until the command has ended and the queue is empty. */
static void *write_output(void *ctx)
{
    struct cli_session *s = ctx;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->head && !s->over)
            pthread_cond_wait(&s->changed, &s->lock);
        struct piece *piece = s->head;
        if (!piece)
            break;
        s->head = piece->next;
        if (!s->head)
            s->tail = &s->head;
        pthread_mutex_unlock(&s->lock);
        bool written = s->closed || cli_session_write(s, piece->fd, piece->bytes, piece->len);
        pthread_mutex_lock(&s->lock);
        if (!written && !s->closed) {
            s->closed = true;
            if (s->exec && s->cli->unwritten == EPIPE) /* as SIGPIPE would end it */
                berth_exec_cancel(s->exec);
        }
        s->queued -= piece->len;
        if (!s->queued)
            pthread_cond_broadcast(&s->written);
        if (s->queued < BERTH_PIPE_QUEUE_BYTES_MAX / 2 && s->exec)
            berth_exec_pause(s->exec, false);
        free(piece);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* --- input --- */

/* Returns false when the command does not read any more. */
static bool session_send_to_daemon(struct cli_session *s, const char *bytes, size_t len, bool last)
{
    struct berth_error err;
    int rc = cli_send_stdin(s->cli, s->exec_id, bytes, len, last, s->stop_fd, &err);
    if (rc == BERTH_OK || rc == BERTH_E_CONFLICT || rc == BERTH_E_CANCELLED)
        return rc == BERTH_OK;
    s->unsent = err; /* the command would wait forever for the rest */
    cli_send_cancel(s->cli, "execs", s->exec_id, s->stop_fd);
    return false;
}

static bool session_send(struct cli_session *s, const char *bytes, size_t len)
{
    struct berth_error err;
    if (s->cli->daemon)
        return session_send_to_daemon(s, bytes, len, false);
    while (berth_exec_write(s->exec, bytes, len, &err) == BERTH_E_UNAVAILABLE)
        while (sem_wait(&s->room) < 0 && errno == EINTR)
            ;
    return true;
}

static void close_input(struct cli_session *s)
{
    if (s->cli->daemon)
        (void)session_send_to_daemon(s, NULL, 0, true);
    else
        berth_exec_close_stdin(s->exec);
}

/* Sets the size of the command's terminal to that of ours. */
static void follow_window(struct cli_session *s)
{
    struct winsize size;
    eventfd_t told;
    (void)eventfd_read(window_fd, &told);
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || !size.ws_col)
        return;
    if (s->cli->daemon)
        cli_send_size(s->cli, s->exec_id, size.ws_row, size.ws_col, s->stop_fd);
    else
        berth_exec_resize(s->exec, size.ws_row, size.ws_col);
}

static void *read_input(void *ctx)
{
    struct cli_session *s = ctx;
    static char bytes[INPUT_BYTES];
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = s->stop_fd, .events = POLLIN},
                           {.fd = window_fd, .events = POLLIN}};
    for (;;) {
        if (poll(fds, 3, -1) < 0 && errno == EINTR)
            continue;
        if (fds[1].revents)
            return NULL;
        if (fds[2].revents)
            follow_window(s);
        if (!fds[0].revents)
            continue;
        ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        if (!session_send(s, bytes, (size_t)got))
            return NULL;
    }
    if (s->gives_terminal)
        (void)session_send(s, "\004", 1); /* Ctrl-D: the end of input on a terminal */
    close_input(s);
    return NULL;
}

/* --- the terminal --- */

static void on_window(int number)
{
    int saved = errno;
    (void)number;
    (void)eventfd_write(window_fd, 1);
    errno = saved;
}

void cli_session_copy_terminal(struct cli_session *s, struct berth_exec_request *command)
{
    struct winsize size;
    s->gives_terminal = true;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col) {
        command->rows = size.ws_row;
        command->columns = size.ws_col;
    }
}

/* Sets our terminal to raw mode: while the command runs, its own terminal interprets the keys.
 * Before and after that, Ctrl-C is for this program. */
static void enter_terminal(struct cli_session *s)
{
    s->on_terminal =
        s->gives_terminal && isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &s->before) == 0;
    if (!s->on_terminal)
        return;
    struct sigaction action = {.sa_handler = on_window, .sa_flags = SA_RESTART};
    window_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)sigaction(SIGWINCH, &action, NULL);
    (void)eventfd_write(window_fd, 1); /* the size may have changed since it was copied */
    struct termios raw = s->before;
    cfmakeraw(&raw);
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

static void leave_terminal(struct cli_session *s)
{
    if (s->on_terminal)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &s->before);
    s->on_terminal = false;
}

void cli_session_start_input(struct cli_session *s)
{
    enter_terminal(s);
    s->reads = pthread_create(&s->reader, NULL, read_input, s) == 0;
    if (!s->reads)
        close_input(s);
}

void cli_session_stop_input(struct cli_session *s)
{
    if (s->reads)
        (void)pthread_join(s->reader, NULL);
    s->reads = false;
    leave_terminal(s);
}

/* --- the status line --- */

/* Draws the status line where the cursor is at the start of a line. Does nothing on a terminal that
 * is stopped or busy with output, so that the run does not wait for it. */
static void draw_status(struct cli_session *s, const char *word)
{
    struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (pthread_mutex_trylock(&s->status_lock) != 0)
        return;
    if (s->at_line_start && poll(&room, 1, 0) > 0 && room.revents == POLLOUT) {
        (void)fprintf(stderr, "\r\033[Kberth: %s ...", word);
        (void)fflush(stderr);
        s->status_shown = true;
    }
    pthread_mutex_unlock(&s->status_lock);
}

/* Waits until all output is written, since only then it is known where the cursor stands. Returns
 * false when that takes too long: a terminal that is stopped gets no status line. */
static bool is_written(struct cli_session *s)
{
    struct timespec until = berth_time_until(STATUS_WAIT_MS);
    int timed_out = 0;
    pthread_mutex_lock(&s->lock);
    while (s->queued && !timed_out)
        timed_out = pthread_cond_timedwait(&s->written, &s->lock, &until);
    bool written = !s->queued;
    pthread_mutex_unlock(&s->lock);
    return written;
}

void cli_session_say(struct cli_session *s, const char *word)
{
    if (s->has_status && is_written(s))
        draw_status(s, word);
}

/* --- a command of this process --- */

static void session_on_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    cli_session_output(ctx, stream == BERTH_STDOUT ? STDOUT_FILENO : STDERR_FILENO, bytes, len);
}

static void session_on_stdin_room(void *ctx)
{
    struct cli_session *s = ctx;
    (void)sem_post(&s->room);
    cli_run_socket_room(s->control);
}

void cli_session_start(void *ctx, struct berth_exec *exec)
{
    struct cli_session *s = ctx;
    pthread_mutex_lock(&s->lock);
    s->exec = exec;
    pthread_mutex_unlock(&s->lock);
    cli_session_start_input(s);
    cli_run_socket_serve(s->control, exec);
}

static void session_on_end(void *ctx, const struct berth_exec_end *end)
{
    (void)end;
    struct cli_session *s = ctx;
    (void)eventfd_write(s->stop_fd, 1);
    (void)sem_post(&s->room);
}

void cli_session_stop(void *ctx)
{
    struct cli_session *s = ctx;
    cli_run_socket_serve(s->control, NULL);
    cli_session_stop_input(s);
    pthread_mutex_lock(&s->lock);
    s->exec = NULL;
    pthread_mutex_unlock(&s->lock);
}

struct berth_exec_handlers cli_session_handlers(struct cli_session *s)
{
    return (struct berth_exec_handlers){
        .on_output = s->cli->json ? NULL : session_on_output, /* --json prints it with the result */
        .on_stdin_room = session_on_stdin_room,
        .on_end = session_on_end,
        .ctx = s};
}

/* --- all of it --- */

int cli_session_open(struct cli_session *s, struct cli *cli)
{
    *s = (struct cli_session){.cli = cli, .stop_fd = eventfd(0, EFD_CLOEXEC)};
    cli->ran_command = true;
    s->tail = &s->head;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    berth_time_cond_init(&s->written);
    (void)sem_init(&s->room, 0, 0);
    s->at_line_start = true;
    const char *term = getenv("TERM");
    s->has_status = !cli->quiet && !cli->json && isatty(STDERR_FILENO) &&
                    !(term && strcmp(term, "dumb") == 0); /* it cannot erase a line */
    pthread_mutex_init(&s->status_lock, NULL);
    s->cancel_fd = cli_cancel_fd();
    if (s->stop_fd >= 0 && s->cancel_fd >= 0 &&
        pthread_create(&s->writer, NULL, write_output, s) == 0)
        return CLI_OK;
    (void)berth_fail(&cli->err, BERTH_E_UNAVAILABLE,
                     "No descriptor or thread is left to run a command with.");
    return cli_run_failed(cli);
}

void cli_session_close(struct cli_session *s)
{
    pthread_mutex_lock(&s->lock);
    s->over = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    (void)pthread_join(s->writer, NULL);
    erase_status(s); /* without the lock: all other threads have ended */
    cli_run_socket_close(s->control);
    pthread_mutex_destroy(&s->status_lock);
    (void)close(s->stop_fd);
    (void)sem_destroy(&s->room);
    pthread_cond_destroy(&s->changed);
    pthread_cond_destroy(&s->written);
    pthread_mutex_destroy(&s->lock);
}
