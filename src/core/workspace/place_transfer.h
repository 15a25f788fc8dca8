/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/place_transfer.h - moves the input and the output of scripts to and from files
 * of a place that has no byte streams: by means of its provider, or else by commands. */
#ifndef BERTH_CORE_WORKSPACE_PLACE_TRANSFER_H
#define BERTH_CORE_WORKSPACE_PLACE_TRANSFER_H

#include "core/workspace/place_shell.h"
#include "crypto/hash.h"

/* Stores what the script's `feed` gives in the file `path`. */
int berth_place_upload(struct berth_place_shell *shell, const struct berth_place_script *s,
                       const char *path, struct berth_error *err);

/* The output of a script, in a file of the place. */
struct berth_place_output {
    int64_t size;
    char hex[BERTH_SHA256_HEX_SIZE]; /* its hash; "": not known */
};
/* Hands the file PATH.out to the script's `take`. */
int berth_place_download(struct berth_place_shell *shell, const struct berth_place_script *s,
                         const char *path, const struct berth_place_output *output,
                         struct berth_error *err);
#endif
