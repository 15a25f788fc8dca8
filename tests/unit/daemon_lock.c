/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/daemon_lock.c - the note finds the process that serves a store, and readers of
 * the note do not block it. */
#include "core/daemon_lock.h"

#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "os/fs.h"

struct ground {
    char directory[64], address[96];
    _Atomic bool over;
    struct berth_error err;
};

static int set_up(void **state)
{
    struct ground *g = calloc(1, sizeof *g);
    (void)snprintf(g->directory, sizeof g->directory, "/tmp/berth-serving.XXXXXX");
    if (!g || !mkdtemp(g->directory))
        return -1;
    (void)snprintf(g->address, sizeof g->address, "sqlite:%s/berth.db", g->directory);
    *state = g;
    return 0;
}

static int tear_down(void **state)
{
    struct ground *g = *state;
    (void)berth_fs_remove_tree(g->directory, &g->err);
    free(g);
    return 0;
}

static void one_serves_and_is_found(void **state)
{
    struct ground *g = *state;
    char socket[BERTH_SOCKET_PATH_SIZE];
    int fd, second;
    assert_false(berth_daemon_lock_find(g->address, socket));
    assert_ok(g, berth_daemon_lock_take(g->address, "/run/some.sock", &fd, &g->err));
    assert_true(berth_daemon_lock_find(g->address, socket));
    assert_string_equal(socket, "/run/some.sock");
    assert_int_equal(berth_daemon_lock_take(g->address, "/run/other.sock", &second, &g->err),
                     BERTH_E_CONFLICT);
    assert_non_null(strstr(g->err.message, "Another berthd"));
    assert_true(berth_daemon_lock_find(g->address, socket));
    (void)close(fd);
    assert_false(berth_daemon_lock_find(g->address, socket));
}

static void *look(void *ctx)
{
    struct ground *g = ctx;
    char socket[BERTH_SOCKET_PATH_SIZE];
    while (!atomic_load(&g->over))
        (void)berth_daemon_lock_find(g->address, socket);
    return NULL;
}

static void a_look_keeps_nobody_from_serving(void **state)
{
    struct ground *g = *state;
    pthread_t thread;
    int fd, rc = BERTH_OK;
    assert_int_equal(pthread_create(&thread, NULL, look, g), 0);
    for (int i = 0; i < 20000 && rc == BERTH_OK; i++) {
        rc = berth_daemon_lock_take(g->address, "/run/some.sock", &fd, &g->err);
        if (rc == BERTH_OK)
            (void)close(fd);
    }
    atomic_store(&g->over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(g, rc);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_serves_and_is_found),
        TEST(a_look_keeps_nobody_from_serving),
    };
    return cmocka_run_group_tests_name("serving", tests, NULL, NULL);
}
