/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/compress.c - archives that zstd(1) made or reads, cut, damaged, and too large. */
#include "sync/compress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"

#define CONTENT_BYTES_MAX ((size_t)4 << 20)

/* Bytes that are given in pieces. */
struct giving {
    const char *at;
    size_t left, step;
};

static ssize_t give(void *ctx, const void **bytes, struct berth_error *err)
{
    struct giving *g = ctx;
    size_t n = g->left < g->step ? g->left : g->step;
    (void)err;
    *bytes = g->at;
    g->at += n;
    g->left -= n;
    return (ssize_t)n;
}

static int collect(void *ctx, const void *bytes, size_t len, struct berth_error *err)
{
    berth_buf_append(ctx, bytes, len);
    return berth_buf_check(ctx, "The content", err);
}

/* Words that compress well, but not to nothing. */
static void write_words(struct berth_buf *out, size_t len)
{
    for (unsigned i = 0; out->len < len; i++)
        berth_buf_printf(out, "%u ", i * 2654435761u >> 20);
    berth_buf_truncate(out, len);
}

static void compress(const struct berth_buf *content, struct berth_buf *out)
{
    struct berth_pack_sink sink = {collect, out, NULL};
    struct berth_compressor *c;
    struct berth_error err = {0};
    assert_int_equal(berth_compressor_new(&sink, &c, &err), BERTH_OK);
    for (size_t at = 0; at < content->len; at += 5000) {
        size_t n = content->len - at < 5000 ? content->len - at : 5000;
        assert_int_equal(berth_compressor_put(c, content->data + at, n, &err), BERTH_OK);
    }
    assert_int_equal(berth_compressor_end(c, &err), BERTH_OK);
    berth_compressor_free(c);
}

/* Returns BERTH_OK, or the error with which the content broke off. */
static int decompress(const void *bytes, size_t len, size_t step, int64_t bytes_max,
                      struct berth_buf *out, struct berth_error *err)
{
    struct giving giving = {bytes, len, step};
    struct berth_unpack_source source = {give, &giving};
    struct berth_decompressor *d;
    const void *piece;
    ssize_t got;
    assert_int_equal(berth_decompressor_new(&source, bytes_max, &d, err), BERTH_OK);
    while ((got = berth_decompressor_get(d, &piece, err)) > 0)
        berth_buf_append(out, piece, (size_t)got);
    berth_decompressor_free(d);
    return (int)got;
}

static void expect(const struct berth_buf *content, const struct berth_buf *packed, size_t step)
{
    auto_buf out = BERTH_BUF_INIT(CONTENT_BYTES_MAX);
    struct berth_error err = {0};
    assert_int_equal(decompress(packed->data, packed->len, step, (int64_t)content->len, &out, &err),
                     BERTH_OK);
    assert_int_equal(out.len, content->len);
    assert_true(!out.len || memcmp(out.data, content->data, out.len) == 0);
}

/* Runs a program with the bytes as its input. */
static void filter(const char *command, const struct berth_buf *in, struct berth_buf *out)
{
    char path[] = "/tmp/berth-test.XXXXXX", line[256], piece[4096];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, in->data, in->len), (ssize_t)in->len);
    (void)close(fd);
    (void)snprintf(line, sizeof line, "%s < %s", command, path);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    for (size_t n; (n = fread(piece, 1, sizeof piece, pipe)) > 0;)
        berth_buf_append(out, piece, n);
    assert_int_equal(pclose(pipe), 0);
    assert_int_equal(unlink(path), 0);
}

static const size_t sizes[] = {0, 1, 3, 4, 5000, 131072, 131073, 262144, 393216, 3000001};

static void what_is_compressed_comes_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        auto_buf content = BERTH_BUF_INIT(CONTENT_BYTES_MAX),
                 packed = BERTH_BUF_INIT(CONTENT_BYTES_MAX),
                 plain = BERTH_BUF_INIT(CONTENT_BYTES_MAX);
        write_words(&content, sizes[i]);
        compress(&content, &packed);
        assert_true(sizes[i] < 5000 || packed.len < sizes[i] / 2);
        expect(&content, &packed, 1 + i * 777);
        filter("zstd -dqc", &packed, &plain);
        assert_int_equal(plain.len, content.len);
        assert_true(!plain.len || memcmp(plain.data, content.data, plain.len) == 0);
    }
}

