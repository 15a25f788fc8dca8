/* SPDX-License-Identifier: Apache-2.0
 * src/cli/interrupt.h - the signals that ask this program to stop, as a descriptor. */
#ifndef BERTH_CLI_INTERRUPT_H
#define BERTH_CLI_INTERRUPT_H

/* Handles SIGINT, SIGTERM and SIGHUP from now on, and ignores SIGPIPE. Returns an eventfd that each
 * of the three makes readable, or -1 when no descriptor is left. The program never closes it. */
int cli_cancel_fd(void);
#endif
