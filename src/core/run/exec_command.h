/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/exec_command.h - what a command gets to see, and how its row shows it. */
#ifndef BERTH_CORE_RUN_EXEC_COMMAND_H
#define BERTH_CORE_RUN_EXEC_COMMAND_H

#include "base/arena.h"
#include "core/run/masking.h"
#include "store/lease.h"

/* Builds the environment of a command from nothing: its label, whom it runs for, and the given
 * variables ("NAME=value", closed by NULL; or NULL). Returns INVALID for a variable that is none,
 * or that only berth sets. */
int berth_exec_command_env(struct berth_arena *arena, const struct berth_lease *lease,
                           const char *label, const char *const *given, const char *const **out,
                           struct berth_error *err);
/* Writes the command line as its row keeps it: names and shapes of secrets are hidden, and so are
 * the values of the masking. */
int berth_exec_command_words(struct berth_arena *arena, const char *const *argv,
                             struct berth_masking *masking, const char **out,
                             struct berth_error *err);
/* Returns a copy as a row keeps it: without the values of the masking, and as UTF-8, since a
 * directory may have any bytes for a name. NULL gives NULL. */
const char *berth_exec_command_text(struct berth_arena *arena, struct berth_masking *masking,
                                    const char *text);
#endif
