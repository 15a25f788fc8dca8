/* SPDX-License-Identifier: Apache-2.0
 * src/cli/table.h - prints answers of the API: as they are, as lines, or as a table that fits the
 * terminal. */
#ifndef BERTH_CLI_TABLE_H
#define BERTH_CLI_TABLE_H

#include "base/buf.h"
#include "cli/client.h"

enum cli_kind {
    CLI_TEXT,
    CLI_ID,     /* may be cut to the characters that tell it apart */
    CLI_NUMBER, /* is never cut */
    CLI_STATUS, /* may have a colour */
    CLI_WHEN,   /* a time, shown as "2m ago" */
};
/* One member of an object: a line under its name, or a column under its heading. */
struct cli_cell {
    const char *label;
    const char *key; /* of the member */
    enum cli_kind kind;
    const char *otherwise; /* shown when it is missing; NULL: no line, "-" in a table */
    const char *(*text)(struct cli *cli, const struct berth_json *object); /* instead of the key */
};

/* Prints a text of an answer and a newline. NULL, a missing member, is an error. Returns CLI_OK or
 * CLI_FAILED. */
int cli_print_text(struct cli *cli, const char *text);
/* Prints a list: a table; with --quiet its first column alone, with --json the answer itself.
 * `columns` is closed by a NULL label. */
int cli_print_list(struct cli *cli, const struct cli_answer *list, const struct cli_cell *columns);
/* Prints one object: its lines; with --quiet its id, with --json the answer itself. */
int cli_print_one(struct cli *cli, const struct cli_answer *one, const char *id,
                  const struct cli_cell *lines);
void cli_put_lines(struct cli *cli, struct berth_buf *buf, const struct berth_json *object,
                   const struct cli_cell *lines);
/* Appends "name         value" on a new line; a NULL value is left out. */
void cli_field(struct cli *cli, struct berth_buf *buf, const char *name, const char *value);
/* Says on stderr that a list may have been cut at --limit. */
void cli_say_cut(const struct cli *cli, const struct cli_answer *list, int limit);
#endif
