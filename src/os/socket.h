/* SPDX-License-Identifier: Apache-2.0
 * src/os/socket.h - accepted connections on the engine's loop. All functions are called on its
 * thread unless they say otherwise. */
#ifndef BERTH_OS_SOCKET_H
#define BERTH_OS_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <berth/error.h>

struct berth_engine;
struct berth_listener;
struct berth_socket;

/* The client of a connection. */
struct berth_peer {
    bool local; /* over a Unix socket: uid and pid are set, by the kernel */
    uid_t uid;
    pid_t pid;
    char address[64]; /* of TCP: "127.0.0.1:1234", "[::1]:1234" */
};

struct berth_socket_handlers {
    void (*on_bytes)(void *ctx, const char *bytes, size_t len);
    void (*on_room)(void *ctx); /* all queued bytes were sent */
    /* The client sends nothing more. It may still read; over TCP, a client that has left looks the
     * same until something is written. NULL: on_gone is called instead. */
    void (*on_end)(void *ctx);
    /* The client has left or cannot be reached: nothing more is read or written. The owner still
     * has to close the socket. */
    void (*on_gone)(void *ctx);
    void (*on_closed)(void *ctx); /* the last callback; the socket is freed */
    void *ctx;
};

struct berth_listener_options {
    const char *path; /* of a Unix socket, for this user alone; or NULL */
    const char *host; /* of TCP, as a number */
    int port;         /* 0: any free port */
    /* A connection whose descriptor is not below this number is closed, so that descriptors are
     * left for other uses; 0: none is. The system gives out the lowest free number. */
    int fd_max;
    /* Called for each accepted socket, which the owner starts or closes. */
    void (*on_socket)(void *ctx, struct berth_socket *s);
    void *ctx;
};
/* Listens. A listener at a Unix socket holds a few descriptors in reserve, so that it can accept
 * when the process has no other left; one of TCP lets clients wait until there are some. From any
 * thread but the engine's. CONFLICT: another process listens there already. */
int berth_listener_open(struct berth_engine *engine, const struct berth_listener_options *options,
                        struct berth_listener **out, struct berth_error *err);
int berth_listener_port(const struct berth_listener *listener); /* of TCP; from any thread */
/* Stops accepting, and removes the file of a Unix socket. From any other thread. NULL is fine. */
void berth_listener_close(struct berth_listener *listener);

const struct berth_peer *berth_socket_peer(const struct berth_socket *s);
void berth_socket_start(struct berth_socket *s, const struct berth_socket_handlers *handlers);
/* Sends the bytes, or copies them and sends them later. Drops them when the client has left. */
void berth_socket_write(struct berth_socket *s, const void *bytes, size_t len);
uint64_t berth_socket_sent(const struct berth_socket *s);     /* bytes sent so far */
size_t berth_socket_queued(const struct berth_socket *s);     /* bytes not sent yet */
void berth_socket_pause(struct berth_socket *s, bool paused); /* reading */
/* Sets how many bytes on_bytes gets at most. 0: as many as one read of the engine takes. */
void berth_socket_set_read_max(struct berth_socket *s, size_t bytes);
/* Ends the output: the client sees the end after the queued bytes. Its input is read until on_gone
 * or close, so that the kernel does not drop the last bytes of the output. */
void berth_socket_finish(struct berth_socket *s);
void berth_socket_close(struct berth_socket *s); /* at once; on_closed is called later */
/* Closes it so that a client by TCP sees an error, not an end. */
void berth_socket_reset(struct berth_socket *s);
/* Returns whether the host is a loopback address, or "localhost". */
bool berth_is_loopback(const char *host);
#endif
