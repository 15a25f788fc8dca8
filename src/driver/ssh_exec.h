/* SPDX-License-Identifier: Apache-2.0
 * src/driver/ssh_exec.h - runs a command at the far end, in one session of ssh(1). */
#ifndef BERTH_DRIVER_SSH_EXEC_H
#define BERTH_DRIVER_SSH_EXEC_H

#include "driver/ssh_link.h"

/* Starts a command. `directory` is the lease's. Takes the link over, also on failure. */
int berth_ssh_exec_start(struct berth_ssh_link *link, struct berth_call *call,
                         const char *directory, const struct berth_command *command,
                         const struct berth_exec_handlers *handlers, struct berth_running **out,
                         struct berth_error *err);
/* Reads "STATUS CAUSE" as the far end sent it. Returns false, and leaves *end, when it is not
 * valid.
 */
bool berth_ssh_read_end(const char *text, struct berth_exec_end *end);
#endif
