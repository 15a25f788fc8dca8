/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/run_cancel.c - see run_cancel.h. */
#include "core/run/run_cancel.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "core/run/run.h"
#include "core/run/run_socket.h"
#include "os/runtime.h"

#define UNSEEN_EXIT_MS 1000 /* where the process cannot be watched */
#define EXIT_MS 10000       /* for a process to exit that has let go of a run without ending it */

static int run_connect(const char *id, int *out, struct berth_error *err)
{
    struct sockaddr_un to;
    int rc = berth_run_socket_address(id, &to, err);
    if (rc < 0)
        return rc;
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot make a socket");
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) == 0) {
        *out = fd;
        fd = -1;
        return BERTH_OK;
    }
    if (errno == ECONNREFUSED)
        (void)unlink(to.sun_path);
    *out = berth_runtime_connect_elsewhere(id);
    return *out >= 0
               ? BERTH_OK
               : berth_fail(err, BERTH_E_CONFLICT,
                            "The process that performs run %s cannot be reached: it is on another "
                            "machine, of another user, or its socket was removed. Cancel the run "
                            "where it was started, or release its lease: the machine of the "
                            "process ends the command when it sees that the lease has ended.",
                            id);
}

/* Returns a pidfd of the process that listens at the other end, or -1. */
static int peer_process(int fd)
{
    struct ucred who;
    socklen_t len = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 || who.pid <= 0)
        return -1;
    return (int)syscall(SYS_pidfd_open, who.pid, 0);
}

/* Sends the request and waits for "ok". */
static int request_cancel(const char *id, int fd, int left_fd, struct berth_error *err)
{
    static const char request[] = BERTH_RUN_SOCKET_CANCEL "\n", ok[] = BERTH_RUN_SOCKET_OK "\n";
    char answer[BERTH_RUN_SOCKET_LINE_SIZE];
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = left_fd, .events = POLLIN}};
    ssize_t got = send(fd, request, strlen(request), MSG_NOSIGNAL);
    if (got > 0) /* else the run has just ended, and its process has hung up */
        got = poll(fds, 2, BERTH_RUN_SOCKET_ANSWER_MS) > 0 && fds[0].revents
                  ? read(fd, answer, sizeof answer)
                  : -1;
    if (got < (ssize_t)strlen(ok) || memcmp(answer, ok, strlen(ok)) != 0)
        return berth_fail(err, BERTH_E_UNAVAILABLE,
                          "The process of run %s did not listen: others may talk to it. Try again.",
                          id);
    return BERTH_OK;
}

/* Waits until the connection ends, or until `left_fd` is readable. */
static void wait_for_hangup(int fd, int left_fd)
{
    char more[BERTH_RUN_SOCKET_LINE_SIZE];
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = left_fd, .events = POLLIN}};
    while (poll(fds, 2, -1) >= 0 || errno == EINTR)
        if (fds[1].revents || (fds[0].revents && read(fd, more, sizeof more) <= 0))
            return;
}

/* Waits until the process has exited, or until `left_fd` is readable. */
static void wait_for_exit(int process, int left_fd)
{
    struct pollfd fds[] = {{.fd = process, .events = POLLIN}, {.fd = left_fd, .events = POLLIN}};
    /* Without a descriptor of the process only a pause is left; poll skips a descriptor of -1. */
    while (poll(fds, 2, process >= 0 ? EXIT_MS : UNSEEN_EXIT_MS) < 0 && errno == EINTR)
        continue;
}

/* Ends the run if its process has died, and reads the row again. */
static int end_if_lost(struct berth *b, struct berth_arena *arena, const char *id,
                       struct berth_run **out, struct berth_error *err)
{
    int count;
    int rc = berth_run_end_lost(b, arena, &count, err);
    return rc < 0 ? rc : berth_run_get(b, arena, id, out, err);
}

int berth_run_cancel_elsewhere(struct berth *b, struct berth_arena *arena, const char *id,
                               int left_fd, struct berth_run **out, struct berth_error *err)
{
    struct berth_error refusal;
    auto_close int fd = -1, process = -1;
    int asked = run_connect(id, &fd, &refusal);
    if (asked == BERTH_OK) {
        process = peer_process(fd);
        asked = request_cancel(id, fd, left_fd, &refusal);
    }
    if (asked == BERTH_OK)
        wait_for_hangup(fd, left_fd);
    int rc = berth_run_get(b, arena, id, out, err);
    if (rc < 0 || berth_run_ended((int)(*out)->status))
        return rc;
    /* The process died with the run. On one machine a lock tells that as soon as it has exited; in
     * a shared store it takes the lapse of a node. */
    if (asked == BERTH_OK)
        wait_for_exit(process, left_fd);
    rc = end_if_lost(b, arena, id, out, err);
    if (rc < 0 || berth_run_ended((int)(*out)->status))
        return rc;
    if (asked == BERTH_OK)
        return berth_fail(err, BERTH_E_UNAVAILABLE,
                          "Run %s has not ended yet, and its process is gone: the next commands "
                          "end it.",
                          id);
    *err = refusal;
    return asked;
}
