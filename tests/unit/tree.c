/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/tree.c - manifests: of directories, as bytes, and by themselves. */
#include "sync/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "os/fs.h"

struct ground {
    char root[32];
    int fd;
    struct berth_ignore *ignore;
    struct berth_tree_manifest manifest;
    struct berth_error err;
};

static int set_up(void **state)
{
    struct ground *g = calloc(1, sizeof *g);
    (void)snprintf(g->root, sizeof g->root, "/tmp/berth-test.XXXXXX");
    if (!mkdtemp(g->root) || berth_ignore_new(&g->ignore, &g->err) < 0)
        return -1;
    g->fd = open(g->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = g;
    return g->fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    struct ground *g = *state;
    berth_tree_manifest_clear(&g->manifest);
    berth_ignore_free(g->ignore);
    (void)close(g->fd);
    int rc = berth_fs_remove_tree(g->root, &g->err);
    free(g);
    return rc;
}

static void put_file(const struct ground *g, const char *path, const char *text, mode_t mode)
{
    struct berth_error err;
    auto_close int fd = openat(g->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        fail_msg("%s: %s", path, strerror(errno));
    assert_int_equal(berth_fs_write_all(fd, text, strlen(text), &err), BERTH_OK);
    assert_int_equal(fchmod(fd, mode), 0);
}

static void put_directory(const struct ground *g, const char *path)
{
    assert_int_equal(mkdirat(g->fd, path, 0755), 0);
}

static void list(struct ground *g, const char *const *ignore_files)
{
    struct berth_tree_options options = {
        .ignore = g->ignore, .ignore_files = ignore_files, .cancel_fd = -1};
    berth_tree_manifest_clear(&g->manifest);
    if (berth_tree_list(g->fd, &options, &g->manifest, &g->err) < 0)
        fail_msg("%s", g->err.message);
}

static void read_whole(struct ground *g, const struct berth_tree_manifest *known)
{
    list(g, NULL);
    if (berth_tree_hash(g->fd, &g->manifest, known, -1, &g->err) < 0)
        fail_msg("%s", g->err.message);
}

static const struct berth_entry *get(const struct ground *g, const char *path)
{
    const struct berth_entry *e = berth_tree_manifest_find(&g->manifest, path);
    if (!e)
        fail_msg("%s is missing", path);
    return e;
}

static void assert_hash(const struct berth_entry *e, const char *text)
{
    unsigned char sum[BERTH_SHA256_SIZE];
    struct berth_error err;
    assert_true(e->hashed);
    assert_int_equal(berth_sha256(text, strlen(text), sum, &err), BERTH_OK);
    assert_memory_equal(e->hash, sum, sizeof sum);
}

/* --- directories --- */

static void everything_is_listed(void **state)
{
    struct ground *g = *state;
    put_directory(g, "a");
    put_directory(g, "a/empty");
    put_file(g, "a/x", "one", 0640);
    put_file(g, "a-b", "two", 0755);
    put_file(g, "z\nname \xff", "three", 0600);
    assert_int_equal(symlinkat("../outside", g->fd, "link"), 0);
    assert_int_equal(linkat(g->fd, "a/x", g->fd, "hard", 0), 0);
    read_whole(g, NULL);
    static const char *const paths[] = {"a",    "a/empty", "a/x",         "a-b",
                                        "hard", "link",    "z\nname \xff"};
    assert_int_equal(g->manifest.count, sizeof paths / sizeof paths[0]);
    for (size_t i = 0; i < g->manifest.count; i++)
        assert_string_equal(g->manifest.entries[i].path, paths[i]);
    assert_int_equal(get(g, "a")->kind, BERTH_ENTRY_DIRECTORY);
    assert_int_equal(get(g, "a")->mode, 0755);
    assert_int_equal(get(g, "a/x")->mode, 0640);
    assert_hash(get(g, "a/x"), "one");
    assert_hash(get(g, "hard"), "one");
    assert_hash(get(g, "z\nname \xff"), "three");
    assert_int_equal(get(g, "link")->kind, BERTH_ENTRY_LINK);
    assert_string_equal(get(g, "link")->target, "../outside");
    assert_int_equal(g->manifest.bytes, 3 + 3 + 5 + 3);
}

static void special_files_are_skipped(void **state)
{
    struct ground *g = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    put_file(g, "file", "", 0644);
    assert_int_equal(mkfifoat(g->fd, "fifo", 0600), 0);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", g->root);
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    read_whole(g, NULL);
    assert_int_equal(g->manifest.count, 1);
    assert_int_equal(g->manifest.skipped, 2);
    assert_string_equal(g->manifest.skipped_path, "fifo");
}

static void ignored_files_are_left_out(void **state)
{
    struct ground *g = *state;
    static const char *const files[] = {".gitignore", ".berthignore", NULL};
    put_directory(g, "build");
    put_file(g, "build/out", "", 0644);
    put_directory(g, "src");
    put_file(g, "src/x.o", "", 0644);
    put_file(g, "src/x.c", "", 0644);
    put_file(g, ".gitignore", "build/\n*.o\n", 0644);
    put_file(g, "src/.berthignore", "!x.o\nx.c\n", 0644);
    put_directory(g, ".berth");
    put_file(g, ".berth/state", "", 0644);
    put_directory(g, ".git");
    list(g, files);
    static const char *const paths[] = {".gitignore", "src", "src/.berthignore", "src/x.o"};
    assert_int_equal(g->manifest.count, sizeof paths / sizeof paths[0]);
    for (size_t i = 0; i < g->manifest.count; i++)
        assert_string_equal(g->manifest.entries[i].path, paths[i]);
}

static void unreadable_is_an_error(void **state)
{
    struct ground *g = *state;
    struct berth_tree_options options = {.ignore = g->ignore, .cancel_fd = -1};
    char deep[BERTH_TREE_DEPTH_MAX * 2 + 8] = "d";
    put_directory(g, "d");
    for (int i = 1; i <= BERTH_TREE_DEPTH_MAX; i++) {
        (void)strcat(deep, "/d");
        put_directory(g, deep);
    }
    assert_int_equal(berth_tree_list(g->fd, &options, &g->manifest, &g->err), BERTH_E_TOO_LARGE);
    assert_non_null(strstr(g->err.message, "deep"));
    if (geteuid() == 0)
        return; /* root reads everything */
    put_directory(g, "locked");
    assert_int_equal(fchmodat(g->fd, "locked", 0, 0), 0);
    berth_tree_manifest_clear(&g->manifest);
    assert_int_equal(berth_tree_list(g->fd, &options, &g->manifest, &g->err), BERTH_E_DENIED);
    assert_int_equal(fchmodat(g->fd, "locked", 0700, 0), 0);
}

static void reading_can_be_cancelled(void **state)
{
    struct ground *g = *state;
    auto_close int fd = eventfd(1, EFD_CLOEXEC);
    struct berth_tree_options options = {.ignore = g->ignore, .cancel_fd = fd};
    put_file(g, "file", "", 0644);
    assert_int_equal(berth_tree_list(g->fd, &options, &g->manifest, &g->err), BERTH_E_CANCELLED);
    list(g, NULL);
    assert_int_equal(berth_tree_hash(g->fd, &g->manifest, NULL, fd, &g->err), BERTH_E_CANCELLED);
}

static void *cancel_soon(void *fd)
{
    return eventfd_write(*(int *)fd, 1) == 0 ? NULL : fd;
}

/* Also in the midst of a file: to read all of this one would take several minutes. */
static void reading_of_a_file_can_be_cancelled(void **state)
{
    struct ground *g = *state;
    pthread_t thread;
    void *failed;
    int fd = eventfd(0, EFD_CLOEXEC);
    put_file(g, "huge", "", 0644);
    auto_close int huge = openat(g->fd, "huge", O_WRONLY | O_CLOEXEC);
    assert_int_equal(ftruncate(huge, (off_t)1 << 39), 0);
    list(g, NULL);
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &fd), 0);
    assert_int_equal(berth_tree_hash(g->fd, &g->manifest, NULL, fd, &g->err), BERTH_E_CANCELLED);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    (void)close(fd);
}

