/* SPDX-License-Identifier: Apache-2.0
 * src/os/socket.h - connections of others, on the engine's loop. Everything happens on its thread,
 * unless it is said otherwise. */
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

/* Who is at the other end. */
struct berth_peer {
    bool local; /* by a Unix socket: the kernel says who it is */
    uid_t uid;
    pid_t pid;
    char address[64]; /* of TCP: "127.0.0.1:1234", "[::1]:1234" */
};

struct berth_socket_handlers {
    void (*on_bytes)(void *ctx, const char *bytes, size_t len);
    void (*on_room)(void *ctx); /* all that was queued has gone */
    /* The other side sends nothing more. It may still read; over TCP, one that has left looks the
     * same until something is written. NULL: on_gone is called instead. */
    void (*on_end)(void *ctx);
    /* The other side has left, or cannot be reached: nothing more is read or written. The stream
     * still wants to be closed. */
    void (*on_gone)(void *ctx);
    void (*on_closed)(void *ctx); /* the last; the stream is freed */
    void *ctx;
};

struct berth_listener_options {
    const char *path; /* of a Unix socket, for this user alone; or NULL */
    const char *host; /* of TCP, as a number */
    int port;         /* 0: any that is free */
    /* A connection whose descriptor is not below this number is closed, so that descriptors are
     * left for other uses; 0: none is. The system gives out the lowest free number. */
    int fd_max;
    /* Each that is accepted, to be started or closed. */
    void (*on_socket)(void *ctx, struct berth_socket *s);
    void *ctx;
};
/* Listens. A listener at a Unix socket holds a few descriptors in reserve, so that it can accept
 * when the process has no other left; one of TCP lets clients wait until there are some. From any
 * thread but the engine's. CONFLICT: another process listens there already. */
int berth_listener_open(struct berth_engine *engine, const struct berth_listener_options *options,
                        struct berth_listener **out, struct berth_error *err);
int berth_listener_port(const struct berth_listener *listener); /* of TCP; from any thread */
/* From any other thread: nobody is accepted any more, and a socket's file is gone. NULL is fine. */
void berth_listener_close(struct berth_listener *listener);

const struct berth_peer *berth_socket_peer(const struct berth_socket *s);
void berth_socket_start(struct berth_socket *s, const struct berth_socket_handlers *handlers);
/* The bytes are sent, or copied and sent later. Of one that is gone they are dropped. */
void berth_socket_write(struct berth_socket *s, const void *bytes, size_t len);
uint64_t berth_socket_sent(const struct berth_socket *s);     /* bytes that have gone, so far */
size_t berth_socket_queued(const struct berth_socket *s);     /* bytes that have not gone */
void berth_socket_pause(struct berth_socket *s, bool paused); /* reading */
/* Sets how many bytes on_bytes gets at most. 0: as many as one read of the engine takes. */
void berth_socket_set_read_max(struct berth_socket *s, size_t bytes);
/* Nothing more is written, and the other side sees the end when all that was has gone. What it
 * still sends is heard, until on_gone or a close: so the last words are not lost on their way. */
void berth_socket_finish(struct berth_socket *s);
void berth_socket_close(struct berth_socket *s); /* at once; on_closed follows, later */
/* This machine itself: an address, or the name that it has everywhere. */
bool berth_is_loopback(const char *host);
#endif
