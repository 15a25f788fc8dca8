/* SPDX-License-Identifier: Apache-2.0
 * src/os/socket.c - see socket.h. The caller's thread makes a listening socket; the loop thread
 * does the rest. */
#include "os/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/container.h"
#include "os/engine.h"
#include "os/loop.h"

#define BACKLOG 1024
#define ACCEPTS_MAX 64 /* connections accepted before other events have their turn */
#define SPARES 8       /* descriptors that a Unix socket holds in reserve */
#define AGAIN_MS 100   /* until a listener looks whether there are descriptors again */

union handle {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_pipe_t pipe;
    uv_tcp_t tcp;
};

struct berth_listener {
    struct berth_engine *engine;
    struct berth_listener_options options;
    uv_poll_t poll; /* of the socket that listens */
    bool polls;     /* `poll` is initialised */
    int fd;
    int number; /* the result of libuv */
    int port;
    struct berth_timer again; /* set while clients wait for a descriptor, or spares are missing */
    int spares[SPARES];       /* -1: used, or of TCP */
    char path[sizeof((struct sockaddr_un *)NULL)->sun_path]; /* "" for TCP */
};

struct berth_socket {
    union handle socket;
    struct berth_peer peer;
    struct berth_engine *engine;
    struct berth_socket_handlers handlers;
    uv_shutdown_t end;
    uint64_t written; /* gone or queued */
    size_t read_max;  /* of one read; 0: the engine's */
    bool reading, ended, gone, finishing, closing;
};

/* Bytes on their way out. */
struct outgoing {
    uv_write_t request;
    char bytes[];
};

/* --- streams --- */

static void on_closed(uv_handle_t *handle)
{
    struct berth_socket *s = handle->data;
    if (s->handlers.on_closed)
        s->handlers.on_closed(s->handlers.ctx);
    free(s);
}

void berth_socket_close(struct berth_socket *s)
{
    if (s->closing)
        return;
    s->closing = s->gone = true;
    uv_close(&s->socket.handle, on_closed);
}

void berth_socket_reset(struct berth_socket *s)
{
    if (s->closing)
        return;
    if (s->socket.handle.type != UV_TCP || uv_tcp_close_reset(&s->socket.tcp, on_closed) < 0) {
        berth_socket_close(s);
        return;
    }
    s->closing = s->gone = true;
}

static void socket_leave(struct berth_socket *s)
{
    if (s->gone)
        return;
    s->gone = true;
    (void)uv_read_stop(&s->socket.stream);
    if (s->handlers.on_gone)
        s->handlers.on_gone(s->handlers.ctx);
}

static void on_socket_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    const struct berth_socket *s = handle->data;
    (void)suggested;
    *buf = berth_engine_chunk(s->engine);
    if (s->read_max && s->read_max < buf->len)
        buf->len = s->read_max;
}

void berth_socket_set_read_max(struct berth_socket *s, size_t bytes)
{
    s->read_max = bytes;
}

static void on_socket_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    struct berth_socket *s = stream->data;
    if (len == UV_EOF && s->handlers.on_end && !s->gone) {
        s->ended = true;
        s->reading = false;
        (void)uv_read_stop(stream);
        s->handlers.on_end(s->handlers.ctx);
    } else if (len < 0)
        socket_leave(s);
    else if (len > 0 && !s->gone)
        s->handlers.on_bytes(s->handlers.ctx, buf->base, (size_t)len);
}

const struct berth_peer *berth_socket_peer(const struct berth_socket *s)
{
    return &s->peer;
}

void berth_socket_pause(struct berth_socket *s, bool paused)
{
    if (s->gone || s->ended || s->reading == !paused)
        return;
    s->reading = !paused;
    if (paused)
        (void)uv_read_stop(&s->socket.stream);
    else if (uv_read_start(&s->socket.stream, on_socket_alloc, on_socket_read) != 0)
        socket_leave(s);
}

void berth_socket_start(struct berth_socket *s, const struct berth_socket_handlers *handlers)
{
    s->handlers = *handlers;
    berth_socket_pause(s, false);
}

