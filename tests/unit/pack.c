/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/pack.c - trees as tar archives: packed here and unpacked by tar(1), packed by tar(1)
 * and unpacked here, and archives that want to write where they should not. */
#include "sync/pack.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "os/fs.h"
#include "sync/tree.h"
#include "sync/unpack.h"

#define ARCHIVE_BYTES_MAX ((size_t)64 << 20)

struct ground {
    char top[32];
    char tree[64], blobs[64], other[64];
    int tree_fd, blobs_fd, other_fd;
    struct berth_buf archive;
    size_t read_at, step;
    struct berth_tree_manifest manifest, unpacked;
    struct berth_error err;
};

static int make_directory(const char *top, const char *name, char out[64])
{
    (void)snprintf(out, 64, "%s/%s", top, name);
    return mkdir(out, 0700) < 0 ? -1 : open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int set_up(void **state)
{
    struct ground *g = calloc(1, sizeof *g);
    (void)snprintf(g->top, sizeof g->top, "/tmp/berth-test.XXXXXX");
    if (!mkdtemp(g->top))
        return -1;
    g->tree_fd = make_directory(g->top, "tree", g->tree);
    g->blobs_fd = make_directory(g->top, "blobs", g->blobs);
    g->other_fd = make_directory(g->top, "other", g->other);
    g->archive = (struct berth_buf)BERTH_BUF_INIT(ARCHIVE_BYTES_MAX);
    g->step = 1000;
    *state = g;
    return g->tree_fd < 0 || g->blobs_fd < 0 || g->other_fd < 0;
}

static int tear_down(void **state)
{
    struct ground *g = *state;
    berth_tree_manifest_clear(&g->manifest);
    berth_tree_manifest_clear(&g->unpacked);
    berth_buf_clear(&g->archive);
    (void)close(g->tree_fd);
    (void)close(g->blobs_fd);
    (void)close(g->other_fd);
    int rc = berth_fs_remove_tree(g->top, &g->err);
    free(g);
    return rc;
}

static void shell(const struct ground *g, const char *script)
{
    char text[4096];
    (void)snprintf(text, sizeof text, "cd %s && %s", g->top, script);
    int status = system(text);
    if (status)
        fail_msg("%s: status 0x%x", text, (unsigned)status);
}

static int put_archive(void *ctx, const void *bytes, size_t len, struct berth_error *err)
{
    struct ground *g = ctx;
    berth_buf_append(&g->archive, bytes, len);
    return berth_buf_check(&g->archive, "archive", err);
}

/* Gives the archive in small steps. */
static ssize_t get_archive(void *ctx, const void **bytes, struct berth_error *err)
{
    struct ground *g = ctx;
    (void)err;
    size_t left = g->archive.len - g->read_at, len = left < g->step ? left : g->step;
    *bytes = g->archive.data + g->read_at;
    g->read_at += len;
    return (ssize_t)len;
}

static void list_tree(struct ground *g)
{
    struct berth_ignore *none;
    assert_int_equal(berth_ignore_new(&none, &g->err), BERTH_OK);
    struct berth_tree_options options = {.ignore = none, .cancel_fd = -1};
    assert_int_equal(berth_tree_list(g->tree_fd, &options, &g->manifest, &g->err), BERTH_OK);
    berth_ignore_free(none);
}

static int pack(struct ground *g)
{
    auto_free struct berth_entry **all = calloc(g->manifest.count + 1, sizeof *all);
    for (size_t i = 0; i < g->manifest.count; i++)
        all[i] = &g->manifest.entries[i];
    return berth_pack(g->tree_fd, all, g->manifest.count, &(struct berth_pack_sink){put_archive, g},
                      -1, &g->err);
}

static int unpack(struct ground *g)
{
    g->read_at = 0;
    berth_tree_manifest_clear(&g->unpacked);
    return berth_unpack(&(struct berth_unpack_source){get_archive, g}, NULL, g->blobs_fd,
                        &g->unpacked, &g->err);
}

static void assert_same_manifests(const struct berth_tree_manifest *a,
                                  const struct berth_tree_manifest *b)
{
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        assert_string_equal(a->entries[i].path, b->entries[i].path);
        if (!berth_entry_same(&a->entries[i], &b->entries[i]))
            fail_msg("%s differs", a->entries[i].path);
    }
}

