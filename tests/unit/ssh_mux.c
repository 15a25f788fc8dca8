/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/ssh_mux.c - sessions over an ssh(1) master: one that opens them, and one that does not
 * become ready. */
#include "driver/ssh_link.h"
#include "driver/ssh_mux.h"

#include "engines.h"
#include "fixture.h"

#include <endian.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/time.h"

#define SESSION_OPENED 0x80000006
#define EXIT_MESSAGE 0x80000004
#define EXIT_CODE 7

/* A master on a thread: it accepts one connection, reads the whole request, and then does `then`.
 */
struct master {
    char path[108];
    int listen_fd, fd;
    int got[3]; /* stdin, stdout and stderr of the session */
    void (*then)(struct master *m);
    int cancel_fd;
    pthread_t thread;
};

/* Reads until the three descriptors have come: they are the end of a request. */
static void read_request(struct master *m)
{
    for (int count = 0; count < 3;) {
        char bytes[4096];
        struct iovec part = {.iov_base = bytes, .iov_len = sizeof bytes};
        union {
            char bytes[CMSG_SPACE(sizeof(int))];
            struct cmsghdr align;
        } room;
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = room.bytes,
                                 .msg_controllen = sizeof room.bytes};
        assert_true(recvmsg(m->fd, &message, MSG_CMSG_CLOEXEC) > 0);
        const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        if (header)
            memcpy(&m->got[count++], CMSG_DATA(header), sizeof(int));
    }
}

