/* SPDX-License-Identifier: Apache-2.0
 * src/os/confine.h - what a program that is not trusted sees of this machine: parts of the file
 * system (Landlock), none of our rights, and nobody's processes but its own. */
#ifndef BERTH_OS_CONFINE_H
#define BERTH_OS_CONFINE_H

#include "os/spawn.h"

struct berth_confine_request {
    const char *const
        *readable; /* real paths; what is beneath may be read and run; closed by NULL */
    const char *const *writable;  /* and changed, too */
    const char *const *reachable; /* are readable for `uid`, or we keep our own; closed by NULL */
    uid_t uid;                    /* to run as when we are root; 0: as we do */
};

/* Paths that do not exist are left out. What this machine cannot enforce is not an error: see the
 * sentence. The caller closes *out. */
int berth_confine_open(const struct berth_confine_request *request, struct berth_confinement *out,
                       struct berth_error *err);
void berth_confine_close(struct berth_confinement *c);

/* What is enforced, and what is not, for people. */
#define BERTH_CONFINE_TEXT_SIZE 400
void berth_confine_say(const struct berth_confinement *c, char out[BERTH_CONFINE_TEXT_SIZE]);
#endif