size_t berth_socket_queued(const struct berth_socket *s)
{
    return s->gone ? 0 : uv_stream_get_write_queue_size(&s->socket.stream);
}

uint64_t berth_socket_sent(const struct berth_socket *s)
{
    return s->written - berth_socket_queued(s);
}

static void on_socket_written(uv_write_t *request, int status)
{
    struct outgoing *o = berth_container_of(request, struct outgoing, request);
    struct berth_socket *s = request->handle->data;
    free(o);
    if (s->closing)
        return;
    if (status < 0) {
        socket_leave(s);
        return;
    }
    if (berth_socket_queued(s) == 0 && !s->gone && s->handlers.on_room)
        s->handlers.on_room(s->handlers.ctx);
}

void berth_socket_write(struct berth_socket *s, const void *bytes, size_t len)
{
    uv_buf_t now = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)len);
    if (s->gone || s->finishing || len == 0)
        return;
    int sent = berth_socket_queued(s) ? 0 : uv_try_write(&s->socket.stream, &now, 1);
    if (sent < 0 && sent != UV_EAGAIN) {
        socket_leave(s);
        return;
    }
    s->written += len;
    size_t left = len - (sent > 0 ? (size_t)sent : 0);
    if (left == 0)
        return;
    struct outgoing *o = malloc(sizeof *o + left);
    if (o)
        memcpy(o->bytes, (const char *)bytes + len - left, left);
    uv_buf_t later = uv_buf_init(o ? o->bytes : NULL, (unsigned)left);
    if (!o || uv_write(&o->request, &s->socket.stream, &later, 1, on_socket_written) != 0) {
        free(o);
        socket_leave(s);
    }
}

static void on_socket_shutdown(uv_shutdown_t *request, int status)
{
    (void)request, (void)status; /* its reader tells */
}

void berth_socket_finish(struct berth_socket *s)
{
    if (s->gone || s->finishing)
        return;
    s->finishing = true;
    if (uv_shutdown(&s->end, &s->socket.stream, on_socket_shutdown) != 0)
        socket_leave(s);
    else
        berth_socket_pause(s, false);
}

/* --- who it is --- */

static void write_address(const struct sockaddr_storage *from, char out[64])
{
    char host[INET6_ADDRSTRLEN] = "";
    int port;
    if (from->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)(const void *)from;
        (void)inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof host);
        port = ntohs(in->sin6_port);
    } else {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)from;
        (void)inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        port = ntohs(in->sin_port);
    }
    (void)snprintf(out, 64, from->ss_family == AF_INET6 ? "[%s]:%d" : "%s:%d", host, port);
}

/* Returns false when the client is unknown; it is then not let in. */
static bool know_peer(struct berth_socket *s, bool local)
{
    uv_os_fd_t fd;
    struct sockaddr_storage from = {0};
    struct ucred who;
    socklen_t len = local ? sizeof who : sizeof from;
    if (uv_fileno(&s->socket.handle, &fd) != 0)
        return false;
    s->peer.local = local;
    if (!local && getpeername(fd, (struct sockaddr *)&from, &len) < 0)
        return false;
    if (local && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
        return false;
    if (local) {
        s->peer.uid = who.uid;
        s->peer.pid = who.pid;
    } else {
        write_address(&from, s->peer.address);
        (void)uv_tcp_nodelay(&s->socket.tcp, 1);
    }
    return true;
}

static int init_handle(struct berth_engine *engine, union handle *handle, bool local)
{
    uv_loop_t *loop = berth_engine_loop(engine);
    return local ? uv_pipe_init(loop, &handle->pipe, 0) : uv_tcp_init(loop, &handle->tcp);
}

/* --- accepting --- */

/* Opens the descriptors in reserve that are missing. Returns whether all are there. */
static bool listener_save(struct berth_listener *l)
{
    bool all = true;
    for (int i = 0; i < SPARES && l->path[0]; i++) {
        if (l->spares[i] < 0)
            l->spares[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        all &= l->spares[i] >= 0;
    }
    return all;
}

/* Closes one of the descriptors in reserve. Returns false when there is none. */
static bool listener_spend(struct berth_listener *l)
{
    for (int i = 0; i < SPARES; i++)
        if (l->spares[i] >= 0) {
            (void)close(l->spares[i]);
            l->spares[i] = -1;
            berth_timer_set(l->engine, &l->again, AGAIN_MS);
            return true;
        }
    return false;
}

/* Returns a connection, or -1 when no client waits or there is no descriptor for it. */
static int listener_accept(struct berth_listener *l)
{
    for (;;) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0 || errno == EAGAIN)
            return fd;
        if (errno == EINTR || errno == ECONNABORTED)
            continue;
        if ((errno == EMFILE || errno == ENFILE) && listener_spend(l))
            continue;
        (void)uv_poll_stop(&l->poll); /* the clients wait in the backlog */
        berth_timer_set(l->engine, &l->again, AGAIN_MS);
        return -1;
    }
}

