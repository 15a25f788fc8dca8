/* SPDX-License-Identifier: Apache-2.0
 * src/cli/arguments.c - see arguments.h. */
#include "cli/arguments.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "cli/commands.h"
#include "cli/print.h"
#include "cli/similar.h"
#include "crypto/locked.h"

#define OPTIONS_MAX 32
#define FIRST_LONG 256 /* numbers of long options, after those of characters */

/* In the order of `enum global`. */
const char *const cli_global_options[] = {
    "store=", "company=", "key-file=", "url=", "json", "quiet", "help", NULL};
enum global {
    STORE,
    COMPANY,
    KEY_FILE,
    URL,
    JSON,
    QUIET,
    HELP,
    GLOBALS,
};

int cli_usage(const struct cli *cli, const char *fmt, ...)
{
    char name[CLI_COMMAND_NAME_SIZE];
    va_list args;
    auto_free char *text = NULL;
    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        text = NULL;
    va_end(args);
    cli_print_prefix();
    if (text)
        cli_clean_text(text);
    (void)fputs(text ? text : "wrong usage", stderr);
    if (cli->command)
        (void)fprintf(stderr, "\nusage: berth %s %s\n", cli_command_name(cli->command, name),
                      cli->command->arguments);
    else
        (void)fputs("\nTry \"berth help\".\n", stderr);
    return CLI_USAGE;
}

static void print_help(const struct cli *cli)
{
    char name[CLI_COMMAND_NAME_SIZE];
    (void)printf("berth %s %s\n\n%s\n\n", cli_command_name(cli->command, name),
                 cli->command->arguments, cli->command->summary);
    (void)puts(
        "Everywhere: --store ADDRESS (or BERTH_STORE), --company NAME|ID (or BERTH_COMPANY),\n"
        "  --key-file FILE (or BERTH_KEY_FILE), --url URL (or BERTH_URL), --json, --quiet, --help");
}

static void take_global(struct cli *cli, enum global option)
{
    switch (option) {
    case STORE:
        cli->store = optarg;
        break;
    case COMPANY:
        cli->company = optarg;
        break;
    case KEY_FILE:
        cli->key_file = optarg;
        break;
    case URL:
        cli->url = optarg;
        break;
    case JSON:
        cli->json = true;
        break;
    case QUIET:
        cli->quiet = true;
        break;
    case HELP:
    case GLOBALS:
        print_help(cli);
        exit(cli_close_output(cli, CLI_OK));
    }
}

static void take_option(struct cli *cli, const struct cli_option *option)
{
    if (option->text)
        *option->text = optarg;
    else if (option->flag)
        *option->flag = true;
    else
        (void)berth_list_add(option->texts, &cli->arena, optarg); /* the arena keeps the error */
}

/* Fills the table of getopt_long: the global options, then those of the command. */
static int make_table(const struct cli_option *options, struct option table[OPTIONS_MAX])
{
    static char names[GLOBALS][16];
    int count = 0;
    for (; cli_global_options[count]; count++) {
        const char *name = cli_global_options[count];
        size_t len = strcspn(name, "=");
        (void)snprintf(names[count], sizeof names[count], "%.*s", (int)len, name);
        table[count] = (struct option){.name = names[count],
                                       .has_arg = name[len] ? required_argument : no_argument,
                                       .val = FIRST_LONG + count};
    }
    for (const struct cli_option *o = options; o && o->name; o++, count++)
        table[count] = (struct option){.name = o->name,
                                       .has_arg = o->flag ? no_argument : required_argument,
                                       .val = FIRST_LONG + count};
    return count;
}

int cli_leading_options(struct cli *cli, int argc, char **argv)
{
    const char **const values[] = {&cli->store, &cli->company, &cli->key_file, &cli->url};
    int at = 0;
    for (; at < argc; at++) {
        const char *word = argv[at];
        size_t i = 0, len = 0;
        for (; i < sizeof values / sizeof values[0]; i++) {
            len = strlen(cli_global_options[i]) - 1; /* without the "=" */
            if (strncmp(word, "--", 2) == 0 && strncmp(word + 2, cli_global_options[i], len) == 0 &&
                (!word[2 + len] || word[2 + len] == '='))
                break;
        }
        if (i < sizeof values / sizeof values[0]) {
            if (!word[2 + len] && at + 1 == argc)
                return -1;
            *values[i] = word[2 + len] ? word + 3 + len : argv[++at];
        } else if (strcmp(word, "--json") == 0) {
            cli->json = true;
        } else if (strcmp(word, "--quiet") == 0 || strcmp(word, "-q") == 0) {
            cli->quiet = true;
        } else {
            break;
        }
    }
    return at;
}