#define TREE                                                                                       \
    "cd tree && mkdir -p sub/deep empty && echo one > sub/a && : > nothing && ln -s ../x sub/l &&" \
    " head -c 3000000 /dev/urandom > large && chmod 751 sub/a && chmod 500 empty &&"               \
    " printf x > \"$(printf 'bytes\\377\\nnewline')\" && printf y > 'back\\slash' &&"              \
    " n=$(printf 'n%.0s' $(seq 200)); mkdir $n && echo long > $n/$n"

/* --- the way there and back --- */

static void what_is_packed_is_unpacked(void **state)
{
    struct ground *g = *state;
    shell(g, TREE);
    list_tree(g);
    assert_int_equal(pack(g), BERTH_OK);
    assert_int_equal(unpack(g), BERTH_OK);
    assert_same_manifests(&g->manifest, &g->unpacked);
    assert_int_equal(berth_tree_manifest_check(&g->unpacked, &g->err), BERTH_OK);
    const struct berth_entry *large = berth_tree_manifest_find(&g->unpacked, "large");
    assert_int_equal(berth_unpack_fetch(g->blobs_fd, large, g->other_fd, "x", &g->err), BERTH_OK);
    shell(g, "cmp tree/large other/x");
}

static void tar_reads_what_is_packed(void **state)
{
    struct ground *g = *state;
    shell(g, TREE);
    list_tree(g);
    assert_int_equal(pack(g), BERTH_OK);
    auto_close int fd = openat(g->other_fd, "tar", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(berth_fs_write_all(fd, g->archive.data, g->archive.len, &g->err), BERTH_OK);
    shell(g,
          "mkdir got && tar -xpf other/tar -C got && diff -r --no-dereference tree got &&"
          " [ \"$(stat -c %a got/sub/a got/empty)\" = \"$(stat -c %a tree/sub/a tree/empty)\" ]");
}

static void read_file(struct ground *g, const char *name)
{
    auto_close int fd = openat(g->other_fd, name, O_RDONLY | O_CLOEXEC);
    berth_buf_truncate(&g->archive, 0);
    assert_int_equal(berth_fs_read_all(fd, &g->archive, &g->err), BERTH_OK);
}

static void what_tar_packs_is_unpacked(void **state)
{
    static const char *const formats[] = {"gnu", "pax", "ustar"};
    struct ground *g = *state;
    shell(g, "cd tree && mkdir sub && echo one > sub/a && ln sub/a sub/hard && ln -s /etc l &&"
             " mkfifo pipe && mkdir .berth sub/.git && echo secret > .berth/x && : > sub/.git/y &&"
             " truncate -s 5000000 sparse && printf end >> sparse");
    for (size_t i = 0; i < 3; i++) {
        char script[200]; /* ustar has no sparse files */
        (void)snprintf(script, sizeof script, "tar %s -cf other/t --format=%s -C tree .",
                       strcmp(formats[i], "ustar") == 0 ? "" : "-S", formats[i]);
        shell(g, script);
        read_file(g, "t");
        assert_int_equal(unpack(g), BERTH_OK);
        assert_int_equal(g->unpacked.count, 5); /* l, sparse, sub, sub/a, sub/hard */
        assert_int_equal(g->unpacked.skipped, 1);
        const struct berth_entry *a = berth_tree_manifest_find(&g->unpacked, "sub/a");
        const struct berth_entry *hard = berth_tree_manifest_find(&g->unpacked, "sub/hard");
        const struct berth_entry *sparse = berth_tree_manifest_find(&g->unpacked, "sparse");
        const struct berth_entry *link = berth_tree_manifest_find(&g->unpacked, "l");
        assert_true(a && hard && sparse && link);
        assert_memory_equal(a->hash, hard->hash, sizeof a->hash);
        assert_string_equal(link->target, "/etc");
        assert_int_equal(sparse->size, 5000003);
        (void)unlinkat(g->other_fd, "sparse", 0);
        assert_int_equal(berth_unpack_fetch(g->blobs_fd, sparse, g->other_fd, "sparse", &g->err),
                         BERTH_OK);
        shell(g, "cmp tree/sparse other/sparse");
    }
}

/* --- archives that lie --- */

/* Appends the head of an entry, as ustar has it. */
static void put_head(struct ground *g, const char *name, char type, const char *target, size_t size)
{
    char head[512] = {0};
    unsigned sum = 0;
    (void)snprintf(head, 100, "%s", name);
    (void)snprintf(head + 100, 8, "%07o", 0644U);
    (void)snprintf(head + 108, 8, "%07o", 0U);
    (void)snprintf(head + 116, 8, "%07o", 0U);
    (void)snprintf(head + 124, 12, "%011zo", size);
    (void)snprintf(head + 136, 12, "%011o", 0U);
    memset(head + 148, ' ', 8);
    head[156] = type;
    if (target)
        (void)snprintf(head + 157, 100, "%s", target);
    memcpy(head + 257,
           "ustar\0"
           "00",
           8);
    for (size_t i = 0; i < sizeof head; i++)
        sum += (unsigned char)head[i];
    (void)snprintf(head + 148, 8, "%06o", sum);
    berth_buf_append(&g->archive, head, sizeof head);
}

static void put_body(struct ground *g, const char *text)
{
    char block[512] = {0};
    memcpy(block, text, strlen(text));
    berth_buf_append(&g->archive, block, sizeof block);
}

static void put_end(struct ground *g)
{
    static const char zeros[1024];
    berth_buf_append(&g->archive, zeros, sizeof zeros);
}

/* Whatever the archive said, only blobs were written, under the names of their hashes. */
static void assert_nothing_else(struct ground *g)
{
    shell(g, "[ \"$(ls -A | tr '\\n' ' ')\" = 'blobs other tree ' ] && [ -z \"$(find tree other "
             "-mindepth 1)\" ] &&"
             " ! ls -A blobs | grep -Evx '[0-9a-f]{64}'");
}

static void hostile_paths_are_refused(void **state)
{
    static const char *const paths[] = {"../x",  "a/../../x", "/tmp/x", "a//b",    "..",
                                        "a/./b", "./../x",    "/",      ".//../x", "a/.."};
    struct ground *g = *state;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        berth_buf_truncate(&g->archive, 0);
        put_head(g, paths[i], '0', NULL, 4);
        put_body(g, "evil");
        put_end(g);
        int rc = unpack(g);
        if (rc != BERTH_E_INVALID && !(rc == BERTH_OK && g->unpacked.count == 0))
            fail_msg("%s: %d", paths[i], rc);
        assert_nothing_else(g);
    }
}

