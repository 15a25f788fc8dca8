/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/orphan_inits.c - ending inits whose owner is dead, from outside. A shell with the
 * command line of an init plays its part. */
#include "os/orphan_inits.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/fs.h"
#include "os/init_protocol.h"
#include "os/owner_group.h"

static char directory[] = "/tmp/berth-test.XXXXXX";

/* Runs a script as an init of that owner. Returns when two processes below it have said their
 * numbers. */
static pid_t start_init(const char *owner, pid_t below[2])
{
    char path[256];
    int ends[2];
    /* Like an init, the shell does not end because its children have. */
    static const char script[] = "sleep 1000 & echo $!; (setsid sleep 1000 & echo $!); wait\n"
                                 "kill -STOP $$\n";
    (void)snprintf(path, sizeof path, "%s/%s", directory, owner);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(script, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char name[] = BERTH_INIT_NAME, word[128];
        (void)snprintf(word, sizeof word, "%s", owner);
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
        if (chdir(directory) == 0 && dup2(ends[1], 1) == 1)
            (void)execve("/bin/sh", (char *[]){name, word, NULL},
                         (char *[]){(char[]){"PATH=/usr/bin:/bin"}, NULL});
        _exit(99);
    }
    (void)close(ends[1]);
    FILE *said = fdopen(ends[0], "re");
    for (int i = 0; i < 2; i++)
        assert_int_equal(fscanf(said, "%d", &below[i]), 1); /* NOLINT */
    (void)fclose(said);
    return pid;
}

/* Writes the name of a process that has ended. */
static void dead_owner(char out[BERTH_OWNER_NAME_SIZE])
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        berth_owner_group_name(out);
        _exit(write(ends[1], out, BERTH_OWNER_NAME_SIZE) != BERTH_OWNER_NAME_SIZE);
    }
    assert_int_equal(read(ends[0], out, BERTH_OWNER_NAME_SIZE), BERTH_OWNER_NAME_SIZE);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void assert_killed(pid_t init, const pid_t below[2])
{
    int status;
    assert_int_equal(waitpid(init, &status, 0), init);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    for (int i = 0; i < 2; i++) {
        while (waitpid(below[i], NULL, 0) < 0 && errno == EINTR) /* ours, if we inherit it */
            ;
        assert_int_equal(kill(below[i], 0), -1);
        assert_int_equal(errno, ESRCH);
    }
}

static void orphan_and_its_tree_are_killed(void **state)
{
    (void)state;
    char owner[BERTH_OWNER_NAME_SIZE];
    pid_t below[2];
    dead_owner(owner);
    pid_t init = start_init(owner, below);
    (void)berth_orphan_inits_end(); /* tests beside this one may have orphans, too, and end ours */
    assert_killed(init, below);
}

static void stopped_orphan_is_killed(void **state)
{
    (void)state;
    char owner[BERTH_OWNER_NAME_SIZE];
    pid_t below[2];
    int status;
    dead_owner(owner);
    pid_t init = start_init(owner, below);
    assert_int_equal(kill(init, SIGSTOP), 0);
    assert_int_equal(waitpid(init, &status, WUNTRACED), init);
    (void)berth_orphan_inits_end();
    assert_killed(init, below);
}

static void name_owner(char out[BERTH_OWNER_NAME_SIZE], unsigned long long pids,
                       unsigned long long times, int pid, unsigned long long start)
{
    (void)snprintf(out, BERTH_OWNER_NAME_SIZE, "berth.%llu.%llu.%d.%llu", pids, times, pid, start);
}

/* Its owner lives, is of another namespace, or is not the name of a process. */
static void others_are_left_alone(void **state)
{
    (void)state;
    char own[BERTH_OWNER_NAME_SIZE], dead[BERTH_OWNER_NAME_SIZE];
    char foreign[2][BERTH_OWNER_NAME_SIZE], startless[BERTH_OWNER_NAME_SIZE];
    unsigned long long pids, times, start;
    int pid;
    berth_owner_group_name(own);
    dead_owner(dead);
    assert_int_equal(sscanf(dead, "berth.%llu.%llu.%d.%llu", &pids, &times, &pid, &start), 4);
    name_owner(foreign[0], pids + 1, times, pid, start);
    name_owner(foreign[1], pids, times + 1, pid, start);
    name_owner(startless, pids, times, getpid(), 0);
    const char *const owners[] = {own, foreign[0], foreign[1], startless, "berth", "berth.1.1.1"};
    for (size_t i = 0; i < sizeof owners / sizeof owners[0]; i++) {
        pid_t below[2];
        pid_t init = start_init(owners[i], below);
        (void)berth_orphan_inits_end();
        assert_int_equal(waitpid(init, NULL, WNOHANG), 0); /* it has not ended */
        assert_int_equal(kill(below[0], SIGKILL), 0);
        assert_int_equal(kill(below[1], SIGKILL), 0);
        assert_int_equal(kill(init, SIGKILL), 0);
        assert_killed(init, below);
    }
}

static int set_up(void **state)
{
    (void)state;
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* so that what is left can be waited for */
    return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    struct berth_error err;
    return berth_fs_remove_tree(directory, &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orphan_and_its_tree_are_killed),
        cmocka_unit_test(stopped_orphan_is_killed),
        cmocka_unit_test(others_are_left_alone),
    };
    return cmocka_run_group_tests_name("orphan inits", tests, set_up, tear_down);
}
