/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/inits.c - which inits are kept when their commands have ended. */
#include "os/inits.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "os/init_protocol.h"
#include "os/spawn.h"

#define USERS 40 /* more than there is room for */

/* Returns whether the process is an init that has not exited. */
static bool is_init(int pid)
{
    char path[64], state = 'Z';
    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool found = fscanf(file, "%*d (berth-init) %c", &state) == 1; /* NOLINT */
    (void)fclose(file);
    return found && state != 'Z';
}

/* The number of inits of this process. */
static int count_inits(void)
{
    int count = 0, pid;
    FILE *list = fopen("/proc/thread-self/children", "re");
    assert_non_null(list);
    while (fscanf(list, "%d", &pid) == 1) /* NOLINT */
        count += is_init(pid);
    (void)fclose(list);
    return count;
}

/* However many inits are given back, one that has served no user is kept. */
static void one_is_kept_for_the_next_user(void **state)
{
    struct berth_inits *inits;
    struct berth_init *used[USERS];
    struct berth_error err;
    (void)state;
    assert_int_equal(berth_inits_new(&inits, &err), 0);
    assert_int_equal(berth_inits_prepare(inits, &err), 0);
    for (int i = 0; i < USERS; i++) {
        char user[16];
        (void)snprintf(user, sizeof user, "user %d", i);
        assert_int_equal(berth_inits_take(inits, user, &used[i], &err), 0);
        berth_inits_replenish(inits);
    }
    for (int i = 0; i < USERS; i++)
        berth_inits_give(inits, used[i]);
    while (berth_inits_trim(inits))
        continue;
    WAIT_FOR(count_inits() == 1); /* one that has just started has another name for a moment */
    berth_inits_free(inits);
}

/* Signals that reach the child while it waits are not for the program that it becomes. */
static void signals_before_the_program_are_dropped(void **state)
{
    static const char *const argv[] = {"true", NULL}, *const env[] = {NULL};
    struct berth_spawn what = {.argv = argv, .env = env, .fds = {-1, -1, -1}};
    struct berth_init_report report = {0};
    struct berth_inits *inits;
    struct berth_init *init;
    struct berth_error err;
    (void)state;
    assert_int_equal(berth_inits_new(&inits, &err), 0);
    assert_int_equal(berth_inits_take(inits, "user", &init, &err), 0);
    assert_int_equal(kill(berth_init_command(init), SIGTERM), 0);
    assert_int_equal(kill(berth_init_command(init), SIGSEGV), 0);
    assert_int_equal(berth_init_run(init, &what, "/bin/true", &err), 0);
    WAIT_FOR(berth_init_read(init, &report) == 1 && report.kind == BERTH_INIT_EXITED);
    assert_int_equal(report.code, CLD_EXITED);
    assert_int_equal(report.status, 0);
    berth_inits_give(inits, init);
    berth_inits_free(inits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_is_kept_for_the_next_user),
        cmocka_unit_test(signals_before_the_program_are_dropped),
    };
    return cmocka_run_group_tests_name("inits", tests, NULL, NULL);
}