static void links_lead_nowhere(void **state)
{
    struct ground *g = *state;
    put_head(g, "d", '2', "/tmp", 0); /* a link, and then a file below it */
    put_head(g, "d/x", '0', NULL, 4);
    put_body(g, "evil");
    put_end(g);
    assert_int_equal(unpack(g), BERTH_E_INVALID);
    assert_nothing_else(g);
    berth_buf_truncate(&g->archive, 0);
    put_head(g, "h", '1', "/etc/passwd", 0); /* a hard link to a file that is not in it */
    put_end(g);
    assert_int_equal(unpack(g), BERTH_E_INVALID);
    berth_buf_truncate(&g->archive, 0);
    put_head(g, "h", '1', "../../etc/passwd", 0);
    put_end(g);
    assert_int_equal(unpack(g), BERTH_E_INVALID);
    assert_nothing_else(g);
}

static void devices_are_skipped(void **state)
{
    struct ground *g = *state;
    for (char type = '3'; type <= '6'; type++)
        if (type != '5')
            put_head(g, "dev", type, NULL, 0);
    put_end(g);
    assert_int_equal(unpack(g), BERTH_OK);
    assert_int_equal(g->unpacked.count, 0);
    assert_int_equal(g->unpacked.skipped, 3);
    assert_string_equal(g->unpacked.skipped_path, "dev");
    assert_nothing_else(g);
}

