/* SPDX-License-Identifier: Apache-2.0
 * src/os/cage.c - see cage.h. */
#include "os/cage.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/time.h"
#include "os/children.h"
#include "os/fs.h"
#include "os/landlock.h"
#include "os/reaper_image.h"
#include "os/spawn_child.h"

#define KILLED_MS 1000 /* for a killed child to end */
#define REAPER_NAME "berth-cage"
#define FAILURE_FD 3 /* in the child; where reaper.c expects it */
#define IMAGE_FD 4
#define ARGUMENTS_MAX 64
#define BY_SIGNAL 128 /* as in reaper.c */

/* Who we are, for the child: in a new user namespace it cannot ask. */
struct cage_owner {
    uid_t uid;
    gid_t gid;
    bool root;
};

static struct cage_owner cage_owner(void)
{
    return (struct cage_owner){.uid = geteuid(), .gid = getegid(), .root = geteuid() == 0};
}

#ifdef __SANITIZE_THREAD__ /* it takes what the child does for a thread of ours */
void __tsan_ignore_thread_begin(void);
#endif

/* Returns as fork(2) does. */
static pid_t fork_into(uint64_t namespaces)
{
    struct clone_args args = {.flags = namespaces,
                              .exit_signal = namespaces & CLONE_PARENT ? 0 : SIGCHLD};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
#ifdef __SANITIZE_THREAD__
    if (pid == 0)
        __tsan_ignore_thread_begin();
#endif
    return pid;
}

/* Lowers a limit of this process by a quarter or by `reserve`. An unlimited resource stays so. */
static bool lower_limit(__rlimit_resource_t resource, rlim_t reserve)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) < 0)
        return false;
    if (limit.rlim_cur == RLIM_INFINITY)
        return true;
    limit.rlim_cur -= limit.rlim_cur / 4 < reserve ? limit.rlim_cur / 4 : reserve;
    return setrlimit(resource, &limit) == 0;
}

/* Forks into namespaces with a user namespace, by a child in between. Whatever all cages have
 * together counts for our user, and the kernel compares that with the limits of the process that
 * makes a user namespace: those of the child in between are lower than ours, so that cages leave
 * something to us, however many there are. */
static pid_t fork_with_reserve(uint64_t namespaces)
{
    struct {
        pid_t pid;
        int number;
    } made = {-1, EAGAIN};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    pid_t between = fork_into(0);
    if (between == 0) {
        if (lower_limit(RLIMIT_NPROC, BERTH_PROCESSES_RESERVED) &&
            lower_limit(RLIMIT_SIGPENDING, BERTH_SIGNALS_RESERVED))
            made.pid = fork_into(namespaces | CLONE_PARENT);
        if (made.pid == 0)
            return 0;
        made.number = errno;
        (void)!write(ends[1], &made, sizeof made);
        (void)syscall(SYS_exit_group, 0); /* a sanitizer would do more */
    }
    if (between < 0)
        made.number = errno;
    (void)close(ends[1]);
    while (between > 0 && read(ends[0], &made, sizeof made) < 0 && errno == EINTR)
        ;
    while (between > 0 && waitpid(between, NULL, 0) < 0 && errno == EINTR)
        ;
    (void)close(ends[0]);
    errno = made.number;
    return made.pid;
}

/* Returns as fork(2) does. The child is the first process of its namespaces. */
static pid_t cage_fork(const struct cage_owner *owner, int *pidfd)
{
    const uint64_t namespaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC;
    pid_t pid = owner->root ? fork_into(namespaces) : fork_with_reserve(namespaces | CLONE_NEWUSER);
    if (pid <= 0)
        return pid;
    *pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* only we could reap it */
    if (*pidfd >= 0)
        return pid;
    int number = errno;
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    errno = number;
    return -1;
}

/* --- in the child --- */

