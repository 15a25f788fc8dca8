/* SPDX-License-Identifier: Apache-2.0
 * src/cli/command_options.c - see command_options.h. */
#include "cli/command_options.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/arguments.h"
#include "cli/print.h"

/* Adds "NAME=value" as it is; for "NAME", the variable of this process. */
static int add_env(struct cli *cli, struct berth_list *out, const char *text)
{
    const char *value = strchr(text, '=') ? NULL : getenv(text);
    if (!strchr(text, '=') && !value)
        return cli_usage(
            cli, "--env %s: the variable is not set here. Write NAME=VALUE to give it a value",
            text);
    const char *pair = value ? berth_arena_printf(&cli->arena, "%s=%s", text, value) : text;
    (void)berth_list_add(out, &cli->arena, (char *)(uintptr_t)pair);
    return CLI_OK;
}

int cli_command_request(struct cli *cli, const struct cli_command_options *options, char **argv,
                        struct berth_exec_request *out)
{
    struct berth_list env = {0};
    int status = CLI_OK;
    for (int i = 0; status == CLI_OK && i < options->env.count; i++)
        status = add_env(cli, &env, options->env.items[i]);
    (void)berth_list_add(&env, &cli->arena, NULL);
    if (status == CLI_OK && options->timeout &&
        !berth_time_parse_duration(options->timeout, &out->timeout_ms))
        status = cli_usage(cli, "--timeout \"%s\" is not a duration: write 90s, 15m or 1h",
                           options->timeout);
    out->argv = (const char *const *)argv;
    out->env = (const char *const *)(void *)env.items;
    out->cwd = options->cwd;
    out->with_stdin = true;
    out->typed_stdin = isatty(STDIN_FILENO);
    out->terminal = options->terminal;
    if (status == CLI_OK && berth_arena_check(&cli->arena, &cli->err) < 0)
        status = cli_fail(cli);
    return status;
}

/* Replaces short options by the long ones that they stand for. */
static void expand_short_options(int argc, char **argv)
{
    static char environment[] = "--environment", cwd[] = "--cwd", tty[] = "--tty",
                detach[] = "--detach", workspace[] = "--workspace";
    for (int i = 1; i < argc; i++)
        argv[i] = strcmp(argv[i], "-e") == 0   ? environment
                  : strcmp(argv[i], "-C") == 0 ? cwd
                  : strcmp(argv[i], "-t") == 0 ? tty
                  : strcmp(argv[i], "-d") == 0 ? detach
                  : strcmp(argv[i], "-w") == 0 ? workspace
                                               : argv[i];
}

int cli_command_split(struct cli *cli, int argc, char **argv, int *end)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--") == 0 && i + 1 < argc) {
            *end = i;
            expand_short_options(i, argv);
            return CLI_OK;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            *end = argc;
            expand_short_options(argc, argv);
            return CLI_OK;
        }
    return cli_usage(cli, "the command comes after \"--\"");
}
