/* SPDX-License-Identifier: Apache-2.0
 * src/cli/run_socket.h - the socket of a run that a program performs: who holds the same account
 * may cancel it, and write to its command. Lines: "cancel", "close", "stdin N" and N bytes; each is
 * answered by "ok" or by what is wrong. The connection ends with the run. */
#ifndef BERTH_CLI_RUN_SOCKET_H
#define BERTH_CLI_RUN_SOCKET_H

#include "cli/cli.h"

struct berth_exec;
struct cli_run_socket;

/* `cancel_fd` is made readable by "cancel". */
int cli_run_socket_open(const char *run_id, int cancel_fd, struct cli_run_socket **out,
                        struct berth_error *err);
/* The command that "stdin" means; NULL: none, and nobody uses the last when this returns. */
void cli_run_socket_serve(struct cli_run_socket *control, struct berth_exec *exec);
void cli_run_socket_close(struct cli_run_socket *control); /* NULL is fine */
#endif
