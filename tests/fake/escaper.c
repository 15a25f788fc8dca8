/* SPDX-License-Identifier: Apache-2.0
 * tests/fake/escaper.c - a command that tries to leave a process behind.
 * escaper VARIANT MARK exit|stay - makes processes that have MARK in their command line, prints
 * "ready", and exits or stays. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534
/* On a busy machine all of these may be waiting to be reaped at once, and a machine may have 32,768
 * process numbers for several tests. */
#define BOMB_PROCESSES 50
#define BOMB_GENERATIONS 40
#define DEPTH 200
#define VFORKS 20

static const char *self;
static char *mark;

/* Becomes a process without our variables, which sleeps under the mark. */
static void be_marked(void)
{
    char name[] = "sleep", *argv[] = {name, mark, NULL}, *env[] = {NULL};
    (void)execve("/bin/sleep", argv, env);
    _exit(99);
}

/* Ends with the process that calls it, which leaves a child that goes on. Returns in the child. */
static void fork_away(void)
{
    if (fork() != 0)
        _exit(0);
}

static void leave_session(void)
{
    (void)setsid();
    be_marked();
}

static void fork_twice(void)
{
    fork_away();
    (void)setsid();
    fork_away();
    be_marked();
}

static void be_daemon(void)
{
    (void)!daemon(0, 0);
    be_marked();
}

static void ignore_hangup(void)
{
    (void)signal(SIGHUP, SIG_IGN);
    be_marked();
}

static void be_another_user(void)
{
    (void)setsid();
    if (geteuid() == 0 && (setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
        _exit(98);
    be_marked();
}

/* A tracer that has let go, and the process that it traced. */
static void trace_and_detach(void)
{
    pid_t traced = fork();
    if (traced == 0)
        leave_session();
    (void)setsid();
    if (ptrace(PTRACE_SEIZE, traced, NULL, NULL) == 0 &&
        ptrace(PTRACE_INTERRUPT, traced, NULL, NULL) == 0 &&
        waitpid(traced, NULL, __WALL) == traced)
        (void)ptrace(PTRACE_DETACH, traced, NULL, NULL);
    be_marked();
}

/* A tracer that stays attached to a process that it has stopped. */
static void trace_and_stay(void)
{
    pid_t traced = fork();
    if (traced == 0)
        leave_session();
    (void)setsid();
    if (ptrace(PTRACE_SEIZE, traced, NULL, NULL) == 0)
        (void)ptrace(PTRACE_INTERRUPT, traced, NULL, NULL);
    for (;;)
        (void)pause();
}

/* Each link of the chain runs this program again, and ends after the next one runs. */
static void vfork_chain(int depth)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%d", depth);
    if (depth == 0)
        leave_session();
    pid_t child = vfork();
    if (child == 0) {
        (void)execl(self, self, "chain", mark, text, (char *)NULL);
        _exit(99);
    }
    _exit(0);
}

/* Processes that fork and end as fast as they can, for some generations, then sleep. */
static void bomb(void)
{
    (void)setsid();
    for (int i = 0; i < BOMB_PROCESSES; i++) {
        if (fork() != 0)
            continue;
        for (int generation = 0; generation < BOMB_GENERATIONS; generation++)
            fork_away();
        be_marked();
    }
    be_marked();
}

/* A long line of processes, each the child of the one before, of which all but the last wait. */
static void be_deep(void)
{
    (void)setsid();
    for (int i = 0; i < DEPTH; i++)
        if (fork() != 0)
            for (;;)
                (void)pause();
    be_marked();
}

static void stop_oneself(void)
{
    (void)setsid();
    (void)raise(SIGSTOP);
    be_marked();
}

static void close_everything(void)
{
    (void)setsid();
    (void)syscall(SYS_close_range, 0U, ~0U, 0);
    for (;;)
        (void)pause();
}

static void trap_signals(void)
{
    (void)setsid();
    for (int i = 1; i < NSIG; i++)
        (void)signal(i, SIG_IGN);
    for (;;)
        (void)pause();
}

static int clone_main(void *ctx)
{
    (void)ctx;
    leave_session();
    return 0;
}

/* A child of our parent: a sibling of ours. */
static void be_sibling(void)
{
    static char stack[64 * 1024] __attribute__((aligned(16)));
    (void)clone(clone_main, stack + sizeof stack, CLONE_PARENT | SIGCHLD, NULL);
    _exit(0);
}

/* Keeps its own orphans. */
static void be_subreaper(void)
{
    (void)setsid();
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (fork() == 0)
        fork_twice();
    for (;;)
        (void)pause();
}

/* The first process of a pid namespace, and one more in it. */
static void new_namespace(void)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0)
        leave_session();
    if (fork() == 0) {
        if (fork() == 0)
            leave_session();
        for (;;)
            (void)pause();
    }
    (void)setsid();
    be_marked();
}

