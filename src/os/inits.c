/* SPDX-License-Identifier: Apache-2.0
 * src/os/inits.c - see inits.h. The program of an init is part of this library: it is run from a
 * file in memory, so that there is no file to find, to replace or to forget. */
#include "os/inits.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/time.h"
#include "os/children.h"
#include "os/fs.h"
#include "os/init_image.h"
#include "os/owner_group.h"
#include "os/spawn.h"

#define SPARES_MAX 32
#define USER_SIZE 40
#define EXIT_MS 1000         /* for a spare init to exit */
#define SPARE_ANSWER_MS 1000 /* for a spare one that was stopped: a new one takes its place */
#define ANSWER_SECONDS 60    /* for an init or a program that is on a slow disk, or was stopped */
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

struct berth_init {
    struct berth_child child; /* the init itself */
    int control;              /* socket to the init */
    int start;                /* socket to the child that waits for a program; -1: none */
    pid_t ready;              /* that child */
    pid_t command;            /* the program that runs, or ran last */
    char user[USER_SIZE];     /* whose commands it has run; "": it is new */
    bool idle;                /* spare since before the last trim */
    bool spoilt;              /* its child did not answer: it was killed or stopped */
};

struct berth_inits {
    pthread_mutex_t lock;
    int program_fd; /* -1: not made yet */
    struct berth_init *spares[SPARES_MAX];
    int count;
    bool prepared;  /* a spare init that has served no user is wanted at all times */
    bool preparing; /* a thread is starting it */
};

/* --- the pool --- */

int berth_inits_new(struct berth_inits **out, struct berth_error *err)
{
    struct berth_inits *inits = calloc(1, sizeof *inits);
    if (!inits)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: commands.");
    inits->program_fd = -1;
    berth_owner_group_hold();
    pthread_mutex_init(&inits->lock, NULL);
    *out = inits;
    return BERTH_OK;
}

void berth_inits_free(struct berth_inits *inits)
{
    if (!inits)
        return;
    for (int i = 0; i < inits->count; i++)
        (void)shutdown(inits->spares[i]->control, SHUT_RDWR); /* it exits, as after a close */
    int64_t until_ms = berth_time_mono_ms() + EXIT_MS;
    for (int i = 0; i < inits->count; i++) {
        struct berth_init *init = inits->spares[i];
        struct pollfd ended = {.fd = init->child.pidfd, .events = POLLIN};
        int64_t wait_ms = until_ms - berth_time_mono_ms();
        if (poll(&ended, 1, wait_ms > 0 ? (int)wait_ms : 0) == 0)
            berth_init_kill(init); /* it was stopped */
        berth_init_drop(init);
    }
    if (inits->program_fd >= 0)
        (void)close(inits->program_fd);
    pthread_mutex_destroy(&inits->lock);
    berth_owner_group_leave();
    free(inits);
}

/* Lock held. Takes the spare init at `at` out. */
static struct berth_init *remove_spare(struct berth_inits *inits, int at)
{
    struct berth_init *init = inits->spares[at];
    inits->count--;
    memmove(inits->spares + at, inits->spares + at + 1,
            (size_t)(inits->count - at) * sizeof inits->spares[0]);
    return init;
}

/* Lock held. Returns the index of the newest spare init of this user, or -1. */
static int find_spare(const struct berth_inits *inits, const char *user)
{
    int at = inits->count - 1;
    while (at >= 0 && strcmp(inits->spares[at]->user, user) != 0)
        at--;
    return at;
}

static struct berth_init *pop_spare(struct berth_inits *inits, const char *user)
{
    pthread_mutex_lock(&inits->lock);
    int at = find_spare(inits, user);
    if (at < 0)
        at = find_spare(inits, "");
    struct berth_init *init = at < 0 ? NULL : remove_spare(inits, at);
    pthread_mutex_unlock(&inits->lock);
    return init;
}

/* The oldest makes room, because its user is more likely gone. The one for the next user stays. */
static void push_spare(struct berth_inits *inits, struct berth_init *init)
{
    struct berth_init *oldest = NULL;
    pthread_mutex_lock(&inits->lock);
    if (inits->count == SPARES_MAX)
        oldest = remove_spare(inits, find_spare(inits, "") == 0 ? 1 : 0);
    init->idle = false;
    inits->spares[inits->count++] = init;
    pthread_mutex_unlock(&inits->lock);
    berth_init_drop(oldest);
}

