/* SPDX-License-Identifier: Apache-2.0
 * src/os/syscall_filter.h - the system calls that a program which is not trusted may not make. */
#ifndef BERTH_OS_SYSCALL_FILTER_H
#define BERTH_OS_SYSCALL_FILTER_H

#include <stdbool.h>

#include <berth/error.h>

struct sock_fprog; /* of <linux/filter.h> */

/* Sets *out to the filter, as seccomp(2) takes it. It is made once, and belongs to this file.
 * `unix_sockets`: programs may make Unix sockets. UNSUPPORTED: the filter cannot be made. */
int berth_syscall_filter(bool unix_sockets, const struct sock_fprog **out, struct berth_error *err);
#endif