static bool write_file(const char *path, const char *text)
{
    auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* Keeps our user and group in the new user namespace, and no others. */
static bool map_ids(const struct cage_owner *owner)
{
    char uids[64], gids[64];
    (void)snprintf(uids, sizeof uids, "%u %u 1", (unsigned)owner->uid, (unsigned)owner->uid);
    (void)snprintf(gids, sizeof gids, "%u %u 1", (unsigned)owner->gid, (unsigned)owner->gid);
    if (owner->root)
        return true;
    int before = prctl(PR_GET_DUMPABLE); /* without it the files belong to root */
    bool ok = prctl(PR_SET_DUMPABLE, 1) == 0 && write_file("/proc/self/setgroups", "deny") &&
              write_file("/proc/self/uid_map", uids) && write_file("/proc/self/gid_map", gids);
    int number = errno;
    (void)prctl(PR_SET_DUMPABLE, before == 1);
    errno = number;
    return ok;
}

/* Sets a limit to `most`, unless it is lower. */
static bool limit_resource(__rlimit_resource_t resource, rlim_t most)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) < 0)
        return false;
    limit.rlim_max = limit.rlim_cur < most ? limit.rlim_cur : most;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(resource, &limit) == 0;
}

/* Sets the limits of one cage. The kernel counts what is in a user namespace apart, and all of it
 * for our user, too: fork_with_reserve() has set the limit of that. */
static bool limit_cage(const struct cage_owner *owner)
{
    if (!owner->root) { /* not all kernels have them */
        (void)write_file("/proc/sys/user/max_inotify_instances", BERTH_CAGE_WATCHERS_MAX);
        (void)write_file("/proc/sys/user/max_inotify_watches", BERTH_CAGE_WATCHES_MAX);
    }
    return limit_resource(RLIMIT_NPROC, BERTH_CAGE_PROCESSES_MAX) &&
           limit_resource(RLIMIT_SIGPENDING, BERTH_CAGE_SIGNALS_MAX);
}

/* Restores the limit of descriptors, and leaves the program less than we have ourselves. The kernel
 * counts for a user what its processes send over Unix sockets until it is received, and lets no
 * process send when that is more than its own limit: ours must be the last to be reached. */
