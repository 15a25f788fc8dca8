/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/place_spool.h - a file on this machine through which bytes travel that a
 * provider moves, with their hash. */
#ifndef BERTH_CORE_WORKSPACE_PLACE_SPOOL_H
#define BERTH_CORE_WORKSPACE_PLACE_SPOOL_H

#include "core/berth.h"
#include "crypto/hash.h"
#include "sync/pack.h"
#include "sync/unpack.h"

/* The file has no name, so that it goes with the process. */
struct berth_place_spool {
    int fd;
    int64_t size, at;
    struct berth_sha256_stream *digest;
    char hex[BERTH_SHA256_HEX_SIZE]; /* of what was written */
    char bytes[64 * 1024];           /* what is read */
};

int berth_place_spool_new(const struct berth *b, struct berth_place_spool **out,
                          struct berth_error *err);
void berth_place_spool_free(struct berth_place_spool **spool);
#define auto_place_spool auto_clean(berth_place_spool_free) struct berth_place_spool

/* Writes bytes, as `put` of struct berth_pack_sink. */
int berth_place_spool_put(void *spool, const void *bytes, size_t len, struct berth_error *err);
/* Fills `hex` when all bytes were written. */
void berth_place_spool_end_digest(struct berth_place_spool *spool);
/* Reads the next bytes, as `get` of struct berth_unpack_source. */
ssize_t berth_place_spool_get(void *spool, const void **bytes, struct berth_error *err);
/* Passes all bytes on, as `feed` of struct berth_place_script. */
int berth_place_spool_feed(void *spool, const struct berth_pack_sink *sink,
                           struct berth_error *err);
#endif
