/* SPDX-License-Identifier: Apache-2.0
 * src/driver/ssh_link.h - connections: one ssh(1) master carries up to eight sessions, and lives as
 * long as somebody may want one. */
#ifndef BERTH_DRIVER_SSH_LINK_H
#define BERTH_DRIVER_SSH_LINK_H

#include <berth/driver.h>

#include "driver/ssh_script.h"
#include "os/capture.h"

/* How long an ssh(1) that is ended has between SIGTERM and SIGKILL. */
#define BERTH_SSH_GRACE_MS 500

/* Where to, and as whom. Borrowed from the JSON it was read from. */
struct berth_ssh_config {
    const char *host, *username, *path;
    const char *private_key, *known_hosts; /* or NULL */
    int port;
    bool strict;
};

struct berth_ssh_links; /* all of a driver's; safe to share between threads */
struct berth_ssh_link;

int berth_ssh_links_new(struct berth_engine *engine, struct berth_ssh_links **out,
                        struct berth_error *err);
/* Nobody holds a link any more. NULL is fine. */
void berth_ssh_links_free(struct berth_ssh_links *links);

/* A place for one session, over a new connection when those there are full. UNAVAILABLE: it cannot
 * be reached. DENIED: it does not let us in, or is not who it should be. Both say that nothing was
 * run there. */
int berth_ssh_link_take(struct berth_ssh_links *links, struct berth_call *call,
                        const struct berth_ssh_config *config, struct berth_ssh_link **out,
                        struct berth_error *err);
void berth_ssh_link_drop(struct berth_ssh_link *link); /* the session has ended; NULL is fine */

const char *berth_ssh_link_path(const struct berth_ssh_link *link); /* PATH there, or "" */
/* The variable that everything started over it has. */
const char *berth_ssh_link_label(const struct berth_ssh_link *link);

/* Says a line to the shell that holds the connection, which does what it says; from any thread, and
 * without waiting. */
int berth_ssh_link_tell(struct berth_ssh_link *link, const struct berth_ssh_line *line,
                        struct berth_error *err);

/* A session on it, which reads a line first and does what that says; on a terminal when `options`
 * says so. Only time-outs, input and terminal of the options are read. UNAVAILABLE: there was no
 * session to be had, nothing ran, and another link may have one. TIMEOUT, CANCELLED: nothing ran.
 */
int berth_ssh_link_start(struct berth_ssh_link *link, const struct berth_call *call,
                         const struct berth_process_options *options,
                         const struct berth_exec_handlers *handlers, struct berth_process **out,
                         struct berth_error *err);

/* Runs a script to its end and answers, in the call's arena, what it said between mark and ";".
 * *out is NULL, and the code UNPROCESSABLE with what it said instead, when it failed; UPSTREAM when
 * the connection broke meanwhile. */
int berth_ssh_link_ask(struct berth_ssh_link *link, struct berth_call *call,
                       struct berth_ssh_line *line, const struct berth_ssh_mark *mark,
                       const char **out, struct berth_error *err);
#endif
