/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/journal.c - lines that were put before a kill are recovered once, and by no process
 * while its process lives. */
#include "os/journal.h"

#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "os/fs.h"

struct ground {
    char directory[64], inner[96];
    struct berth_journal *journal;
    struct berth_buf found; /* each file in brackets */
    int answer;             /* what the recovering function returns */
    struct berth_error err;
};

static int set_up(void **state)
{
    struct ground *g = calloc(1, sizeof *g);
    (void)snprintf(g->directory, sizeof g->directory, "/tmp/berth-journal.XXXXXX");
    if (!g || !mkdtemp(g->directory))
        return -1;
    (void)snprintf(g->inner, sizeof g->inner, "%s/journal", g->directory);
    g->found = (struct berth_buf)BERTH_BUF_INIT(1 << 20);
    *state = g;
    return 0;
}

static int tear_down(void **state)
{
    struct ground *g = *state;
    berth_journal_close(g->journal, false);
    berth_buf_clear(&g->found);
    (void)berth_fs_remove_tree(g->directory, &g->err);
    free(g);
    return 0;
}

static void put(struct ground *g, const char *line)
{
    assert_ok(g, berth_journal_put(g->journal, line, strlen(line), &g->err));
}

static int on_file(void *ctx, const char *text, size_t len, struct berth_error *err)
{
    struct ground *g = ctx;
    berth_buf_puts(&g->found, "[");
    berth_buf_append(&g->found, text, len);
    berth_buf_puts(&g->found, "]");
    return g->answer < 0 ? berth_fail(err, g->answer, "Not now.") : BERTH_OK;
}

static const char *recover(struct ground *g, const char *prefix)
{
    berth_buf_truncate(&g->found, 0);
    int rc = berth_journal_recover(g->inner, prefix, on_file, g, &g->err);
    assert_int_equal(rc, g->answer);
    return berth_buf_str(&g->found);
}

/* In a process of its own, which is killed afterwards. */
static void in_a_killed_process(struct ground *g, void (*act)(struct ground *g))
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (berth_journal_open(g->inner, "store.node", &g->journal, &g->err) == BERTH_OK)
            act(g);
        (void)kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void put_two(struct ground *g)
{
    put(g, "one\n");
    put(g, "two\n");
}

static void a_kill_takes_nothing(void **state)
{
    struct ground *g = *state;
    assert_string_equal(recover(g, "store."), ""); /* the directory does not exist */
    in_a_killed_process(g, put_two);
    assert_string_equal(recover(g, "other."), "");
    assert_string_equal(recover(g, "store."), "[one\ntwo\n]");
    assert_string_equal(recover(g, "store."), "");
}

static void put_and_replace(struct ground *g)
{
    put(g, "one\n");
    put(g, "two\n");
    if (berth_journal_replace(g->journal, "two\n", 4, &g->err) == BERTH_OK)
        put(g, "three\n");
}

static void replaced_lines_are_gone(void **state)
{
    struct ground *g = *state;
    in_a_killed_process(g, put_and_replace);
    assert_string_equal(recover(g, "store."), "[two\nthree\n]");
}

static void a_journal_can_be_emptied(void **state)
{
    struct ground *g = *state;
    assert_ok(g, berth_journal_open(g->inner, "store.node", &g->journal, &g->err));
    assert_true(berth_journal_is_empty(g->journal));
    put(g, "one\n");
    assert_false(berth_journal_is_empty(g->journal));
    assert_ok(g, berth_journal_replace(g->journal, "", 0, &g->err));
    assert_true(berth_journal_is_empty(g->journal));
    put(g, "two\n");
    berth_journal_close(take_ptr(g->journal), true);
    assert_string_equal(recover(g, "store."), "[two\n]");
}

/* The message does not have the path, because callers who are not operators may see it. */
static void a_line_that_does_not_fit_is_refused(void **state)
{
    struct ground *g = *state;
    struct rlimit before, none = {0};
    assert_ok(g, berth_journal_open(g->inner, "store.node", &g->journal, &g->err));
    put(g, "one\n");
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    int rc = berth_journal_put(g->journal, "two\n", 4, &g->err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, BERTH_E_UNAVAILABLE);
    assert_string_equal(g->err.message, "The journal cannot be written: File too large.");
    assert_non_null(strstr(g->err.where, "store.node"));
    put(g, "three\n");
    berth_journal_close(take_ptr(g->journal), true);
    assert_string_equal(recover(g, "store."), "[one\nthree\n]");
}

