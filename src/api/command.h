/* SPDX-License-Identifier: Apache-2.0
 * src/api/command.h - a command in a request body, for execs and for runs. */
#ifndef BERTH_API_COMMAND_H
#define BERTH_API_COMMAND_H

#include <berth/exec.h>

#include "api/call.h"

struct berth_api_command {
    const char *command, *cwd, *input;
    struct berth_list args, env; /* texts; "NAME=value" */
    bool keep_stdin, typed_stdin, terminal, detach;
    int64_t rows, columns, timeout_ms, grace_ms;
};
#define BERTH_API_COMMAND_INIT                                                                     \
    {                                                                                              \
        .rows = 24, .columns = 80, .grace_ms = 5000                                                \
    }
/* The rows of a table for a struct that has one as its member `in`. */
#define BERTH_API_COMMAND_FIELDS(type, in)                                                         \
    {"command", BERTH_API_TEXT, offsetof(type, in.command)},                                       \
        {"args", BERTH_API_TEXTS, offsetof(type, in.args)},                                        \
        {"cwd", BERTH_API_TEXT, offsetof(type, in.cwd), .nullable = true},                         \
        {"env", BERTH_API_PAIRS, offsetof(type, in.env)},                                          \
        {"stdin", BERTH_API_TEXT, offsetof(type, in.input), .nullable = true},                     \
        {"keepStdin", BERTH_API_FLAG, offsetof(type, in.keep_stdin)},                              \
        {"typedStdin", BERTH_API_FLAG, offsetof(type, in.typed_stdin)},                            \
        {"terminal", BERTH_API_FLAG, offsetof(type, in.terminal)},                                 \
        {"rows", BERTH_API_NUMBER, offsetof(type, in.rows)},                                       \
        {"columns", BERTH_API_NUMBER, offsetof(type, in.columns)},                                 \
        {"timeoutMs", BERTH_API_NUMBER, offsetof(type, in.timeout_ms)},                            \
    {                                                                                              \
        "graceMs", BERTH_API_NUMBER, offsetof(type, in.grace_ms)                                   \
    }

int berth_api_command_read(struct berth_api_call *c, struct berth_api_command *out,
                           struct berth_error *err); /* of an exec */
/* All in c->arena. */
int berth_api_command_build(struct berth_api_call *c, const struct berth_api_command *command,
                            struct berth_exec_request *out, struct berth_error *err);
/* Rows or columns of a terminal. */
bool berth_api_is_size(int64_t number);
int berth_api_check_size(struct berth_api_call *c, int64_t rows, int64_t columns,
                         struct berth_error *err);
#endif