bool berth_inits_trim(struct berth_inits *inits)
{
    struct berth_init *surplus[SPARES_MAX];
    int count = 0;
    pthread_mutex_lock(&inits->lock);
    const int unused = find_spare(inits, "");
    const struct berth_init *kept = unused < 0 ? NULL : inits->spares[unused];
    for (int i = 0; i < inits->count;) {
        struct berth_init *init = inits->spares[i];
        if (init->idle && init != kept) {
            surplus[count++] = remove_spare(inits, i);
        } else {
            init->idle = true;
            i++;
        }
    }
    bool more = inits->count > (kept ? 1 : 0);
    pthread_mutex_unlock(&inits->lock);
    berth_children_reap_inherited(); /* those that were dropped before have exited */
    for (int i = 0; i < count; i++)
        berth_init_drop(surplus[i]);
    return more || count;
}

/* --- one init --- */

static int memory_file(void)
{
    const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = (int)syscall(SYS_memfd_create, BERTH_INIT_NAME, flags | MFD_EXEC);
    if (fd < 0 && errno == EINVAL) /* a kernel before 6.3 */
        fd = (int)syscall(SYS_memfd_create, BERTH_INIT_NAME, flags);
    return fd;
}

/* Returns the descriptor of the program, which the pool keeps. */
static int open_program(struct berth_inits *inits, int *out, struct berth_error *err)
{
    int rc = BERTH_OK;
    pthread_mutex_lock(&inits->lock);
    if (inits->program_fd < 0) {
        int fd = memory_file();
        rc = fd < 0 ? berth_fail_errno(err, "Cannot make the program that looks after commands in "
                                            "memory (check the sysctl vm.memfd_noexec)")
                    : berth_fs_write_all(fd, berth_init_image, berth_init_image_len, err);
        if (rc == BERTH_OK)
            (void)fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
        if (rc == BERTH_OK)
            inits->program_fd = fd;
        else if (fd >= 0)
            (void)close(fd);
    }
    *out = inits->program_fd;
    pthread_mutex_unlock(&inits->lock);
    return rc;
}

static int start_init(struct berth_inits *inits, struct berth_init **out, struct berth_error *err)
{
    static const char *const env[] = {NULL};
    char owner[BERTH_OWNER_NAME_SIZE];
    const char *const argv[] = {BERTH_INIT_NAME, owner, NULL};
    int ends[2];
    struct berth_spawn what = {.argv = argv, .env = env, .fds = {-1, -1, -1}};
    int rc = open_program(inits, &what.program_fd, err);
    if (rc < 0)
        return rc;
    struct berth_init *init = calloc(1, sizeof *init);
    if (!init)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: command.");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        free(init);
        return berth_fail(err, BERTH_E_UNAVAILABLE, "Cannot make a socket: %s.", strerror(errno));
    }
    berth_owner_group_name(owner);
    what.fds[0] = ends[1];
    what.fds[1] = berth_owner_group_fd();
    rc = berth_spawn(&what, &init->child, err);
    (void)close(ends[1]);
    if (rc < 0) {
        (void)close(ends[0]);
        free(init);
        return rc;
    }
    init->control = ends[0];
    init->start = -1;
    *out = init;
    return BERTH_OK;
}

void berth_init_kill(struct berth_init *init)
{
    (void)syscall(SYS_pidfd_send_signal, init->child.pidfd, SIGKILL, NULL, 0);
}

bool berth_init_is_dead(const struct berth_init *init)
{
    struct pollfd ended = {.fd = init->child.pidfd, .events = POLLIN};
    return poll(&ended, 1, 0) > 0;
}

void berth_init_drop(struct berth_init *init)
{
    if (!init)
        return;
    (void)close(init->control); /* the init sees that, ends its tree and exits */
    if (init->start >= 0)
        (void)close(init->start);
    (void)close(init->child.pidfd);
    berth_children_abandon(init->child.pid);
    free(init);
}

/* Reads one report. With READY, the descriptor that came along is in init->start. */
static ssize_t receive_report(struct berth_init *init, struct berth_init_report *report, int flags)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {report, sizeof *report};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t got;
    while ((got = recvmsg(init->control, &message, flags | MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    struct cmsghdr *head = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof(int))) {
        if (init->start >= 0)
            (void)close(init->start);
        memcpy(&init->start, CMSG_DATA(head), sizeof init->start);
        init->ready = report->pid;
    }
    return got;
}

