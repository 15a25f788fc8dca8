/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/run_socket.h - the protocol of a run's socket, for both of its sides: the process
 * that performs the run listens (cli/run_socket.c), and a process of the same user connects
 * (run_cancel.c).
 *
 * The client sends lines:
 *
 *     cancel      ends the run
 *     stdin N     is followed by N bytes, which are written to the command's standard input
 *     close       closes the command's standard input
 *
 * Each line is answered by one line: "ok", or a text that says what is wrong. The server closes the
 * connection after the run's row says how the run ended. */
#ifndef BERTH_CORE_RUN_RUN_SOCKET_H
#define BERTH_CORE_RUN_RUN_SOCKET_H

#include <sys/un.h>

#include <berth/error.h>

#define BERTH_RUN_SOCKET_CANCEL "cancel"
#define BERTH_RUN_SOCKET_STDIN "stdin"
#define BERTH_RUN_SOCKET_CLOSE "close"
#define BERTH_RUN_SOCKET_OK "ok"
#define BERTH_RUN_SOCKET_LINE_SIZE 64    /* of a line from the client, with its end and a NUL */
#define BERTH_RUN_SOCKET_DIGITS_MAX 18   /* of N */
#define BERTH_RUN_SOCKET_CLIENTS_MAX 8   /* more are hung up on */
#define BERTH_RUN_SOCKET_ANSWER_MS 10000 /* a client waits that long for the answer to "cancel" */

/* Writes the address of the run's socket. UNAVAILABLE: it is too long for a socket. */
int berth_run_socket_address(const char *run_id, struct sockaddr_un *out, struct berth_error *err);
#endif
