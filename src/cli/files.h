/* SPDX-License-Identifier: Apache-2.0
 * src/cli/files.h - moves bytes between a descriptor and the place of a lease: through a daemon, or
 * with the runtime in this process. */
#ifndef BERTH_CLI_FILES_H
#define BERTH_CLI_FILES_H

#include <stdatomic.h>

#include "cli/cli.h"

/* Bytes to send. */
struct cli_input {
    int fd;
    int64_t length; /* -1: not known */
    /* Whether the bytes end before their time, when the descriptor has no more; or NULL. What has
     * been sent is then refused. */
    const _Atomic bool *broken;
    int64_t sent; /* 0 at first */
};

/* Sends a request to the daemon, whose answer goes to the descriptor `to`; -1: it is dropped.
 * `from` is the body, or NULL. */
int cli_files_ask(struct cli *cli, const char *method, const char *target, int to,
                  struct cli_input *from);
/* Writes the tar archive of a path in the place to a descriptor. The error is in cli->err. */
int cli_files_get_archive(struct cli *cli, const char *lease_id, const char *path, int fd);
/* Unpacks a tar archive into a directory of the place. */
int cli_files_put_archive(struct cli *cli, const char *lease_id, const char *path,
                          struct cli_input *from);
/* Writes a file of the place. `mode` is octal. */
int cli_files_put_file(struct cli *cli, const char *lease_id, const char *path, const char *mode,
                       struct cli_input *from);
#endif
