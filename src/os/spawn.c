/* SPDX-License-Identifier: Apache-2.0
 * src/os/spawn.c - see spawn.h. */
#include "os/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

const char *berth_env_get(const char *const *env, const char *name)
{
    size_t len = strlen(name);
    for (; *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

static int fail_start(struct berth_error *err, int number, const char *name)
{
    switch (number) {
    case ENOENT:
        return berth_fail(err, BERTH_E_NOT_FOUND, "There is no program \"%s\".", name);
    case EACCES:
    case EPERM:
    case ENOEXEC:
    case EISDIR:
        return berth_fail(err, BERTH_E_DENIED, "\"%s\" cannot be run: %s.", name, strerror(number));
    case ENOTDIR:
        return berth_fail(err, BERTH_E_NOT_FOUND, "There is no program \"%s\".", name);
    default:
        errno = number;
        return berth_fail(err, BERTH_E_UNAVAILABLE, "\"%s\" could not be started: %s.", name,
                          strerror(number));
    }
}

int berth_spawn_find(const char *name, const char *path, char *out, size_t size,
                     struct berth_error *err)
{
    if (strchr(name, '/') || !*name) {
        (void)snprintf(out, size, "%s", name);
        return *name ? BERTH_OK : fail_start(err, ENOENT, name);
    }
    bool denied = false;
    for (const char *at = path; *at;) {
        size_t len = strcspn(at, ":");
        struct stat st;
        int wrote = snprintf(out, size, "%.*s/%s", (int)len, len ? at : ".", name);
        if (wrote > 0 && (size_t)wrote < size && stat(out, &st) == 0 && S_ISREG(st.st_mode)) {
            if (access(out, X_OK) == 0)
                return BERTH_OK;
            denied = true;
        }
        at += len + (at[len] == ':');
    }
    return fail_start(err, denied ? EACCES : ENOENT, name);
}

static int check_cwd(const char *cwd, struct berth_error *err)
{
    struct stat st;
    if (stat(cwd, &st) < 0)
        return berth_fail(err, BERTH_E_UNPROCESSABLE, "Working directory does not exist: \"%s\"",
                          cwd);
    if (!S_ISDIR(st.st_mode))
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "Working directory is not a directory: \"%s\"", cwd);
    return BERTH_OK;
}

/* What the child does between being made and running the program; an errno. */
static int set_actions(const struct berth_spawn *what, posix_spawn_file_actions_t *actions)
{
    int rc = 0;
    for (int i = 0; i < 3 && rc == 0; i++) {
        if (what->terminal && i == 0) /* the first terminal that a session opens is its own */
            rc = posix_spawn_file_actions_addopen(actions, 0, what->terminal, O_RDWR, 0);
        else if (what->terminal)
            rc = posix_spawn_file_actions_adddup2(actions, 0, i);
        else if (what->fds[i] < 0)
            rc = posix_spawn_file_actions_addopen(actions, i, "/dev/null",
                                                  i == 0 ? O_RDONLY : O_WRONLY, 0);
        else
            rc = posix_spawn_file_actions_adddup2(actions, what->fds[i], i);
    }
    if (rc == 0)
        rc = posix_spawn_file_actions_addclosefrom_np(actions, 3);
    if (rc == 0 && what->cwd)
        rc = posix_spawn_file_actions_addchdir_np(actions, what->cwd);
    return rc;
}

static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    int rc = posix_spawnattr_setsigmask(attributes, &none);
    if (rc == 0)
        rc = posix_spawnattr_setsigdefault(attributes, &all);
    if (rc == 0)
        rc = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                      POSIX_SPAWN_SETSIGDEF);
    return rc;
}

static int start(const struct berth_spawn *what, const char *file, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return ENOMEM;
    int rc = posix_spawnattr_init(&attributes);
    if (rc == 0) {
        rc = set_actions(what, &actions);
        if (rc == 0)
            rc = set_attributes(&attributes);
        if (rc == 0)
            rc = posix_spawn(pid, file, &actions, &attributes, (char *const *)(uintptr_t)what->argv,
                             (char *const *)(uintptr_t)what->env);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return rc;
}

/* --- those that are confined --- */

#ifdef __SANITIZE_THREAD__ /* it takes clone for a fork, although nothing is copied */
int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);
#define clone __clone
#endif
#define CHILD_STACK_BYTES (64 * 1024)
#define UNSANITIZED __attribute__((no_sanitize("address", "thread", "undefined")))

