/* SPDX-License-Identifier: Apache-2.0
 * tests/fake/prisoner.c - a worker that tries to leave its cage. It reads what it looks for from
 * the file "plan" in its working directory, a "NAME VALUE" a line, and prints "ATTEMPT ok" or the
 * errno for each attempt. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/keyctl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 1100
#define WATCHERS 60
#define WATCHES 600
#define DESCRIPTORS_AT_ONCE 253 /* as many as the kernel takes */
#define DESCRIPTORS_IN_FLIGHT 8000

static char plan[8192];

/* Returns the value of a line of the plan; "" if there is none. */
static const char *want(const char *name)
{
    static char values[8][512];
    static int next;
    char *value = values[next++ % 8];
    size_t len = strlen(name);
    value[0] = '\0';
    for (const char *at = plan; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (strncmp(at, name, len) == 0 && at[len] == ' ')
            (void)snprintf(value, 512, "%.*s", (int)strcspn(at + len + 1, "\n"), at + len + 1);
    return value;
}

static pid_t victim(void)
{
    return (pid_t)atoi(want("victim"));
}

static const char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *text(const char *format, ...)
{
    static char out[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(out, sizeof out, format, args);
    va_end(args);
    return out;
}

/* --- helpers: true, or false with errno --- */

static bool opens(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

static struct sockaddr_un address(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    (void)snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    return to;
}

static bool connects(const struct sockaddr_un *to, size_t len)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && connect(fd, (const struct sockaddr *)to, (socklen_t)len) == 0;
    int number = errno;
    if (fd >= 0)
        (void)close(fd);
    errno = number;
    return ok;
}

/* Runs the attempt in a child, whose errno becomes ours. */
static bool forked(bool (*attempt)(void))
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(attempt() ? 0 : errno ? errno : EIO);
    int status = 0;
    (void)waitpid(pid, &status, 0);
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : ENOSYS;
    return errno == 0;
}

/* --- the attempts --- */

static bool socket_by_path(void)
{
    struct sockaddr_un to = address(want("socket"));
    return connects(&to, sizeof to);
}

static bool socket_by_abstract_name(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *name = want("abstract");
    memcpy(to.sun_path + 1, name, strlen(name));
    return connects(&to, offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

static bool socket_through_proc_root(void)
{
    struct sockaddr_un to = address(text("/proc/%d/root%s", (int)victim(), want("socket")));
    return connects(&to, sizeof to);
}

static bool datagram_of_a_pair(void)
{
    struct sockaddr_un to = address(want("datagrams"));
    int pair[2];
    return socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0 &&
           sendto(pair[0], "x", 1, 0, (const struct sockaddr *)&to, sizeof to) == 1;
}

static bool descriptor_through_proc(void)
{
    return opens(text("/proc/%d/fd/%s", (int)victim(), want("descriptor")), O_RDONLY);
}

static bool inherited_descriptor(void)
{
    struct stat st;
    return fstat(atoi(want("descriptor")), &st) == 0;
}

static bool key_by_path(void)
{
    return opens(want("key"), O_RDONLY);
}

static bool store_by_path(void)
{
    return opens(want("store"), O_RDWR);
}

static bool key_through_proc_root(void)
{
    return opens(text("/proc/%d/root%s", (int)victim(), want("key")), O_RDONLY);
}

static bool key_through_proc_cwd(void)
{
    return opens(text("/proc/%d/cwd/secrets.key", (int)victim()), O_RDONLY);
}

static bool key_by_symbolic_link(void)
{
    (void)unlink("link");
    return symlink(want("key"), "link") == 0 && opens("link", O_RDONLY);
}

static bool key_by_hard_link(void)
{
    (void)unlink("hard");
    return link(want("key"), "hard") == 0;
}

static bool key_by_handle(void)
{
    struct {
        struct file_handle head;
        unsigned char bytes[MAX_HANDLE_SZ];
    } h = {.head = {.handle_type = atoi(want("handle-type"))}};
    const char *hex = want("handle");
    unsigned byte;
    for (; sscanf(hex, "%2x", &byte) == 1; hex += 2)
        h.bytes[h.head.handle_bytes++] = (unsigned char)byte;
    int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return open_by_handle_at(here, &h.head, O_RDONLY | O_CLOEXEC) >= 0;
}

static bool state_of_another_read(void)
{
    return opens(want("other"), O_RDONLY);
}

static bool state_of_another_written(void)
{
    return opens(want("other"), O_WRONLY);
}

static bool home_listed(void)
{
    return opens(want("home"), O_RDONLY | O_DIRECTORY);
}

static bool package_written(void)
{
    return opens(text("%s/made", want("package")), O_WRONLY | O_CREAT);
}

static bool system_written(void)
{
    bool ok = opens("/usr/berth-test-made", O_WRONLY | O_CREAT);
    if (ok)
        (void)unlink("/usr/berth-test-made");
    return ok;
}

static bool environment_of_another(void)
{
    return opens(text("/proc/%d/environ", (int)victim()), O_RDONLY);
}

static bool ptrace_another(void)
{
    return ptrace(PTRACE_SEIZE, victim(), 0, 0) == 0;
}

static bool memory_of_another(void)
{
    char byte;
    struct iovec ours = {&byte, 1}, theirs = {(void *)(uintptr_t)16, 1};
    return process_vm_readv(victim(), &ours, 1, &theirs, 1, 0) == 1 || errno == EFAULT;
}

static bool signal_another(void)
{
    return kill(victim(), 0) == 0;
}

static bool io_uring(void)
{
    char params[120] = {0};
    return syscall(SYS_io_uring_setup, 1, params) >= 0;
}

static bool mount_here(void)
{
    return mkdir("mounted", 0700) == 0 && mount("x", "mounted", "tmpfs", 0, NULL) == 0 &&
           umount2("mounted", 2) == 0;
}

static bool mount_in_user_namespace(void)
{
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && mount("x", "/", "tmpfs", 0, NULL) == 0;
}

static bool clone_a_namespace(void)
{
    long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        _exit(0);
    return pid > 0 && waitpid((pid_t)pid, NULL, 0) == pid;
}

static bool change_root(void)
{
    return chroot(".") == 0;
}

static bool become_root_by_program(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)execl(want("setuid"), "setuid", "--euid", (char *)NULL);
        _exit(errno);
    }
    int status = 0;
    (void)waitpid(pid, &status, 0);
    errno = WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : EPERM;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool become_root(void)
{
    return setuid(0) == 0;
}

static bool make_a_device(void)
{
    (void)unlink("device");
    return mknod("device", S_IFCHR | 0600, makedev(1, 3)) == 0 && opens("device", O_RDWR);
}

static bool core_pattern(void)
{
    return opens("/proc/sys/kernel/core_pattern", O_WRONLY);
}

static bool type_into_terminal(void)
{
    return ioctl(0, TIOCSTI, "x") == 0 || errno == ENOTTY || errno == EIO;
}

static bool foreign_netlink(void)
{
    return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT) >= 0;
}

static bool keyring(void)
{
    return syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1) >= 0;
}

