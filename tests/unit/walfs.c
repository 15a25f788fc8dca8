/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/walfs.c - what a commit left on the disk is whole, whoever reads it. */
#include "store/walfs.h"

#include "fixture.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"

struct ground {
    char directory[64];
    char path[96], copy[96];
    sqlite3 *db;
};

static void run(sqlite3 *db, const char *sql)
{
    char *text = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &text) != SQLITE_OK)
        fail_msg("%s: %s", sql, text);
}

static int64_t ask(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_finalize(stmt);
    return number;
}

static void copy_file(const char *from, const char *to)
{
    auto_close int in = open(from, O_RDONLY | O_CLOEXEC);
    auto_close int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct stat st;
    assert_int_equal(fstat(in, &st), 0);
    assert_int_equal(sendfile(out, in, NULL, (size_t)st.st_size), st.st_size);
}

/* What a reader finds that knows nothing of us, if the machine stopped at this moment. */
static void assert_on_disk(struct ground *g, int64_t rows)
{
    char from[112], to[112];
    copy_file(g->path, g->copy);
    (void)snprintf(from, sizeof from, "%s-wal", g->path);
    (void)snprintf(to, sizeof to, "%s-wal", g->copy);
    copy_file(from, to);
    sqlite3 *plain = NULL;
    assert_int_equal(sqlite3_open_v2(g->copy, &plain, SQLITE_OPEN_READWRITE, "unix"), SQLITE_OK);
    assert_int_equal(ask(plain, "SELECT count(*) FROM t"), rows);
    assert_int_equal(ask(plain, "SELECT count(*) FROM t WHERE length(x) <> 300"), 0);
    assert_int_equal(ask(plain, "SELECT count(*) FROM pragma_integrity_check"
                                " WHERE integrity_check = 'ok'"),
                     1);
    (void)sqlite3_close(plain);
}

static void open_ground(struct ground *g, int page_size, const char *synchronous)
{
    (void)snprintf(g->directory, sizeof g->directory, "/tmp/berth-walfs.XXXXXX");
    assert_non_null(mkdtemp(g->directory));
    (void)snprintf(g->path, sizeof g->path, "%s/db", g->directory);
    (void)snprintf(g->copy, sizeof g->copy, "%s/copy", g->directory);
    assert_int_equal(
        sqlite3_open_v2(g->path, &g->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, berth_walfs()),
        SQLITE_OK);
    char sql[128];
    (void)snprintf(sql, sizeof sql,
                   "PRAGMA page_size = %d; PRAGMA journal_mode = WAL; PRAGMA synchronous = %s;"
                   "PRAGMA cache_size = 5",
                   page_size, synchronous);
    run(g->db, sql);
    run(g->db, "CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT, y TEXT)");
    run(g->db, "CREATE INDEX t_x ON t (x)");
}

static void close_ground(struct ground *g)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    (void)sqlite3_close(g->db);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s%s", g->path, ends[i]);
        (void)unlink(path);
        (void)snprintf(path, sizeof path, "%s%s", g->copy, ends[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(g->directory), 0);
}

#define ADD(rows)                                                                                  \
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " #rows ")"         \
    " INSERT INTO t (x, y) SELECT hex(randomblob(150)), i FROM n;"

/* Five pages of cache make a large transaction spill frames before its commit, read them back, and
 * rewrite their checksums; a rollback leaves frames behind the end; a checkpoint starts over. */
static void commits_are_whole(int page_size, const char *synchronous)
{
    struct ground g;
    open_ground(&g, page_size, synchronous);
    run(g.db, ADD(1));
    assert_on_disk(&g, 1);
    run(g.db, "BEGIN;" ADD(400) ADD(400) "UPDATE t SET x = hex(randomblob(150)); COMMIT");
    assert_on_disk(&g, 801);
    run(g.db, "BEGIN;" ADD(500) "UPDATE t SET x = 'bad'; ROLLBACK");
    assert_on_disk(&g, 801);
    run(g.db, ADD(1));
    assert_on_disk(&g, 802);

    sqlite3 *other = NULL; /* a process of another program */
    assert_int_equal(sqlite3_open_v2(g.path, &other, SQLITE_OPEN_READWRITE, "unix"), SQLITE_OK);
    for (int i = 0; i < 20; i++) {
        run(g.db, "BEGIN;" ADD(30) "ROLLBACK");
        run(other, ADD(1));
        run(g.db, ADD(1));
    }
    assert_on_disk(&g, 842);
    run(other, "PRAGMA wal_checkpoint(TRUNCATE)");
    run(g.db, ADD(1));
    assert_on_disk(&g, 843);
    (void)sqlite3_close(other);
    close_ground(&g);
}

static void a_commit_is_whole_on_the_disk(void **state)
{
    (void)state;
    commits_are_whole(2048, "FULL");
}

static void pages_too_large_to_join_are_written_as_they_come(void **state)
{
    (void)state;
    commits_are_whole(8192, "FULL");
}

/* Nothing flushes here but the next call: a header that is not held long can not be lost. */
static void a_commit_without_a_sync_is_whole(void **state)
{
    (void)state;
    commits_are_whole(2048, "NORMAL");
}

static int64_t write_calls(void)
{
    char text[512] = "";
    auto_close int fd = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
        return -1;
    const char *at = strstr(text, "syscw: ");
    return at ? strtoll(at + strlen("syscw: "), NULL, 10) : -1;
}

static int64_t writes_of(const char *vfs)
{
    struct ground g = {0};
    open_ground(&g, 2048, "FULL");
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open_v2(g.path, &db, SQLITE_OPEN_READWRITE, vfs), SQLITE_OK);
    run(db, "PRAGMA synchronous = FULL;" ADD(1));
    int64_t before = write_calls();
    for (int i = 0; i < 50; i++)
        run(db, ADD(1));
    int64_t after = write_calls();
    (void)sqlite3_close(db);
    close_ground(&g);
    return before < 0 ? -1 : after - before;
}

/* What it is for: with another SQLite it could silently come to nothing. */
static void frames_are_written_by_half_the_calls(void **state)
{
    (void)state;
    int64_t plain = writes_of("unix"), joined = writes_of(berth_walfs());
    if (plain < 0)
        skip();
    assert_true(plain > 100);
    assert_true(joined * 10 <= plain * 6); /* pages split at random, so not to the call */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_commit_is_whole_on_the_disk),
        cmocka_unit_test(pages_too_large_to_join_are_written_as_they_come),
        cmocka_unit_test(a_commit_without_a_sync_is_whole),
        cmocka_unit_test(frames_are_written_by_half_the_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
