/* SPDX-License-Identifier: Apache-2.0
 * src/core/daemon_lock.h - which daemon serves a store on this machine. It says so in a file that
 * is locked for as long as it lives: beside a store that is a file, else in the runtime directory.
 */
#ifndef BERTH_CORE_DAEMON_LOCK_H
#define BERTH_CORE_DAEMON_LOCK_H

#include <stdbool.h>

#include <berth/error.h>

#define BERTH_SOCKET_PATH_SIZE 108 /* what the kernel takes */

/* *fd holds the lock; -1: a store that several may serve has another one here, whom people find.
 * CONFLICT: the store is a file, and served already. */
int berth_daemon_lock_take(const char *address, const char *socket, int *fd,
                           struct berth_error *err);
/* The socket of the daemon that serves the store of this address, and is ours. */
bool berth_daemon_lock_find(const char *address, char socket[BERTH_SOCKET_PATH_SIZE]);
#endif
