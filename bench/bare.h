/* SPDX-License-Identifier: Apache-2.0
 * bench/bare.h - a command as anybody would run it: posix_spawn, two pipes, waitpid. */
#ifndef BERTH_BENCH_BARE_H
#define BERTH_BENCH_BARE_H

#include <berth/error.h>

int run_bare(const char *file, const char *const *argv, struct berth_error *err);
#endif