/* --- vouching --- */

/* A wrong hash in the known manifest shows which files were read again. */
static void unchanged_files_are_not_read(void **state)
{
    struct ground *g = *state;
    put_file(g, "same", "same", 0644);
    put_file(g, "other", "other", 0644);
    put_file(g, "young", "young", 0644);
    read_whole(g, NULL);
    /* It was read just after it was written, so a process may still change it through a mapping
     * without a new time. An hour later that cannot be. */
    assert_int_equal(get(g, "same")->inode, 0);
    for (size_t i = 0; i < g->manifest.count; i++) {
        struct stat st;
        assert_int_equal(fstatat(g->fd, g->manifest.entries[i].path, &st, 0), 0);
        g->manifest.entries[i].inode = st.st_ino;
    }
    struct berth_tree_manifest known = g->manifest;
    g->manifest = (struct berth_tree_manifest){0};
    known.taken_at_ns += INT64_C(3600) * 1000000000; /* as if it had been taken long after */
    memset(berth_tree_manifest_find(&known, "same")->hash, 7, BERTH_SHA256_SIZE);
    memset(berth_tree_manifest_find(&known, "other")->hash, 7, BERTH_SHA256_SIZE);
    put_file(g, "other", "OTHER", 0644); /* the same size; its times differ */
    read_whole(g, &known);
    assert_int_equal(get(g, "same")->hash[0], 7);
    assert_hash(get(g, "other"), "OTHER");
    memset(berth_tree_manifest_find(&known, "young")->hash, 7, BERTH_SHA256_SIZE);
    known.taken_at_ns = get(g, "young")->ctime_ns + 100000000;
    read_whole(g, &known); /* some ticks of the clock are enough */
    assert_int_equal(get(g, "young")->hash[0], 7);
    known.taken_at_ns = get(g, "young")->ctime_ns + 5000000;
    read_whole(g, &known); /* all are too young to be vouched for */
    assert_hash(get(g, "same"), "same");
    assert_hash(get(g, "young"), "young");
    berth_tree_manifest_clear(&known);
}

