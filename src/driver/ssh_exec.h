/* SPDX-License-Identifier: Apache-2.0
 * src/driver/ssh_exec.h - a command at the far end, seen from here as one ssh(1) session. */
#ifndef BERTH_DRIVER_SSH_EXEC_H
#define BERTH_DRIVER_SSH_EXEC_H

#include "driver/ssh_link.h"

/* `directory` is that of the lease. Takes the link's session over in any case. */
int berth_ssh_exec_start(struct berth_ssh_link *link, struct berth_call *call,
                         const char *directory, const struct berth_command *command,
                         const struct berth_exec_handlers *handlers, struct berth_running **out,
                         struct berth_error *err);
/* "STATUS CAUSE" as the far end told it. False, and *end as it was: nobody knows. */
bool berth_ssh_read_end(const char *text, struct berth_exec_end *end);
#endif
