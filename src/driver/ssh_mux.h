/* SPDX-License-Identifier: Apache-2.0
 * src/driver/ssh_mux.h - opens a session over an ssh(1) master by OpenSSH's own protocol for that
 * (its PROTOCOL.mux), at the socket of the master. It saves a process and most of the time. */
#ifndef BERTH_DRIVER_SSH_MUX_H
#define BERTH_DRIVER_SSH_MUX_H

#include <berth/driver.h>

#include "os/process.h"

/* The session to open. */
struct berth_ssh_session {
    struct berth_engine *engine; /* reads what the master says later */
    const char *control;         /* the socket of the master */
    const char *command;         /* for the login shell */
};

/* Opens a session without a terminal, which only the ssh(1) client can have. Of the options it uses
 * time-outs and whether there is an input. Blocks until the session is open. UNAVAILABLE: the
 * master refused or is gone. TIMEOUT, CANCELLED: as the call demands. After a failure nothing has
 * run. */
int berth_ssh_mux_start(const struct berth_ssh_session *session, const struct berth_call *call,
                        const struct berth_process_options *options,
                        const struct berth_exec_handlers *handlers, struct berth_process **out,
                        struct berth_error *err);
#endif