static void one_path_comes_once(void **state)
{
    struct ground *g = *state;
    for (int i = 0; i < 2; i++) {
        put_head(g, "twice", '0', NULL, 4);
        put_body(g, i ? "two " : "one ");
    }
    put_end(g);
    assert_int_equal(unpack(g), BERTH_E_INVALID);
}

static void cut_archives_are_refused(void **state)
{
    struct ground *g = *state;
    put_head(g, "a", '0', NULL, 4000);
    put_body(g, "only the beginning");
    assert_int_equal(unpack(g), BERTH_E_INVALID);
    berth_buf_truncate(&g->archive, 700); /* in the middle of a block */
    assert_int_equal(unpack(g), BERTH_E_INVALID);
    berth_buf_truncate(&g->archive, 0);
    for (int i = 0; i < 40; i++)
        put_body(g, "this is not an archive at all");
    assert_int_equal(unpack(g), BERTH_E_INVALID);
    assert_nothing_else(g);
}

static void a_directory_must_be_there(void **state)
{
    struct ground *g = *state;
    put_head(g, "no/such/file", '0', NULL, 4);
    put_body(g, "text");
    put_end(g);
    assert_int_equal(unpack(g), BERTH_OK);
    assert_int_equal(berth_tree_manifest_check(&g->unpacked, &g->err), BERTH_E_INVALID);
}

/* --- trouble here --- */

static int refuse(void *ctx, const void *bytes, size_t len, struct berth_error *err)
{
    (void)ctx, (void)bytes, (void)len;
    return berth_fail(err, BERTH_E_TIMEOUT, "the place is gone");
}

static void an_error_of_the_sink_is_passed_on(void **state)
{
    struct ground *g = *state;
    shell(g, "head -c 300000 /dev/zero > tree/a");
    list_tree(g);
    struct berth_entry *one = &g->manifest.entries[0];
    assert_int_equal(
        berth_pack(g->tree_fd, &one, 1, &(struct berth_pack_sink){refuse, g}, -1, &g->err),
        BERTH_E_TIMEOUT);
    assert_string_equal(g->err.message, "the place is gone");
}

static void a_file_that_is_gone_is_an_error(void **state)
{
    struct ground *g = *state;
    shell(g, "echo x > tree/a");
    list_tree(g);
    shell(g, "rm tree/a");
    assert_int_equal(pack(g), BERTH_E_NOT_FOUND);
}

static void a_file_swapped_for_a_link_is_not_followed(void **state)
{
    struct ground *g = *state;
    shell(g, "echo x > tree/a");
    list_tree(g);
    shell(g, "rm tree/a && ln -s /etc/passwd tree/a");
    assert_true(pack(g) < 0);
}

#define ON_GROUND(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_GROUND(what_is_packed_is_unpacked),
        ON_GROUND(tar_reads_what_is_packed),
        ON_GROUND(what_tar_packs_is_unpacked),
        ON_GROUND(hostile_paths_are_refused),
        ON_GROUND(links_lead_nowhere),
        ON_GROUND(devices_are_skipped),
        ON_GROUND(one_path_comes_once),
        ON_GROUND(cut_archives_are_refused),
        ON_GROUND(a_directory_must_be_there),
        ON_GROUND(an_error_of_the_sink_is_passed_on),
        ON_GROUND(a_file_that_is_gone_is_an_error),
        ON_GROUND(a_file_swapped_for_a_link_is_not_followed),
    };
    return cmocka_run_group_tests_name("pack", tests, NULL, NULL);
}