/* Hands a connection on. */
static void listener_take(struct berth_listener *l, int fd)
{
    bool local = l->path[0] != '\0';
    bool wanted = !l->options.fd_max || fd < l->options.fd_max;
    struct berth_socket *s = wanted ? calloc(1, sizeof *s) : NULL;
    if (!s || init_handle(l->engine, &s->socket, local) != 0) {
        (void)close(fd);
        free(s);
        return;
    }
    s->engine = l->engine;
    s->socket.handle.data = s;
    int rc = local ? uv_pipe_open(&s->socket.pipe, fd) : uv_tcp_open(&s->socket.tcp, fd);
    if (rc != 0)
        (void)close(fd);
    if (rc != 0 || !know_peer(s, local))
        berth_socket_close(s);
    else
        l->options.on_socket(l->options.ctx, s);
}

static void on_listener_ready(uv_poll_t *poll, int status, int events)
{
    struct berth_listener *l = poll->data;
    (void)status, (void)events; /* accept tells */
    int fd = 0;
    for (int i = 0; i < ACCEPTS_MAX && (fd = listener_accept(l)) >= 0; i++)
        listener_take(l, fd);
}

static void on_listener_again(struct berth_timer *timer)
{
    struct berth_listener *l = berth_container_of(timer, struct berth_listener, again);
    if (!listener_save(l))
        berth_timer_set(l->engine, timer, AGAIN_MS);
    (void)uv_poll_start(&l->poll, UV_READABLE, on_listener_ready);
}

/* --- sockets --- */

static int listen_on(int fd, const struct sockaddr *address, socklen_t len, const char *where,
                     struct berth_error *err)
{
    if (bind(fd, address, len) == 0 && listen(fd, BACKLOG) == 0)
        return BERTH_OK;
    if (errno == EADDRINUSE)
        return berth_fail(err, BERTH_E_CONFLICT, "Somebody listens at %s already.", where);
    return berth_fail_errno(err, "Cannot listen at %s", where);
}

