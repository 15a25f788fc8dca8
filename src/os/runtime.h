/* SPDX-License-Identifier: Apache-2.0
 * src/os/runtime.h - the directory for what must not outlive us: sockets, and keys on their way to
 * ssh(1). What a killed process left there is removed by the next. */
#ifndef BERTH_OS_RUNTIME_H
#define BERTH_OS_RUNTIME_H

#include <berth/error.h>

#define BERTH_RUNTIME_PATH_SIZE                                                                    \
    80 /* a socket's name, with what ssh(1) adds, still fits after it                              \
        */

/* $XDG_RUNTIME_DIR/berth, else /run/berth, else one in /tmp that nobody else can have made. */
int berth_runtime_directory(char out[BERTH_RUNTIME_PATH_SIZE], struct berth_error *err);

/* The socket at which a run listens while it is performed. */
#define BERTH_RUNTIME_SOCKET_SIZE (BERTH_RUNTIME_PATH_SIZE + 48)
int berth_runtime_socket(const char *run_id, char out[BERTH_RUNTIME_SOCKET_SIZE],
                         struct berth_error *err);

/* Locks the runtime directory while a run's socket is made. Returns a descriptor, which the caller
 * closes, or -1. */
int berth_runtime_lock(void);
/* Removes the sockets of runs at which no process listens any more. The caller holds the lock, so
 * that no socket is between its bind and its listen. */
void berth_runtime_tidy_sockets(void);

/* A directory of this process's own in it, 0700, held by a lock for as long as it lives. */
struct berth_runtime_room {
    char path[BERTH_RUNTIME_PATH_SIZE];
    int fd;
};
#define BERTH_RUNTIME_ROOM_INIT                                                                    \
    {                                                                                              \
        .fd = -1                                                                                   \
    }
int berth_runtime_room_open(const char *kind, struct berth_runtime_room *out,
                            struct berth_error *err);
void berth_runtime_room_close(struct berth_runtime_room *room); /* and all in it; twice is fine */
/* Removes the rooms of that kind whose process is gone. */
void berth_runtime_tidy(const char *kind);
#endif
