/* SPDX-License-Identifier: Apache-2.0
 * src/crypto/locked.c - see locked.h. */
#include "crypto/locked.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define HEAP_BYTES (64 * 1024 * 1024) /* asked for at once, so that it is marked as one */

static size_t pages_for(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

int berth_locked_new(size_t cap, struct berth_locked *out, struct berth_error *err)
{
    size_t size = pages_for(cap + 1);
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: secret.");
    /* Where the limit on locked memory is small this fails, and the rest still holds;
     * "berth doctor" tells. */
    (void)mlock(bytes, size);
    (void)madvise(bytes, size, MADV_DONTDUMP);
    (void)madvise(bytes, size, MADV_WIPEONFORK);
    *out = (struct berth_locked){.bytes = bytes, .cap = cap};
    return BERTH_OK;
}

void berth_locked_append(struct berth_locked *locked, const void *bytes, size_t len)
{
    assert(len <= locked->cap - locked->len);
    if (len)
        memcpy(locked->bytes + locked->len, bytes, len);
    locked->len += len;
}

void berth_locked_clear(struct berth_locked *locked)
{
    if (!locked->bytes)
        return;
    size_t size = pages_for(locked->cap + 1);
    OPENSSL_cleanse(locked->bytes, size);
    (void)munmap(locked->bytes, size);
    *locked = (struct berth_locked)BERTH_LOCKED_INIT;
}

struct berth_locked *berth_locked_copy_all(const struct berth_locked *values, int count)
{
    struct berth_locked *copies = calloc((size_t)count + 1, sizeof *copies);
    struct berth_error ignored;
    for (int i = 0; copies && i < count; i++) {
        if (berth_locked_new(values[i].len, &copies[i], &ignored) < 0) {
            berth_locked_free_all(copies, i);
            return NULL;
        }
        berth_locked_append(&copies[i], values[i].bytes, values[i].len);
    }
    return copies;
}

void berth_locked_free_all(struct berth_locked *values, int count)
{
    for (int i = 0; values && i < count; i++)
        berth_locked_clear(&values[i]);
    free(values);
}

int berth_locked_read(int fd, size_t max, struct berth_locked *out, struct berth_error *err)
{
    auto_locked all = BERTH_LOCKED_INIT;
    int rc = berth_locked_new(max + 1, &all, err); /* one more tells that there is more */
    while (rc == BERTH_OK && all.len < all.cap) {
        ssize_t got = read(fd, all.bytes + all.len, all.cap - all.len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return berth_fail_errno(err, "Cannot read the value");
        if (got == 0)
            break;
        all.len += (size_t)got;
    }
    if (rc == BERTH_OK && all.len > max)
        rc = berth_fail(err, BERTH_E_TOO_LARGE, "The value is longer than %zu bytes.", max);
    if (rc == BERTH_OK) {
        *out = all;
        all = (struct berth_locked)BERTH_LOCKED_INIT;
    }
    return rc;
}

bool berth_same_bytes(const void *a, size_t a_len, const void *b, size_t b_len)
{
    return a_len == b_len && CRYPTO_memcmp(a, b, a_len) == 0;
}

/* The heap and the stack, as they are named in the list of mappings. */
static void hide_mapping(const char *line)
{
    unsigned long from, to;
    if ((strstr(line, "[heap]") || strstr(line, "[stack]")) &&
        sscanf(line, "%lx-%lx", &from, &to) == 2)
        (void)madvise((void *)from, to - from, MADV_DONTDUMP); /* NOLINT: an address is one */
}

void berth_deny_dumps(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    /* What a tool of root's may still take: one heap, in one piece, and without it. */
    (void)mallopt(M_ARENA_MAX, 1);
    (void)mallopt(M_MMAP_MAX, 0);
    (void)mallopt(M_TOP_PAD, HEAP_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, 2 * HEAP_BYTES);
    void *volatile grown =
        malloc(1024 * 1024); /* more than the heap has: it grows by all of that */
    free(grown);
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    while (maps && fgets(line, sizeof line, maps))
        hide_mapping(line);
    if (maps)
        (void)fclose(maps);
}
