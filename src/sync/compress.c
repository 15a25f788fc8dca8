/* SPDX-License-Identifier: Apache-2.0
 * src/sync/compress.c - see compress.h. */
#include "sync/compress.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define LEVEL 1
#define WINDOW_LOG_MAX 23 /* a compressed archive cannot make us use more than 8 MiB for it */
#define PIECE_BYTES ((size_t)128 * 1024)

struct berth_compressor {
    ZSTD_CCtx *zstd;
    const struct berth_pack_sink *sink;
    char piece[PIECE_BYTES];
};

int berth_compressor_new(const struct berth_pack_sink *sink, struct berth_compressor **out,
                         struct berth_error *err)
{
    struct berth_compressor *c = malloc(sizeof *c);
    ZSTD_CCtx *zstd = c ? ZSTD_createCCtx() : NULL;
    if (!zstd || ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, LEVEL)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1))) {
        (void)ZSTD_freeCCtx(zstd);
        free(c);
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: compressing.");
    }
    c->zstd = zstd;
    c->sink = sink;
    *out = c;
    return BERTH_OK;
}

/* Compresses until the input is used up or, at the end, until everything is written. */
static int compress_all(struct berth_compressor *c, ZSTD_inBuffer *in, ZSTD_EndDirective directive,
                        struct berth_error *err)
{
    for (;;) {
        ZSTD_outBuffer out = {c->piece, sizeof c->piece, 0};
        size_t left = ZSTD_compressStream2(c->zstd, &out, in, directive);
        if (ZSTD_isError(left))
            return berth_fail(err, BERTH_E_INTERNAL, "Cannot compress: %s.",
                              ZSTD_getErrorName(left));
        int rc = out.pos ? c->sink->put(c->sink->ctx, c->piece, out.pos, err) : BERTH_OK;
        if (rc < 0 || (directive == ZSTD_e_end ? !left : in->pos == in->size))
            return rc;
    }
}

int berth_compressor_put(void *compressor, const void *bytes, size_t len, struct berth_error *err)
{
    return compress_all(compressor, &(ZSTD_inBuffer){bytes, len, 0}, ZSTD_e_continue, err);
}

int berth_compressor_end(struct berth_compressor *c, struct berth_error *err)
{
    return compress_all(c, &(ZSTD_inBuffer){NULL, 0, 0}, ZSTD_e_end, err);
}

void berth_compressor_free(struct berth_compressor *c)
{
    if (c)
        (void)ZSTD_freeCCtx(c->zstd);
    free(c);
}

struct berth_decompressor {
    ZSTD_DCtx *zstd; /* NULL: the content is not compressed */
    const struct berth_unpack_source *source;
    ZSTD_inBuffer in;
    bool begun;   /* the beginning was looked at */
    bool cut;     /* the end of a frame has not come yet */
    bool full;    /* more output is ready than the last piece had room for */
    char head[4]; /* the beginning, until it is used */
    size_t head_len;
    int64_t bytes_left;
    char piece[PIECE_BYTES];
};

int berth_decompressor_new(const struct berth_unpack_source *source, int64_t bytes_max,
                           struct berth_decompressor **out, struct berth_error *err)
{
    struct berth_decompressor *d = malloc(sizeof *d);
    if (!d)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: decompressing.");
    d->zstd = NULL;
    d->source = source;
    d->in = (ZSTD_inBuffer){NULL, 0, 0};
    d->begun = d->cut = d->full = false;
    d->head_len = 0;
    d->bytes_left = bytes_max;
    *out = d;
    return BERTH_OK;
}

static ssize_t decompress_failed(const char *why, struct berth_error *err)
{
    return berth_fail(err, BERTH_E_UPSTREAM, "The place sent an archive that is damaged: %s.", why);
}

/* Reads the first bytes, which say whether the content is compressed. */
static ssize_t look_at_head(struct berth_decompressor *d, struct berth_error *err)
{
    static const char magic[] = "\x28\xb5\x2f\xfd";
    const void *bytes;
    while (d->head_len < sizeof d->head) {
        ssize_t got = d->source->get(d->source->ctx, &bytes, err);
        if (got < 0)
            return got;
        if (got == 0)
            break;
        size_t room = sizeof d->head - d->head_len, n = (size_t)got < room ? (size_t)got : room;
        memcpy(d->head + d->head_len, bytes, n);
        d->head_len += n;
        d->in = (ZSTD_inBuffer){(const char *)bytes + n, (size_t)got - n, 0};
    }
    d->begun = true;
    if (d->head_len < sizeof d->head || memcmp(d->head, magic, sizeof d->head) != 0)
        return BERTH_OK;
    d->zstd = ZSTD_createDCtx();
    if (!d->zstd ||
        ZSTD_isError(ZSTD_DCtx_setParameter(d->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX)))
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: decompressing.");
    return BERTH_OK;
}

/* Gives the head, then what came with it, then the rest of the source. */
static ssize_t get_raw(struct berth_decompressor *d, const void **bytes, struct berth_error *err)
{
    if (d->head_len) {
        ssize_t len = (ssize_t)d->head_len;
        *bytes = d->head;
        d->head_len = 0;
        return len;
    }
    if (d->in.size) {
        ssize_t len = (ssize_t)d->in.size;
        *bytes = d->in.src;
        d->in.size = 0;
        return len;
    }
    return d->source->get(d->source->ctx, bytes, err);
}

static ssize_t get_decompressed(struct berth_decompressor *d, const void **bytes,
                                struct berth_error *err)
{
    ZSTD_outBuffer out = {d->piece, sizeof d->piece, 0};
    ZSTD_inBuffer head = {d->head, d->head_len, 0};
    d->head_len = 0;
    while (!out.pos) {
        ZSTD_inBuffer *in = head.pos < head.size ? &head : &d->in;
        if (in->pos == in->size && !d->full) {
            ssize_t got = d->source->get(d->source->ctx, bytes, err);
            if (got == 0 && d->cut)
                return decompress_failed("its end is missing", err);
            if (got <= 0)
                return got;
            d->in = (ZSTD_inBuffer){*bytes, (size_t)got, 0};
            continue;
        }
        size_t rest = ZSTD_decompressStream(d->zstd, &out, in);
        if (ZSTD_isError(rest))
            return decompress_failed(ZSTD_getErrorName(rest), err);
        d->cut = rest != 0;
        d->full = rest != 0 && out.pos == out.size;
    }
    *bytes = d->piece;
    return (ssize_t)out.pos;
}

ssize_t berth_decompressor_get(void *decompressor, const void **bytes, struct berth_error *err)
{
    struct berth_decompressor *d = decompressor;
    ssize_t got = d->begun ? BERTH_OK : look_at_head(d, err);
    if (got == BERTH_OK)
        got = d->zstd ? get_decompressed(d, bytes, err) : get_raw(d, bytes, err);
    if (got > 0 && got > d->bytes_left)
        return berth_fail(err, BERTH_E_UPSTREAM,
                          "The place sent more content than the files that were asked for had: a "
                          "file changes there, or the archive is damaged. Try again.");
    d->bytes_left -= got > 0 ? got : 0;
    return got;
}

void berth_decompressor_free(struct berth_decompressor *d)
{
    if (d)
        (void)ZSTD_freeDCtx(d->zstd);
    free(d);
}
