/* SPDX-License-Identifier: Apache-2.0
 * src/os/spawn.c - see spawn.h. */
#include "os/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/cage.h"
#include "os/children.h"
#include "os/spawn_child.h"

const char *berth_env_get(const char *const *env, const char *name)
{
    size_t len = strlen(name);
    for (; *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

int berth_spawn_fail(struct berth_error *err, int number, const char *name)
{
    switch (number) {
    case ENOENT:
        return berth_fail(err, BERTH_E_NOT_FOUND, "There is no program \"%s\".", name);
    case EACCES:
    case EPERM:
    case ENOEXEC:
    case EISDIR:
    case ELOOP:
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
        return *name ? BERTH_OK : berth_spawn_fail(err, ENOENT, name);
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
    return berth_spawn_fail(err, denied ? EACCES : ENOENT, name);
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
    if (faccessat(AT_FDCWD, cwd, X_OK, AT_EACCESS) < 0)
        return berth_fail(err, BERTH_E_UNPROCESSABLE, "Working directory cannot be entered: \"%s\"",
                          cwd);
    return BERTH_OK;
}

static struct {
    bool raised;
    struct rlimit before;
} files;

void berth_spawn_raise_file_limit(void)
{
    if (getrlimit(RLIMIT_NOFILE, &files.before) < 0)
        return;
    struct rlimit all = {files.before.rlim_max, files.before.rlim_max};
    files.raised = files.before.rlim_cur < all.rlim_cur && setrlimit(RLIMIT_NOFILE, &all) == 0;
}

/* As the kernel has it. */
struct kernel_action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
};

/* Those that a program would inherit; all, as long as nobody has said that it is these. */
static uint64_t ignored = UINT64_MAX;

void berth_spawn_note_signals(void)
{
    struct kernel_action now;
    ignored = 0;
    for (int i = 1; i < NSIG; i++) /* the library hides two that posix_spawn() leaves ignored */
        if (syscall(SYS_rt_sigaction, i, NULL, &now, sizeof now.mask) == 0 &&
            now.handler == SIG_IGN)
            ignored |= UINT64_C(1) << (i - 1);
}

/* --- the child --- */

#ifdef __SANITIZE_THREAD__ /* it takes clone for a fork, although nothing is copied */
int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);
#define clone __clone
#endif
#define CHILD_STACK_BYTES (16 * 1024)
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
UNSANITIZED bool berth_child_give_up_rights(const struct berth_confinement *c)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}, {0}};
    if (c->uid && (syscall(SYS_setgroups, c->group_count, c->groups) < 0 ||
                   syscall(SYS_setresgid, c->uid, c->uid, c->uid) < 0 ||
                   syscall(SYS_setresuid, c->uid, c->uid, c->uid) < 0))
        return false;
    if (c->powerless && (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
                         syscall(SYS_capset, &header, none) < 0))
        return false;
    return c->ruleset_fd < 0 || syscall(SYS_landlock_restrict_self, c->ruleset_fd, 0) == 0;
}

UNSANITIZED bool berth_child_filter(const struct sock_fprog *filter)
{
    return !filter || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, filter) == 0;
}

/* It is killed with its parent. False: that cannot be, or the parent is gone already. */
UNSANITIZED static bool tie_to_parent(const struct birth *birth)
{
    return syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 &&
           syscall(SYS_getppid) == birth->parent;
}

/* What becomes 0, 1 and 2; of those that are among them copies first. */
UNSANITIZED bool berth_child_arrange_fds(const int given[3])
{
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = given[i] >= 0 && given[i] < 3
                     ? (int)syscall(SYS_fcntl, given[i], F_DUPFD_CLOEXEC, 3)
                     : given[i];
        if (fds[i] < 0 && given[i] >= 0)
            return false;
    }
    for (int i = 0; i < 3; i++) {
        int fd = fds[i] >= 0 ? fds[i] : (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
        if (fd < 0 || (fd != i && syscall(SYS_dup3, fd, i, 0) < 0))
            return false;
    }
    return true;
}

/* The first terminal that a session opens is its own. */
UNSANITIZED static bool arrange_terminal(const char *terminal)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, terminal, O_RDWR);
    for (int i = 0; i < 3; i++)
        if (fd < 0 || (fd != i && syscall(SYS_dup3, fd, i, 0) < 0))
            return false;
    return true;
}