static void say_unknown_option(const struct cli *cli, const struct option *table, int count,
                               const char *given)
{
    const char *names[OPTIONS_MAX];
    char word[64];
    if (optopt > 0 && optopt < FIRST_LONG) {
        (void)cli_usage(cli, "there is no option -%c", optopt);
        return;
    }
    (void)snprintf(word, sizeof word, "%.*s", (int)strcspn(given, "="), given);
    int alike = 0;
    for (int i = 0; i < count; i++) {
        names[i] = table[i].name;
        if (strncmp(word, "--", 2) == 0 && strcmp(word + 2, table[i].name) == 0) {
            (void)cli_usage(cli, "%s takes no value", word);
            return;
        }
        alike +=
            strncmp(word, "--", 2) == 0 && strncmp(word + 2, table[i].name, strlen(word + 2)) == 0;
    }
    const char *like = strncmp(word, "--", 2) == 0 ? cli_most_like(word + 2, names, count) : NULL;
    if (alike > 1)
        (void)cli_usage(cli, "%s could be several options: write more of it", word);
    else if (like)
        (void)cli_usage(cli, "there is no option %s. Did you mean --%s?", word, like);
    else
        (void)cli_usage(cli, "there is no option %s", word);
}

int cli_parse(struct cli *cli, int argc, char **argv, const struct cli_option *options, int min,
              int max)
{
    struct option table[OPTIONS_MAX] = {{0}};
    int count = make_table(options, table);
    opterr = 0;
    optind = 1;
    for (int got; (got = getopt_long(argc, argv, ":qh", table, NULL)) != -1;) {
        int index = got - FIRST_LONG;
        if (got == 'q') {
            cli->quiet = true;
        } else if (got == 'h') {
            take_global(cli, HELP);
        } else if (got == ':') {
            (void)cli_usage(cli, "%s needs a value", argv[optind - 1]);
            return -1;
        } else if (got == '?') {
            say_unknown_option(cli, table, count, argv[optind - 1]);
            return -1;
        } else if (index < GLOBALS) {
            take_global(cli, (enum global)index);
        } else {
            take_option(cli, &options[index - GLOBALS]);
        }
    }
    int words = argc - optind;
    if (words < min || words > max) {
        if (words < min)
            (void)cli_usage(cli, "something is missing");
        else
            (void)cli_usage(cli, "\"%s\" is one word too many", argv[optind + max]);
        return -1;
    }
    for (int i = 0; i < words; i++)
        argv[i] = argv[optind + i];
    return words;
}

const char *cli_choices(struct cli *cli, const struct berth_enum *type)
{
    const char *all = type->names[0];
    for (int i = 1; type->names[i] && all; i++)
        all = berth_arena_printf(&cli->arena, "%s, %s", all, type->names[i]);
    return all ? all : "";
}

int cli_choice(struct cli *cli, const char *option, const char *given,
               const struct berth_enum *type, int *out)
{
    if (!given)
        return CLI_OK;
    *out = berth_enum_find(type, given);
    return *out < 0
               ? cli_usage(cli, "--%s \"%s\" is none of: %s", option, given, cli_choices(cli, type))
               : CLI_OK;
}

int cli_limit(struct cli *cli, const char *given, int *out)
{
    int64_t rows = BERTH_LIST_ROWS_DEFAULT;
    if (given && !cli_number(given, 1, BERTH_LIST_ROWS_MAX, &rows))
        return cli_usage(cli, "--limit is a number from 1 to %d", BERTH_LIST_ROWS_MAX);
    *out = (int)rows;
    return CLI_OK;
}

bool cli_number(const char *text, int64_t min, int64_t max, int64_t *out)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno || end == text || *end || number < min || number > max)
        return false;
    *out = number;
    return true;
}

int cli_read_object(struct cli *cli, const char *path, struct berth_json **out)
{
    bool std_in = strcmp(path, "-") == 0;
    auto_close int file = std_in ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (!std_in && file < 0)
        return berth_fail_errno(&cli->err, "Cannot read %s", path);
    auto_locked text = BERTH_LOCKED_INIT; /* it may hold a secret */
    int rc = std_in && cli->stdin_read
                 ? berth_fail(&cli->err, BERTH_E_INVALID, "Standard input can be read once only.")
                 : berth_locked_read(std_in ? STDIN_FILENO : file, BERTH_CONFIG_BYTES_MAX, &text,
                                     &cli->err);
    cli->stdin_read |= std_in;
    if (rc == BERTH_OK)
        rc = berth_json_parse(text.bytes, text.len, BERTH_JSON_OURS, out, &cli->err);
    if (rc == BERTH_OK && !berth_json_is(*out, BERTH_JSON_OBJECT)) {
        berth_json_free(*out);
        *out = NULL;
        rc = berth_fail(&cli->err, BERTH_E_INVALID, "%s does not hold a JSON object.",
                        std_in ? "Standard input" : path);
    }
    return rc;
}