int berth_init_read(struct berth_init *init, struct berth_init_report *out)
{
    ssize_t got = receive_report(init, out, MSG_DONTWAIT);
    if (got == sizeof *out)
        return 1;
    return got < 0 && errno == EAGAIN ? 0 : -1;
}

/* Waits until the init has a child for the next program. Returns 0, or an errno. All reports that
 * have come are read: a child that was killed while it waited has been replaced. */
static int await_ready(struct berth_init *init, int wait_ms)
{
    struct berth_init_report report;
    for (;;) {
        struct pollfd said = {.fd = init->control, .events = POLLIN};
        int ready = poll(&said, 1, init->start < 0 ? wait_ms : 0);
        if (ready == 0 && init->start >= 0)
            break;
        if (ready <= 0)
            return ready < 0 ? errno : ETIMEDOUT;
        ssize_t got = receive_report(init, &report, MSG_DONTWAIT);
        if (got != sizeof report)
            return got < 0 ? errno : ECHILD;
        if (report.kind == BERTH_INIT_FAILED)
            return report.status;
    }
    init->command = init->ready;
    return 0;
}

int berth_inits_take(struct berth_inits *inits, const char *user, struct berth_init **out,
                     struct berth_error *err)
{
    struct berth_init *init;
    assert(*user && strlen(user) < USER_SIZE);
    while ((init = pop_spare(inits, user))) {
        if (await_ready(init, SPARE_ANSWER_MS) == 0) {
            memcpy(init->user, user, strlen(user) + 1);
            *out = init;
            return BERTH_OK;
        }
        berth_init_kill(init); /* it was killed or stopped while it was spare */
        berth_init_drop(init);
    }
    int rc = start_init(inits, &init, err);
    if (rc < 0)
        return rc;
    int number = await_ready(init, ANSWER_SECONDS * 1000);
    if (number) {
        berth_init_kill(init);
        berth_init_drop(init);
        return berth_fail(err, BERTH_E_UNAVAILABLE,
                          "Cannot start the process that looks after a command: %s.",
                          number == ENOENT ? "this kernel does not list the children of a process "
                                             "(CONFIG_PROC_CHILDREN), or /proc is not mounted"
                                           : strerror(number));
    }
    memcpy(init->user, user, strlen(user) + 1);
    *out = init;
    return BERTH_OK;
}

int berth_inits_prepare(struct berth_inits *inits, struct berth_error *err)
{
    struct berth_init *init;
    pthread_mutex_lock(&inits->lock);
    inits->prepared = true;
    pthread_mutex_unlock(&inits->lock);
    int rc = start_init(inits, &init, err);
    if (rc == BERTH_OK)
        push_spare(inits, init);
    return rc;
}

/* Returns whether this thread is to start a spare init. */
static bool begin_preparing(struct berth_inits *inits)
{
    pthread_mutex_lock(&inits->lock);
    bool wanted = inits->prepared && !inits->preparing && find_spare(inits, "") < 0;
    inits->preparing |= wanted;
    pthread_mutex_unlock(&inits->lock);
    return wanted;
}

/* Looks again after each: another thread may have taken it, and left this to the one that prepares.
 */
void berth_inits_replenish(struct berth_inits *inits)
{
    struct berth_error ignored; /* the next command starts one itself, and says what is wrong */
    int rc = BERTH_OK;
    while (rc == BERTH_OK && begin_preparing(inits)) {
        rc = berth_inits_prepare(inits, &ignored);
        pthread_mutex_lock(&inits->lock);
        inits->preparing = false;
        pthread_mutex_unlock(&inits->lock);
    }
}