/* What is ignored would stay so in the program; what may be handled would be so in our memory. */
UNSANITIZED bool berth_child_arrange_signals(void)
{
    const struct kernel_action fresh = {0};
    const unsigned long none = 0;
    for (int i = 1; i < NSIG; i++)
        if (ignored & UINT64_C(1) << (i - 1))
            (void)syscall(SYS_rt_sigaction, i, &fresh, NULL, sizeof none);
    return syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof none) == 0;
}

UNSANITIZED bool berth_child_arrange_limits(void)
{
    return !files.raised || syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &files.before, NULL) == 0;
}

/* False after a failure, which errno tells. Nothing but system calls, and by their numbers: what
 * the library, or a sanitizer in its place, notes down beside them would be its parent's. */
UNSANITIZED static bool arrange_child(const struct birth *birth)
{
    const struct berth_spawn *what = birth->what;
    const struct berth_confinement *c = what->confinement;
    if (syscall(SYS_setsid) < 0 ||
        !(what->terminal ? arrange_terminal(what->terminal) : berth_child_arrange_fds(what->fds)) ||
        (what->cwd && syscall(SYS_chdir, what->cwd) < 0) || (c && !berth_child_give_up_rights(c)))
        return false;
    if (c && c->dies_first && !tie_to_parent(birth)) /* a change of user would take it back */
        return false;
    return berth_child_arrange_limits() &&
           syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) == 0 &&
           berth_child_arrange_signals() && (!c || berth_child_filter(c->filter));
}

UNSANITIZED static int child_main(void *ctx)
{
    struct birth *birth = ctx;
    const struct berth_spawn *what = birth->what;
    if (arrange_child(birth)) {
        if (what->program_fd)
            (void)syscall(SYS_execveat, what->program_fd, "", what->argv, what->env, AT_EMPTY_PATH);
        else
            (void)syscall(SYS_execve, birth->file, what->argv, what->env);
    }
    birth->number = errno ? errno : ECHILD;
    (void)syscall(SYS_exit, 127);
    return 127;
}

/* Returns 0 or an errno. CLONE_VFORK: this thread sleeps until the child execs or exits, so the
 * child may use our stack. */
static int clone_child(const struct berth_spawn *what, const char *file, struct berth_child *child)
{
    _Alignas(16) char stack[CHILD_STACK_BYTES];
    struct birth birth = {.what = what, .file = file, .parent = getpid()};
    child->pid = clone(child_main, stack + sizeof stack,
                       CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &birth, &child->pidfd);
    int number = child->pid < 0 ? errno : birth.number;
    if (number && child->pid > 0) {
        (void)waitpid(child->pid, NULL, 0);
        (void)close(child->pidfd);
        child->pid = -1;
    }
    return number;
}

/* Returns 0 or an errno. When a cage could not be built, failure->what says what failed. */
static int spawn_child(const struct berth_spawn *what, const char *file, struct berth_child *out,
                       struct berth_root_failure *failure)
{
    const struct berth_cage *cage = what->confinement ? what->confinement->cage : NULL;
    struct berth_child child = {.pid = -1};
    sigset_t all, before;
    (void)sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* no handler of ours runs in the child */
    berth_children_begin_birth();
    int number =
        cage ? berth_cage_clone(what, file, &child, failure) : clone_child(what, file, &child);
    if (number == 0)
        *out = child;
    berth_children_end_birth(child.pid > 0 ? child.pid : 0);
    if (number && child.pid > 0)
        berth_children_abandon(child.pid);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return number;
}

int berth_spawn_prepare(const struct berth_spawn *what, char *file, struct berth_error *err)
{
    const char *path = berth_env_get(what->env, "PATH");
    int rc = what->cwd ? check_cwd(what->cwd, err) : BERTH_OK;
    if (rc < 0 || what->program_fd)
        return rc;
    return berth_spawn_find(what->argv[0], path ? path : "", file, PATH_MAX, err);
}

int berth_spawn(const struct berth_spawn *what, struct berth_child *out, struct berth_error *err)
{
    char file[PATH_MAX];
    int rc = berth_spawn_prepare(what, file, err);
    if (rc < 0)
        return rc;
    struct berth_root_failure failure = {0};
    int number = spawn_child(what, file, out, &failure);
    if (failure.what[0])
        return berth_fail(err, BERTH_E_UNAVAILABLE, "\"%s\" could not be confined: %s: %s.",
                          what->argv[0], failure.what, strerror(number));
    return number ? berth_spawn_fail(err, number, what->argv[0]) : BERTH_OK;
}
