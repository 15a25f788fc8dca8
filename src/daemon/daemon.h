/* SPDX-License-Identifier: Apache-2.0
 * src/daemon/daemon.h - one daemon, from its store to its last connection. main.c has the signals.
 */
#ifndef BERTH_DAEMON_DAEMON_H
#define BERTH_DAEMON_DAEMON_H

#include "daemon/config.h"

struct berth_daemon;

/* It answers when this returns; what a crash left is looked after in the meantime. The config is
 * taken over in any case. CONFLICT: another daemon has the store. */
int berth_daemon_open(struct berth_config *config, struct berth_daemon **out,
                      struct berth_error *err);
/* About once a second: serves requests over TCP as soon as a token exists. */
void berth_daemon_tick(struct berth_daemon *d);
/* What can be changed while it serves: certificates, allowed hosts and origins, intervals, the
 * log's level. The config is taken over in any case; on failure all stays as it was. *ignored: the
 * first option that needs a restart and was changed, or NULL. */
int berth_daemon_reload(struct berth_daemon *d, struct berth_config *config, const char **ignored,
                        struct berth_error *err);
/* Accepts nobody any more, lets commands go on for the config's drain time, ends what is left, and
 * gives places back. NULL is fine. */
void berth_daemon_close(struct berth_daemon *d);

const char *berth_daemon_socket(const struct berth_daemon *d); /* where it listens */
const char *berth_daemon_store(const struct berth_daemon *d);
/* The port of the nth address of TCP; 0: it does not listen there. */
int berth_daemon_port(const struct berth_daemon *d, unsigned nth);
#endif
