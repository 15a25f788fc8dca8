/* SPDX-License-Identifier: Apache-2.0
 * src/init/reaper.c - the first process in the pid namespace of a cage (os/cage.c). It starts the
 * program, passes signals on to it, collects the processes that the program orphans, and exits as
 * the program does: with its code, or with 128 and the number of its signal. With it, everything
 * ends that still runs in the namespace.
 *
 * A static program that libberth carries in itself. Its arguments are its own name, the file to
 * run, and the program's arguments. Descriptor 3 takes a struct berth_root_failure when the file
 * cannot be run. It is as confined as the program is. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/root.h"

#define FAILURE_FD 3
#define BY_SIGNAL 128

extern char **environ;

static void become_program(char **argv, const sigset_t *before)
{
    (void)setsid();
    (void)sigprocmask(SIG_SETMASK, before, NULL);
    (void)execve(argv[0], argv + 1, environ);
    struct berth_root_failure failure = {.number = errno};
    if (write(FAILURE_FD, &failure, sizeof failure) < 0)
        _exit(126);
    _exit(127);
}

/* Collects what has ended. Exits when the program is among them. */
static void collect(pid_t program)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        if (pid == program)
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : BY_SIGNAL + WTERMSIG(status));
}

int main(int argc, char **argv)
{
    sigset_t all, before;
    siginfo_t info;
    /* The program has our user, and must not write to our memory. An exec reverts this for it. */
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)fcntl(FAILURE_FD, F_SETFD, FD_CLOEXEC);
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    pid_t program = argc < 3 ? -1 : fork();
    if (program == 0)
        become_program(argv + 1, &before);
    if (program < 0) {
        struct berth_root_failure failure = {.number = errno, .what = "fork"};
        return write(FAILURE_FD, &failure, sizeof failure) < 0 ? 126 : 127;
    }
    (void)prctl(PR_SET_NAME, argv[0]);
    for (int fd = 0; fd <= FAILURE_FD; fd++)
        (void)close(fd);
    for (;;) {
        int number = sigwaitinfo(&all, &info);
        if (number == SIGCHLD)
            collect(program);
        else if (number > 0 && kill(-program, number) < 0)
            (void)kill(program, number); /* it does not lead its session yet */
    }
}