static void send_order(struct berth_init *init, enum berth_init_order_kind kind, int number)
{
    struct berth_init_order order = {.kind = kind, .number = number, .pid = init->command};
    /* An init that is dead is noticed when it is read from; one that was stopped has a full queue
     * after some hundred orders, and is killed by then. */
    (void)send(init->control, &order, sizeof order, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void berth_inits_give(struct berth_inits *inits, struct berth_init *init)
{
    push_spare(inits, init);
}

void berth_init_signal(struct berth_init *init, int number)
{
    send_order(init, BERTH_INIT_SIGNAL, number);
}

void berth_init_clear(struct berth_init *init)
{
    send_order(init, BERTH_INIT_CLEAR, 0);
}

bool berth_init_is_usable(const struct berth_init *init)
{
    return !init->spoilt;
}

pid_t berth_init_command(const struct berth_init *init)
{
    return init->command;
}

int berth_init_fd(const struct berth_init *init)
{
    return init->control;
}

/* --- running a program --- */

static size_t texts_size(const char *const *texts, uint32_t *count)
{
    size_t size = 0;
    for (; *texts; texts++, ++*count)
        size += strlen(*texts) + 1;
    return size;
}

static char *put_text(char *at, const char *text)
{
    size_t len = strlen(text) + 1;
    memcpy(at, text, len);
    return at + len;
}

/* The request as it is sent. It may hold secrets: the variables of a command. */
struct start_request {
    size_t size;
    struct berth_init_start head; /* followed by the texts */
};

static struct start_request *new_request(const struct berth_spawn *what, const char *file)
{
    const char *cwd = what->cwd ? what->cwd : "", *terminal = what->terminal ? what->terminal : "";
    struct berth_init_start head = {0};
    size_t bytes = strlen(file) + strlen(cwd) + strlen(terminal) + 3;
    bytes += texts_size(what->argv, &head.argc) + texts_size(what->env, &head.envc);
    for (int i = 0; i < 3; i++)
        head.given |= what->fds[i] >= 0 ? 1U << i : 0;
    struct start_request *request = bytes < UINT32_MAX ? malloc(sizeof *request + bytes) : NULL;
    if (!request)
        return NULL;
    head.bytes = (uint32_t)bytes;
    request->head = head;
    request->size = sizeof head + bytes;
    char *at = (char *)(&request->head + 1);
    at = put_text(put_text(put_text(at, file), cwd), terminal);
    for (const char *const *word = what->argv; *word; word++)
        at = put_text(at, *word);
    for (const char *const *variable = what->env; *variable; variable++)
        at = put_text(at, *variable);
    return request;
}

static void free_request(struct start_request *request)
{
    explicit_bzero(&request->head, request->size);
    free(request);
}

/* Sends the request with its descriptors. Returns 0 or an errno. */
static int send_request(int fd, const struct start_request *request, const int given[3])
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(3 * sizeof(int))];
    } control = {.bytes = {0}};
    int count = 0, fds[3];
    for (int i = 0; i < 3; i++)
        if (given[i] >= 0)
            fds[count++] = given[i];
    struct iovec part = {(void *)(uintptr_t)&request->head, request->size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count) {
        size_t len = (size_t)count * sizeof(int);
        control.align = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(len)};
        memcpy(CMSG_DATA(&control.align), fds, len);
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(len);
    }
    while (part.iov_len) {
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return errno;
        if (sent > 0) {
            part.iov_base = (char *)part.iov_base + sent;
            part.iov_len -= (size_t)sent;
            message.msg_control = NULL; /* the descriptors went with the first bytes */
            message.msg_controllen = 0;
        }
    }
    return 0;
}

/* Returns 0 when the program runs, or the errno that the child sent. Waits by poll: recv would wake
 * up once more, when the child has taken the request out of the socket. */
static int await_running(int fd)
{
    struct pollfd said = {.fd = fd, .events = POLLIN};
    int32_t number = 0;
    int ready;
    while ((ready = poll(&said, 1, ANSWER_SECONDS * 1000)) < 0 && errno == EINTR)
        ;
    if (ready <= 0)
        return ready < 0 ? errno : EAGAIN;
    ssize_t got = recv(fd, &number, sizeof number, MSG_DONTWAIT);
    if (got == sizeof number)
        return number ? number : ECHILD;
    return got < 0 ? errno : 0;
}

int berth_init_run(struct berth_init *init, const struct berth_spawn *what, const char *file,
                   struct berth_error *err)
{
    assert(init->start >= 0 && !what->confinement);
    struct start_request *request = new_request(what, file);
    if (!request)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: command.");
    struct timeval patience = {.tv_sec = ANSWER_SECONDS};
    (void)setsockopt(init->start, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    int number = send_request(init->start, request, what->fds);
    if (number == 0)
        number = await_running(init->start);
    free_request(request);
    (void)close(init->start);
    init->start = -1;
    init->spoilt = number == EAGAIN || number == EPIPE || number == ECONNRESET;
    if (init->spoilt) {
        berth_init_kill(init);
        return berth_fail(err, BERTH_E_UNAVAILABLE,
                          "\"%s\" could not be started: the process that was to run it was killed "
                          "or stopped. Try again.",
                          what->argv[0]);
    }
    return number ? berth_spawn_fail(err, number, what->argv[0]) : BERTH_OK;
}
