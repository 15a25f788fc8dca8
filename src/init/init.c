/* SPDX-License-Identifier: Apache-2.0
 * src/init/init.c - the parent of one command on this machine. It is a child subreaper, so every
 * process that the command starts stays below it: one in another session, without our variables or
 * with another user, too. It reports how the command ended, ends on request whatever the command
 * left, and ends everything by itself when its owner is gone.
 *
 * A static program that libberth carries in itself (os/inits.c). It runs with the rights of its
 * owner and must not trust the command, which may kill or stop it: its owner watches for that. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/init_protocol.h"

#define OWNER 0 /* the socket to the owner */

#define STACK_BYTES 65536

static int children_fd; /* the list of children; open from the start, for the command may set the
                           limits of this process */

static rlim_t command_files; /* the soft limit of descriptors that a command gets */

/* The one command that this init looks after at a time. */
static struct {
    pid_t pid;
    bool exited, gone; /* gone: it has exited, and the tree is empty */
    siginfo_t info;    /* how it has ended */
    int ends[2];       /* the socket to the child: the owner's end, and the child's */
    void *request;     /* what to run, as the child has read it; NULL: not yet */
    size_t request_size;
} command;

static void init_report(enum berth_init_report_kind kind, int number)
{
    struct berth_init_report report = {.kind = kind,
                                       .pid = command.pid,
                                       .code = command.info.si_code,
                                       .status = number,
                                       .gone = command.gone};
    (void)send(OWNER, &report, sizeof report,
               MSG_NOSIGNAL); /* a dead owner is seen by the next wait */
}

/* Enters the cgroup of the owner, if there is one: what the children do there, they do as its
 * members. */
static void enter_group(void)
{
    (void)!write(1, "0", 1);
    (void)dup2(2, 1); /* /dev/null; the group is not for the command to write to */
}

/* Raises the soft limit of descriptors to the hard limit. The kernel compares the limit with all
 * descriptors of this user that were sent and not yet received: with a low limit, other processes
 * of the user could keep this one from sending any. */
static void raise_file_limit(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    command_files = files.rlim_cur;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

/* --- the child that becomes the command ---
 *
 * It has its own descriptors, but shares the memory of the init until it runs its program: copying
 * that memory would cost more than all the rest. Therefore it keeps to its own stack and to its own
 * request, and the init does not read errno while it has such a child. */

/* Reads exactly `len` bytes. Exits when the owner has closed the socket instead of sending. */
static void child_read(int fd, char *at, size_t len)
{
    while (len) {
        ssize_t got = read(fd, at, len);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            _exit(0);
        if (got > 0) {
            at += got;
            len -= (size_t)got;
        }
    }
}

/* Receives the head of the request and the descriptors that come with it. */
static void child_receive(int fd, struct berth_init_start *start, int fds[3])
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(3 * sizeof(int))];
    } control;
    struct iovec part = {start, sizeof *start};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t got;
    while ((got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL)) < 0 && errno == EINTR)
        ;
    if (got != sizeof *start)
        _exit(0); /* the owner does not need this child any more */
    int received[3] = {-1, -1, -1};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_type == SCM_RIGHTS)
        memcpy(received, CMSG_DATA(head), head->cmsg_len - CMSG_LEN(0));
    for (int i = 0, next = 0; i < 3; i++)
        fds[i] = start->given & 1U << i ? received[next++] : -1;
}

/* Makes the descriptors 0, 1 and 2. They are all above 2 before: 0 to 2 were never closed. */
static bool child_arrange(const int fds[3], const char *terminal)
{
    int all = *terminal ? open(terminal, O_RDWR | O_CLOEXEC) : -1;
    if (*terminal && all < 0)
        return false;
    for (int i = 0; i < 3; i++) {
        int fd = all >= 0 ? all : fds[i] >= 0 ? fds[i] : open("/dev/null", O_RDWR | O_CLOEXEC);
        if (fd < 0 || dup2(fd, i) < 0)
            return false;
    }
    return true;
}

