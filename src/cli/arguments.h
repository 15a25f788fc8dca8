/* SPDX-License-Identifier: Apache-2.0
 * src/cli/arguments.h - options and words of a command line, and what is wrong with them. */
#ifndef BERTH_CLI_ARGUMENTS_H
#define BERTH_CLI_ARGUMENTS_H

#include "base/json.h"
#include "cli/cli.h"

/* An option of a command. Exactly one of `text`, `flag` and `texts` is set. */
struct cli_option {
    const char *name;
    const char **text; /* the value; the last one counts */
    bool *flag;
    struct berth_list *texts; /* all values, in order */
};

/* The global options, closed by NULL; those that take a value end in "=". */
extern const char *const cli_global_options[];
/* Reads global options that stand before the command, from argv[0] on. Returns the number of words
 * read, or -1 when a value is missing. */
int cli_leading_options(struct cli *cli, int argc, char **argv);
/* Reads options and between `min` and `max` words, which replace argv[0...]. Returns the number of
 * words, or -1 after the usage error has been printed. */
int cli_parse(struct cli *cli, int argc, char **argv, const struct cli_option *options, int min,
              int max);
/* Prints the error and the command's usage on stderr. Returns CLI_USAGE. */
int cli_usage(const struct cli *cli, const char *fmt, ...) BERTH_PRINTF(2, 3);

bool cli_number(const char *text, int64_t min, int64_t max, int64_t *out);
/* Returns the names of an enum as "a, b, c". */
const char *cli_choices(struct cli *cli, const struct berth_enum *type);
/* Finds an enum's value by name; `given` NULL leaves *out as it is. Returns CLI_OK, or CLI_USAGE
 * after the usage error has been printed. */
int cli_choice(struct cli *cli, const char *option, const char *given,
               const struct berth_enum *type, int *out);
/* Reads --limit, a number of rows; `given` NULL is the default. Returns as cli_choice does. */
int cli_limit(struct cli *cli, const char *given, int *out);
/* Reads a JSON object from a file, or from standard input for "-". */
int cli_read_object(struct cli *cli, const char *path, struct berth_json **out);
#endif