/* Returns whether no process listens at the socket: the one that made it is dead. */
static bool is_abandoned(const struct sockaddr_un *address)
{
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat st;
    return fd >= 0 && lstat(address->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
           connect(fd, (const struct sockaddr *)address, sizeof *address) < 0 &&
           errno == ECONNREFUSED;
}

static int open_unix(struct berth_listener *l, const char *path, struct berth_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return berth_fail(err, BERTH_E_INVALID, "The path of a socket has at most %zu bytes: %s",
                          sizeof address.sun_path - 1, path);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot make a socket");
    if (is_abandoned(&address))
        (void)unlink(path);
    (void)fchmod(fd, 0600); /* the file is made with this mode */
    int rc = listen_on(fd, (const struct sockaddr *)&address, sizeof address, path, err);
    if (rc < 0)
        return rc;
    memcpy(l->path, address.sun_path, sizeof l->path);
    l->fd = fd;
    fd = -1;
    return BERTH_OK;
}

static int open_tcp(struct berth_listener *l, const char *host, int port, struct berth_error *err)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                             .ai_socktype = SOCK_STREAM},
                    *found = NULL;
    char service[16], where[128];
    struct sockaddr_storage bound = {0};
    socklen_t len = sizeof bound;
    int on = 1;
    (void)snprintf(service, sizeof service, "%d", port);
    (void)snprintf(where, sizeof where, "%.100s port %d", host, port);
    if (getaddrinfo(host, service, &hints, &found) != 0)
        return berth_fail(err, BERTH_E_INVALID, "\"%.100s\" is not an address: write a number.",
                          host);
    auto_close int fd =
        socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    int rc = fd < 0 ? berth_fail_errno(err, "Cannot make a socket") : BERTH_OK;
    if (rc == BERTH_OK) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (found->ai_family == AF_INET6)
            (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
        rc = listen_on(fd, found->ai_addr, found->ai_addrlen, where, err);
    }
    freeaddrinfo(found);
    if (rc == BERTH_OK && getsockname(fd, (struct sockaddr *)&bound, &len) < 0)
        rc = berth_fail_errno(err, "Cannot look at a socket");
    if (rc < 0)
        return rc;
    l->port =
        ntohs(((const struct sockaddr_in *)(const void *)&bound)->sin_port); /* in6: as here */
    l->fd = fd;
    fd = -1;
    return BERTH_OK;
}

/* --- listeners --- */

static void run_open(void *ctx)
{
    struct berth_listener *l = ctx;
    l->number = uv_poll_init(berth_engine_loop(l->engine), &l->poll, l->fd);
    l->poll.data = l;
    l->polls = l->number == 0;
    if (l->polls && !listener_save(l))
        berth_timer_set(l->engine, &l->again, AGAIN_MS);
    if (l->polls)
        l->number = uv_poll_start(&l->poll, UV_READABLE, on_listener_ready);
}

static void listener_free(struct berth_listener *l)
{
    for (int i = 0; i < SPARES; i++)
        if (l->spares[i] >= 0)
            (void)close(l->spares[i]);
    if (l->fd >= 0)
        (void)close(l->fd);
    free(l);
}

static void on_listener_closed(uv_handle_t *handle)
{
    listener_free(handle->data);
}

static void run_listener_close(void *ctx)
{
    struct berth_listener *l = ctx;
    berth_timer_clear(l->engine, &l->again);
    if (l->polls)
        uv_close((uv_handle_t *)&l->poll, on_listener_closed);
    else
        listener_free(l);
}

int berth_listener_open(struct berth_engine *engine, const struct berth_listener_options *options,
                        struct berth_listener **out, struct berth_error *err)
{
    struct berth_listener *l = calloc(1, sizeof *l);
    if (!l)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: listener.");
    l->engine = engine;
    l->options = *options;
    l->fd = -1;
    l->again.run = on_listener_again;
    for (int i = 0; i < SPARES; i++)
        l->spares[i] = -1;
    int rc = options->path ? open_unix(l, options->path, err)
                           : open_tcp(l, options->host, options->port, err);
    if (rc == BERTH_OK)
        rc = berth_engine_do(engine, run_open, l, err);
    if (rc < 0) {
        if (l->path[0])
            (void)unlink(l->path);
        listener_free(l);
        return rc;
    }
    if (l->number != 0) {
        rc = berth_fail(err, BERTH_E_UNAVAILABLE, "Cannot listen: %s.", uv_strerror(l->number));
        berth_listener_close(l);
        return rc;
    }
    *out = l;
    return BERTH_OK;
}

int berth_listener_port(const struct berth_listener *listener)
{
    return listener->port;
}

void berth_listener_close(struct berth_listener *l)
{
    struct berth_error ignored;
    if (!l)
        return;
    if (l->path[0])
        (void)unlink(l->path);
    (void)berth_engine_do(l->engine, run_listener_close, l,
                          &ignored); /* its loop runs: it has the socket */
}

bool berth_is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    return strcasecmp(host, "localhost") == 0 ||
           (inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}