/* Returns the text at *at, and moves *at behind it. */
static char *next_text(char **at, const char *end)
{
    char *text = *at;
    size_t len = text < end ? strnlen(text, (size_t)(end - text)) : 0;
    if (text + len >= end)
        _exit(0); /* not what our owner sends */
    *at = text + len + 1;
    return text;
}

/* Fills a list that ends with NULL. */
static char **next_texts(char **list, uint32_t count, char **at, const char *end)
{
    for (uint32_t i = 0; i < count; i++)
        list[i] = next_text(at, end);
    list[count] = NULL;
    return list;
}

/* Reads the rest of the request behind room for the two lists. The init unmaps it later. */
static bool child_read_request(int fd, const struct berth_init_start *start, char **text)
{
    size_t lists = ((size_t)start->argc + start->envc + 2) * sizeof(char *);
    void *request = mmap(NULL, lists + start->bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (request == MAP_FAILED)
        return false;
    command.request_size = lists + start->bytes;
    command.request = request;
    *text = (char *)request + lists;
    child_read(fd, *text, start->bytes);
    return true;
}

/* Gives the command the limit that this process was started with. An earlier command may have set
 * the hard limit. */
static bool child_restore_limit(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return false;
    files.rlim_cur = command_files < files.rlim_max ? command_files : files.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &files) == 0;
}

/* Takes signals away that came before the program runs: they are not meant for it. */
static void drop_signals(void)
{
    const struct timespec now = {0};
    sigset_t all;
    (void)sigfillset(&all);
    while (sigtimedwait(&all, NULL, &now) > 0)
        ;
}

/* Waits for a request and runs the program. The socket closes by itself when that succeeds. */
static int child_main(void *unused)
{
    (void)unused;
    struct berth_init_start start;
    char *at;
    int fds[3], fd = command.ends[1];
    sigset_t none;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)dup2(null, OWNER); /* when the init dies, its owner must see the socket close */
    (void)close(null);
    (void)close(command.ends[0]);
    (void)setsid();
    child_receive(fd, &start, fds);
    if (child_read_request(fd, &start, &at)) {
        char **lists = command.request, *end = at + start.bytes;
        const char *file = next_text(&at, end), *cwd = next_text(&at, end);
        const char *terminal = next_text(&at, end);
        char **argv = next_texts(lists, start.argc, &at, end);
        char **env = next_texts(lists + start.argc + 1, start.envc, &at, end);
        drop_signals();
        (void)sigemptyset(&none);
        if (child_arrange(fds, terminal) && (!*cwd || chdir(cwd) == 0) && child_restore_limit() &&
            sigprocmask(SIG_SETMASK, &none, NULL) == 0)
            (void)execve(file, argv, env);
    }
    int32_t number = errno == EINTR ? EAGAIN : errno; /* EINTR is the init's, which shares it */
    (void)send(fd, &number, sizeof number, MSG_NOSIGNAL);
    _exit(127);
}

/* Sends READY with the owner's end of the socket to the new child. */
static bool report_ready(int fd)
{
    struct berth_init_report report = {.kind = BERTH_INIT_READY, .pid = command.pid};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.align = {.cmsg_level = SOL_SOCKET,
                           .cmsg_type = SCM_RIGHTS,
                           .cmsg_len = CMSG_LEN(sizeof(int))}};
    memcpy(CMSG_DATA(&control.align), &fd, sizeof fd);
    struct iovec part = {&report, sizeof report};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    return sendmsg(OWNER, &message, MSG_NOSIGNAL) == sizeof report;
}

/* Makes a child that waits for a program. The one before is gone. */
static bool make_child(void)
{
    static _Alignas(16) char stack[STACK_BYTES];
    if (command.request)
        (void)munmap(command.request, command.request_size);
    memset(&command, 0, sizeof command);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, command.ends) < 0)
        return false;
    command.pid = clone(child_main, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
    bool ready = command.pid > 0 && report_ready(command.ends[0]);
    int number = errno;
    (void)close(command.ends[0]);
    (void)close(command.ends[1]);
    errno = number;
    return ready;
}

/* --- the tree --- */

