/* SPDX-License-Identifier: Apache-2.0
 * src/cli/main.c - berth: finds the command and runs it. */
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failpoint.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/similar.h"
#include "crypto/locked.h"

#define WORDS_MAX 64

/* Prints all commands, or those of one noun. */
static void print_overview(FILE *out, const char *noun)
{
    (void)fputs("berth gives every agent run a place to work, and takes it back.\n\n", out);
    for (const struct cli_command *const *group = cli_commands; *group; group++)
        for (const struct cli_command *c = *group; c->noun; c++) {
            char name[64];
            if (!noun || strcmp(c->noun, noun) == 0)
                (void)fprintf(out, "  berth %-20s %s\n", cli_command_name(c, name), c->summary);
        }
    (void)fputs(
        "\nberth COMMAND --help says more. --store ADDRESS or BERTH_STORE names the store:\n"
        "sqlite:PATH, or postgres://user@host/db with the password in PGPASSFILE. --url URL or\n"
        "BERTH_URL names a daemon: https://host:port, with a token in BERTH_TOKEN_FILE.\n",
        out);
}

static bool knows_noun(const char *noun)
{
    for (const struct cli_command *const *group = cli_commands; *group; group++)
        for (const struct cli_command *c = *group; c->noun; c++)
            if (strcmp(c->noun, noun) == 0)
                return true;
    return false;
}

/* Finds a command; a verb that matches is preferred to a noun without verbs. */
static const struct cli_command *find_command(const char *noun, const char *verb)
{
    const struct cli_command *alone = NULL;
    for (const struct cli_command *const *group = cli_commands; *group; group++)
        for (const struct cli_command *c = *group; c->noun; c++) {
            if (strcmp(c->noun, noun) != 0)
                continue;
            if (!c->verb)
                alone = c;
            else if (verb && strcmp(c->verb, verb) == 0)
                return c;
        }
    return alone;
}

/* Lets the process kill itself at the named step, for the tour and for tests. */
static bool arm_failpoint(const char *name)
{
    if (!name)
        return true;
    enum berth_failpoint point = berth_failpoint_find(name);
    if (point == BERTH_FP_COUNT)
        return false;
    berth_failpoint_arm(point, 0);
    return true;
}

/* Lists the verbs of a noun, or all nouns. */
static int words_of(const char *noun, const char *words[WORDS_MAX])
{
    int count = 0;
    for (const struct cli_command *const *group = cli_commands; *group; group++)
        for (const struct cli_command *c = *group; c->noun && count < WORDS_MAX; c++)
            if (!noun)
                words[count++] = c->noun;
            else if (strcmp(c->noun, noun) == 0 && c->verb)
                words[count++] = c->verb;
    return count;
}

static int say_unknown_command(const struct cli *cli, const char *noun, const char *verb)
{
    const char *words[WORDS_MAX];
    bool known = knows_noun(noun);
    int count = words_of(known ? noun : NULL, words);
    if (known && !verb)
        return cli_usage(cli, "\"%s\" what? \"berth %s --help\" lists it", noun, noun);
    const char *like = cli_most_like(known ? verb : noun, words, count);
    const char *space = known ? " " : "", *before = known ? noun : "";
    const char *given = known ? verb : noun;
    if (like)
        return cli_usage(cli, "there is no command \"%s%s%s\". Did you mean \"%s%s%s\"?", before,
                         space, given, before, space, like);
    return cli_usage(cli, "there is no command \"%s%s%s\"", before, space, given);
}

static int run_program(struct cli *cli, int argc, char **argv)
{
    if (!arm_failpoint(getenv("BERTH_FAILPOINT")))
        return cli_usage(cli, "BERTH_FAILPOINT names no step");
    int leading = cli_leading_options(cli, argc - 1, argv + 1);
    if (leading < 0)
        return cli_usage(cli, "%s needs a value", argv[argc - 1]);
    argc -= leading;
    argv += leading;
    if (argc < 2) {
        print_overview(stderr, NULL);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "__complete") == 0)
        return cli_complete(cli, argc - 2, argv + 2);
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "-h") == 0) {
        print_overview(stdout, argc > 2 && knows_noun(argv[2]) ? argv[2] : NULL);
        return CLI_OK;
    }
    const char *noun = strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
    const struct cli_command *command = find_command(noun, argc > 2 ? argv[2] : NULL);
    if (!command && knows_noun(noun) && argc > 2 && strcmp(argv[2], "--help") == 0) {
        print_overview(stdout, noun);
        return CLI_OK;
    }
    if (!command)
        return say_unknown_command(cli, noun, argc > 2 ? argv[2] : NULL);
    cli->command = command;
    int skip = command->verb ? 2 : 1;
    return command->run(cli, argc - skip, argv + skip);
}

/* Opens 0, 1 and 2 when they are closed: a later descriptor with such a number would get the output
 * of this program. */
static void fill_standard_fds(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", O_RDONLY); /* read-only, so that writing still fails */
}

int main(int argc, char **argv)
{
    fill_standard_fds();
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    berth_builtins.tune_process();
    berth_deny_dumps(); /* values of secrets pass through here */
    struct cli cli = {.cancel_fd = -1};
    cli.issues.arena = &cli.arena;
    int status = run_program(&cli, argc, argv);
    status = cli_close_output(&cli, status);
    cli_disconnect(&cli);
    berth_arena_clear(&cli.arena);
    return status;
}
