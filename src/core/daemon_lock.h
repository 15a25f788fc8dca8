/* SPDX-License-Identifier: Apache-2.0
 * src/core/daemon_lock.h - which daemon serves a store on this machine. The daemon writes its
 * socket to a file that it keeps locked as long as it lives. The file is beside a store that is a
 * file, and otherwise in the runtime directory. */
#ifndef BERTH_CORE_DAEMON_LOCK_H
#define BERTH_CORE_DAEMON_LOCK_H

#include <stdbool.h>

#include <berth/error.h>

#define BERTH_SOCKET_PATH_SIZE 108 /* the kernel's limit */

/* Takes the lock, which *fd holds. *fd is -1 when another daemon here has the lock of a store that
 * several daemons may serve; clients then find that daemon. CONFLICT: the store is a file, and
 * another daemon serves it. */
int berth_daemon_lock_take(const char *address, const char *socket, int *fd,
                           struct berth_error *err);
/* Finds the socket of the daemon that serves the store at this address. Returns false when no
 * daemon of our user does. */
bool berth_daemon_lock_find(const char *address, char socket[BERTH_SOCKET_PATH_SIZE]);
#endif
