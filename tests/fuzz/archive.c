/* SPDX-License-Identifier: Apache-2.0
 * tests/fuzz/archive.c - a tar archive from a place, which may be compressed. What is accepted is a
 * tree that is possible, whose content is stored under its hash; nothing else is ever written. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "sync/compress.h"
#include "sync/unpack.h"

#define CONTENT_BYTES_MAX (INT64_C(1) << 22)

/* The archive, in pieces of different sizes. */
struct feeding {
    const uint8_t *at, *end;
    size_t step;
};

static ssize_t give(void *ctx, const void **bytes, struct berth_error *err)
{
    struct feeding *f = ctx;
    size_t left = (size_t)(f->end - f->at), len = left < f->step ? left : f->step;
    (void)err;
    *bytes = f->at;
    f->at += len;
    f->step = f->step % 5000 + 700;
    return (ssize_t)len;
}

/* Removes what was stored, and checks its names. */
static void empty_directory(int fd)
{
    DIR *dir = fdopendir(dup(fd));
    CHECK(dir);
    rewinddir(dir);
    for (const struct dirent *d; (d = readdir(dir));) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        CHECK(strlen(d->d_name) == 64 && strspn(d->d_name, "0123456789abcdef") == 64);
        CHECK(unlinkat(fd, d->d_name, 0) == 0);
    }
    (void)closedir(dir);
}

static char blobs[] = "/tmp/fuzz-archive-XXXXXX";

static void remove_blobs(void)
{
    (void)rmdir(blobs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int blobs_fd = -1;
    auto_tree_manifest found = {0};
    struct feeding feeding = {data, data + size, 512};
    struct berth_unpack_source raw = {give, &feeding};
    struct berth_decompressor *d;
    struct berth_error err = {0};
    if (blobs_fd < 0) {
        CHECK(mkdtemp(blobs));
        blobs_fd = open(blobs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK(blobs_fd >= 0 && atexit(remove_blobs) == 0);
    }
    CHECK(berth_decompressor_new(&raw, CONTENT_BYTES_MAX, &d, &err) == BERTH_OK);
    struct berth_unpack_source source = {berth_decompressor_get, d};
    int rc = berth_unpack(&source, NULL, blobs_fd, &found, &err);
    berth_decompressor_free(d);
    if (rc < 0) {
        CHECK(err.message[0]);
        empty_directory(blobs_fd);
        return 0;
    }
    for (size_t i = 0; i < found.count; i++) {
        const struct berth_entry *e = &found.entries[i];
        CHECK(berth_path_valid(e->path) && e->mode <= 0777 && e->size >= 0);
        CHECK((e->target != NULL) == (e->kind == BERTH_ENTRY_LINK));
        CHECK(e->hashed == (e->kind == BERTH_ENTRY_FILE));
        CHECK(strncmp(e->path, ".berth/", 7) != 0 && strncmp(e->path, ".git/", 5) != 0);
    }
    empty_directory(blobs_fd);
    return 0;
}
