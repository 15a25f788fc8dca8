/* SPDX-License-Identifier: Apache-2.0
 * src/driver/ssh_link.h - connections over SSH: one ssh(1) master carries up to eight sessions, and
 * is closed when it has been idle for a minute. */
#ifndef BERTH_DRIVER_SSH_LINK_H
#define BERTH_DRIVER_SSH_LINK_H

#include <berth/driver.h>

#include "crypto/hash.h"
#include "driver/ssh_script.h"
#include "os/capture.h"

/* How long an ssh(1) that is ended has between SIGTERM and SIGKILL. */
#define BERTH_SSH_GRACE_MS 500

/* The target of a connection. The texts are borrowed from the JSON they were read from. */
struct berth_ssh_config {
    const char *host, *username, *path;
    const char *private_key, *known_hosts; /* or NULL */
    int port;
    bool strict;
};

/* Hashes the config, except its path. Configs with equal hashes share connections, so two that
 * differ never have the same one. */
int berth_ssh_link_key(const struct berth_ssh_config *config, char out[BERTH_SHA256_HEX_SIZE],
                       struct berth_error *err);

struct berth_ssh_links; /* all connections of a driver; safe to share between threads */
struct berth_ssh_link;

int berth_ssh_links_new(struct berth_engine *engine, struct berth_ssh_links **out,
                        struct berth_error *err);
/* Closes all connections. No link may be held any more. NULL is fine. */
void berth_ssh_links_free(struct berth_ssh_links *links);

/* Takes a link for one session; connects when the existing connections are full. UNAVAILABLE: the
 * host cannot be reached. DENIED: it refused the login, or its host key is wrong. After both,
 * nothing has run there. */
int berth_ssh_link_take(struct berth_ssh_links *links, struct berth_call *call,
                        const struct berth_ssh_config *config, struct berth_ssh_link **out,
                        struct berth_error *err);
void berth_ssh_link_drop(struct berth_ssh_link *link); /* the session has ended; NULL is fine */

const char *berth_ssh_link_path(const struct berth_ssh_link *link); /* PATH of the far end, or "" */
/* Returns the variable, "NAME=value", that all processes started over the connection have. */
const char *berth_ssh_link_label(const struct berth_ssh_link *link);

/* Sends a line to the shell that holds the connection, which runs it. From any thread; does not
 * wait. */
int berth_ssh_link_tell(struct berth_ssh_link *link, const struct berth_ssh_line *line,
                        struct berth_error *err);

/* Starts a session, which reads one line and runs it. Only time-outs, input and terminal of the
 * options are used. UNAVAILABLE: sshd gave no session; another link may get one. After UNAVAILABLE,
 * TIMEOUT and CANCELLED nothing has run. */
int berth_ssh_link_start(struct berth_ssh_link *link, const struct berth_call *call,
                         const struct berth_process_options *options,
                         const struct berth_exec_handlers *handlers, struct berth_process **out,
                         struct berth_error *err);

/* Runs a script to its end. *out is its output between mark and ";", in the call's arena.
 * UNPROCESSABLE: the script failed; the message has its last line. UPSTREAM: the connection broke.
 */
int berth_ssh_link_ask(struct berth_ssh_link *link, struct berth_call *call,
                       struct berth_ssh_line *line, const struct berth_ssh_mark *mark,
                       const char **out, struct berth_error *err);
#endif
