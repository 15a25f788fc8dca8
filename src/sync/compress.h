/* SPDX-License-Identifier: Apache-2.0
 * src/sync/compress.h - archives that are compressed on their way, by zstd. */
#ifndef BERTH_SYNC_COMPRESS_H
#define BERTH_SYNC_COMPRESS_H

#include "sync/pack.h"
#include "sync/unpack.h"

struct berth_compressor;
/* The sink is borrowed. */
int berth_compressor_new(const struct berth_pack_sink *sink, struct berth_compressor **out,
                         struct berth_error *err);
/* Compresses bytes into the sink: the `put` of another sink, whose ctx is the compressor. */
int berth_compressor_put(void *compressor, const void *bytes, size_t len, struct berth_error *err);
/* Writes what is left. Without it the receiver finds the archive cut. */
int berth_compressor_end(struct berth_compressor *c, struct berth_error *err);
void berth_compressor_free(struct berth_compressor *c); /* NULL is fine */

struct berth_decompressor;
/* The source is borrowed. A stranger may compress a lot of content into few bytes: it may give up
 * to `bytes_max`. */
int berth_decompressor_new(const struct berth_unpack_source *source, int64_t bytes_max,
                           struct berth_decompressor **out, struct berth_error *err);
/* Gives the content of the source, decompressed if it is compressed: the `get` of another source,
 * whose ctx is the decompressor. UPSTREAM: it is damaged or cut, or there is too much. */
ssize_t berth_decompressor_get(void *decompressor, const void **bytes, struct berth_error *err);
void berth_decompressor_free(struct berth_decompressor *d); /* NULL is fine */
#endif
