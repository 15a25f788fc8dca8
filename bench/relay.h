/* SPDX-License-Identifier: Apache-2.0
 * bench/relay.h - a program between berth and a plugin's worker. It counts the commands that the
 * worker is asked to run, and delays each of them. */
#ifndef BERTH_BENCH_RELAY_H
#define BERTH_BENCH_RELAY_H

#include <stdbool.h>

#include <berth/error.h>

/* Makes a package of the fake worker's with this program in front of the worker. */
int relay_package(const char *worker_package, const char *to, int delay_ms,
                  struct berth_error *err);
/* Returns whether this process was started as the worker of such a package. */
bool relay_wanted(void);
/* Is the worker, until standard input ends. Returns an exit status. */
int relay_main(void);
/* Returns the number of commands so far. `state` is the directory of the worker's state. */
long relay_count(const char *state);
#endif
