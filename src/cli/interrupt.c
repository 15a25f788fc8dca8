/* SPDX-License-Identifier: Apache-2.0
 * src/cli/interrupt.c - see interrupt.h. */
#include "cli/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/eventfd.h>

static int cancel_fd = -1; /* written to by the signal handler */

static void on_interrupt(int number)
{
    int saved = errno;
    (void)number;
    (void)eventfd_write(cancel_fd, 1);
    errno = saved;
}

int cli_cancel_fd(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN); /* it would end the process before the lease is released */
    return cancel_fd;
}
