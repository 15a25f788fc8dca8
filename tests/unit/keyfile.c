/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/keyfile.c - a key file is whole, its owner's alone, and never taken for another. */
#include "crypto/keyfile.h"

#include "fixture.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/failpoint.h"

#define FILE_BYTES_MAX (64 * 1024)
#define STORE "0198c5d2-7c1e-7000-8000-00000000abcd"

struct ground {
    char directory[64], path[96];
    struct berth_locked memory, read_memory;
    struct berth_keyring *ring; /* what the file was made of */
    struct berth_keyring *read; /* what was read */
    struct berth_error err;
};

static int set_up(void **state)
{
    struct ground *g = calloc(1, sizeof *g);
    (void)snprintf(g->directory, sizeof g->directory, "/tmp/berth-keyfile.XXXXXX");
    if (!mkdtemp(g->directory) || berth_keyring_new(&g->memory, &g->ring, &g->err) < 0 ||
        berth_keyring_new(&g->read_memory, &g->read, &g->err) < 0 ||
        berth_keyring_add(g->ring, STORE, &g->err) < 0)
        return -1;
    (void)snprintf(g->path, sizeof g->path, "%s/secrets.key", g->directory);
    *state = g;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int tear_down(void **state)
{
    struct ground *g = *state;
    (void)nftw(g->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    berth_locked_clear(&g->memory);
    berth_locked_clear(&g->read_memory);
    free(g);
    return 0;
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

static int count_files(const char *directory)
{
    char command[256];
    (void)snprintf(command, sizeof command, "find '%s' -type f | wc -l", directory);
    FILE *out = popen(command, "re");
    assert_non_null(out);
    int count = -1;
    assert_int_equal(fscanf(out, "%d", &count), 1);
    (void)pclose(out);
    return count;
}

/* The file's bytes; their number. */
static size_t slurp(const struct ground *g, char bytes[FILE_BYTES_MAX])
{
    auto_close int fd = open(g->path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t len = read(fd, bytes, FILE_BYTES_MAX);
    assert_true(len > 0);
    return (size_t)len;
}

static void write_file(const struct ground *g, const void *bytes, size_t len)
{
    auto_close int fd = open(g->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
}

static int read_back(struct ground *g)
{
    return berth_keyfile_read(g->path, g->read, &g->err);
}

static bool same_keys(const struct ground *g)
{
    return g->read->count == g->ring->count &&
           memcmp(g->read->keys, g->ring->keys, sizeof g->ring->keys[0] * (size_t)g->ring->count) ==
               0;
}

static void create(struct ground *g)
{
    assert_ok(g, berth_keyfile_create(g->path, g->ring, &g->err));
}

/* --- making --- */

static void file_is_its_owners_alone(void **state)
{
    struct ground *g = *state;
    (void)snprintf(g->path, sizeof g->path, "%s/deep/er/secrets.key", g->directory);
    mode_t before = umask(0);
    create(g);
    (void)umask(before);
    assert_int_equal(mode_of(g->path), 0600);
    char directory[96];
    (void)snprintf(directory, sizeof directory, "%s/deep", g->directory);
    assert_int_equal(mode_of(directory), 0700);
    (void)snprintf(directory, sizeof directory, "%s/deep/er", g->directory);
    assert_int_equal(mode_of(directory), 0700);
    assert_int_equal(count_files(g->directory), 1);
    assert_ok(g, read_back(g));
    assert_true(same_keys(g));
    assert_int_equal(strlen(g->read->keys[0].id), BERTH_KEY_ID_SIZE - 1);
}

static void file_that_is_there_stays(void **state)
{
    struct ground *g = *state;
    create(g);
    struct berth_keyring *other;
    auto_locked memory = BERTH_LOCKED_INIT;
    assert_ok(g, berth_keyring_new(&memory, &other, &g->err));
    assert_ok(g, berth_keyring_add(other, STORE, &g->err));
    assert_string_not_equal(other->keys[0].id, g->ring->keys[0].id);
    assert_fails(g, BERTH_E_CONFLICT, "is there already",
                 berth_keyfile_create(g->path, other, &g->err));
    assert_ok(g, read_back(g));
    assert_true(same_keys(g));
    assert_int_equal(count_files(g->directory), 1);
    assert_int_equal(unlink(g->path), 0);
    assert_int_equal(symlink("nowhere", g->path), 0); /* is something, too */
    assert_fails(g, BERTH_E_CONFLICT, "is there already",
                 berth_keyfile_create(g->path, other, &g->err));
}

/* What one process answers: did it make the file, and which key did it read? */
struct outcome {
    int made;
    char id[BERTH_KEY_ID_SIZE];
};

static void race(const struct ground *g, int start, int report)
{
    struct berth_locked memory = BERTH_LOCKED_INIT;
    struct berth_keyring *ring;
    struct berth_error err;
    struct outcome outcome = {0};
    char go;
    if (berth_keyring_new(&memory, &ring, &err) < 0 || berth_keyring_add(ring, STORE, &err) < 0 ||
        read(start, &go, 1) != 0)
        _exit(1);
    int rc = berth_keyfile_create(g->path, ring, &err);
    if (rc < 0 && rc != BERTH_E_CONFLICT)
        _exit(2);
    outcome.made = rc == BERTH_OK;
    if (berth_keyfile_read(g->path, ring, &err) < 0) /* at once: a half file would be seen */
        _exit(3);
    memcpy(outcome.id, ring->keys[0].id, sizeof outcome.id);
    _exit(write(report, &outcome, sizeof outcome) == sizeof outcome ? 0 : 4);
}

static void many_make_it_and_one_wins(void **state)
{
    struct ground *g = *state;
    enum { PROCESSES = 8, ROUNDS = 20 };
    for (int round = 0; round < ROUNDS; round++) {
        int start[2], report[2];
        assert_int_equal(pipe(start), 0);
        assert_int_equal(pipe(report), 0);
        for (int i = 0; i < PROCESSES; i++) {
            pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0) {
                (void)close(start[1]);
                race(g, start[0], report[1]);
            }
        }
        (void)close(start[0]);
        (void)close(start[1]); /* off they go */
        (void)close(report[1]);
        int made = 0;
        struct outcome first, outcome;
        for (int i = 0; i < PROCESSES; i++) {
            assert_int_equal(read(report[0], &outcome, sizeof outcome), sizeof outcome);
            if (i == 0)
                first = outcome;
            made += outcome.made;
            assert_string_equal(outcome.id, first.id);
        }
        (void)close(report[0]);
        int status;
        while (wait(&status) > 0)
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_int_equal(made, 1);
        assert_int_equal(count_files(g->directory), 1);
        assert_int_equal(unlink(g->path), 0);
    }
}

static void replacing_keeps_mode_and_order(void **state)
{
    struct ground *g = *state;
    create(g);
    assert_ok(g, berth_keyring_add(g->ring, STORE, &g->err));
    char first[BERTH_KEY_ID_SIZE], second[BERTH_KEY_ID_SIZE];
    memcpy(first, g->ring->keys[0].id, sizeof first);
    memcpy(second, g->ring->keys[1].id, sizeof second);
    mode_t before = umask(0);
    assert_ok(g, berth_keyfile_replace(g->path, g->ring, &g->err));
    (void)umask(before);
    assert_int_equal(mode_of(g->path), 0600);
    assert_int_equal(count_files(g->directory), 1);
    assert_ok(g, read_back(g));
    assert_true(same_keys(g));
    assert_string_equal(g->read->keys[0].id, first);
    assert_string_equal(g->read->keys[1].id, second);
    assert_ptr_equal(berth_keyring_find(g->read, second), &g->read->keys[1]);
    assert_null(berth_keyring_find(g->read, "0123456789abcdef"));
    berth_keyring_drop(g->ring, first);
    assert_int_equal(g->ring->count, 1);
    assert_string_equal(g->ring->keys[0].id, second);
    assert_ok(g, berth_keyfile_replace(g->path, g->ring, &g->err));
    char bytes[FILE_BYTES_MAX + 1];
    bytes[slurp(g, bytes)] = '\0';
    assert_null(strstr(bytes, first));
    assert_non_null(strstr(bytes, second));
}

static void as_many_keys_as_there_is_room_for(void **state)
{
    struct ground *g = *state;
    while (g->ring->count < BERTH_KEYS_MAX)
        assert_ok(g, berth_keyring_add(g->ring, STORE, &g->err));
    assert_fails(g, BERTH_E_CONFLICT, "too many keys", berth_keyring_add(g->ring, STORE, &g->err));
    create(g);
    assert_ok(g, read_back(g));
    assert_true(same_keys(g));
    char bytes[FILE_BYTES_MAX];
    size_t len = slurp(g, bytes);
    const char *line = memmem(bytes, len, "berth-key", 9);
    size_t line_len = (size_t)((char *)memchr(line, '\n', len) - line) + 1;
    memcpy(bytes + len, line, line_len); /* one more */
    write_file(g, bytes, len + line_len);
    assert_fails(g, BERTH_E_INVALID, "Invalid secrets master key at", read_back(g));
}

static void directory_that_cannot_be_made(void **state)
{
    struct ground *g = *state;
    write_file(g, "x", 1);
    char path[128];
    (void)snprintf(path, sizeof path, "%s/secrets.key", g->path); /* beneath a file */
    assert_true(berth_keyfile_create(path, g->ring, &g->err) < 0);
    assert_true(berth_keyfile_read(path, g->read, &g->err) < 0);
    assert_non_null(strstr(g->err.message, path));
}

/* --- what is refused --- */

static void missing_file_is_told_apart(void **state)
{
    struct ground *g = *state;
    assert_fails(g, BERTH_E_NOT_FOUND, "Secrets key file does not exist yet: ", read_back(g));
    assert_non_null(strstr(g->err.message, g->path));
}

static void others_may_not_read_it(void **state)
{
    struct ground *g = *state;
    create(g);
    for (mode_t bits = 1; bits < 0100; bits++) {
        assert_int_equal(chmod(g->path, 0600 | bits), 0);
        char text[256];
        (void)snprintf(text, sizeof text, "permissions are %04o; run chmod 600 %s", 0600 | bits,
                       g->path);
        assert_fails(g, BERTH_E_DENIED, text, read_back(g));
    }
    assert_int_equal(chmod(g->path, 0600), 0);
    assert_ok(g, read_back(g));
    assert_int_equal(chmod(g->path, 0400), 0);
    assert_ok(g, read_back(g));
}

static void another_owners_is_refused(void **state)
{
    struct ground *g = *state;
    create(g);
    if (geteuid() != 0)
        skip();
    assert_int_equal(chown(g->path, 65534, (gid_t)-1), 0);
    assert_fails(g, BERTH_E_DENIED, "belongs to uid 65534, not to us (uid 0)", read_back(g));
    assert_non_null(strstr(g->err.message, "chown 0 "));
}

static void what_is_no_file_is_refused(void **state)
{
    struct ground *g = *state;
    char real[128];
    (void)snprintf(real, sizeof real, "%s/real", g->directory);
    create(g);
    assert_int_equal(rename(g->path, real), 0);
    assert_int_equal(symlink(real, g->path), 0);
    assert_true(read_back(g) < 0);
    assert_int_not_equal(g->err.code, BERTH_E_NOT_FOUND); /* or one would be made */
    assert_int_equal(unlink(g->path), 0);
    assert_int_equal(mkdir(g->path, 0700), 0);
    assert_fails(g, BERTH_E_INVALID, "is not a file", read_back(g));
    assert_int_equal(rmdir(g->path), 0);
    assert_int_equal(mkfifo(g->path, 0600), 0);
    assert_fails(g, BERTH_E_INVALID, "is not a file", read_back(g)); /* at once */
    assert_int_equal(unlink(g->path), 0);
    assert_int_equal(link(real, g->path), 0);
    assert_ok(g, read_back(g));
}

static void foreign_files_are_refused(void **state)
{
    struct ground *g = *state;
    static const char *const foreign[] = {
        "\n",
        "# a comment\n",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "berth-key\n",
        "berth-key 0123456789abcdef\n",
        "berth-key 0123456789abcdef " STORE " AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "-----BEGIN OPENSSH PRIVATE KEY-----\n",
        "berth-key  \n",
    };
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        write_file(g, foreign[i], strlen(foreign[i]));
        assert_fails(g, BERTH_E_INVALID, "Invalid secrets master key at", read_back(g));
    }
    char big[FILE_BYTES_MAX * 2];
    memset(big, '#', sizeof big);
    write_file(g, big, sizeof big);
    assert_fails(g, BERTH_E_INVALID, "Invalid secrets master key at", read_back(g));
    memset(big, 0, 64);
    write_file(g, big, 64);
    assert_fails(g, BERTH_E_INVALID, "Invalid secrets master key at", read_back(g));
}

/* The keys that were read, if any, are ones that were written. */
static void assert_no_wrong_key(struct ground *g, int rc)
{
    if (rc < 0) {
        assert_int_equal(rc, BERTH_E_INVALID);
        return;
    }
    assert_true(g->read->count > 0);
    for (int i = 0; i < g->read->count; i++)
        assert_memory_equal(&g->read->keys[i], &g->ring->keys[i], sizeof g->ring->keys[i]);
}

static void truncated_files_give_no_wrong_key(void **state)
{
    struct ground *g = *state;
    assert_ok(g, berth_keyring_add(g->ring, STORE, &g->err));
    create(g);
    char bytes[FILE_BYTES_MAX];
    size_t whole = slurp(g, bytes);
    int whole_ones = 0;
    for (size_t len = 0; len < whole; len++) {
        write_file(g, bytes, len);
        int rc = read_back(g);
        assert_no_wrong_key(g, rc);
        whole_ones += rc == BERTH_OK && g->read->count == 2;
    }
    assert_int_equal(whole_ones, 1); /* only the last newline may be missing */
    write_file(g, bytes, whole);
    assert_ok(g, read_back(g));
    assert_true(same_keys(g));
}

static void every_flipped_bit_is_refused(void **state)
{
    struct ground *g = *state;
    assert_ok(g, berth_keyring_add(g->ring, STORE, &g->err));
    create(g);
    char bytes[FILE_BYTES_MAX];
    size_t len = slurp(g, bytes);
    assert_int_equal(bytes[0], '#');
    size_t comment = (size_t)((char *)memchr(bytes, '\n', len) - bytes);
    for (size_t bit = 0; bit < len * 8; bit++) {
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        write_file(g, bytes, len);
        int rc = read_back(g);
        if (bit / 8 >= comment && rc == BERTH_OK && g->read->count == g->ring->count)
            fail_msg("bit %zu of byte %zu changes nothing", bit % 8, bit / 8);
        if (bit / 8 > comment)
            assert_int_equal(rc, BERTH_E_INVALID);
        else if (rc == BERTH_OK) /* the newline of the comment may eat the first key */
            for (int i = 0; i < g->read->count; i++)
                assert_non_null(berth_keyring_find(g->ring, g->read->keys[i].id));
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
}

static void keys_do_not_answer_to_each_others_names(void **state)
{
    struct ground *g = *state;
    assert_ok(g, berth_keyring_add(g->ring, STORE, &g->err));
    char id[BERTH_KEY_ID_SIZE];
    memcpy(id, g->ring->keys[0].id, sizeof id);
    memcpy(g->ring->keys[0].id, g->ring->keys[1].id, sizeof id);
    memcpy(g->ring->keys[1].id, id, sizeof id);
    create(g);
    assert_fails(g, BERTH_E_INVALID, "Invalid secrets master key at", read_back(g));
}

/* --- the lock --- */

static void lock_keeps_others_out(void **state)
{
    struct ground *g = *state;
    (void)snprintf(g->path, sizeof g->path, "%s/not/yet/secrets.key", g->directory);
    int fd = -1, second = -1;
    assert_ok(g, berth_keyfile_lock(g->path, 0, &fd, &g->err));
    assert_true(fd >= 0);
    assert_fails(g, BERTH_E_CONFLICT, "Another process is changing the key of the secrets",
                 berth_keyfile_lock(g->path, 0, &second, &g->err)); /* of this process, too */
    assert_int_equal(second, -1);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct berth_error err;
        int mine;
        (void)close(fd); /* the parent still has it */
        _exit(berth_keyfile_lock(g->path, 0, &mine, &err) == BERTH_E_CONFLICT ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    create(g); /* the lock is in nobody's way */
    assert_ok(g, read_back(g));
    (void)close(fd);
    assert_ok(g, berth_keyfile_lock(g->path, 0, &second, &g->err));
    (void)close(second);
}

/* --- unfinished files --- */

static void make_beside(const struct ground *g, const char *name, mode_t mode)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", g->directory, name);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    assert_true(fd >= 0);
}

static bool is_beside(const struct ground *g, const char *name)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", g->directory, name);
    return access(path, F_OK) == 0;
}

static void take_lock(struct ground *g)
{
    auto_close int fd = -1;
    assert_ok(g, berth_keyfile_lock(g->path, 0, &fd, &g->err));
}

static void a_link_is_told(void **state)
{
    struct ground *g = *state;
    char target[128];
    create(g);
    (void)snprintf(target, sizeof target, "%s/elsewhere.key", g->directory);
    assert_int_equal(rename(g->path, target), 0);
    assert_int_equal(symlink(target, g->path), 0);
    assert_fails(g, BERTH_E_INVALID, "is a symbolic link: put the file itself there", read_back(g));
}

static void files_of_others_stay(void **state)
{
    struct ground *g = *state;
    static const char *const names[] = {
        "secrets.key.backup",          "secrets.key.abc123",
        "secrets.key.XXXXXX",          "secrets.key.berth-new-",
        "secrets.key.berth-new-abcde", "secrets.key.berth-new-abcdefg",
        "other.key.berth-new-abcdef",  "berth-new-abcdef",
    };
    create(g);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        make_beside(g, names[i], 0600);
    make_beside(g, "secrets.key.berth-new-shared", 0644); /* not as we make them */
    make_beside(g, "secrets.key.berth-new-abcdef", 0600);
    take_lock(g);
    assert_ok(g, berth_keyfile_replace(g->path, g->ring, &g->err));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(is_beside(g, names[i]));
    assert_true(is_beside(g, "secrets.key.berth-new-shared"));
    assert_false(is_beside(g, "secrets.key.berth-new-abcdef"));
}

/* Runs create or replace in a process that dies at the point. It makes a key of its own, since
 * locked memory is not inherited. */
static void die_at(struct ground *g, enum berth_failpoint point)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct berth_locked memory = BERTH_LOCKED_INIT;
        struct berth_keyring *ring;
        struct berth_error err;
        if (berth_keyring_new(&memory, &ring, &err) < 0 || berth_keyring_add(ring, STORE, &err) < 0)
            _exit(1);
        berth_failpoint_arm(point, 0);
        if (point == BERTH_FP_key_before_rename)
            (void)berth_keyfile_replace(g->path, ring, &err);
        else
            (void)berth_keyfile_create(g->path, ring, &err);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void nothing_stays_of_a_killed_writer(void **state)
{
    struct ground *g = *state;
    static const enum berth_failpoint points[] = {BERTH_FP_key_before_link, BERTH_FP_key_after_link,
                                                  BERTH_FP_key_before_rename};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        die_at(g, points[i]);
        int files = points[i] == BERTH_FP_key_before_link ? 1 : 2;
        assert_int_equal(count_files(g->directory) - is_beside(g, "secrets.key.lock"), files);
        take_lock(g);
        assert_int_equal(count_files(g->directory), files); /* the lock's file, and the key's */
    }
    assert_ok(g, berth_keyfile_read(g->path, g->read, &g->err));
    assert_int_equal(mode_of(g->path), 0600);
}

#define ON_GROUND(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_GROUND(file_is_its_owners_alone),
        ON_GROUND(file_that_is_there_stays),
        ON_GROUND(many_make_it_and_one_wins),
        ON_GROUND(replacing_keeps_mode_and_order),
        ON_GROUND(as_many_keys_as_there_is_room_for),
        ON_GROUND(directory_that_cannot_be_made),
        ON_GROUND(missing_file_is_told_apart),
        ON_GROUND(others_may_not_read_it),
        ON_GROUND(another_owners_is_refused),
        ON_GROUND(what_is_no_file_is_refused),
        ON_GROUND(foreign_files_are_refused),
        ON_GROUND(truncated_files_give_no_wrong_key),
        ON_GROUND(every_flipped_bit_is_refused),
        ON_GROUND(keys_do_not_answer_to_each_others_names),
        ON_GROUND(lock_keeps_others_out),
        ON_GROUND(a_link_is_told),
        ON_GROUND(files_of_others_stay),
        ON_GROUND(nothing_stays_of_a_killed_writer),
    };
    return cmocka_run_group_tests_name("keyfile", tests, NULL, NULL);
}