static void many_files_are_hashed(void **state)
{
    struct ground *g = *state;
    char name[32];
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof name, "f%d", i);
        put_file(g, name, name, 0644);
    }
    read_whole(g, NULL);
    assert_int_equal(g->manifest.count, 1000);
    for (size_t i = 0; i < g->manifest.count; i++)
        assert_hash(&g->manifest.entries[i], g->manifest.entries[i].path);
}

static void file_that_is_gone_is_an_error(void **state)
{
    struct ground *g = *state;
    put_file(g, "file", "", 0644);
    list(g, NULL);
    assert_int_equal(unlinkat(g->fd, "file", 0), 0);
    assert_int_equal(berth_tree_hash(g->fd, &g->manifest, NULL, -1, &g->err), BERTH_E_NOT_FOUND);
    assert_int_equal(symlinkat("/etc/passwd", g->fd, "file"), 0); /* and a link is not followed */
    assert_true(berth_tree_hash(g->fd, &g->manifest, NULL, -1, &g->err) < 0);
}

/* --- as bytes --- */

static void written_and_read_again(void **state)
{
    struct ground *g = *state;
    put_directory(g, "a");
    put_file(g, "a/x y\n", "one", 0640);
    assert_int_equal(symlinkat("t", g->fd, "link"), 0);
    read_whole(g, NULL);
    auto_buf text = BERTH_BUF_INIT(64 * 1024);
    auto_tree_manifest again = {0};
    berth_tree_manifest_write(&g->manifest, &text);
    assert_int_equal(berth_tree_manifest_parse(text.data, text.len, &again, &g->err), BERTH_OK);
    assert_int_equal(again.count, 3);
    assert_int_equal(again.taken_at_ns, g->manifest.taken_at_ns);
    for (size_t i = 0; i < 3; i++) {
        const struct berth_entry *a = &g->manifest.entries[i], *b = &again.entries[i];
        assert_string_equal(a->path, b->path);
        assert_true(berth_entry_same(a, b));
        assert_true(a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns &&
                    a->inode == b->inode);
    }
    for (size_t i = 0; i < text.len; i++) { /* any byte that is missing or changed is noticed */
        auto_tree_manifest bad = {0};
        char kept = text.data[i];
        text.data[i] ^= 1;
        assert_int_equal(berth_tree_manifest_parse(text.data, text.len, &bad, &g->err),
                         BERTH_E_INVALID);
        text.data[i] = kept;
        auto_free char *cut = calloc(1, i + 1);
        memcpy(cut, text.data, i);
        assert_int_equal(berth_tree_manifest_parse(cut, i, &bad, &g->err), BERTH_E_INVALID);
    }
}

static void paths_of_strangers(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    "/",    "/a",   "a/",  "a//b",   ".",    "..",
                                      "./a", "../a", "a/..", "a/.", "a/../b", "a/./b"};
    static const char *const good[] = {"a", "a/b", "...", ".a", "a..", " ", "a/..b", "\xff\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (berth_path_valid(bad[i]))
            fail_msg("%s", bad[i]);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (!berth_path_valid(good[i]))
            fail_msg("%s", good[i]);
    char name[BERTH_TREE_NAME_BYTES_MAX + 2];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_false(berth_path_valid(name));
    assert_true(berth_path_valid(name + 1));
}

static void duplicates_are_refused(void **state)
{
    struct ground *g = *state;
    struct berth_entry file = {.path = "a", .kind = BERTH_ENTRY_FILE};
    struct berth_entry below = {.path = "a/b", .kind = BERTH_ENTRY_FILE};
    assert_int_equal(berth_tree_manifest_add(&g->manifest, &below, &g->err), BERTH_OK);
    assert_int_equal(berth_tree_manifest_add(&g->manifest, &file, &g->err), BERTH_OK);
    assert_int_equal(berth_tree_manifest_sort(&g->manifest, &g->err), BERTH_E_INVALID);
    berth_tree_manifest_clear(&g->manifest);
    assert_int_equal(berth_tree_manifest_add(&g->manifest, &file, &g->err), BERTH_OK);
    assert_int_equal(berth_tree_manifest_add(&g->manifest, &file, &g->err), BERTH_OK);
    assert_int_equal(berth_tree_manifest_sort(&g->manifest, &g->err), BERTH_E_INVALID);
}