static void what_zstd_compresses_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        auto_buf content = BERTH_BUF_INIT(CONTENT_BYTES_MAX),
                 packed = BERTH_BUF_INIT(CONTENT_BYTES_MAX);
        write_words(&content, sizes[i]);
        filter("zstd -1qc", &content, &packed);
        expect(&content, &packed, 1 + i * 777);
        expect(&content, &packed, CONTENT_BYTES_MAX);
    }
}

static void what_is_not_compressed_passes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        auto_buf content = BERTH_BUF_INIT(CONTENT_BYTES_MAX);
        write_words(&content, sizes[i]);
        expect(&content, &content, 1);
        expect(&content, &content, 4096);
    }
}

static void what_is_cut_or_damaged_is_refused(void **state)
{
    (void)state;
    auto_buf content = BERTH_BUF_INIT(CONTENT_BYTES_MAX),
             packed = BERTH_BUF_INIT(CONTENT_BYTES_MAX);
    write_words(&content, 300000);
    compress(&content, &packed);
    for (size_t len = 4; len < packed.len; len += len / 3 + 1) {
        auto_buf out = BERTH_BUF_INIT(CONTENT_BYTES_MAX);
        struct berth_error err = {0};
        assert_int_equal(decompress(packed.data, len, 999, INT64_MAX, &out, &err),
                         BERTH_E_UPSTREAM);
        assert_non_null(strstr(err.message, "its end is missing"));
    }
    for (size_t at = 5; at < packed.len; at += packed.len / 7) {
        auto_buf out = BERTH_BUF_INIT(CONTENT_BYTES_MAX);
        struct berth_error err = {0};
        packed.data[at] ^= 0x55;
        assert_int_equal(decompress(packed.data, packed.len, 999, INT64_MAX, &out, &err),
                         BERTH_E_UPSTREAM);
        packed.data[at] ^= 0x55;
    }
}

static void more_than_was_asked_for_is_refused(void **state)
{
    (void)state;
    auto_buf content = BERTH_BUF_INIT(CONTENT_BYTES_MAX),
             packed = BERTH_BUF_INIT(CONTENT_BYTES_MAX), out = BERTH_BUF_INIT(CONTENT_BYTES_MAX);
    struct berth_error err = {0};
    write_words(&content, 3000000);
    compress(&content, &packed);
    assert_int_equal(decompress(packed.data, packed.len, 999, 1000000, &out, &err),
                     BERTH_E_UPSTREAM);
    assert_non_null(strstr(err.message, "more content"));
    assert_true(out.len <= 1000000);
}

/* The window is the memory that the reader needs. */
static void a_large_window_is_refused(void **state)
{
    (void)state;
    auto_buf content = BERTH_BUF_INIT(CONTENT_BYTES_MAX),
             packed = BERTH_BUF_INIT(CONTENT_BYTES_MAX), out = BERTH_BUF_INIT(CONTENT_BYTES_MAX);
    struct berth_error err = {0};
    write_words(&content, 3000000);
    filter("cat /dev/stdin | zstd -1qc --long=27 --no-check", &content, &packed);
    assert_int_equal(decompress(packed.data, packed.len, 999, INT64_MAX, &out, &err),
                     BERTH_E_UPSTREAM);
    assert_non_null(strstr(err.message, "memory"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_compressed_comes_back),
        cmocka_unit_test(what_zstd_compresses_is_read),
        cmocka_unit_test(what_is_not_compressed_passes),
        cmocka_unit_test(what_is_cut_or_damaged_is_refused),
        cmocka_unit_test(more_than_was_asked_for_is_refused),
        cmocka_unit_test(a_large_window_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