/* Collects the children that have ended. Reports the end of the command, and that it is gone. */
static void reap_children(void)
{
    siginfo_t info = {0};
    bool exited = false, left;
    while ((left = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | __WALL) == 0) && info.si_pid) {
        if (info.si_pid == command.pid && !command.exited) {
            exited = true;
            command.info = info;
        }
        info.si_pid = 0;
    }
    command.exited |= exited;
    bool gone = command.exited && !left && !command.gone;
    command.gone |= gone;
    if (exited)
        init_report(BERTH_INIT_EXITED, command.info.si_status);
    else if (gone)
        init_report(BERTH_INIT_GONE, 0);
}

/* Kills the direct children. What they leave becomes ours and has its turn later. */
static void kill_children(void)
{
    char text[4096];
    pid_t pid = 0;
    (void)lseek(children_fd, 0, SEEK_SET);
    for (ssize_t got; (got = read(children_fd, text, sizeof text)) > 0;)
        for (ssize_t i = 0; i < got; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (text[i] - '0');
            } else {
                if (pid > 0)
                    (void)kill(pid, SIGKILL); /* not reaped yet: the number is still its own */
                pid = 0;
            }
        }
}

/* Kills until no child is left. A child that cannot be killed is waited for. Nothing is reaped
 * between a kill and the wait: a process that becomes ours after the list was read has a killed
 * ancestor, whose end wakes the wait, so that the list is read again. */
static void clear_tree(void)
{
    siginfo_t info;
    kill_children();
    while (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT | __WALL) == 0) {
        reap_children();
        kill_children();
    }
    reap_children();
}

static void signal_command(int number)
{
    if (!command.exited && kill(-command.pid, number) < 0)
        (void)kill(command.pid, number);
}

/* --- orders --- */

static void on_child_signal(int number)
{
    (void)number; /* it only interrupts the wait */
}

static void obey(const struct berth_init_order *order)
{
    if (order->pid != command.pid)
        return;
    if (order->kind == BERTH_INIT_SIGNAL)
        signal_command(order->number);
    else if (order->kind == BERTH_INIT_CLEAR)
        clear_tree();
}

/* Waits for an order or the end of a child. Returns false when the owner is gone. Not by poll,
 * which fails when the command has set the limit of descriptors of this process to 0. */
static bool serve_once(const sigset_t *waiting)
{
    fd_set owner;
    struct berth_init_order order;
    FD_ZERO(&owner);
    FD_SET(OWNER, &owner);
    if (pselect(OWNER + 1, &owner, NULL, NULL, NULL, waiting) > 0) {
        ssize_t got = recv(OWNER, &order, sizeof order, MSG_DONTWAIT);
        if (got == sizeof order)
            obey(&order);
        else if (got >= 0)
            return false;
    }
    reap_children();
    return true;
}

static bool prepare(sigset_t *waiting)
{
    struct sigaction action = {.sa_handler = on_child_signal};
    sigset_t all;
    children_fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    if (children_fd < 0) /* a kernel may be built without it */
        return false;
    (void)sigfillset(&all);
    (void)sigfillset(waiting);
    (void)sigdelset(waiting, SIGCHLD);
    return sigprocmask(SIG_SETMASK, &all, NULL) == 0 && sigaction(SIGCHLD, &action, NULL) == 0 &&
           prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 && prctl(PR_SET_NAME, BERTH_INIT_NAME) == 0 &&
           /* When the command has stopped this process, the end of the owner continues it. */
           prctl(PR_SET_PDEATHSIG, SIGCONT) == 0 &&
           prctl(PR_SET_DUMPABLE, 0) == 0; /* its child holds variables of the command */
}

int main(void)
{
    sigset_t waiting;
    enter_group();
    raise_file_limit();
    bool works = prepare(&waiting) && make_child();
    while (works && serve_once(&waiting))
        if (command.gone) {
            (void)sched_yield(); /* the owner may wait for this processor, to read the report */
            works = make_child();
        }
    if (!works)
        init_report(BERTH_INIT_FAILED, errno);
    clear_tree();
    return 0;
}