/* The replaced file is locked like the first one. */
static void a_replaced_journal_of_a_living_process_is_left_alone(void **state)
{
    struct ground *g = *state;
    assert_ok(g, berth_journal_open(g->inner, "store.node", &g->journal, &g->err));
    put(g, "one\n");
    assert_ok(g, berth_journal_replace(g->journal, "two\n", 4, &g->err));
    assert_string_equal(recover(g, "store."), "");
    assert_true(berth_journal_is_left(g->inner, "store.node"));
    berth_journal_close(take_ptr(g->journal), true);
    assert_string_equal(recover(g, "store."), "[two\n]");
    assert_false(berth_journal_is_left(g->inner, "store.node"));
}

/* A directory in the way of the new file: the lines that are there stay, and more can be put. */
static void a_failed_replace_loses_nothing(void **state)
{
    struct ground *g = *state;
    char path[128];
    assert_ok(g, berth_journal_open(g->inner, "store.node", &g->journal, &g->err));
    put(g, "one\n");
    (void)snprintf(path, sizeof path, "%s/store.node.next", g->inner);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_true(berth_journal_replace(g->journal, "two\n", 4, &g->err) < 0);
    put(g, "three\n");
    assert_int_equal(rmdir(path), 0);
    berth_journal_close(take_ptr(g->journal), true);
    assert_string_equal(recover(g, "store."), "[one\nthree\n]");
}

/* A process killed between writing the new file and renaming it. */
static void an_unfinished_replace_is_dropped(void **state)
{
    struct ground *g = *state;
    char path[128];
    in_a_killed_process(g, put_two);
    (void)snprintf(path, sizeof path, "%s/store.node.next", g->inner);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_ok(g, berth_fs_write_all(fd, "two\n", 4, &g->err));
    (void)close(fd);
    assert_string_equal(recover(g, "store."), "[one\ntwo\n]");
    assert_int_equal(access(path, F_OK), -1);
}

static void who_lives_is_left_alone(void **state)
{
    struct ground *g = *state;
    assert_ok(g, berth_journal_open(g->inner, "store.node", &g->journal, &g->err));
    put(g, "one\n");
    assert_string_equal(recover(g, "store."), "");
    berth_journal_close(take_ptr(g->journal), false);
    assert_string_equal(recover(g, "store."), "");
}

static void who_cannot_take_them_finds_them_again(void **state)
{
    struct ground *g = *state;
    in_a_killed_process(g, put_two);
    g->answer = BERTH_E_UNAVAILABLE;
    assert_string_equal(recover(g, "store."), "[one\ntwo\n]");
    g->answer = BERTH_OK;
    assert_string_equal(recover(g, "store."), "[one\ntwo\n]");
    assert_string_equal(recover(g, "store."), "");
}

/* The limit of a file stands for a disk that is full. */
static void put_beyond_a_limit(struct ground *g)
{
    struct rlimit small = {.rlim_cur = 10, .rlim_max = RLIM_INFINITY},
                  large = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    (void)signal(SIGXFSZ, SIG_IGN);
    put(g, "one\n");
    (void)setrlimit(RLIMIT_FSIZE, &small);
    int rc = berth_journal_put(g->journal, "too long\n", 9, &g->err);
    (void)setrlimit(RLIMIT_FSIZE, &large);
    if (rc == BERTH_E_UNAVAILABLE)
        put(g, "three\n");
}

static void half_a_line_is_none(void **state)
{
    struct ground *g = *state;
    in_a_killed_process(g, put_beyond_a_limit);
    assert_string_equal(recover(g, "store."), "[one\nthree\n]");
    char path[128];
    (void)snprintf(path, sizeof path, "%s/store.dead", g->inner);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_ok(g, berth_fs_write_all(fd, "whole\nhal", 9, &g->err));
    (void)close(fd);
    assert_string_equal(recover(g, "store."), "[whole\n]");
    assert_int_equal(access(path, F_OK), -1);
}

static void a_directory_that_cannot_be_made(void **state)
{
    struct ground *g = *state;
    int fd = open(g->inner, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    (void)close(fd);
    assert_int_equal(berth_journal_open(g->inner, "store.node", &g->journal, &g->err),
                     BERTH_E_UNAVAILABLE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_kill_takes_nothing),
        TEST(replaced_lines_are_gone),
        TEST(a_journal_can_be_emptied),
        TEST(a_line_that_does_not_fit_is_refused),
        TEST(a_replaced_journal_of_a_living_process_is_left_alone),
        TEST(a_failed_replace_loses_nothing),
        TEST(an_unfinished_replace_is_dropped),
        TEST(who_lives_is_left_alone),
        TEST(who_cannot_take_them_finds_them_again),
        TEST(half_a_line_is_none),
        TEST(a_directory_that_cannot_be_made),
    };
    return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
