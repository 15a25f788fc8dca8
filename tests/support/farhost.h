/* SPDX-License-Identifier: Apache-2.0
 * tests/support/farhost.h - the sshd that tests/with-sshd started beside this program. */
#ifndef BERTH_TESTS_FARHOST_H
#define BERTH_TESTS_FARHOST_H

#include <stdbool.h>
#include <stddef.h>

struct farhost {
    char directory[128], workspace[160]; /* of the server; its user may write below them */
    char user[64];
    int port;
    char *key, *known_hosts;
    /* As root only, else "": the home of the user that runs the test, which ssh(1) reads, and a
     * disk of 64 KiB. The server's own home and login shell may be changed then, too. */
    char here[160], small[160];
};

/* Returns the far host, the same one every time. Fails the test when there is no sshd. */
const struct farhost *farhost(void);
/* The config of an environment there, whose lease directories are below `workspace` (NULL: the
 * server's own); as JSON, in memory that lives for the next eight calls. */
const char *farhost_config(const char *workspace);
/* The same, but for what is said here; NULL: as there. "" leaves a field out. */
struct farhost_change {
    const char *host, *username, *workspace, *key, *known_hosts;
    bool any_host_key;
};
const char *farhost_config_with(const struct farhost_change *change);
/* Makes a new directory for lease directories below `parent`, which the server's user may write.
 * Fails the test when it cannot. */
void farhost_make_workspace(const char *parent, char *path, size_t size);
/* An environment named "far" with that config; its key becomes a secret. Fails the test. */
struct fixture;
struct berth_environment *farhost_environment(struct fixture *f, const char *config);
int farhost_count_leases(const char *workspace); /* directories of leases, seen from outside */
int farhost_count_processes(const char *label);  /* with "NAME=value" in their environment */
void farhost_wait_for_end(const char *label);    /* of all processes with that label */
void farhost_stop(void);                         /* the server, with all of its connections */
void farhost_start(void);
/* As root only: its login shell, and a file in its home (text NULL: none). */
void farhost_set_shell(const char *program);
void farhost_set_file(const char *name, const char *text);
/* As root only: a second server, behind a cable that can be cut. Its address, or NULL: this machine
 * has no cables. */
const char *farhost_lay_cable(void);
void farhost_cut_cable(void);
void farhost_join_cable(void);
#endif
