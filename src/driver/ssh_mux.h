/* SPDX-License-Identifier: Apache-2.0
 * src/driver/ssh_mux.h - a session over an ssh(1) master, asked for at its socket: OpenSSH's own
 * protocol for that (its PROTOCOL.mux), which saves a process and most of the time. */
#ifndef BERTH_DRIVER_SSH_MUX_H
#define BERTH_DRIVER_SSH_MUX_H

#include "os/process.h"

/* Without a terminal: for that the client itself is needed. `options` says time-outs and whether
 * there is an input. Blocks until there is a session; UNAVAILABLE: there is none, and nothing ran.
 */
int berth_ssh_mux_start(struct berth_engine *engine, const char *control, const char *command,
                        const struct berth_process_options *options,
                        const struct berth_exec_handlers *handlers, struct berth_process **out,
                        struct berth_error *err);
#endif