static bool limit_files(void)
{
    struct rlimit ours, limit;
    if (getrlimit(RLIMIT_NOFILE, &ours) < 0 || !berth_child_arrange_limits() ||
        getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return false;
    rlim_t most = ours.rlim_cur / 4;
    limit.rlim_max = most < BERTH_CAGE_FILES_MAX ? most : BERTH_CAGE_FILES_MAX;
    if (limit.rlim_cur > limit.rlim_max)
        limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/* Puts the two descriptors where they belong, and closes all others that were copied from us. */
static bool arrange_own_fds(int failure_fd, int image_fd)
{
    int failure = fcntl(failure_fd, F_DUPFD_CLOEXEC, IMAGE_FD + 1);
    int image = fcntl(image_fd, F_DUPFD_CLOEXEC, IMAGE_FD + 1);
    return failure >= 0 && image >= 0 && dup3(failure, FAILURE_FD, O_CLOEXEC) >= 0 &&
           dup3(image, IMAGE_FD, O_CLOEXEC) >= 0 &&
           syscall(SYS_close_range, IMAGE_FD + 1U, ~0U, 0) == 0;
}

/* Ties the child to the thread that started it. Our parent is outside of our pid namespace, so that
 * only the pipe can tell whether it has died before. */
static bool tie_to_owner(void)
{
    struct pollfd owner = {.fd = FAILURE_FD};
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || poll(&owner, 1, 0) < 0)
        return false;
    errno = ECHILD;
    return !(owner.revents & POLLERR);
}

/* Everything in the root may be read, and what is below these paths may be written. */
static bool confine_files(const char *const *writable)
{
    if (!berth_landlock_version())
        return true;
    auto_close int fd = berth_landlock_new();
    bool ok = fd >= 0 && berth_landlock_allow(fd, "/", false);
    for (; ok && *writable; writable++)
        ok = berth_landlock_allow(fd, *writable, true);
    return ok && berth_landlock_apply(fd);
}

/* Gives the pipes to the program's user, which otherwise cannot open /dev/stderr and the like. */
static void give_pipes(const struct berth_confinement *c)
{
    struct stat st;
    for (int i = 0; c->uid && i < 3; i++)
        if (fstat(i, &st) == 0 && S_ISFIFO(st.st_mode))
            (void)fchown(i, c->uid, (gid_t)c->uid);
}

static bool cage_step(bool ok, const char *what, struct berth_root_failure *f)
{
    if (ok)
        return true;
    f->number = errno;
    (void)snprintf(f->what, sizeof f->what, "%s", what);
    return false;
}

static bool enter_cage(const struct berth_spawn *what, const struct cage_owner *owner,
                       struct berth_root_failure *f)
{
    const struct berth_confinement *c = what->confinement;
    give_pipes(c);
    return cage_step(setsid() >= 0, "make a session", f) &&
           cage_step(map_ids(owner), "map the user into a user namespace", f) &&
           cage_step(limit_cage(owner), "limit resources", f) &&
           berth_root_enter(&c->cage->root, f) &&
           cage_step(!what->cwd || chdir(what->cwd) == 0, "enter the working directory", f) &&
           cage_step(berth_child_give_up_rights(c), "give up rights", f) &&
           cage_step(confine_files(c->cage->writable), "apply Landlock", f) &&
           cage_step(!c->dies_first || tie_to_owner(), "tie it to its owner", f) &&
           cage_step(limit_files(), "limit descriptors", f) &&
           cage_step(berth_child_arrange_signals(), "restore signals", f) &&
           cage_step(berth_child_filter(c->filter), "filter system calls", f);
}

_Noreturn static void cage_child(const struct berth_spawn *what, const char *const *argv,
                                 const struct cage_owner *owner, int failure_fd, int image_fd)
{
    struct berth_root_failure f = {0};
    if (cage_step(berth_child_arrange_fds(what->fds) && arrange_own_fds(failure_fd, image_fd),
                  "arrange descriptors", &f) &&
        enter_cage(what, owner, &f)) {
        (void)fcntl(FAILURE_FD, F_SETFD, 0);
        (void)syscall(SYS_execveat, IMAGE_FD, "", argv, what->env, AT_EMPTY_PATH);
        (void)cage_step(false, "run its first process", &f);
    }
    (void)!write(FAILURE_FD, &f, sizeof f);
    _exit(127);
}

/* --- in our process --- */

/* Returns a file with the program of the first process, which the caller closes; or -1. */
static int open_image(void)
{
    int fd = memfd_create(REAPER_NAME, MFD_CLOEXEC);
    struct berth_error err;
    if (fd >= 0 && berth_fs_write_all(fd, berth_reaper_image, berth_reaper_image_len, &err) < 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* Waits until the program runs or has failed to. Opening its file may take for ever, on a disk that
 * hangs or with a lease on the file, and the caller is the engine's thread. */
static int await_program(int fd, struct berth_root_failure *failure)
{
    struct pollfd news = {.fd = fd, .events = POLLIN};
    int64_t by_ms = berth_time_mono_ms() + BERTH_CAGE_START_MS;
    ssize_t got = 0;
    do {
        int64_t left_ms = by_ms - berth_time_mono_ms();
        int ready = poll(&news, 1, left_ms > 0 ? (int)left_ms : 0);
        if (ready == 0) {
            (void)snprintf(failure->what, sizeof failure->what, "run the program in time");
            return failure->number = ETIMEDOUT;
        }
        got = ready < 0 ? -1 : read(fd, failure, sizeof *failure);
    } while (got < 0 && errno == EINTR);
    if (got == 0)
        return 0;
    if (got != (ssize_t)sizeof *failure)
        return EIO;
    failure->what[sizeof failure->what - 1] = '\0';
    return failure->number ? failure->number : EIO;
}

static int cage_start(const struct berth_spawn *what, const char *const *argv, int image,
                      struct berth_child *out, struct berth_root_failure *failure)
{
    struct cage_owner owner = cage_owner();
    int ends[2], number;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return errno;
    out->pid = cage_fork(&owner, &out->pidfd);
    if (out->pid == 0)
        cage_child(what, argv, &owner, ends[1], image);
    number = out->pid < 0 ? errno : 0;
    if (number)
        (void)cage_step(false, "make namespaces", failure);
    (void)close(ends[1]);
    if (number == 0)
        number = await_program(ends[0], failure);
    (void)close(ends[0]);
    if (number && out->pid > 0) {
        struct pollfd ended = {.fd = out->pidfd, .events = POLLIN};
        (void)kill(out->pid, SIGKILL);    /* it may still try to run the program */
        (void)poll(&ended, 1, KILLED_MS); /* a disk that hangs may hold it longer */
        (void)close(out->pidfd);
    }
    return number;
}

int berth_cage_clone(const struct berth_spawn *what, const char *file, struct berth_child *out,
                     struct berth_root_failure *failure)
{
    const char *argv[ARGUMENTS_MAX] = {REAPER_NAME, file};
    size_t count = 0;
    while (what->argv[count] && count + 3 < ARGUMENTS_MAX) {
        argv[count + 2] = what->argv[count];
        count++;
    }
    if (what->argv[count])
        return E2BIG;
    auto_close int image = open_image();
    return image < 0 ? errno : cage_start(what, argv, image, out, failure);
}

int berth_cage_signal(int exit_code)
{
    return exit_code > BY_SIGNAL && exit_code - BY_SIGNAL < NSIG ? exit_code - BY_SIGNAL : 0;
}

/* --- whether it can be done --- */

struct ability {
    bool known;
    uid_t uid; /* of the user that tried */
    enum berth_root_ability is;
    int number; /* the errno, with BERTH_ROOT_NONE */
};

/* The child exits with the ability, or with 100 and an errno. */
static void try_cage(struct ability *out)
{
    struct cage_owner owner = cage_owner();
    int pidfd, status = 0;
    berth_children_begin_birth();
    pid_t pid = cage_fork(&owner, &pidfd);
    if (pid == 0) {
        enum berth_root_ability is = map_ids(&owner) ? berth_root_try() : BERTH_ROOT_NONE;
        int code = is == BERTH_ROOT_NONE ? 100 + (errno < 150 ? errno : EIO) : (int)is;
        (void)syscall(SYS_exit_group, code); /* a sanitizer would put in its own code */
    }
    *out = (struct ability){.known = true, .uid = owner.uid, .number = errno};
    berth_children_end_birth(pid > 0 ? pid : 0);
    if (pid < 0)
        return;
    (void)close(pidfd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    berth_children_forget(pid);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 100 + EIO;
    out->is = code < 100 ? (enum berth_root_ability)code : BERTH_ROOT_NONE;
    out->number = code < 100 ? 0 : code - 100;
}

int berth_cage_check(bool *own_proc, struct berth_error *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct ability known;
    pthread_mutex_lock(&lock);
    if (!known.known || known.uid != geteuid())
        try_cage(&known);
    struct ability ability = known;
    pthread_mutex_unlock(&lock);
    *own_proc = ability.is == BERTH_ROOT_COMPLETE;
    if (ability.is != BERTH_ROOT_NONE)
        return BERTH_OK;
    return berth_fail(err, BERTH_E_UNSUPPORTED, "this machine does not let us make %s: %s",
                      geteuid() == 0 ? "mount namespaces" : "user and mount namespaces",
                      strerror(ability.number));
}
