/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/runtime.c - the directory for sockets and keys: closed to others, and empty when its
 * process is gone. */
#include "os/runtime.h"

#include "fixture.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"

static char base[64];

static void put_file(const struct berth_runtime_room *room, const char *name)
{
    char path[200];
    (void)snprintf(path, sizeof path, "%s/%s", room->path, name);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void directory_is_ours_alone(void **state)
{
    (void)state;
    struct berth_error err;
    char path[BERTH_RUNTIME_PATH_SIZE], wanted[80];
    struct stat st;
    (void)snprintf(wanted, sizeof wanted, "%s/berth", base);
    assert_int_equal(berth_runtime_directory(path, &err), BERTH_OK);
    assert_string_equal(path, wanted);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    char socket[BERTH_RUNTIME_SOCKET_SIZE];
    assert_int_equal(berth_runtime_socket("01890000-0000-7000-8000-000000000001", socket, &err),
                     BERTH_OK);
    assert_true(strlen(socket) < 108); /* what an address takes */
}

/* Others could look into it, or have put something else there: it is not used. */
static void directory_of_others_is_not_used(void **state)
{
    (void)state;
    struct berth_error err;
    char path[BERTH_RUNTIME_PATH_SIZE], ours[80], elsewhere[80];
    (void)snprintf(ours, sizeof ours, "%s/berth", base);
    (void)snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", base);
    assert_int_equal(chmod(ours, 0755), 0);
    if (berth_runtime_directory(path, &err) == BERTH_OK)
        assert_string_not_equal(path, ours);
    assert_int_equal(chmod(ours, 0700), 0);
    assert_int_equal(rename(ours, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, ours), 0);
    if (berth_runtime_directory(path, &err) == BERTH_OK)
        assert_string_not_equal(path, ours);
    assert_int_equal(unlink(ours), 0);
    assert_int_equal(rename(elsewhere, ours), 0);
}

/* A directory of root's would send the user's own berthd elsewhere. */
static void root_makes_nothing_in_the_directory_of_a_user(void **state)
{
    (void)state;
    struct berth_error err;
    char path[BERTH_RUNTIME_PATH_SIZE], theirs[80], made[96];
    if (geteuid() != 0)
        skip();
    (void)snprintf(theirs, sizeof theirs, "%s/theirs", base);
    (void)snprintf(made, sizeof made, "%s/berth", theirs);
    assert_int_equal(mkdir(theirs, 0700), 0);
    assert_int_equal(chown(theirs, 65534, 65534), 0);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", theirs, 1), 0);
    int rc = berth_runtime_directory(path, &err);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", base, 1), 0);
    bool there = exists(made);
    (void)rmdir(made);
    assert_int_equal(rmdir(theirs), 0);
    assert_false(there);
    if (rc == BERTH_OK)
        assert_string_not_equal(path, made);
}

static void room_goes_with_all_in_it(void **state)
{
    (void)state;
    struct berth_error err;
    struct berth_runtime_room room = BERTH_RUNTIME_ROOM_INIT;
    assert_int_equal(berth_runtime_room_open("kind", &room, &err), BERTH_OK);
    put_file(&room, "key");
    assert_true(exists(room.path));
    berth_runtime_room_close(&room);
    assert_false(exists(room.path));
    berth_runtime_room_close(&room);
}

static void room_that_was_removed_is_noticed(void **state)
{
    (void)state;
    struct berth_error err;
    struct berth_runtime_room room = BERTH_RUNTIME_ROOM_INIT;
    assert_false(berth_runtime_room_stands(&room));
    assert_int_equal(berth_runtime_room_open("kind", &room, &err), BERTH_OK);
    assert_true(berth_runtime_room_stands(&room));
    assert_int_equal(rmdir(room.path), 0);
    assert_false(berth_runtime_room_stands(&room));
    assert_int_equal(mkdir(room.path, 0700), 0); /* another one, of the same name */
    assert_false(berth_runtime_room_stands(&room));
    berth_runtime_room_close(&room);
    assert_false(berth_runtime_room_stands(&room));
}

static void rooms_of_the_dead_are_tidied(void **state)
{
    (void)state;
    struct berth_error err;
    struct berth_runtime_room living = BERTH_RUNTIME_ROOM_INIT, dead = living, other = living;
    assert_int_equal(berth_runtime_room_open("kind", &living, &err), BERTH_OK);
    assert_int_equal(berth_runtime_room_open("kind", &dead, &err), BERTH_OK);
    assert_int_equal(berth_runtime_room_open("other", &other, &err), BERTH_OK);
    put_file(&living, "key");
    put_file(&dead, "key");
    (void)close(dead.fd); /* as the kernel does it for a killed process */
    (void)close(other.fd);
    berth_runtime_tidy("kind");
    assert_true(exists(living.path));
    assert_false(exists(dead.path));
    assert_true(exists(other.path)); /* of another kind: not ours to judge */
    berth_runtime_tidy("other");
    assert_false(exists(other.path));
    berth_runtime_room_close(&living);
}

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(base, sizeof base, "/tmp/berth-rt.XXXXXX");
    return mkdtemp(base) && setenv("XDG_RUNTIME_DIR", base, 1) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char path[80];
    (void)snprintf(path, sizeof path, "%s/berth", base);
    return rmdir(path) + rmdir(base); /* nothing is left in them */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(directory_is_ours_alone),
        cmocka_unit_test(directory_of_others_is_not_used),
        cmocka_unit_test(root_makes_nothing_in_the_directory_of_a_user),
        cmocka_unit_test(room_goes_with_all_in_it),
        cmocka_unit_test(room_that_was_removed_is_noticed),
        cmocka_unit_test(rooms_of_the_dead_are_tidied),
    };
    return cmocka_run_group_tests_name("runtime", tests, set_up, tear_down);
}
