/* SPDX-License-Identifier: Apache-2.0
 * src/cli/lookup.h - finds a thing by its name, its id, or the first characters of the id. */
#ifndef BERTH_CLI_LOOKUP_H
#define BERTH_CLI_LOOKUP_H

#include "base/json.h"
#include "cli/cli.h"

/* Finds the whole id of a "lease", a "run" ... from an id or its first characters. */
int cli_find_id(struct cli *cli, const char *kind, const char *text, const char **out);
/* Find an object by name or id. NOT_FOUND suggests a similar name. */
int cli_find_environment(struct cli *cli, const char *text, const struct berth_json **out);
int cli_find_secret(struct cli *cli, const char *text, const struct berth_json **out);
int cli_find_company(struct cli *cli, const char *text, const struct berth_json **out);
#endif
