/* SPDX-License-Identifier: Apache-2.0
 * src/cli/run_socket.h - listens at the socket of a run that this process performs. A process of
 * the same user may cancel the run there, and write to its command. core/run/run_socket.h has the
 * protocol. */
#ifndef BERTH_CLI_RUN_SOCKET_H
#define BERTH_CLI_RUN_SOCKET_H

#include "cli/cli.h"

struct berth_exec;
struct cli_run_socket;

/* Listens on a thread of its own. A client that cancels makes `cancel_fd`, an eventfd, readable. */
int cli_run_socket_open(const char *run_id, int cancel_fd, struct cli_run_socket **out,
                        struct berth_error *err);
/* Sets the command that clients write to. NULL: it has ended; the exec is not used any more when
 * this returns. */
void cli_run_socket_serve(struct cli_run_socket *control, struct berth_exec *exec);
/* Tells clients that the command's input has room: from on_stdin_room. NULL is fine. */
void cli_run_socket_room(struct cli_run_socket *control);
void cli_run_socket_close(struct cli_run_socket *control); /* NULL is fine */
#endif
