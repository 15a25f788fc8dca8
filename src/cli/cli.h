/* SPDX-License-Identifier: Apache-2.0
 * src/cli/cli.h - what the commands share: options, answers, errors. */
#ifndef BERTH_CLI_CLI_H
#define BERTH_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/issues.h"
#include "base/json.h"
#include "core/activity.h"
#include "core/berth.h"
#include "core/environment.h"

/* Exit statuses. */
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
};

struct cli_command;

/* One call of the program. */
struct cli {
    const struct cli_command *command;
    const char *store; /* --store, else BERTH_STORE, else the user's own */
    bool json, quiet;
    struct berth *b;
    struct berth_arena arena;
    struct berth_issues issues;
    struct berth_actor actor;
    struct berth_error err;
};

/* An option of a command: takes a text, is a flag, or takes a text each time it is given. */
struct cli_option {
    const char *name;
    const char **text; /* one of the three */
    bool *flag;
    struct berth_list *texts;
};

struct cli_command {
    const char *noun, *verb; /* verb NULL: the noun alone is the command */
    const char *arguments;   /* "NAME [--driver DRIVER]", for the usage */
    const char *summary;
    int (*run)(struct cli *cli, int argc, char **argv); /* argv[0] is the command's own name */
};

extern const struct cli_command *const cli_groups[]; /* each closed by a NULL noun */
/* "env create", in `out`. */
const char *cli_command_name(const struct cli_command *command, char out[64]);
extern const struct cli_command cli_environment_commands[], cli_lease_commands[],
    cli_other_commands[];

/* Reads options and between `min` and `max` words, which replace argv[0...]. The number of words,
 * or -1 after the usage error has been told. --store, --json, --quiet and --help work anywhere. */
int cli_parse(struct cli *cli, int argc, char **argv, const struct cli_option *options, int min,
              int max);
int cli_usage(const struct cli *cli, const char *fmt, ...) BERTH_PRINTF(2, 3); /* CLI_USAGE */
int cli_fail(struct cli *cli); /* tells cli->err and the issues; CLI_FAILED */

int cli_connect(struct cli *cli); /* opens the runtime */
/* Opens the runtime and makes the short pass that needs no provider; what is owed is told. */
int cli_open(struct cli *cli);

/* Prints the buffer's text and a newline. CLI_OK or CLI_FAILED. */
int cli_print(struct cli *cli, struct berth_buf *buf);

/* Rows of texts under a heading, aligned; the list holds arrays of `columns` texts. */
int cli_table(struct cli *cli, const char *const *heading, int columns,
              const struct berth_list *rows);
/* Says on stderr that a list may have been cut. */
void cli_say_cut(const struct cli *cli, int rows, int limit);
/* "2m ago", "in 3h", "-". */
const char *cli_when(struct cli *cli, int64_t wall_ms);

/* "90s", "15m", "1h", "2d", "250ms". */
bool cli_duration(const char *text, int64_t *ms);
bool cli_number(const char *text, int64_t min, int64_t max, int64_t *out);
/* An object from a file, or from standard input for "-". */
int cli_read_object(struct cli *cli, const char *path, struct berth_json **out);
/* An environment by id or by its name. */
int cli_find_environment(struct cli *cli, const char *name, struct berth_environment **out);
#endif
