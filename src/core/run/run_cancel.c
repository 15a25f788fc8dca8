/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/run_cancel.c - see run_cancel.h. */
#include "core/run/run_cancel.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "core/run/run.h"
#include "core/run/run_socket.h"
#include "core/sweep/sweep.h"

#define LOOK_MS 50
#define LOOKS 20 /* at a run whose process has let go of it, or died */

static int run_connect(const char *id, int *out, struct berth_error *err)
{
    struct sockaddr_un to;
    int rc = berth_run_socket_address(id, &to, err);
    if (rc < 0)
        return rc;
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot make a socket");
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) < 0) {
        if (errno == ECONNREFUSED)
            (void)unlink(to.sun_path);
        return berth_fail(err, BERTH_E_CONFLICT,
                          "No process of yours on this machine performs run %s.", id);
    }
    *out = fd;
    fd = -1;
    return BERTH_OK;
}
/* The connection ends with the run. */
static int run_ask(const char *id, int left_fd, struct berth_error *err)
{
    static const char request[] = BERTH_RUN_SOCKET_CANCEL "\n", ok[] = BERTH_RUN_SOCKET_OK "\n";
    char answer[BERTH_RUN_SOCKET_LINE_SIZE];
    auto_close int fd = -1;
    int rc = run_connect(id, &fd, err);
    if (rc < 0)
        return rc;
    /* One that has just ended may hang up before it hears us. */
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = left_fd, .events = POLLIN}};
    ssize_t got = send(fd, request, strlen(request), MSG_NOSIGNAL);
    if (got > 0)
        got = poll(fds, 2, BERTH_RUN_SOCKET_ANSWER_MS) > 0 && fds[0].revents
                  ? read(fd, answer, sizeof answer)
                  : -1;
    if (got < (ssize_t)strlen(ok) || memcmp(answer, ok, strlen(ok)) != 0)
        return berth_fail(err, BERTH_E_UNAVAILABLE,
                          "The process of run %s did not listen: others may talk to it. Try again.",
                          id);
    while (poll(fds, 2, -1) >= 0 || errno == EINTR)
        if (fds[1].revents || (fds[0].revents && read(fd, answer, sizeof answer) <= 0))
            break;
    return BERTH_OK;
}

int berth_run_cancel_elsewhere(struct berth *b, struct berth_arena *arena, const char *id,
                               int left_fd, struct berth_run **out, struct berth_error *err)
{
    struct berth_error unheard;
    int heard = run_ask(id, left_fd, &unheard);
    int rc = berth_run_get(b, arena, id, out, err);
    for (int i = 0; heard == BERTH_OK && rc == BERTH_OK && i < LOOKS; i++) {
        if (berth_run_ended((int)(*out)->status))
            return rc;
        (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
        rc = berth_sweep_ledger(b, err); /* its process may be gone */
        if (rc == BERTH_OK)
            rc = berth_run_get(b, arena, id, out, err);
    }
    if (rc < 0 || berth_run_ended((int)(*out)->status))
        return rc;
    if (heard == BERTH_OK)
        return berth_fail(err, BERTH_E_UNAVAILABLE,
                          "Run %s has not ended yet, and its process is gone: the next commands "
                          "end it.",
                          id);
    *err = unheard;
    return heard;
}
