/* SPDX-License-Identifier: Apache-2.0
 * src/cli/run_socket.c - see run_socket.h. */
#include "cli/run_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <berth/exec.h>

#include "base/auto.h"
#include "core/run/run_socket.h"
#include "os/runtime.h"

#define PIECE_BYTES (64 * 1024)

struct client {
    struct cli_run_socket *control;
    pthread_t thread;
    int fd;    /* -1: the slot is free */
    bool done; /* the thread has ended; set by it, read by the listening thread */
};

struct cli_run_socket {
    struct sockaddr_un address;
    int listen_fd, stop_fd, cancel_fd;
    pthread_t thread;
    /* Owned by the listening thread, except for `done`. */
    struct client clients[BERTH_RUN_SOCKET_CLIENTS_MAX];
    pthread_mutex_t lock;
    pthread_cond_t changed;  /* the command has started, has room for input, or has ended */
    struct berth_exec *exec; /* the command that "stdin" writes to, or NULL */
    bool over;               /* the command has ended */
    bool closing;
};

/* --- one client --- */

static bool client_is_same_user(int fd)
{
    struct ucred who;
    socklen_t len = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
           (who.uid == geteuid() || who.uid == 0);
}

/* Writes to the command; `bytes` NULL closes its input. The lock is held, so that the exec is not
 * freed meanwhile. UNAVAILABLE: try again after `changed`. */
static int try_write(struct cli_run_socket *c, const char *bytes, size_t len)
{
    struct berth_error err;
    if (!c->exec)
        return !c->over ? BERTH_E_UNAVAILABLE : bytes ? BERTH_E_CONFLICT : BERTH_OK;
    if (bytes)
        return berth_exec_write(c->exec, bytes, len, &err);
    berth_exec_close_stdin(c->exec);
    return BERTH_OK;
}

/* Waits while the command is not started yet or does not read. Returns the answer. */
static const char *write_piece(struct cli_run_socket *c, const char *bytes, size_t len)
{
    int rc;
    pthread_mutex_lock(&c->lock);
    while ((rc = try_write(c, bytes, len)) == BERTH_E_UNAVAILABLE && !c->closing)
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
    return rc == BERTH_OK              ? BERTH_RUN_SOCKET_OK
           : rc == BERTH_E_UNAVAILABLE ? "the run has ended"
                                       : "the command does not read any more";
}

static const char *take_stdin(struct cli_run_socket *c, FILE *in, size_t left)
{
    const char *answer = BERTH_RUN_SOCKET_OK;
    char piece[PIECE_BYTES];
    while (left) { /* read all of them, also when they are refused: the next line follows */
        size_t want = left < sizeof piece ? left : sizeof piece, got = fread(piece, 1, want, in);
        if (!got)
            return "the bytes did not come";
        if (strcmp(answer, BERTH_RUN_SOCKET_OK) == 0)
            answer = write_piece(c, piece, got);
        left -= got;
    }
    return answer;
}

/* Reads N of "stdin N". */
static bool read_length(const char *line, size_t *out)
{
    static const char word[] = BERTH_RUN_SOCKET_STDIN " ";
    const char *digits = line + sizeof word - 1;
    if (strncmp(line, word, sizeof word - 1) != 0)
        return false;
    size_t len = strspn(digits, "0123456789");
    if (!len || len > BERTH_RUN_SOCKET_DIGITS_MAX || strcmp(digits + len, "\n") != 0)
        return false;
    *out = (size_t)strtoull(digits, NULL, 10);
    return true;
}

static const char *client_obey(struct cli_run_socket *c, FILE *in, const char *line)
{
    size_t len;
    if (strcmp(line, BERTH_RUN_SOCKET_CANCEL "\n") == 0) {
        (void)eventfd_write(c->cancel_fd, 1);
        return BERTH_RUN_SOCKET_OK;
    }
    if (strcmp(line, BERTH_RUN_SOCKET_CLOSE "\n") == 0)
        return write_piece(c, NULL, 0);
    if (read_length(line, &len))
        return take_stdin(c, in, len);
    return "write \"" BERTH_RUN_SOCKET_CANCEL "\", \"" BERTH_RUN_SOCKET_CLOSE
           "\", or \"" BERTH_RUN_SOCKET_STDIN " N\" and N bytes";
}

