/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/place_spool.c - see place_spool.h. */
#include "core/workspace/place_spool.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/hex.h"
#include "core/lease/lease_directory.h"
#include "os/fs.h"

void berth_place_spool_free(struct berth_place_spool **p)
{
    if (!*p)
        return;
    if ((*p)->fd >= 0)
        (void)close((*p)->fd);
    berth_sha256_stream_free((*p)->digest);
    free(*p);
}

int berth_place_spool_new(const struct berth *b, struct berth_place_spool **out,
                          struct berth_error *err)
{
    auto_free char *directory = NULL;
    auto_place_spool *spool = calloc(1, sizeof *spool);
    if (!spool)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: moving files.");
    spool->fd = -1;
    int rc = berth_lease_directories(b, "workspaces", &directory, err);
    if (rc == BERTH_OK)
        rc = berth_fs_mkdirs(directory, S_IRWXU, err);
    if (rc == BERTH_OK)
        rc = berth_sha256_stream_new(&spool->digest, err);
    if (rc < 0)
        return rc;
    spool->fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (spool->fd < 0)
        return berth_fail_errno(err, "Cannot make a file in %s", directory);
    berth_sha256_stream_begin(spool->digest);
    *out = take_ptr(spool);
    return BERTH_OK;
}

void berth_place_spool_end_digest(struct berth_place_spool *spool)
{
    unsigned char hash[BERTH_SHA256_SIZE];
    berth_sha256_stream_end(spool->digest, hash);
    berth_hex_write(hash, sizeof hash, spool->hex);
}

int berth_place_spool_put(void *ctx, const void *bytes, size_t len, struct berth_error *err)
{
    struct berth_place_spool *spool = ctx;
    berth_sha256_stream_put(spool->digest, bytes, len);
    spool->size += (int64_t)len;
    return berth_fs_write_all(spool->fd, bytes, len, err);
}

ssize_t berth_place_spool_get(void *ctx, const void **bytes, struct berth_error *err)
{
    struct berth_place_spool *spool = ctx;
    ssize_t got = pread(spool->fd, spool->bytes, sizeof spool->bytes, spool->at);
    if (got < 0)
        return berth_fail_errno(err, "Cannot read a file on its way");
    spool->at += got;
    *bytes = spool->bytes;
    return got;
}

int berth_place_spool_feed(void *ctx, const struct berth_pack_sink *sink, struct berth_error *err)
{
    const void *bytes = NULL;
    for (ssize_t got; (got = berth_place_spool_get(ctx, &bytes, err)) != 0;) {
        int rc = got < 0 ? (int)got : sink->put(sink->ctx, bytes, (size_t)got, err);
        if (rc < 0)
            return rc;
    }
    return BERTH_OK;
}
