/* SPDX-License-Identifier: Apache-2.0
 * src/driver/ssh_mux.c - see ssh_mux.h. It sends a hello and a request for a session, hands over
 * three descriptors, and waits for the session. What the master says later is read by the engine.
 */
#include "driver/ssh_mux.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/time.h"

#define VERSION 4
#define WRITE_MS 10000 /* a master that reads nothing for this long is stuck */
#define LOOK_MS 1000   /* the deadline is compared with the clock at least this often */
#define NO_ESCAPE UINT32_MAX

enum message {
    HELLO = 0x00000001,
    NEW_SESSION = 0x10000002,
    PERMISSION_DENIED = (int)0x80000002,
    FAILURE = (int)0x80000003,
    EXIT_MESSAGE = (int)0x80000004,
    SESSION_OPENED = (int)0x80000006,
};

static int fail_session(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_UNAVAILABLE,
                      "The SSH server gave no session (it may allow too few: MaxSessions).");
}

/* --- what the master says --- */

struct answer {
    unsigned char bytes[512]; /* of the message that is being read; the rest of a long one is not */
    size_t len;
    int exit_code; /* or -1 */
    bool opened;
};

static uint32_t number_at(const struct answer *a, size_t at)
{
    uint32_t value = 0;
    if (at + sizeof value <= a->len)
        memcpy(&value, a->bytes + at, sizeof value);
    return be32toh(value);
}

/* Takes whole messages out of what was read. Returns false when the master refused, or sent a
 * message that is too long. */
static bool take_messages(struct answer *a)
{
    while (a->len >= 4) {
        size_t whole = 4 + (size_t)number_at(a, 0);
        if (whole > sizeof a->bytes)
            return false;
        if (a->len < whole)
            return true;
        if (number_at(a, 4) == (uint32_t)EXIT_MESSAGE && whole >= 16)
            a->exit_code = (int)(number_at(a, 12) & 0xff);
        a->opened |= number_at(a, 4) == (uint32_t)SESSION_OPENED;
        if (number_at(a, 4) == (uint32_t)FAILURE || number_at(a, 4) == (uint32_t)PERMISSION_DENIED)
            return false;
        memmove(a->bytes, a->bytes + whole, a->len - whole);
        a->len -= whole;
    }
    return true;
}

static bool read_exit(void *ctx, int fd, int *exit_code)
{
    struct answer *a = ctx;
    for (;;) {
        ssize_t got = recv(fd, a->bytes + a->len, sizeof a->bytes - a->len, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (got <= 0) { /* the session is over, or the master is */
            *exit_code = a->exit_code;
            return true;
        }
        a->len += (size_t)got;
        if (!take_messages(a))
            return true;
    }
    if (a->exit_code < 0)
        return false;
    *exit_code = a->exit_code; /* said; what is left of its streams is in the pipes */
    return true;
}

/* Reads what the master has sent. Returns false when it refused the session or is gone. */
static bool read_messages(int fd, struct answer *a)
{
    ssize_t got = recv(fd, a->bytes + a->len, sizeof a->bytes - a->len, MSG_DONTWAIT);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
    a->len += (size_t)got;
    return got > 0 && take_messages(a);
}

/* Waits until the master has opened the session. After a failure nothing has run: the session reads
 * its command from a pipe that is closed then. */
static int await_session(int fd, const struct berth_call *call, struct answer *a,
                         struct berth_error *err)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = call->cancel_fd, .events = POLLIN}};
    while (!a->opened) {
        int64_t left_ms = call->deadline_ms - berth_time_mono_ms();
        if (left_ms <= 0)
            return berth_fail(err, BERTH_E_TIMEOUT, "The SSH server gave no session in time.");
        if (poll(fds, 2, left_ms < LOOK_MS ? (int)left_ms : LOOK_MS) <= 0)
            continue;
        if (fds[1].revents)
            return berth_fail(err, BERTH_E_CANCELLED, "The call was cancelled.");
        if (!read_messages(fd, a))
            return fail_session(err);
    }
    return BERTH_OK;
}

/* --- what we say --- */

static void put_number(struct berth_buf *buf, uint32_t number)
{
    uint32_t value = htobe32(number);
    berth_buf_append(buf, &value, sizeof value);
}

