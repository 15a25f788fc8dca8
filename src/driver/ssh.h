/* SPDX-License-Identifier: Apache-2.0
 * src/driver/ssh.h - a server reached by ssh(1): the user's keys, agents and jump hosts work.
 * A lease is a directory below the workspace that is named after it. Commands run under a small sh,
 * and processes that they left are ended with the lease. */
#ifndef BERTH_DRIVER_SSH_H
#define BERTH_DRIVER_SSH_H

#include <berth/driver.h>

struct berth_engine;

int berth_driver_ssh_new(struct berth_engine *engine, struct berth_driver **out,
                         struct berth_error *err);
#endif
