/* SPDX-License-Identifier: Apache-2.0
 * src/os/syscall_filter.c - see syscall_filter.h. Everything is allowed that the tables below do
 * not name. The kernel reads family, type and request of a call as 32 bits, so the filter compares
 * no more than these. */
#include "os/syscall_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <pthread.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "os/fs.h"

#define FILTER_BYTES_MAX (64 * 1024)
#define FAMILIES 64 /* the kernel has fewer */
#define TYPE_MASK 15
#define LOW UINT32_MAX

/* Refused with EPERM whatever their arguments are. */
static const int refused[] = {
    /* mounts and roots */
    SCMP_SYS(mount),
    SCMP_SYS(umount),
    SCMP_SYS(umount2),
    SCMP_SYS(pivot_root),
    SCMP_SYS(chroot),
    SCMP_SYS(move_mount),
    SCMP_SYS(open_tree),
    SCMP_SYS(fsopen),
    SCMP_SYS(fsconfig),
    SCMP_SYS(fsmount),
    SCMP_SYS(fspick),
    SCMP_SYS(mount_setattr),
    SCMP_SYS(quotactl),
    SCMP_SYS(quotactl_fd),
    SCMP_SYS(swapon),
    SCMP_SYS(swapoff),
    /* namespaces */
    SCMP_SYS(unshare),
    SCMP_SYS(setns),
    /* files without a path */
    SCMP_SYS(open_by_handle_at),
    /* marks on files, which are counted for the user */
    SCMP_SYS(fanotify_init),
    /* other processes */
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(process_madvise),
    SCMP_SYS(kcmp),
    SCMP_SYS(pidfd_getfd),
    /* the kernel */
    SCMP_SYS(bpf),
    SCMP_SYS(perf_event_open),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load),
    SCMP_SYS(init_module),
    SCMP_SYS(finit_module),
    SCMP_SYS(delete_module),
    SCMP_SYS(syslog),
    SCMP_SYS(reboot),
    SCMP_SYS(acct),
    SCMP_SYS(iopl),
    SCMP_SYS(ioperm),
    SCMP_SYS(modify_ldt),
    SCMP_SYS(vhangup),
    SCMP_SYS(lookup_dcookie),
    /* keys, which are not part of any namespace */
    SCMP_SYS(keyctl),
    SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    /* clocks and names of the machine */
    SCMP_SYS(settimeofday),
    SCMP_SYS(clock_settime),
    SCMP_SYS(clock_adjtime),
    SCMP_SYS(adjtimex),
    SCMP_SYS(sethostname),
    SCMP_SYS(setdomainname),
};

/* Refused with ENOSYS, so that programs use older calls instead. io_uring would make other calls
 * past the filter; contexts of io_setup are counted for the whole machine; the flags of clone3 are
 * in memory, where a filter cannot read them. */
static const int unknown[] = {SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_enter),
                              SCMP_SYS(io_uring_register), SCMP_SYS(io_setup), SCMP_SYS(clone3)};

static const uint32_t namespaces[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                      CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};

/* Requests that put input into a terminal. */
static const uint32_t requests[] = {TIOCSTI, 0x541C /* TIOCLINUX */};

/* Commands of fcntl that make other programs wait for this one, or watch what they do. F_SETDELEG
 * is of Linux 6.19. */
static const uint32_t commands[] = {F_SETLEASE, F_NOTIFY, 1024 + 16 /* F_SETDELEG */};

static const mode_t devices[] = {S_IFCHR, S_IFBLK};

/* Families that programs may make sockets of, besides AF_UNIX. */
static bool is_family(int family)
{
    return family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
}

