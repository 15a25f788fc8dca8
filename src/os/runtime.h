/* SPDX-License-Identifier: Apache-2.0
 * src/os/runtime.h - the directory for files that must not outlive the process: sockets, and keys
 * for ssh(1). The files of a killed process are removed by the next one. */
#ifndef BERTH_OS_RUNTIME_H
#define BERTH_OS_RUNTIME_H

#include <stdbool.h>

#include <berth/error.h>

#define BERTH_RUNTIME_PATH_SIZE                                                                    \
    80 /* a socket's name, with what ssh(1) adds, still fits after it                              \
        */

/* Makes and returns $XDG_RUNTIME_DIR/berth, else /run/berth, else a directory in /tmp that belongs
 * to this user. Root makes nothing in the $XDG_RUNTIME_DIR of another user, who could not use a
 * directory of root's. */
int berth_runtime_directory(char out[BERTH_RUNTIME_PATH_SIZE], struct berth_error *err);

/* Returns the path of the socket at which a run listens while it is performed. */
#define BERTH_RUNTIME_SOCKET_SIZE (BERTH_RUNTIME_PATH_SIZE + 48)
int berth_runtime_socket(const char *run_id, char out[BERTH_RUNTIME_SOCKET_SIZE],
                         struct berth_error *err);

/* Connects to the socket of a run whose process has another runtime directory: it belongs to
 * another session of this user. Returns a descriptor that does not block, which the caller closes,
 * or -1. */
int berth_runtime_connect_elsewhere(const char *run_id);

/* Locks the runtime directory while a run's socket is made. Returns a descriptor, which the caller
 * closes, or -1. */
int berth_runtime_lock(void);
/* Removes the sockets of runs at which no process listens any more. The caller holds the lock, so
 * that no socket is between its bind and its listen. */
void berth_runtime_tidy_sockets(void);

/* A directory of this process inside of it (0700), with a lock that is held while the process
 * lives. */
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
/* Returns whether it is open and its path still leads to it. The system may remove it while the
 * process lives: logind does at the last logout of the user. */
bool berth_runtime_room_stands(const struct berth_runtime_room *room);
void berth_runtime_room_close(struct berth_runtime_room *room); /* removes it; twice is fine */
/* Removes the rooms of that kind whose process is dead. */
void berth_runtime_tidy(const char *kind);
#endif