static void put_text(struct berth_buf *buf, const char *text)
{
    put_number(buf, (uint32_t)strlen(text));
    berth_buf_puts(buf, text);
}

static int write_request(const char *command, struct berth_buf *out, struct berth_error *err)
{
    auto_buf request = BERTH_BUF_INIT(4096);
    put_number(&request, NEW_SESSION);
    put_number(&request, 0); /* our name for it */
    put_text(&request, "");
    for (int i = 0; i < 4; i++) /* no terminal, no X11, no agent, no subsystem */
        put_number(&request, 0);
    put_number(&request, NO_ESCAPE);
    put_text(&request, "");
    put_text(&request, command);
    int rc = berth_buf_check(&request, "The request", err);
    if (rc < 0)
        return rc;
    put_number(out, 8);
    put_number(out, HELLO);
    put_number(out, VERSION);
    put_number(out, (uint32_t)request.len);
    berth_buf_append(out, request.data, request.len);
    return berth_buf_check(out, "The request", err);
}

static bool send_all(int fd, const char *bytes, size_t len)
{
    while (len) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return false;
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

/* With one byte, as the master expects it. */
static bool send_descriptor(int fd, int which)
{
    char byte = 0;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } room = {{0}};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = room.bytes,
                             .msg_controllen = sizeof room.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &which, sizeof which);
    ssize_t sent;
    do
        sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == 1;
}

static int connect_to(const char *control, struct berth_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = WRITE_MS / 1000};
    if (strlen(control) >= sizeof address.sun_path)
        return berth_fail(err, BERTH_E_INTERNAL, "The name of the socket is too long: %s", control);
    memcpy(address.sun_path, control, strlen(control) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0 &&
        connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    int rc =
        berth_fail(err, BERTH_E_UNAVAILABLE, "The SSH connection is gone: %s.", strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

static void close_all(int *fds, int count)
{
    for (int i = 0; i < count; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
}

/* ours[0] is written to, ours[1] and [2] are read. */
static int make_pipes(int ours[3], int theirs[3], struct berth_error *err)
{
    for (int i = 0; i < 3; i++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0)
            return berth_fail(err, BERTH_E_UNAVAILABLE, "Cannot make a pipe: %s.", strerror(errno));
        ours[i] = ends[i == 0 ? 1 : 0];
        theirs[i] = ends[i == 0 ? 0 : 1];
    }
    return BERTH_OK;
}

static int ask_session(int fd, const struct berth_call *call, const char *command,
                       const int theirs[3], struct answer *answer, struct berth_error *err)
{
    auto_buf request = BERTH_BUF_INIT(8192);
    int rc = write_request(command, &request, err);
    if (rc < 0)
        return rc;
    bool sent = send_all(fd, request.data, request.len);
    for (int i = 0; i < 3 && sent; i++)
        sent = send_descriptor(fd, theirs[i]);
    answer->exit_code = -1;
    return sent ? await_session(fd, call, answer, err) : fail_session(err);
}

int berth_ssh_mux_start(const struct berth_ssh_session *session, const struct berth_call *call,
                        const struct berth_process_options *options,
                        const struct berth_exec_handlers *handlers, struct berth_process **out,
                        struct berth_error *err)
{
    int ours[3] = {-1, -1, -1}, theirs[3] = {-1, -1, -1};
    int fd = connect_to(session->control, err);
    if (fd < 0)
        return fd;
    struct answer *answer = calloc(1, sizeof *answer);
    int rc = answer ? make_pipes(ours, theirs, err)
                    : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: session.");
    if (rc == BERTH_OK)
        rc = ask_session(fd, call, session->command, theirs, answer, err);
    close_all(theirs, 3);
    if (rc < 0) {
        close_all(ours, 3);
        (void)close(fd);
        free(answer);
        return rc;
    }
    struct berth_adoption what = {.fds = {ours[0], ours[1], ours[2]},
                                  .exit_fd = fd,
                                  .read_exit = read_exit,
                                  .free = free,
                                  .ctx = answer};
    return berth_process_adopt(session->engine, &what, options, handlers, out, err);
}