static void *fork_in_thread(void *ctx)
{
    (void)ctx;
    if (fork() == 0)
        leave_session();
    return NULL;
}

static void be_from_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, fork_in_thread, NULL) == 0)
        (void)pthread_join(thread, NULL);
    _exit(0);
}

static void say_ready(void)
{
    (void)!write(1, "ready\n", 6);
}

/* The pipes are the command's: what holds them is found without looking for it. */
static void let_go_of_pipes(void)
{
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        (void)dup2(null, fd);
}

/* Signals the init that looks after this command. */
static void signal_init(int number)
{
    pid_t init = getppid();
    for (int i = 0; i < 2; i++)
        if (fork() == 0) {
            let_go_of_pipes();
            (i ? fork_twice : leave_session)();
        }
    (void)usleep(20 * 1000);
    say_ready(); /* the command may not live to say it later */
    (void)kill(init, number);
}

/* Takes all descriptors from the init that it has not opened yet, and gives it an orphan to reap,
 * so that it waits anew. */
static void starve_init(void)
{
    (void)prlimit(getppid(), RLIMIT_NOFILE, &(struct rlimit){0}, NULL);
    if (fork() == 0) {
        let_go_of_pipes();
        fork_away();
        _exit(0);
    }
    if (fork() == 0) {
        let_go_of_pipes();
        fork_twice();
    }
}

/* Stops the init again whenever it is continued. */
static void freeze_init(pid_t init)
{
    while (kill(init, SIGSTOP) == 0)
        (void)usleep(500);
    be_marked();
}

static const struct {
    const char *name;
    void (*run)(void); /* in a child of the command; NULL: see main */
} variants[] = {
    {"itself", NULL},
    {"session", leave_session},
    {"double", fork_twice},
    {"daemon", be_daemon},
    {"nohup", ignore_hangup},
    {"uid", be_another_user},
    {"detached", trace_and_detach},
    {"traced", trace_and_stay},
    {"vfork", NULL},
    {"bomb", bomb},
    {"deep", be_deep},
    {"stopped", stop_oneself},
    {"closed", close_everything},
    {"trapped", trap_signals},
    {"sibling", be_sibling},
    {"subreaper", be_subreaper},
    {"namespace", new_namespace},
    {"thread", be_from_thread},
    {"kill-init", NULL},
    {"stop-init", NULL},
    {"starve", NULL},
    {"freeze-init", NULL},
};

static void run_variant(const char *name)
{
    for (unsigned i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        if (strcmp(name, variants[i].name) != 0)
            continue;
        if (variants[i].run && fork() == 0) {
            let_go_of_pipes();
            variants[i].run();
            _exit(97);
        }
    }
    if (strcmp(name, "vfork") == 0 && fork() == 0)
        vfork_chain(VFORKS);
    if (strcmp(name, "kill-init") == 0)
        signal_init(SIGKILL);
    if (strcmp(name, "stop-init") == 0)
        signal_init(SIGSTOP);
    if (strcmp(name, "starve") == 0)
        starve_init();
    if (strcmp(name, "freeze-init") == 0) {
        pid_t init = getppid();
        if (fork() == 0) {
            let_go_of_pipes();
            freeze_init(init);
        }
        signal_init(SIGSTOP);
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        for (unsigned i = 0; i < sizeof variants / sizeof variants[0]; i++)
            (void)puts(variants[i].name);
        return 0;
    }
    self = "/proc/self/exe";
    mark = argv[2];
    if (strcmp(argv[1], "chain") == 0)
        vfork_chain(atoi(argv[3]) - 1);
    run_variant(argv[1]);
    (void)usleep(20 * 1000); /* so that most of them have got away */
    if (!strstr(argv[1], "-init"))
        say_ready();
    if (strcmp(argv[1], "itself") == 0)
        be_marked();
    while (strcmp(argv[3], "stay") == 0)
        (void)pause();
    return 0;
}