static bool module(void)
{
    return syscall(SYS_delete_module, "berth_no_such_module", O_NONBLOCK) == 0 || errno == ENOENT;
}

/* getpid() by the numbers of a 32-bit program. */
static bool foreign_architecture(void)
{
#ifdef __x86_64__
    long rc = 20;
    __asm__ volatile("int $0x80" : "+a"(rc) : : "memory", "r8", "r9", "r10", "r11");
    errno = rc < 0 ? (int)-rc : 0;
    return rc > 0;
#else
    errno = ENOSYS;
    return false;
#endif
}

/* Programs that open a leased file wait for up to 45 s. */
static bool lease_a_file(void)
{
    int fd = open("leased", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && fcntl(fd, F_SETLEASE, F_WRLCK) == 0;
    int number = errno;
    (void)close(fd);
    (void)unlink("leased");
    errno = number;
    return ok;
}

static bool watch_a_directory(void)
{
    int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && signal(SIGIO, SIG_IGN) != SIG_ERR && fcntl(fd, F_NOTIFY, DN_CREATE) == 0;
    int number = errno;
    (void)close(fd);
    errno = number;
    return ok;
}

/* In a cage the first process is a program of berth, with the worker's user. */
static bool first_process(void)
{
    char byte;
    int fd = open("/proc/1/environ", O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && read(fd, &byte, 1) >= 0;
    int number = errno;
    (void)close(fd);
    errno = number;
    return ok;
}

/* Empty files in memory cost memory, too. */
static bool files_without_limit(void)
{
    struct statvfs st;
    if (statvfs("/tmp", &st) < 0)
        return false;
    errno = EDQUOT;
    return st.f_files == 0 || st.f_files > 1000000;
}

/* Takes processes from all others of its user. */
static bool processes_without_limit(void)
{
    int count = 0;
    pid_t group = 0, pid;
    for (; count < PROCESSES; count++) {
        pid = fork();
        if (pid == 0) {
            (void)setpgid(0, group);
            for (;;)
                (void)pause();
        }
        if (pid < 0)
            break;
        group = group ? group : pid;
        (void)setpgid(pid, group);
    }
    int number = errno;
    if (group)
        (void)kill(-group, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    errno = number;
    return count == PROCESSES;
}

/* The kernel counts them for each user. */
static bool watchers_without_limit(void)
{
    int fds[WATCHERS], count = 0;
    while (count < WATCHERS && (fds[count] = inotify_init1(IN_CLOEXEC)) >= 0)
        count++;
    int number = errno;
    for (int i = 0; i < count; i++)
        (void)close(fds[i]);
    errno = number;
    return count == WATCHERS;
}

/* The kernel counts what was sent and not received for each user. */
static bool descriptors_in_flight(void)
{
    int ends[2], count = 0;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(DESCRIPTORS_AT_ONCE * sizeof(int))];
    } control = {.align = {.cmsg_level = SOL_SOCKET,
                           .cmsg_type = SCM_RIGHTS,
                           .cmsg_len = CMSG_LEN(DESCRIPTORS_AT_ONCE * sizeof(int))}};
    memset(CMSG_DATA(&control.align), 0, DESCRIPTORS_AT_ONCE * sizeof(int));
    char byte = 'x';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return false;
    while (count < DESCRIPTORS_IN_FLIGHT && sendmsg(ends[0], &message, MSG_DONTWAIT) == 1)
        count += DESCRIPTORS_AT_ONCE;
    int number = errno;
    (void)close(ends[0]);
    (void)close(ends[1]);
    errno = number;
    return count >= DESCRIPTORS_IN_FLIGHT;
}

static int watching, watch_count;

static int watch_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    if (inotify_add_watch(watching, path, IN_DELETE_SELF) < 0)
        return errno == ENOSPC;
    return ++watch_count == WATCHES;
}

