/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/exec_await.c - see exec_await.h. */
#include "core/run/exec_await.h"

#include <errno.h>
#include <poll.h>

void berth_exec_await(struct berth *b, struct berth_exec *x, int ended_fd, int cancel_fd)
{
    struct pollfd fds[] = {{.fd = ended_fd, .events = POLLIN},
                           {.fd = cancel_fd, .events = POLLIN},
                           {.fd = b->closing_fd, .events = POLLIN}};
    for (;;) {
        if (poll(fds, 3, -1) < 0 && errno == EINTR)
            continue;
        if (fds[0].revents)
            return;
        for (int i = 1; i < 3; i++)
            if (fds[i].revents) {
                berth_exec_cancel(x);
                fds[i].fd = -1; /* once is enough: now its end is waited for */
            }
    }
}
