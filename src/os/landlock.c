/* SPDX-License-Identifier: Apache-2.0
 * src/os/landlock.c - see landlock.h. The kernel's headers may be older than the kernel, so the
 * newer numbers are written down here. */
#include "os/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/fs.h"

#define ACCESS_READ                                                                                \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define ACCESS_TRUNCATE (UINT64_C(1) << 14)    /* from version 3 on */
#define ACCESS_ALL_1 ((UINT64_C(1) << 13) - 1) /* all of version 1 */
#define ACCESS_FILE                                                                                \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |   \
     ACCESS_TRUNCATE)
#define SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS UINT64_C(3) /* from version 6 on */

struct ruleset {
    uint64_t fs, net, scoped;
};

int berth_landlock_version(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi > 0 ? (int)abi : 0;
}

static uint64_t handled(int abi)
{
    return ACCESS_ALL_1 | (abi >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0) |
           (abi >= 3 ? ACCESS_TRUNCATE : 0);
}

int berth_landlock_new(void)
{
    int abi = berth_landlock_version();
    struct ruleset rules = {.fs = handled(abi),
                            .scoped = abi >= 6 ? SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS : 0};
    return (int)syscall(SYS_landlock_create_ruleset, &rules,
                        abi >= 6 ? sizeof rules : sizeof rules.fs, 0);
}

bool berth_landlock_allow(int ruleset_fd, const char *path, bool write)
{
    int fd = berth_fs_open_real(AT_FDCWD, path, O_PATH);
    struct stat st;
    if (fd < 0)
        return true;
    struct landlock_path_beneath_attr rule = {
        .parent_fd = fd, .allowed_access = write ? handled(berth_landlock_version()) : ACCESS_READ};
    if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode))
        rule.allowed_access &= ACCESS_FILE & (handled(berth_landlock_version()));
    bool ok = syscall(SYS_landlock_add_rule, ruleset_fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
    (void)close(fd);
    return ok;
}

bool berth_landlock_apply(int ruleset_fd)
{
    return syscall(SYS_landlock_restrict_self, ruleset_fd, 0) == 0;
}
