/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/fs.c - paths that stay beneath their root, directories made and removed whole, bounded
 * reads, owners and modes. */
#include "os/fs.h"

#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"

/* directory/
 *   secret                 outside the root
 *   root/file  root/sub/inner/  root/sub/deep
 *   root/out -> ../secret  root/up -> ..  root/abs -> directory/secret
 *   root/in -> file        root/insub -> sub  root/nowhere -> missing */
struct ground {
    char directory[64];
    int root_fd;
    struct berth_error err;
};

static const char *path_of(const struct ground *g, const char *name)
{
    static char paths[4][256]; /* a few at a time */
    static int next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof paths[0], "%s/%s", g->directory, name);
    return path;
}

static void put_file(const struct ground *g, const char *name, const char *text)
{
    auto_close int fd = open(path_of(g, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static int set_up(void **state)
{
    struct ground *g = calloc(1, sizeof *g);
    (void)snprintf(g->directory, sizeof g->directory, "/tmp/berth-fs.XXXXXX");
    if (!mkdtemp(g->directory) || mkdir(path_of(g, "root"), 0700) < 0 ||
        mkdir(path_of(g, "root/sub"), 0700) < 0 || mkdir(path_of(g, "root/sub/inner"), 0700) < 0)
        return -1;
    put_file(g, "secret", "secret");
    put_file(g, "root/file", "content");
    put_file(g, "root/sub/deep", "deep");
    if (symlink("../secret", path_of(g, "root/out")) < 0 ||
        symlink("..", path_of(g, "root/up")) < 0 ||
        symlink(path_of(g, "secret"), path_of(g, "root/abs")) < 0 ||
        symlink("file", path_of(g, "root/in")) < 0 ||
        symlink("sub", path_of(g, "root/insub")) < 0 ||
        symlink("missing", path_of(g, "root/nowhere")) < 0)
        return -1;
    g->root_fd = open(path_of(g, "root"), O_PATH | O_DIRECTORY | O_CLOEXEC);
    *state = g;
    return g->root_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    struct ground *g = *state;
    (void)close(g->root_fd);
    int rc = seteuid(getuid()); /* a test may be another user */
    if (rc == 0)
        rc = berth_fs_remove_tree(g->directory, &g->err);
    free(g);
    return rc;
}

/* --- open_beneath --- */

static void opens_what_is_beneath(void **state)
{
    struct ground *g = *state;
    static const char *const paths[] = {"file", "./file", "sub/deep", "sub//deep", "sub/./deep"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        auto_close int fd = berth_fs_open_beneath(g->root_fd, paths[i], O_RDONLY, 0, &g->err);
        assert_ok(g, fd);
        assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        char first;
        assert_int_equal(read(fd, &first, 1), 1);
    }
}

static void creates_with_its_mode(void **state)
{
    struct ground *g = *state;
    mode_t before = umask(0);
    auto_close int fd =
        berth_fs_open_beneath(g->root_fd, "sub/new", O_WRONLY | O_CREAT | O_EXCL, 0640, &g->err);
    (void)umask(before);
    assert_ok(g, fd);
    struct stat st;
    assert_int_equal(stat(path_of(g, "root/sub/new"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    int again =
        berth_fs_open_beneath(g->root_fd, "sub/new", O_WRONLY | O_CREAT | O_EXCL, 0640, &g->err);
    assert_true(again < 0);
    assert_int_equal(g->err.os_errno, EEXIST);
}

/* A mode without O_CREAT means nothing, for a directory as for a file. */
static void mode_is_ignored_without_create(void **state)
{
    struct ground *g = *state;
    auto_close int file = berth_fs_open_beneath(g->root_fd, "file", O_RDONLY, 0644, &g->err);
    assert_ok(g, file);
    auto_close int dir =
        berth_fs_open_beneath(g->root_fd, "sub", O_RDONLY | O_DIRECTORY, 0755, &g->err);
    assert_ok(g, dir);
}

/* Both for reading and for making; no path of the list may be opened. */
static void refuses_all(struct ground *g, const char *const paths[])
{
    static const int flags[] = {O_RDONLY, O_PATH, O_WRONLY | O_CREAT};
    int opened = 0;
    for (int i = 0; paths[i]; i++) {
        for (int k = 0; k < 3; k++) {
            int fd =
                berth_fs_open_beneath(g->root_fd, paths[i], flags[k], k == 2 ? 0600 : 0, &g->err);
            if (fd >= 0) {
                print_error("%s opens with flags %d\n", paths[i], k);
                (void)close(fd);
                opened++;
            } else {
                assert_int_equal(fd, g->err.code);
                assert_non_null(strstr(g->err.message, paths[i]));
            }
        }
    }
    assert_int_equal(opened, 0);
}

static void refuses_dotdot_out(void **state)
{
    struct ground *g = *state;
    static const char *const paths[] = {"..",
                                        "../secret",
                                        "sub/../../secret",
                                        "../root/file",
                                        "./../secret",
                                        "sub/inner/../../../secret",
                                        NULL};
    refuses_all(g, paths);
}

/* The contract has no "..", also where it would not lead out. */
static void refuses_dotdot_inside(void **state)
{
    struct ground *g = *state;
    static const char *const paths[] = {"sub/../file", "sub/inner/../deep", "sub/..",
                                        "sub/inner/..", NULL};
    refuses_all(g, paths);
}

/* Only whole components: a name may have dots. */
static void dots_in_names_are_fine(void **state)
{
    struct ground *g = *state;
    static const char *const paths[] = {"..file", "file..", "...", "a..b", "sub/..x"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        auto_close int fd =
            berth_fs_open_beneath(g->root_fd, paths[i], O_WRONLY | O_CREAT, 0600, &g->err);
        assert_ok(g, fd);
    }
}

static void refuses_absolute_paths(void **state)
{
    struct ground *g = *state;
    const char *const paths[] = {"/",
                                 "/etc/passwd",
                                 "//etc/passwd",
                                 path_of(g, "root/file"),
                                 path_of(g, "secret"),
                                 "/proc/self/root/etc/passwd",
                                 NULL};
    refuses_all(g, paths);
}

static void refuses_links_out(void **state)
{
    struct ground *g = *state;
    static const char *const paths[] = {"out",     "abs",       "up/secret", "up/root/file",
                                        "nowhere", "nowhere/x", NULL};
    static const int flags[] = {O_RDONLY, O_WRONLY | O_CREAT};
    for (int i = 0; paths[i]; i++)
        for (int k = 0; k < 2; k++)
            assert_true(
                berth_fs_open_beneath(g->root_fd, paths[i], flags[k], k ? 0600 : 0, &g->err) < 0);
    assert_int_equal(access(path_of(g, "root/missing"), F_OK), -1); /* nothing made through one */
    auto_close int secret = open(path_of(g, "secret"), O_RDONLY | O_CLOEXEC);
    char text[16] = "";
    assert_int_equal(read(secret, text, sizeof text), 6);
}

static void refuses_links_inside(void **state)
{
    struct ground *g = *state;
    static const char *const paths[] = {"in", "insub/deep", "insub/inner", "insub/", NULL};
    for (int i = 0; paths[i]; i++)
        assert_true(berth_fs_open_beneath(g->root_fd, paths[i], O_RDONLY, 0, &g->err) < 0);
}

static void missing_is_not_found(void **state)
{
    struct ground *g = *state;
    assert_fails(g, BERTH_E_NOT_FOUND, "no-such",
                 berth_fs_open_beneath(g->root_fd, "no-such", O_RDONLY, 0, &g->err));
    assert_fails(g, BERTH_E_NOT_FOUND, NULL,
                 berth_fs_open_beneath(g->root_fd, "", O_RDONLY, 0, &g->err));
}

/* --- removing --- */

#define OTHER_USER 65534
#define INNER "a-name-of-20-letters" /* 300 of them are longer than any path */

/* Makes the directory, and `levels` of them below each other in it, with a file in each. */
static void put_deep(const struct ground *g, const char *name, int levels, mode_t mode)
{
    assert_int_equal(mkdir(path_of(g, name), 0700), 0);
    int at = open(path_of(g, name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < levels; i++) {
        auto_close int file = openat(at, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(file >= 0);
        assert_int_equal(mkdirat(at, INNER, 0700), 0);
        int next = openat(at, INNER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        assert_int_equal(fchmod(at, mode), 0);
        (void)close(at);
        at = next;
    }
    (void)close(at);
}

static void removes_a_tree_of_any_depth(void **state)
{
    struct ground *g = *state;
    put_deep(g, "root/sub/long", 300, 0700);
    put_deep(g, "root/0", 100, 0700); /* names that deep ones could get */
    put_file(g, "root/1", "in the way");
    assert_ok(g, berth_fs_remove_tree(path_of(g, "root"), &g->err));
    assert_int_equal(access(path_of(g, "root"), F_OK), -1);
    assert_int_equal(access(path_of(g, "secret"), F_OK), 0); /* links are not followed */
    assert_ok(g, berth_fs_remove_tree(path_of(g, "root"), &g->err));
}

/* Root may do everything in any directory. */
static void become_ordinary(const struct ground *g)
{
    if (geteuid() == 0) {
        assert_int_equal(chown(g->directory, OTHER_USER, (gid_t)-1), 0);
        assert_int_equal(seteuid(OTHER_USER), 0);
    }
}

static void removes_directories_that_are_closed_to_their_owner(void **state)
{
    struct ground *g = *state;
    static const struct {
        const char *name;
        mode_t mode;
    } rows[] = {{"a/1", 0}, {"a/2", 0100}, {"a/3", 0300}, {"a/4", 0400}, {"a/5", 0500}};
    become_ordinary(g);
    assert_int_equal(mkdir(path_of(g, "a"), 0700), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        put_deep(g, rows[i].name, 100, rows[i].mode);
    assert_int_equal(chmod(path_of(g, "a"), 0), 0);
    assert_ok(g, berth_fs_remove_tree(path_of(g, "a"), &g->err));
    assert_int_equal(access(path_of(g, "a"), F_OK), -1);
}

/* Goes on with the rest, and says what was wrong. */
static void one_failure_keeps_nothing_else(void **state)
{
    struct ground *g = *state;
    if (geteuid() != 0)
        skip(); /* only root can make what the other user cannot remove */
    assert_int_equal(mkdir(path_of(g, "a"), 0700), 0);
    static const char *const names[] = {"a/1", "a/2", "a/3"};
    for (size_t i = 0; i < 3; i++) {
        put_deep(g, names[i], 1, 0700);
        assert_int_equal(chown(path_of(g, names[i]), i == 1 ? 0 : OTHER_USER, (gid_t)-1), 0);
    }
    assert_int_equal(chown(path_of(g, "a"), OTHER_USER, (gid_t)-1), 0);
    become_ordinary(g);
    assert_true(berth_fs_remove_tree(path_of(g, "a"), &g->err) < 0);
    assert_non_null(strstr(g->err.message, "/a: Operation not permitted"));
    assert_int_equal(access(path_of(g, "a/1"), F_OK), -1);
    assert_int_equal(access(path_of(g, "a/2"), F_OK), 0);
    assert_int_equal(access(path_of(g, "a/3"), F_OK), -1);
}

/* --- mkdirs --- */

static void assert_directory(const char *path, mode_t mode)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(st.st_mode & 07777, mode);
}

static void makes_parents(void **state)
{
    struct ground *g = *state;
    assert_ok(g, berth_fs_mkdirs(path_of(g, "a/b/c"), 0700, &g->err));
    assert_directory(path_of(g, "a"), 0700);
    assert_directory(path_of(g, "a/b"), 0700);
    assert_directory(path_of(g, "a/b/c"), 0700);
    assert_ok(g, berth_fs_mkdirs(path_of(g, "a/b/c"), 0700, &g->err));
    assert_ok(g, berth_fs_mkdirs(path_of(g, "d//e/./f/"), 0700, &g->err));
    assert_directory(path_of(g, "d/e/f"), 0700);
    assert_ok(g, berth_fs_mkdirs("/", 0700, &g->err));
}

static void leaves_what_exists(void **state)
{
    struct ground *g = *state;
    assert_int_equal(chmod(path_of(g, "root/sub"), 0751), 0);
    assert_ok(g, berth_fs_mkdirs(path_of(g, "root/sub/x"), 0700, &g->err));
    assert_directory(path_of(g, "root/sub"), 0751);
    assert_int_equal(access(path_of(g, "root/sub/deep"), F_OK), 0);
    assert_ok(g, berth_fs_mkdirs(path_of(g, "root/insub/y"), 0700, &g->err)); /* a link to one */
    assert_directory(path_of(g, "root/sub/y"), 0700);
}

static void relative_paths_work(void **state)
{
    struct ground *g = *state;
    auto_close int before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(chdir(g->directory), 0);
    int rc = berth_fs_mkdirs("r/s", 0700, &g->err);
    assert_int_equal(fchdir(before), 0);
    assert_ok(g, rc);
    assert_directory(path_of(g, "r/s"), 0700);
}

static void files_are_in_the_way(void **state)
{
    struct ground *g = *state;
    assert_true(berth_fs_mkdirs(path_of(g, "secret"), 0700, &g->err) < 0);
    assert_non_null(strstr(g->err.message, "secret"));
    assert_true(berth_fs_mkdirs(path_of(g, "secret/below"), 0700, &g->err) < 0);
}

/* OK must mean that the directory is there. */
static void dangling_link_is_no_directory(void **state)
{
    struct ground *g = *state;
    assert_true(berth_fs_mkdirs(path_of(g, "root/nowhere"), 0700, &g->err) < 0);
    assert_true(berth_fs_mkdirs(path_of(g, "root/nowhere/x"), 0700, &g->err) < 0);
}

/* In a process of its own: what reads beyond the text may not come back. */
static void empty_path_is_an_error(void **state)
{
    struct ground *g = *state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(berth_fs_mkdirs("", 0700, &g->err) < 0 ? 0 : 3);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* --- read_all, write_all --- */

static void reads_up_to_the_ceiling(void **state)
{
    struct ground *g = *state;
    for (size_t size = 0; size < 100000; size = size * 3 + 1) {
        auto_free char *text = calloc(1, size + 1);
        memset(text, 'x', size);
        put_file(g, "data", text);
        auto_close int fd = open(path_of(g, "data"), O_RDONLY | O_CLOEXEC);
        auto_buf exact = BERTH_BUF_INIT(size);
        assert_ok(g, berth_fs_read_all(fd, &exact, &g->err));
        assert_int_equal(exact.len, size);
        assert_string_equal(berth_buf_str(&exact), text);
        if (!size)
            continue;
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        auto_buf less = BERTH_BUF_INIT(size - 1);
        assert_fails(g, BERTH_E_TOO_LARGE, NULL, berth_fs_read_all(fd, &less, &g->err));
    }
}

static void appends_to_what_is_there(void **state)
{
    struct ground *g = *state;
    auto_buf buf = BERTH_BUF_INIT(10);
    berth_buf_puts(&buf, "abc");
    auto_close int fd = open(path_of(g, "root/file"), O_RDONLY | O_CLOEXEC);
    assert_ok(g, berth_fs_read_all(fd, &buf, &g->err));
    assert_string_equal(berth_buf_str(&buf), "abccontent");
    auto_buf full = BERTH_BUF_INIT(9);
    berth_buf_puts(&full, "abc");
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_fails(g, BERTH_E_TOO_LARGE, NULL, berth_fs_read_all(fd, &full, &g->err));
}

/* The ceiling also ends what would never end. */
static void endless_input_ends(void **state)
{
    struct ground *g = *state;
    auto_close int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    auto_buf buf = BERTH_BUF_INIT(1 << 20);
    assert_fails(g, BERTH_E_TOO_LARGE, NULL, berth_fs_read_all(fd, &buf, &g->err));
}

static void io_errors_are_told(void **state)
{
    struct ground *g = *state;
    auto_buf buf = BERTH_BUF_INIT(10);
    auto_close int dir = open(g->directory, O_RDONLY | O_CLOEXEC);
    assert_true(berth_fs_read_all(dir, &buf, &g->err) < 0);
    assert_int_equal(g->err.os_errno, EISDIR);
    assert_true(berth_fs_write_all(dir, "x", 1, &g->err) < 0);
    assert_int_equal(g->err.os_errno, EBADF);
    auto_close int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(berth_fs_write_all(full, "x", 1, &g->err) < 0);
    assert_int_equal(g->err.os_errno, ENOSPC);
    assert_ok(g, berth_fs_write_all(full, "", 0, &g->err));
}

struct reader {
    int fd;
    struct berth_buf buf;
    struct berth_error err;
    int rc;
};

static void *read_slowly(void *ctx)
{
    struct reader *r = ctx;
    r->rc = berth_fs_read_all(r->fd, &r->buf, &r->err);
    return NULL;
}

/* A pipe takes a little at a time: both sides have to go on. */
static void writes_all_through_a_pipe(void **state)
{
    struct ground *g = *state;
    enum { BYTES = 3 * 1024 * 1024 + 17 };
    auto_free unsigned char *bytes = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (unsigned char)(i * 31 + i / 251);
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct reader r = {.fd = ends[0], .buf = BERTH_BUF_INIT(BYTES)};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_slowly, &r), 0);
    int rc = berth_fs_write_all(ends[1], bytes, BYTES, &g->err);
    (void)close(ends[1]);
    pthread_join(thread, NULL);
    (void)close(ends[0]);
    assert_ok(g, rc);
    assert_int_equal(r.rc, BERTH_OK);
    assert_int_equal(r.buf.len, BYTES);
    assert_memory_equal(r.buf.data, bytes, BYTES);
    berth_buf_clear(&r.buf);
}

static void guards_judge_type_owner_and_mode(void **state)
{
    (void)state;
    const uid_t us = geteuid(), stranger = us + 1;
    const struct {
        mode_t mode;
        uid_t owner;
        enum berth_fs_flaw flaws[3]; /* by guard: ours and private, private, trusted */
    } rows[] = {
        {S_IFREG | 0600, us, {BERTH_FS_NO_FLAW, BERTH_FS_NO_FLAW, BERTH_FS_NO_FLAW}},
        {S_IFREG | 0700, us, {BERTH_FS_NO_FLAW, BERTH_FS_NO_FLAW, BERTH_FS_NO_FLAW}},
        {S_IFREG | 0640, us, {BERTH_FS_WRONG_MODE, BERTH_FS_WRONG_MODE, BERTH_FS_NO_FLAW}},
        {S_IFREG | 0601, us, {BERTH_FS_WRONG_MODE, BERTH_FS_WRONG_MODE, BERTH_FS_NO_FLAW}},
        {S_IFREG | 0620, us, {BERTH_FS_WRONG_MODE, BERTH_FS_WRONG_MODE, BERTH_FS_WRONG_MODE}},
        {S_IFREG | 0602, us, {BERTH_FS_WRONG_MODE, BERTH_FS_WRONG_MODE, BERTH_FS_WRONG_MODE}},
        {S_IFREG | 0600,
         stranger,
         {BERTH_FS_WRONG_OWNER, BERTH_FS_WRONG_OWNER, BERTH_FS_WRONG_OWNER}},
        {S_IFREG | 0600,
         0,
         {us ? BERTH_FS_WRONG_OWNER : BERTH_FS_NO_FLAW, BERTH_FS_NO_FLAW, BERTH_FS_NO_FLAW}},
        {S_IFDIR | 0700, us, {BERTH_FS_WRONG_TYPE, BERTH_FS_WRONG_TYPE, BERTH_FS_WRONG_TYPE}},
        {S_IFIFO | 0666, stranger, {BERTH_FS_WRONG_TYPE, BERTH_FS_WRONG_TYPE, BERTH_FS_WRONG_TYPE}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stat st = {.st_mode = rows[i].mode, .st_uid = rows[i].owner};
        for (int guard = BERTH_FS_OURS_PRIVATE; guard <= BERTH_FS_TRUSTED; guard++)
            assert_int_equal(berth_fs_find_flaw(&st, S_IFREG, (enum berth_fs_guard)guard),
                             rows[i].flaws[guard]);
    }
    struct stat directory = {.st_mode = S_IFDIR | 0700, .st_uid = us};
    assert_int_equal(berth_fs_find_flaw(&directory, S_IFDIR, BERTH_FS_OURS_PRIVATE),
                     BERTH_FS_NO_FLAW);
}

/* From its beginning, wherever the descriptor stands, to the end of the other file. */
static void copies_at_most_so_many_bytes(void **state)
{
    struct ground *g = *state;
    static const struct {
        int64_t most, copied;
        const char *then;
    } rows[] = {{INT64_MAX, 5, "[hello"}, {5, 5, "[hello"}, {3, 3, "[hel"}, {0, 0, "["}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put_file(g, "root/from", "hello");
        put_file(g, "root/to", "[");
        auto_close int from = open(path_of(g, "root/from"), O_RDONLY | O_CLOEXEC);
        auto_close int to = open(path_of(g, "root/to"), O_RDWR | O_APPEND | O_CLOEXEC);
        auto_buf got = BERTH_BUF_INIT(100);
        assert_int_equal(lseek(from, 2, SEEK_SET), 2);
        assert_int_equal(berth_fs_copy(from, to, rows[i].most, &g->err), rows[i].copied);
        assert_int_equal(lseek(to, 0, SEEK_SET), 0);
        assert_ok(g, berth_fs_read_all(to, &got, &g->err));
        assert_string_equal(berth_buf_str(&got), rows[i].then);
    }
    auto_close int from = open(path_of(g, "root/from"), O_RDONLY | O_CLOEXEC);
    assert_true(berth_fs_copy(from, from, INT64_MAX, &g->err) < 0); /* cannot be written */
}

#define ON_GROUND(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_GROUND(opens_what_is_beneath),
        ON_GROUND(creates_with_its_mode),
        ON_GROUND(mode_is_ignored_without_create),
        ON_GROUND(refuses_dotdot_out),
        ON_GROUND(refuses_dotdot_inside),
        ON_GROUND(dots_in_names_are_fine),
        ON_GROUND(refuses_absolute_paths),
        ON_GROUND(refuses_links_out),
        ON_GROUND(refuses_links_inside),
        ON_GROUND(missing_is_not_found),
        ON_GROUND(removes_a_tree_of_any_depth),
        ON_GROUND(removes_directories_that_are_closed_to_their_owner),
        ON_GROUND(one_failure_keeps_nothing_else),
        ON_GROUND(makes_parents),
        ON_GROUND(leaves_what_exists),
        ON_GROUND(relative_paths_work),
        ON_GROUND(files_are_in_the_way),
        ON_GROUND(dangling_link_is_no_directory),
        ON_GROUND(empty_path_is_an_error),
        ON_GROUND(reads_up_to_the_ceiling),
        ON_GROUND(appends_to_what_is_there),
        ON_GROUND(endless_input_ends),
        ON_GROUND(io_errors_are_told),
        ON_GROUND(writes_all_through_a_pipe),
        ON_GROUND(copies_at_most_so_many_bytes),
        cmocka_unit_test(guards_judge_type_owner_and_mode),
    };
    return cmocka_run_group_tests_name("fs", tests, NULL, NULL);
}
