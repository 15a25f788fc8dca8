/* SPDX-License-Identifier: Apache-2.0
 * src/cli/print.h - output: results on stdout, errors on stderr, and nothing from outside that
 * could move the cursor of a terminal. */
#ifndef BERTH_CLI_PRINT_H
#define BERTH_CLI_PRINT_H

#include <stdio.h>

#include "base/buf.h"
#include "cli/cli.h"

/* Prints the buffer's text and a newline. Returns CLI_OK or CLI_FAILED. A write that fails is noted
 * in cli->unwritten, and cli_close_output says so. */
int cli_print(struct cli *cli, struct berth_buf *buf);
/* Called before every exit. Writes what standard output still buffers. When output of any kind
 * could not be written, prints an error and returns the exit status for that, else `status`. */
int cli_close_output(struct cli *cli, int status);
/* Prints cli->err and cli->issues on stderr. Returns CLI_FAILED. */
int cli_fail(struct cli *cli);
void cli_print_prefix(void); /* "berth: " on stderr */

/* Returns the text with "?" for every control character; cli_clean_text does so in place. */
const char *cli_clean(struct cli *cli, const char *text);
void cli_clean_text(char *text);
/* Returns "2m ago", "in 3h", or "-" for 0. */
const char *cli_when(struct cli *cli, int64_t wall_ms);

bool cli_colours(FILE *out);
int cli_width(void); /* columns of standard output; 0: it is not a terminal */
#endif
