/* SPDX-License-Identifier: Apache-2.0
 * src/cli/files.h - moves bytes between a descriptor and the place of a lease: through a daemon, or
 * with the runtime in this process. */
#ifndef BERTH_CLI_FILES_H
#define BERTH_CLI_FILES_H

#include "cli/cli.h"

/* Writes the tar archive of a path in the place to a descriptor. The error is in cli->err. */
int cli_files_get_archive(struct cli *cli, const char *lease_id, const char *path, int fd);
/* Unpacks the tar archive that a descriptor gives into a directory of the place. */
int cli_files_put_archive(struct cli *cli, const char *lease_id, const char *path, int fd);
/* Writes a file of the place with the bytes of a descriptor. `mode` is octal. */
int cli_files_put_file(struct cli *cli, const char *lease_id, const char *path, const char *mode,
                       int64_t length, int fd);
#endif
