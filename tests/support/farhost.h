/* SPDX-License-Identifier: Apache-2.0
 * tests/support/farhost.h - the sshd that tests/with-sshd started beside this program. */
#ifndef BERTH_TESTS_FARHOST_H
#define BERTH_TESTS_FARHOST_H

#include <stdbool.h>

struct farhost {
    char directory[128], workspace[160]; /* of the server; its user may write below them */
    char user[64];
    int port;
    char *key, *known_hosts;
};

/* Fails the test when there is none. The same one every time. */
const struct farhost *farhost(void);
/* The config of an environment there, whose lease directories are below `workspace` (NULL: the
 * server's own); as JSON, in memory that lives for the next eight calls. */
const char *farhost_config(const char *workspace);
int farhost_count_leases(const char *workspace); /* directories of leases, seen from outside */
int farhost_count_processes(const char *label);  /* with "NAME=value" in their environment */
void farhost_stop(void);                         /* the server, with all of its connections */
void farhost_start(void);
#endif
