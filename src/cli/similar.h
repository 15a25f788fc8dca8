/* SPDX-License-Identifier: Apache-2.0
 * src/cli/similar.h - suggests a name for one that was mistyped. */
#ifndef BERTH_CLI_SIMILAR_H
#define BERTH_CLI_SIMILAR_H

/* Returns the name that is most like the text, or NULL when none is similar. */
const char *cli_most_like(const char *text, const char *const *names, int count);
#endif
