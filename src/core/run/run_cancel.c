/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/run_cancel.c - see elsewhere.h. */
#include "core/run/run_cancel.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "core/run/run.h"
#include "core/sweep/sweep.h"
#include "os/runtime.h"

#define LOOK_MS 50
#define LOOKS 20        /* at a run whose process has let go of it, or died */
#define ANSWER_MS 10000 /* to one word; its process may be stopped */
#define CANCEL "cancel\n"
#define OK "ok\n"

static int reach(const char *id, int *out, struct berth_error *err)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char path[BERTH_RUNTIME_SOCKET_SIZE];
    int rc = berth_runtime_socket(id, path, err);
    if (rc < 0)
        return rc;
    if (strlen(path) >= sizeof to.sun_path)
        return berth_fail(err, BERTH_E_UNAVAILABLE, "The name of the socket is too long: %s", path);
    memcpy(to.sun_path, path, strlen(path) + 1);
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot make a socket");
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) < 0) {
        if (errno == ECONNREFUSED)
            (void)unlink(path);
        return berth_fail(err, BERTH_E_CONFLICT,
                          "No process of yours on this machine performs run %s.", id);
    }
    *out = fd;
    fd = -1;
    return BERTH_OK;
}

/* The connection ends with the run. */
static int ask(const char *id, int left_fd, struct berth_error *err)
{
    char answer[64];
    auto_close int fd = -1;
    int rc = reach(id, &fd, err);
    if (rc < 0)
        return rc;
    /* One that has just ended may hang up before it hears us. */
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = left_fd, .events = POLLIN}};
    ssize_t got = send(fd, CANCEL, strlen(CANCEL), MSG_NOSIGNAL);
    if (got > 0)
        got = poll(fds, 2, ANSWER_MS) > 0 && fds[0].revents ? read(fd, answer, sizeof answer) : -1;
    if (got < (ssize_t)strlen(OK) || memcmp(answer, OK, strlen(OK)) != 0)
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
    int heard = ask(id, left_fd, &unheard);
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