static void *run_master(void *ctx)
{
    struct master *m = ctx;
    m->fd = accept4(m->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(m->fd >= 0);
    read_request(m);
    if (m->then)
        m->then(m);
    return NULL;
}

static void open_master(struct master *m, void (*then)(struct master *m), int cancel_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *m = (struct master){.fd = -1, .got = {-1, -1, -1}, .then = then, .cancel_fd = cancel_fd};
    (void)snprintf(m->path, sizeof m->path, "/tmp/berth-mux.%d", (int)getpid());
    memcpy(address.sun_path, m->path, sizeof m->path);
    m->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)unlink(m->path);
    assert_int_equal(bind(m->listen_fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(m->listen_fd, 1), 0);
    assert_int_equal(pthread_create(&m->thread, NULL, run_master, m), 0);
}

static void close_master(struct master *m)
{
    (void)pthread_join(m->thread, NULL);
    for (int i = 0; i < 3; i++)
        if (m->got[i] >= 0)
            (void)close(m->got[i]);
    if (m->fd >= 0)
        (void)close(m->fd);
    (void)close(m->listen_fd);
    (void)unlink(m->path);
}

static void send_message(const struct master *m, uint32_t type, uint32_t first, uint32_t second)
{
    uint32_t words[] = {htobe32(12), htobe32(type), htobe32(first), htobe32(second)};
    assert_int_equal(send(m->fd, words, sizeof words, MSG_NOSIGNAL), sizeof words);
}

/* The session ends when its stdin does. */
static void serve(struct master *m)
{
    char byte;
    send_message(m, SESSION_OPENED, 0, 1);
    assert_int_equal(read(m->got[0], &byte, 1), 0);
    assert_int_equal(write(m->got[1], "out", 3), 3);
    send_message(m, EXIT_MESSAGE, 1, EXIT_CODE);
    for (int i = 0; i < 3; i++) {
        (void)close(m->got[i]);
        m->got[i] = -1;
    }
}

static void cancel_call(struct master *m)
{
    assert_int_equal(eventfd_write(m->cancel_fd, 1), 0);
}

struct session {
    int ended_fd;
    struct berth_exec_end end;
};

static void on_end(void *ctx, const struct berth_exec_end *end)
{
    struct session *s = ctx;
    s->end = *end;
    (void)eventfd_write(s->ended_fd, 1);
}

static int start(const struct master *m, int64_t deadline_ms, struct session *s,
                 struct berth_process **out, struct berth_error *err)
{
    struct berth_ssh_session session = {.engine = engine, .control = m->path, .command = "true"};
    struct berth_call call = {.deadline_ms = deadline_ms, .cancel_fd = m->cancel_fd};
    struct berth_process_options options = BERTH_PROCESS_OPTIONS_INIT;
    struct berth_exec_handlers handlers = {.on_end = on_end, .ctx = s};
    options.with_stdin = true;
    return berth_ssh_mux_start(&session, &call, &options, &handlers, out, err);
}

static void session_runs_to_its_end(void **state)
{
    (void)state;
    struct master m;
    auto_close int ended_fd = eventfd(0, EFD_CLOEXEC);
    struct session s = {.ended_fd = ended_fd};
    struct berth_process *p = NULL;
    struct berth_error err;
    open_master(&m, serve, -1);
    assert_int_equal(start(&m, INT64_MAX, &s, &p, &err), BERTH_OK);
    berth_process_close_stdin(p);
    eventfd_t told;
    assert_int_equal(eventfd_read(ended_fd, &told), 0);
    assert_int_equal(s.end.exit_code, EXIT_CODE);
    assert_true(s.end.bytes[0] == 3);
    berth_process_free(p);
    close_master(&m);
}

/* The master reads the request and never answers it. */
static void deadline_ends_the_wait(void **state)
{
    (void)state;
    struct master m;
    struct session s = {.ended_fd = -1};
    struct berth_process *p = NULL;
    struct berth_error err;
    open_master(&m, NULL, -1);
    assert_int_equal(start(&m, berth_time_mono_ms() + 100, &s, &p, &err), BERTH_E_TIMEOUT);
    assert_null(p);
    close_master(&m);
}

/* The call is cancelled once the request has arrived, so the caller waits by then, or is about to.
 */
static void cancel_ends_the_wait(void **state)
{
    (void)state;
    struct master m;
    struct session s = {.ended_fd = -1};
    struct berth_process *p = NULL;
    struct berth_error err;
    auto_close int cancel_fd = eventfd(0, EFD_CLOEXEC);
    open_master(&m, cancel_call, cancel_fd);
    assert_int_equal(start(&m, INT64_MAX, &s, &p, &err), BERTH_E_CANCELLED);
    assert_null(p);
    close_master(&m);
}

static void hang_up(struct master *m)
{
    (void)shutdown(m->fd, SHUT_RDWR);
}

static void master_that_leaves_gives_no_session(void **state)
{
    (void)state;
    struct master m;
    struct session s = {.ended_fd = -1};
    struct berth_process *p = NULL;
    struct berth_error err;
    open_master(&m, hang_up, -1);
    assert_int_equal(start(&m, INT64_MAX, &s, &p, &err), BERTH_E_UNAVAILABLE);
    assert_null(p);
    close_master(&m);
}

/* A connection is shared by configs that are equal, never by those whose texts only join to the
 * same.
 */
static void connections_are_not_shared_by_accident(void **state)
{
    (void)state;
    static const struct berth_ssh_config configs[] = {
        {.host = "h", .username = "u", .port = 22, .known_hosts = "L1\nL2"},
        {.host = "h", .username = "u", .port = 22, .private_key = "\nL1", .known_hosts = "L2"},
        {.host = "h", .username = "u", .port = 22, .private_key = "", .known_hosts = "L1\nL2"},
        {.host = "h", .username = "u", .port = 22, .private_key = "L1\nL2"},
        {.host = "h", .username = "u", .port = 22, .private_key = "L1", .known_hosts = "L2"},
        {.host = "h", .username = "u", .port = 22, .private_key = "L1\n", .known_hosts = "L2"},
        {.host = "h", .username = "u", .port = 22, .private_key = "L1", .known_hosts = "\nL2"},
        {.host = "h", .username = "u", .port = 22, .known_hosts = "L1\nL2", .strict = true},
        {.host = "h", .username = "u", .port = 23, .known_hosts = "L1\nL2"},
        {.host = "h1:u", .username = "", .port = 22, .known_hosts = "L1\nL2"},
    };
    enum { COUNT = sizeof configs / sizeof configs[0] };
    char keys[COUNT][BERTH_SHA256_HEX_SIZE], again[BERTH_SHA256_HEX_SIZE];
    struct berth_error err;
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(berth_ssh_link_key(&configs[i], keys[i], &err), BERTH_OK);
        assert_int_equal(berth_ssh_link_key(&configs[i], again, &err), BERTH_OK);
        assert_string_equal(keys[i], again);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(keys[i], keys[j]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session_runs_to_its_end),
        cmocka_unit_test(deadline_ends_the_wait),
        cmocka_unit_test(cancel_ends_the_wait),
        cmocka_unit_test(master_that_leaves_gives_no_session),
        cmocka_unit_test(connections_are_not_shared_by_accident),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