static int refuse_sockets(scmp_filter_ctx ctx, bool unix_sockets)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < FAMILIES; i++)
        if (!is_family((int)i) && !(unix_sockets && i == AF_UNIX))
            rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                                  SCMP_A0(SCMP_CMP_MASKED_EQ, LOW, i));
    /* 0 is NETLINK_ROUTE, by which programs list the network interfaces. */
    if (rc == 0)
        rc =
            seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 2,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, LOW, AF_NETLINK), SCMP_A2(SCMP_CMP_NE, 0));
    /* A pair of streams cannot be connected anew. A pair of another type can send to any address.
     */
    for (uint32_t i = 0; rc == 0 && !unix_sockets && i <= TYPE_MASK; i++)
        if (i != SOCK_STREAM)
            rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socketpair), 1,
                                  SCMP_A1(SCMP_CMP_MASKED_EQ, TYPE_MASK, i));
    return rc;
}

static int refuse_arguments(scmp_filter_ctx ctx)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof namespaces / sizeof *namespaces; i++)
        rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                              SCMP_A0(SCMP_CMP_MASKED_EQ, namespaces[i], namespaces[i]));
    for (size_t i = 0; rc == 0 && i < sizeof requests / sizeof *requests; i++)
        rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                              SCMP_A1(SCMP_CMP_MASKED_EQ, LOW, requests[i]));
    for (size_t i = 0; rc == 0 && i < sizeof commands / sizeof *commands; i++)
        rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(fcntl), 1,
                              SCMP_A1(SCMP_CMP_MASKED_EQ, LOW, commands[i]));
    for (size_t i = 0; rc == 0 && i < sizeof devices / sizeof *devices; i++) {
        rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mknod), 1,
                              SCMP_A1(SCMP_CMP_MASKED_EQ, S_IFMT, devices[i]));
        if (rc == 0)
            rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mknodat), 1,
                                  SCMP_A2(SCMP_CMP_MASKED_EQ, S_IFMT, devices[i]));
    }
    return rc;
}

/* Returns 0 or a negative errno. */
static int fill_filter(scmp_filter_ctx ctx, bool unix_sockets)
{
    int rc = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    for (size_t i = 0; rc == 0 && i < sizeof refused / sizeof *refused; i++)
        rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), refused[i], 0);
    for (size_t i = 0; rc == 0 && i < sizeof unknown / sizeof *unknown; i++)
        rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), unknown[i], 0);
    if (rc == 0)
        rc = refuse_arguments(ctx);
    return rc == 0 ? refuse_sockets(ctx, unix_sockets) : rc;
}

static int export_filter(scmp_filter_ctx ctx, struct sock_fprog *out)
{
    auto_close int fd = memfd_create("berth-filter", MFD_CLOEXEC);
    auto_buf program = BERTH_BUF_INIT(FILTER_BYTES_MAX);
    struct berth_error err;
    int rc = fd < 0 ? -errno : seccomp_export_bpf(ctx, fd);
    if (rc == 0 && (lseek(fd, 0, SEEK_SET) < 0 || berth_fs_read_all(fd, &program, &err) < 0))
        rc = -EIO;
    struct sock_filter *filter = rc == 0 ? malloc(program.len) : NULL;
    if (rc < 0 || !filter)
        return rc < 0 ? rc : -ENOMEM;
    memcpy(filter, program.data, program.len);
    *out = (struct sock_fprog){.len = (unsigned short)(program.len / sizeof *filter),
                               .filter = filter};
    return 0;
}

static int make_filter(bool unix_sockets, struct sock_fprog *out)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    int rc = ctx ? fill_filter(ctx, unix_sockets) : -ENOMEM;
    if (rc == 0)
        rc = export_filter(ctx, out);
    seccomp_release(ctx);
    return rc;
}

int berth_syscall_filter(bool unix_sockets, const struct sock_fprog **out, struct berth_error *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct sock_fprog filters[2]; /* kept for the life of the process */
    pthread_mutex_lock(&lock);
    int rc = filters[unix_sockets].filter ? 0 : make_filter(unix_sockets, &filters[unix_sockets]);
    pthread_mutex_unlock(&lock);
    if (rc < 0) {
        errno = -rc;
        (void)berth_fail_errno(err, "Cannot make a filter of system calls");
        return err->code = BERTH_E_UNSUPPORTED;
    }
    *out = &filters[unix_sockets];
    return BERTH_OK;
}
