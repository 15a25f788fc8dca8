/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/file_watch.c - changes of a file are reported to a thread and to the engine. */
#include "os/file_watch.h"

#include "engines.h"
#include "fixture.h"

#include <fcntl.h>
#include <semaphore.h>
#include <unistd.h>

#include "base/auto.h"

#define LONG_MS 60000 /* the tests end long before */

static char directory[] = "/tmp/berth-watch.XXXXXX", path[sizeof directory + 8];

static int open_file(void **state)
{
    if (!mkdtemp(directory))
        return -1;
    (void)snprintf(path, sizeof path, "%s/log", directory);
    return open_engine(state);
}

static int remove_file(void **state)
{
    (void)unlink(path);
    (void)rmdir(directory);
    return close_engine(state);
}

static void append(const char *text)
{
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void missing_file_cannot_be_watched(void **state)
{
    (void)state;
    assert_int_equal(berth_file_watch_open("/nonexistent/log"), -1);
    assert_false(berth_file_watch_wait(-1, 0));
}

static void thread_is_woken_by_a_change(void **state)
{
    (void)state;
    append("one");
    auto_close int fd = berth_file_watch_open(path);
    assert_true(fd >= 0);
    assert_false(berth_file_watch_wait(fd, 0)); /* the first write was before */
    append("two");
    append("three");
    assert_true(berth_file_watch_wait(fd, LONG_MS));
    assert_false(berth_file_watch_wait(fd, 0)); /* both changes were reported at once */
}

static struct {
    struct berth_file_watch *watch, *other, *missing;
    sem_t changed, other_changed;
} seen;

static void on_change(void *ctx)
{
    (void)sem_post(ctx);
}

static void run_watch(void *ctx)
{
    (void)ctx;
    seen.watch = berth_file_watch_new(engine, path, on_change, &seen.changed);
    seen.other = berth_file_watch_new(engine, path, on_change, &seen.other_changed);
    seen.missing = berth_file_watch_new(engine, "/nonexistent/log", on_change, &seen.changed);
}

static void run_free_one(void *ctx)
{
    (void)ctx;
    berth_file_watch_free(seen.watch);
}

static void run_free_other(void *ctx)
{
    (void)ctx;
    berth_file_watch_free(seen.other);
    berth_file_watch_free(NULL);
}

static void engine_reports_changes_to_each_watch(void **state)
{
    (void)state;
    struct berth_error err;
    append("one");
    assert_int_equal(sem_init(&seen.changed, 0, 0), 0);
    assert_int_equal(sem_init(&seen.other_changed, 0, 0), 0);
    assert_int_equal(berth_engine_do(engine, run_watch, NULL, &err), BERTH_OK);
    assert_non_null(seen.watch);
    assert_non_null(seen.other);
    assert_null(seen.missing);
    append("two");
    assert_int_equal(sem_wait(&seen.changed), 0);
    assert_int_equal(sem_wait(&seen.other_changed), 0);

    assert_int_equal(berth_engine_do(engine, run_free_one, NULL, &err), BERTH_OK);
    while (sem_trywait(&seen.changed) == 0)
        continue;
    append("three");
    assert_int_equal(sem_wait(&seen.other_changed), 0);
    assert_int_equal(sem_trywait(&seen.changed), -1); /* it was freed */
    assert_int_equal(berth_engine_do(engine, run_free_other, NULL, &err), BERTH_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_file_cannot_be_watched),
        cmocka_unit_test(thread_is_woken_by_a_change),
        cmocka_unit_test(engine_reports_changes_to_each_watch),
    };
    return cmocka_run_group_tests(tests, open_file, remove_file);
}