#define ON_GROUND(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

/* --- copies --- */

static int make_copy_directory(const struct ground *g, char path[64])
{
    (void)snprintf(path, 64, "%s.copy", g->root);
    assert_int_equal(mkdir(path, 0700), 0);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Contents, links, modes and times; more files than one thread copies. */
static void copies_are_the_same(void **state)
{
    struct ground *g = *state;
    char path[64], name[32];
    auto_tree_manifest copied = {0};
    put_directory(g, "d");
    put_directory(g, "d/closed");
    put_directory(g, "empty");
    put_file(g, "d/closed/file", "words\n", 0640);
    put_file(g, "nothing", "", 0400);
    assert_int_equal(symlinkat("/etc/passwd", g->fd, "d/link"), 0);
    for (int i = 0; i < 200; i++) {
        (void)snprintf(name, sizeof name, "d/%d", i);
        put_file(g, name, name, i % 2 ? 0755 : 0644);
    }
    assert_int_equal(fchmodat(g->fd, "d/closed", 0555, 0), 0);
    list(g, NULL);
    auto_close int fd = make_copy_directory(g, path);
    if (berth_tree_copy(g->fd, &g->manifest, fd, -1, NULL, &g->err) < 0)
        fail_msg("%s", g->err.message);
    struct berth_tree_options options = {.ignore = g->ignore, .cancel_fd = -1};
    assert_int_equal(berth_tree_list(fd, &options, &copied, &g->err), BERTH_OK);
    assert_int_equal(berth_tree_hash(fd, &copied, NULL, -1, &g->err), BERTH_OK);
    assert_int_equal(copied.count, g->manifest.count);
    for (size_t i = 0; i < copied.count; i++) {
        const struct berth_entry *a = &copied.entries[i], *b = &g->manifest.entries[i];
        if (strcmp(a->path, b->path) != 0 || !berth_entry_same(a, b) ||
            (a->kind == BERTH_ENTRY_FILE && a->mtime_ns != b->mtime_ns))
            fail_msg("%s", a->path);
    }
    assert_int_equal(berth_fs_remove_tree(path, &g->err), BERTH_OK);
}

/* A path that became a link to somewhere else since the tree was listed is not followed. */
static void copies_follow_no_link(void **state)
{
    struct ground *g = *state;
    char path[64];
    put_directory(g, "d");
    put_file(g, "d/passwd", "mine\n", 0644);
    list(g, NULL);
    assert_int_equal(unlinkat(g->fd, "d/passwd", 0), 0);
    assert_int_equal(unlinkat(g->fd, "d", AT_REMOVEDIR), 0);
    assert_int_equal(symlinkat("/etc", g->fd, "d"), 0);
    auto_close int fd = make_copy_directory(g, path);
    assert_true(berth_tree_copy(g->fd, &g->manifest, fd, -1, NULL, &g->err) < 0);
    assert_int_equal(berth_fs_remove_tree(path, &g->err), BERTH_OK);
}

static void copy_of_one_file_has_its_hash(void **state)
{
    struct ground *g = *state;
    char path[64];
    put_file(g, "file", "before\n", 0644);
    list(g, NULL);
    assert_int_equal(berth_tree_hash(g->fd, &g->manifest, NULL, -1, &g->err), BERTH_OK);
    auto_close int fd = make_copy_directory(g, path);
    const struct berth_entry *e = &g->manifest.entries[0];
    assert_int_equal(berth_tree_copy_file(g->fd, e, fd, "0", &g->err), BERTH_OK);
    put_file(g, "file", "after!\n", 0644);
    assert_int_equal(berth_tree_copy_file(g->fd, e, fd, "1", &g->err), BERTH_E_CONFLICT);
    assert_int_equal(berth_fs_remove_tree(path, &g->err), BERTH_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_GROUND(everything_is_listed),
        ON_GROUND(special_files_are_skipped),
        ON_GROUND(ignored_files_are_left_out),
        ON_GROUND(unreadable_is_an_error),
        ON_GROUND(reading_of_a_file_can_be_cancelled),
        ON_GROUND(reading_can_be_cancelled),
        ON_GROUND(unchanged_files_are_not_read),
        ON_GROUND(many_files_are_hashed),
        ON_GROUND(file_that_is_gone_is_an_error),
        ON_GROUND(written_and_read_again),
        ON_GROUND(paths_of_strangers),
        ON_GROUND(duplicates_are_refused),
        ON_GROUND(copies_are_the_same),
        ON_GROUND(copies_follow_no_link),
        ON_GROUND(copy_of_one_file_has_its_hash),
    };
    return cmocka_run_group_tests_name("tree", tests, NULL, NULL);
}
