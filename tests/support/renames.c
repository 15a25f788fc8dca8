/* SPDX-License-Identifier: Apache-2.0
 * tests/support/renames.c - see renames.h. A seccomp filter turns the calls into SIGSYS, whose
 * handler makes them again with a mark in the sixth argument, which they do not have. */
#include "renames.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
/* The handler runs at a call of this thread, never in the midst of malloc. */
const char *__tsan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void)
{
    return "report_signal_unsafe=0";
}
#endif

#ifdef __x86_64__

#define MARK                                                                                       \
    0x6265727468L /* above 32 bits, so that garbage in the low half is not taken for it            \
                   */

static renaming_fn *watcher;
static void *watcher_ctx;

static void on_sigsys(int number, siginfo_t *info, void *context)
{
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    int saved = errno;
    struct renaming call = {.from_fd = (int)r[REG_RDI],
                            .from = (const char *)r[REG_RSI],
                            .to_fd = (int)r[REG_RDX],
                            .to = (const char *)r[REG_R10],
                            .flags = info->si_syscall == SYS_renameat2 ? (unsigned)r[REG_R8] : 0,
                            .is_link = info->si_syscall == SYS_linkat};
    (void)number;
    int why = watcher(watcher_ctx, &call);
    if (!why && syscall(info->si_syscall, r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8],
                        MARK) < 0)
        why = errno;
    r[REG_RAX] = -why;
    errno = saved;
}

#define WORD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF_EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), (no))

bool renames_watch(renaming_fn *fn, void *ctx)
{
    struct sock_filter filter[] = {
        WORD(nr),
        IF_EQUAL(SYS_renameat2, 3, 0),
        IF_EQUAL(SYS_renameat, 2, 0),
        IF_EQUAL(SYS_linkat, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5]) + 4),
        IF_EQUAL((unsigned)(MARK >> 32), 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5])),
        IF_EQUAL((unsigned)MARK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    struct sigaction action = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO};
    bool watched = watcher != NULL;
    watcher = fn;
    watcher_ctx = ctx;
    return watched ||
           (sigaction(SIGSYS, &action, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

#else

bool renames_watch(renaming_fn *fn, void *ctx)
{
    (void)fn, (void)ctx;
    return false;
}

#endif
