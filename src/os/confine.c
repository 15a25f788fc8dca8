/* SPDX-License-Identifier: Apache-2.0
 * src/os/confine.c - see confine.h. The headers of this kernel's friends may be older than the
 * kernel, so what we need of Landlock is written down here. */
#include "os/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"

#define ACCESS_READ                                                                                \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define ACCESS_TRUNCATE (UINT64_C(1) << 14)    /* from ABI 3 on */
#define ACCESS_ALL_1 ((UINT64_C(1) << 13) - 1) /* all of ABI 1 */
#define ACCESS_FILE                                                                                \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |   \
     ACCESS_TRUNCATE)
#define SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS UINT64_C(3) /* from ABI 6 on */

struct ruleset {
    uint64_t fs, net, scoped;
};

static int landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi > 0 ? (int)abi : 0;
}

static uint64_t handled(int abi)
{
    return ACCESS_ALL_1 | (abi >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0) |
           (abi >= 3 ? ACCESS_TRUNCATE : 0);
}

static int confine_allow(int ruleset_fd, const char *path, uint64_t access, struct berth_error *err)
{
    auto_close int fd = open(path, O_PATH | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return BERTH_OK; /* what is not there, or not ours to see, nobody needs */
    struct landlock_path_beneath_attr rule = {
        .parent_fd = fd, .allowed_access = S_ISDIR(st.st_mode) ? access : access & ACCESS_FILE};
    if (syscall(SYS_landlock_add_rule, ruleset_fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
        return berth_fail_errno(err, "Cannot confine a program to %s", path);
    return BERTH_OK;
}

static int make_ruleset(const struct berth_confine_request *r, int abi, int *out,
                        struct berth_error *err)
{
    struct ruleset rules = {.fs = handled(abi),
                            .scoped = abi >= 6 ? SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS : 0};
    int fd = (int)syscall(SYS_landlock_create_ruleset, &rules,
                          abi >= 6 ? sizeof rules : sizeof rules.fs, 0);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot confine a program");
    int rc = BERTH_OK;
    for (const char *const *p = r->readable; *p && rc == BERTH_OK; p++)
        rc = confine_allow(fd, *p, ACCESS_READ, err);
    for (const char *const *p = r->writable; *p && rc == BERTH_OK; p++)
        rc = confine_allow(fd, *p, handled(abi), err);
    if (rc < 0)
        (void)close(fd);
    else
        *out = fd;
    return rc;
}

/* May everybody go there? */
static bool is_reachable(const char *path)
{
    char copy[PATH_MAX];
    struct stat st;
    if (snprintf(copy, sizeof copy, "%s/", path) >= (int)sizeof copy)
        return false;
    for (char *slash; (slash = strrchr(copy, '/'));) {
        *slash = '\0';
        if (stat(*copy ? copy : "/", &st) < 0 || (S_ISDIR(st.st_mode) && !(st.st_mode & S_IXOTH)))
            return false;
    }
    return true;
}

int berth_confine_open(const struct berth_confine_request *request, struct berth_confinement *out,
                       struct berth_error *err)
{
    bool other = geteuid() == 0 && request->uid;
    for (const char *const *p = request->reachable; other && *p; p++)
        other = is_reachable(*p);
    *out = (struct berth_confinement){
        .ruleset_fd = -1, .uid = other ? request->uid : 0, .powerless = true, .dies_first = true};
    int abi = landlock_abi();
    return abi ? make_ruleset(request, abi, &out->ruleset_fd, err) : BERTH_OK;
}

void berth_confine_close(struct berth_confinement *c)
{
    if (c->ruleset_fd >= 0)
        (void)close(c->ruleset_fd);
    c->ruleset_fd = -1;
}

void berth_confine_say(const struct berth_confinement *c, char out[BERTH_CONFINE_TEXT_SIZE])
{
    char user[120];
    if (c->uid)
        (void)snprintf(user, sizeof user, "user %u", (unsigned)c->uid);
    else if (geteuid() == 0)
        (void)snprintf(user, sizeof user,
                       "NOT another user: its files are not reachable for others");
    else
        (void)snprintf(user, sizeof user, "our own user: only root can choose another");
    (void)snprintf(out, BERTH_CONFINE_TEXT_SIZE, "no new privileges, no capabilities; %s; %s",
                   c->ruleset_fd >= 0 ? "files confined by Landlock"
                                      : "files NOT confined: this kernel has no Landlock",
                   user);
}