static void *client_main(void *ctx)
{
    struct client *client = ctx;
    char line[BERTH_RUN_SOCKET_LINE_SIZE];
    int copy = fcntl(client->fd, F_DUPFD_CLOEXEC, 0);
    FILE *in = copy >= 0 ? fdopen(copy, "r") : NULL;
    while (in && fgets(line, sizeof line, in)) {
        const char *answer = client_obey(client->control, in, line);
        if (dprintf(client->fd, "%s\n", answer) < 0)
            break;
    }
    if (in)
        (void)fclose(in);
    else if (copy >= 0)
        (void)close(copy);
    __atomic_store_n(&client->done, true, __ATOMIC_RELEASE);
    return NULL;
}

/* --- all of them --- */

static void client_end(struct client *client)
{
    (void)shutdown(client->fd, SHUT_RDWR);
    (void)pthread_join(client->thread, NULL);
    (void)close(client->fd);
    client->fd = -1;
}

static void client_accept(struct cli_run_socket *c)
{
    int fd = accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    for (int i = 0; i < BERTH_RUN_SOCKET_CLIENTS_MAX && client_is_same_user(fd); i++) {
        struct client *client = &c->clients[i];
        if (client->fd >= 0 && __atomic_load_n(&client->done, __ATOMIC_ACQUIRE))
            client_end(client);
        if (client->fd >= 0)
            continue;
        *client = (struct client){.control = c, .fd = fd};
        if (pthread_create(&client->thread, NULL, client_main, client) == 0)
            return;
        client->fd = -1;
        break;
    }
    (void)close(fd);
}

static void *run_socket_main(void *ctx)
{
    struct cli_run_socket *c = ctx;
    struct pollfd fds[] = {{.fd = c->listen_fd, .events = POLLIN},
                           {.fd = c->stop_fd, .events = POLLIN}};
    while (!fds[1].revents)
        if (poll(fds, 2, -1) > 0 && fds[0].revents)
            client_accept(c);
    for (int i = 0; i < BERTH_RUN_SOCKET_CLIENTS_MAX; i++)
        if (c->clients[i].fd >= 0)
            client_end(&c->clients[i]);
    return NULL;
}

static int run_socket_listen(struct cli_run_socket *c, const char *run_id, struct berth_error *err)
{
    const char *path = c->address.sun_path;
    int rc = berth_run_socket_address(run_id, &c->address, err);
    if (rc < 0)
        return rc;
    c->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    c->stop_fd = eventfd(0, EFD_CLOEXEC);
    auto_close int lock = berth_runtime_lock();
    if (lock >= 0)
        berth_runtime_tidy_sockets();
    (void)unlink(path); /* left by a process that died: the run is ours */
    if (c->listen_fd < 0 || c->stop_fd < 0 ||
        bind(c->listen_fd, (struct sockaddr *)&c->address, sizeof c->address) < 0 ||
        listen(c->listen_fd, BERTH_RUN_SOCKET_CLIENTS_MAX) < 0)
        return berth_fail_errno(err, "Cannot listen at %s", path);
    errno = pthread_create(&c->thread, NULL, run_socket_main, c);
    return errno ? berth_fail_errno(err, "Cannot start a thread") : BERTH_OK;
}

static void run_socket_free(struct cli_run_socket *c)
{
    if (c->listen_fd >= 0) {
        (void)close(c->listen_fd);
        (void)unlink(c->address.sun_path);
    }
    if (c->stop_fd >= 0)
        (void)close(c->stop_fd);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

int cli_run_socket_open(const char *run_id, int cancel_fd, struct cli_run_socket **out,
                        struct berth_error *err)
{
    struct cli_run_socket *c = calloc(1, sizeof *c);
    if (!c)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: socket.");
    c->listen_fd = c->stop_fd = -1;
    c->cancel_fd = cancel_fd;
    for (int i = 0; i < BERTH_RUN_SOCKET_CLIENTS_MAX; i++)
        c->clients[i].fd = -1;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    int rc = run_socket_listen(c, run_id, err);
    if (rc < 0)
        run_socket_free(c);
    else
        *out = c;
    return rc;
}

void cli_run_socket_serve(struct cli_run_socket *c, struct berth_exec *exec)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->exec = exec;
    c->over = !exec;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

void cli_run_socket_room(struct cli_run_socket *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

void cli_run_socket_close(struct cli_run_socket *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    (void)eventfd_write(c->stop_fd, 1);
    (void)pthread_join(c->thread, NULL);
    run_socket_free(c);
}
