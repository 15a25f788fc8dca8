/* SPDX-License-Identifier: Apache-2.0
 * src/api/command.c - see command.h. */
#include "api/command.h"

#include <string.h>

#include "base/limits.h"

#define SIZE_MAX_OF_TERMINAL 10000

struct exec_body {
    struct berth_api_command in;
};

int berth_api_command_read(struct berth_api_call *c, struct berth_api_command *out,
                           struct berth_error *err)
{
    static const struct berth_api_field fields[] = {
        BERTH_API_COMMAND_FIELDS(struct exec_body, in),
        {"detach", BERTH_API_FLAG, offsetof(struct exec_body, in.detach)},
        {0}};
    struct exec_body body = {.in = *out};
    int rc = berth_api_body(c, fields, &body, NULL, err);
    *out = body.in;
    return rc;
}

static int command_refuse(struct berth_api_call *c, const char *path, const char *why,
                          struct berth_error *err)
{
    berth_issues_add(&c->issues, path, "%s", why);
    return berth_fail(err, BERTH_E_INVALID, "Validation error");
}

bool berth_api_is_size(int64_t number)
{
    return number >= 1 && number <= SIZE_MAX_OF_TERMINAL;
}

int berth_api_check_size(struct berth_api_call *c, int64_t rows, int64_t columns,
                         struct berth_error *err)
{
    if (!berth_api_is_size(rows) || !berth_api_is_size(columns))
        return command_refuse(c, berth_api_is_size(rows) ? "columns" : "rows",
                              "Expected a number from 1 to 10000", err);
    return BERTH_OK;
}

int berth_api_command_build(struct berth_api_call *c, const struct berth_api_command *in,
                            struct berth_exec_request *out, struct berth_error *err)
{
    struct berth_list argv = {0}, env = in->env;
    if (!in->command || !*in->command)
        return command_refuse(c, "command", "Required", err);
    if (in->input && in->keep_stdin)
        return command_refuse(c, "keepStdin", "Either stdin or keepStdin", err);
    int rc = berth_api_check_size(c, in->rows, in->columns, err);
    if (rc < 0)
        return rc;
    if (in->timeout_ms > BERTH_TTL_MS_MAX)
        return command_refuse(c, "timeoutMs", "Too long", err);
    if (in->grace_ms > BERTH_TTL_MS_MAX)
        return command_refuse(c, "graceMs", "Too long", err);
    (void)berth_list_add(&argv, &c->arena, (char *)(uintptr_t)in->command);
    for (int i = 0; i < in->args.count; i++)
        (void)berth_list_add(&argv, &c->arena, in->args.items[i]);
    (void)berth_list_add(&argv, &c->arena, NULL);
    (void)berth_list_add(&env, &c->arena, NULL);
    out->argv = (const char *const *)(void *)argv.items;
    out->env = (const char *const *)(void *)env.items;
    out->cwd = in->cwd;
    out->with_stdin = in->input || in->keep_stdin;
    out->typed_stdin = in->typed_stdin;
    out->terminal = in->terminal;
    out->rows = (unsigned short)in->rows;
    out->columns = (unsigned short)in->columns;
    out->timeout_ms = in->timeout_ms;
    out->grace_ms = in->grace_ms;
    return berth_arena_check(&c->arena, err);
}
