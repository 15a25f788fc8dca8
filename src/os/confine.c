/* SPDX-License-Identifier: Apache-2.0
 * src/os/confine.c - see confine.h. */
#include "os/confine.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/cage.h"
#include "os/landlock.h"

static int make_ruleset(const struct berth_confine_request *r, int *out, struct berth_error *err)
{
    int fd = berth_landlock_new();
    if (fd < 0)
        return berth_fail_errno(err, "Cannot confine a program");
    bool ok = true;
    const char *const *p = r->readable;
    for (; ok && *p; p++)
        ok = berth_landlock_allow(fd, *p, false);
    for (p = r->writable; ok && *p; p++)
        ok = berth_landlock_allow(fd, *p, true);
    if (!ok) {
        int rc = berth_fail_errno(err, "Cannot confine a program to %s", p[-1]);
        (void)close(fd);
        return rc;
    }
    *out = fd;
    return BERTH_OK;
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
    return berth_landlock_version() ? make_ruleset(request, &out->ruleset_fd, err) : BERTH_OK;
}

void berth_confine_close(struct berth_confinement *c)
{
    if (c->ruleset_fd >= 0)
        (void)close(c->ruleset_fd);
    c->ruleset_fd = -1;
}

static const char *say_user(const struct berth_confinement *c, char out[120])
{
    if (c->uid)
        (void)snprintf(out, 120, "user %u", (unsigned)c->uid);
    else if (geteuid() == 0)
        (void)snprintf(out, 120, "NOT another user: its files are not reachable for others");
    else
        (void)snprintf(out, 120, "our own user%s: only root can choose another",
                       c->cage ? ", in a user namespace" : "");
    return out;
}

static const char *say_root(const struct berth_confinement *c)
{
    struct berth_error ignored;
    bool own_proc = false;
    if (!c->cage)
        return "NO root directory of its own";
    (void)berth_cage_check(&own_proc, &ignored);
    return own_proc ? "own root directory and processes"
                    : "own root directory; /proc shows the processes of this machine";
}

void berth_confine_say(const struct berth_confinement *c, char out[BERTH_CONFINE_TEXT_SIZE])
{
    char user[120];
    bool landlock = c->cage ? berth_landlock_version() > 0 : c->ruleset_fd >= 0;
    (void)snprintf(out, BERTH_CONFINE_TEXT_SIZE,
                   "no new privileges, no capabilities; %s; %s; %s; %s; %s", say_root(c),
                   landlock ? "files confined by Landlock"
                            : "files NOT confined by Landlock: this kernel does not have it",
                   c->filter ? "system calls filtered" : "system calls NOT filtered",
                   c->filter && !c->unix_sockets ? "no Unix sockets" : "Unix sockets ALLOWED",
                   say_user(c, user));
}
