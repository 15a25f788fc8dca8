/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/place_command.h - runs one command in the place of a lease to move files. Its
 * output is data: it is neither masked nor logged, and the command has no row. The caller's thread
 * feeds standard input and reads standard output. */
#ifndef BERTH_CORE_WORKSPACE_PLACE_COMMAND_H
#define BERTH_CORE_WORKSPACE_PLACE_COMMAND_H

#include <sys/types.h>

#include <berth/exec.h>

#include "core/berth.h"

struct berth_place_command;

/* A command to start. */
struct berth_place_command_options {
    const char *lease_id;
    const char *const *argv; /* closed by NULL; runs in "/" */
    bool with_stdin;         /* only where commands have byte streams */
    /* The command is ended when it neither takes input nor gives output for this long. */
    int64_t silence_ms;
    int cancel_fd; /* the command is ended when it becomes readable; -1: never */
};

/* Starts a command. The caller ends it with berth_place_command_finish, also after an error of the
 * functions in between. */
int berth_place_command_start(struct berth *b, const struct berth_place_command_options *options,
                              struct berth_place_command **out, struct berth_error *err);
/* Passes bytes to standard input; waits while the command does not read. UPSTREAM: it has ended. */
int berth_place_command_write(struct berth_place_command *c, const void *bytes, size_t len,
                              struct berth_error *err);
/* Returns whether the command has ended, or is to end. */
bool berth_place_command_is_over(struct berth_place_command *c);
void berth_place_command_close_stdin(struct berth_place_command *c);
/* Waits for output. Returns the number of bytes, which are valid until the next call; 0: the
 * command has ended, and all of its output was read. */
ssize_t berth_place_command_read(struct berth_place_command *c, const void **bytes,
                                 struct berth_error *err);
/* Ends the command if `abandon` is set, waits for its end, and frees it. *exit_code is -1 when it
 * was ended by a signal or abandoned. `words` receives the beginning of standard error, without
 * blanks around it. An error says that the end of the command is not known. */
int berth_place_command_finish(struct berth_place_command *c, bool abandon, int *exit_code,
                               char words[256], struct berth_error *err);
#endif