/* The child shares our memory until it runs its program, and only makes system calls. */
struct birth {
    const struct berth_spawn *what;
    const char *file;
    pid_t parent;
    int number; /* why it failed, or 0 */
};

/* By the system call itself: the library's functions speak for all threads of a process, which
 * here are its parent's. */
UNSANITIZED static bool give_up_rights(const struct berth_confinement *c)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}, {0}};
    if (c->uid && (syscall(SYS_setgroups, 0, NULL) < 0 ||
                   syscall(SYS_setresgid, c->uid, c->uid, c->uid) < 0 ||
                   syscall(SYS_setresuid, c->uid, c->uid, c->uid) < 0))
        return false;
    if (c->powerless && (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
                         syscall(SYS_capset, &header, none) < 0))
        return false;
    return c->ruleset_fd < 0 || syscall(SYS_landlock_restrict_self, c->ruleset_fd, 0) == 0;
}

/* As the kernel has it. */
struct kernel_action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
};

/* What becomes 0, 1 and 2, first above all of them. */
UNSANITIZED static bool arrange_fds(const int given[3])
{
    int fds[3];
    for (int i = 0; i < 3; i++) {
        int fd = given[i] >= 0
                     ? given[i]
                     : (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);
        fds[i] = fd < 0 ? -1 : (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 3);
        if (fds[i] < 0)
            return false;
    }
    for (int i = 0; i < 3; i++)
        if (syscall(SYS_dup3, fds[i], i, 0) < 0)
            return false;
    return true;
}

/* False after a failure, which errno tells. Nothing but system calls, and by their numbers: what
 * the library, or a sanitizer in its place, notes down beside them would be its parent's. */
UNSANITIZED static bool arrange_child(const struct birth *birth)
{
    const struct berth_spawn *what = birth->what;
    const struct kernel_action fresh = {0};
    const unsigned long none = 0;
    if (!arrange_fds(what->fds))
        return false;
    for (int i = 1; i < NSIG; i++)
        (void)syscall(SYS_rt_sigaction, i, &fresh, NULL, sizeof none);
    if (syscall(SYS_setsid) < 0 || (what->cwd && syscall(SYS_chdir, what->cwd) < 0) ||
        !give_up_rights(what->confinement))
        return false;
    /* After the change of user, which would take it back. */
    if (what->confinement->dies_first &&
        (syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ||
         syscall(SYS_getppid) != birth->parent))
        return false;
    return syscall(SYS_close_range, 3U, ~0U, 0) == 0 &&
           syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof none) == 0;
}

UNSANITIZED static int child_main(void *ctx)
{
    struct birth *birth = ctx;
    if (arrange_child(birth))
        (void)syscall(SYS_execve, birth->file, birth->what->argv, birth->what->env);
    birth->number = errno ? errno : ECHILD;
    (void)syscall(SYS_exit, 127);
    return 127;
}

static int start_confined(const struct berth_spawn *what, const char *file, pid_t *pid)
{
    struct birth birth = {.what = what, .file = file, .parent = getpid()};
    char *stack = mmap(NULL, CHILD_STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        return ENOMEM;
    sigset_t all, before;
    (void)sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* no handler of ours runs in the child */
    *pid = clone(child_main, stack + CHILD_STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, &birth);
    int number = *pid < 0 ? errno : birth.number;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)munmap(stack, CHILD_STACK_BYTES);
    if (*pid > 0 && number)
        (void)waitpid(*pid, NULL, 0);
    return number;
}

int berth_spawn(const struct berth_spawn *what, struct berth_child *out, struct berth_error *err)
{
    char file[PATH_MAX];
    const char *path = berth_env_get(what->env, "PATH");
    int rc = what->cwd ? check_cwd(what->cwd, err) : BERTH_OK;
    if (rc == BERTH_OK)
        rc = berth_spawn_find(what->argv[0], path ? path : "", file, sizeof file, err);
    if (rc < 0)
        return rc;
    pid_t pid;
    int number = what->confinement ? start_confined(what, file, &pid) : start(what, file, &pid);
    if (number != 0)
        return fail_start(err, number, what->argv[0]);
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0 && errno == ESRCH)
        return berth_fail(err, BERTH_E_INTERNAL,
                          "\"%s\" has ended unwatched: this process ignores SIGCHLD.",
                          what->argv[0]);
    if (pidfd < 0) {
        number = errno; /* a child that nobody could watch must not live */
        (void)kill(-pid, SIGKILL);
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        return fail_start(err, number, what->argv[0]);
    }
    *out = (struct berth_child){.pid = pid, .pidfd = pidfd};
    return BERTH_OK;
}