/* The kernel counts them for each user, too. */
static bool watches_without_limit(void)
{
    watching = inotify_init1(IN_CLOEXEC);
    if (watching < 0)
        return false;
    (void)nftw("/usr", watch_one, 16, FTW_PHYS);
    int number = errno;
    (void)close(watching);
    errno = number;
    return watch_count == WATCHES;
}

static bool fanotify(void)
{
    int fd = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID | FAN_CLOEXEC, O_RDONLY);
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

/* The kernel counts them for the machine. */
static bool aio_context(void)
{
    unsigned long context = 0;
    return syscall(SYS_io_setup, 1, &context) == 0 && syscall(SYS_io_destroy, context) == 0;
}

static const struct {
    const char *name;
    bool (*attempt)(void);
    bool apart; /* it is made in a child */
} attempts[] = {
    {"socket-by-path", socket_by_path},
    {"socket-by-abstract-name", socket_by_abstract_name},
    {"socket-through-proc-root", socket_through_proc_root},
    {"datagram-of-a-pair", datagram_of_a_pair},
    {"descriptor-through-proc", descriptor_through_proc},
    {"inherited-descriptor", inherited_descriptor},
    {"key-by-path", key_by_path},
    {"store-by-path", store_by_path},
    {"key-through-proc-root", key_through_proc_root},
    {"key-through-proc-cwd", key_through_proc_cwd},
    {"key-by-symbolic-link", key_by_symbolic_link},
    {"key-by-hard-link", key_by_hard_link},
    {"key-by-handle", key_by_handle},
    {"state-of-another-read", state_of_another_read},
    {"state-of-another-written", state_of_another_written},
    {"home-listed", home_listed},
    {"package-written", package_written},
    {"system-written", system_written},
    {"environment-of-another", environment_of_another},
    {"ptrace-another", ptrace_another, true},
    {"memory-of-another", memory_of_another},
    {"signal-another", signal_another},
    {"io-uring", io_uring},
    {"mount", mount_here, true},
    {"mount-in-user-namespace", mount_in_user_namespace, true},
    {"clone-a-namespace", clone_a_namespace},
    {"change-root", change_root, true},
    {"become-root-by-program", become_root_by_program},
    {"become-root", become_root, true},
    {"make-a-device", make_a_device},
    {"core-pattern", core_pattern},
    {"type-into-terminal", type_into_terminal},
    {"foreign-netlink", foreign_netlink},
    {"keyring", keyring},
    {"module", module},
    {"foreign-architecture", foreign_architecture, true},
    {"lease-a-file", lease_a_file},
    {"watch-a-directory", watch_a_directory},
    {"first-process", first_process},
    {"files-without-limit", files_without_limit},
    {"processes-without-limit", processes_without_limit, true},
    {"watchers-without-limit", watchers_without_limit},
    {"watches-without-limit", watches_without_limit},
    {"fanotify", fanotify},
    {"descriptors-in-flight", descriptors_in_flight},
    {"aio-context", aio_context},
};

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--euid") == 0)
        return geteuid() == 0 ? 0 : EPERM;
    int fd = open("plan", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, plan, sizeof plan - 1) < 0)
        return 1;
    (void)close(fd);
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++) {
        errno = 0;
        bool ok = attempts[i].apart ? forked(attempts[i].attempt) : attempts[i].attempt();
        (void)printf("%s %s\n", attempts[i].name, ok ? "ok" : strerrorname_np(errno));
        (void)fflush(stdout);
    }
    return 0;
}
