/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/seal.c - what is sealed opens with its key and for its context alone, and not at all
 * once a bit has changed; the memory it opens into. */
#include "crypto/seal.h"

#include "fixture.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"

#define CONTEXT "company\nsecret\n1"
#define BROKEN "Invalid local_encrypted secret material"
#define MIB ((size_t)1024 * 1024)

static struct {
    struct berth_error err;
} t;

static const unsigned char key[BERTH_KEY_BYTES] = "0123456789abcdef0123456789ABCDE";

static char *seal(const void *plain, size_t len)
{
    char *sealed = NULL;
    assert_ok(&t, berth_seal(key, CONTEXT, plain, len, &sealed, &t.err));
    assert_non_null(sealed);
    return sealed;
}

static void assert_broken(const char *context, const char *sealed)
{
    auto_locked plain = BERTH_LOCKED_INIT;
    assert_fails(&t, BERTH_E_INVALID, BROKEN, berth_unseal(key, context, sealed, &plain, &t.err));
    assert_null(plain.bytes);
}

static void round_trip(const void *plain, size_t len)
{
    auto_free char *sealed = seal(plain, len);
    auto_locked back = BERTH_LOCKED_INIT;
    assert_ok(&t, berth_unseal(key, CONTEXT, sealed, &back, &t.err));
    assert_int_equal(back.len, len);
    assert_memory_equal(back.bytes, plain, len);
    assert_int_equal(back.bytes[len], '\0');
}

static void what_was_sealed_comes_back(void **state)
{
    (void)state;
    round_trip("", 0);
    round_trip("x", 1);
    round_trip("a\0b\n\0\0", 6);
    auto_free unsigned char *big = malloc(MIB);
    for (size_t i = 0; i < MIB; i++)
        big[i] = (unsigned char)(i * 31 + i / 251);
    round_trip(big, MIB);
    auto_free char *nothing = seal(NULL, 0);
    auto_locked back = BERTH_LOCKED_INIT;
    assert_ok(&t, berth_unseal(key, CONTEXT, nothing, &back, &t.err));
    assert_int_equal(back.len, 0);
}

static void another_key_does_not_open(void **state)
{
    (void)state;
    auto_free char *sealed = seal("value", 5);
    for (size_t bit = 0; bit < sizeof key * 8; bit++) {
        unsigned char other[BERTH_KEY_BYTES];
        memcpy(other, key, sizeof other);
        other[bit / 8] ^= (unsigned char)(1 << bit % 8);
        auto_locked plain = BERTH_LOCKED_INIT;
        assert_fails(&t, BERTH_E_INVALID, BROKEN,
                     berth_unseal(other, CONTEXT, sealed, &plain, &t.err));
    }
}

static void another_context_does_not_open(void **state)
{
    (void)state;
    auto_free char *sealed = seal("value", 5);
    assert_broken("", sealed);
    assert_broken("company\nsecret\n2", sealed);
    assert_broken("company\nsecret\n11", sealed);
    assert_broken("company\nsecret\n", sealed);
    auto_free char *empty = seal("", 0); /* nothing but the tag tells */
    assert_broken("company\nsecret\n2", empty);
}

static void every_flipped_bit_is_detected(void **state)
{
    (void)state;
    for (size_t len = 0; len < 8; len++) { /* all three paddings */
        auto_free char *sealed = seal("1234567", len);
        size_t bits = strlen(sealed) * 8;
        for (size_t bit = 0; bit < bits; bit++) {
            sealed[bit / 8] ^= (char)(1 << bit % 8);
            assert_broken(CONTEXT, sealed);
            sealed[bit / 8] ^= (char)(1 << bit % 8);
        }
        auto_locked back = BERTH_LOCKED_INIT;
        assert_ok(&t, berth_unseal(key, CONTEXT, sealed, &back, &t.err));
    }
}

static void pieces_and_foreign_texts_are_refused(void **state)
{
    (void)state;
    auto_free char *sealed = seal("a value of some length", 22);
    auto_free char *piece = strdup(sealed);
    for (size_t len = strlen(sealed); len-- > 0;) {
        piece[len] = '\0';
        assert_broken(CONTEXT, piece);
    }
    for (size_t from = 1; sealed[from]; from++)
        assert_broken(CONTEXT, sealed + from);
    auto_free char *twice = malloc(strlen(sealed) * 2 + 1);
    (void)sprintf(twice, "%s%s", sealed, sealed);
    assert_broken(CONTEXT, twice);
    assert_broken(CONTEXT, "");
    assert_broken(CONTEXT, "Zg==");
    assert_broken(CONTEXT, "no base64 at all!");
    assert_broken(CONTEXT, "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9w");
    assert_broken(CONTEXT, "{\"scheme\":\"local_encrypted_v1\"}");
}

static void two_seals_of_one_value_differ(void **state)
{
    (void)state;
    auto_free char *one = seal("value", 5), *other = seal("value", 5);
    assert_string_not_equal(one, other);
    assert_memory_not_equal(one, other, 16); /* the nonce, in base64 */
    assert_null(strstr(one, "value"));
}

/* --- memory --- */

/* The kernel's flags of the mapping that holds the address. */
static void read_flags(const void *address, char *out, size_t size)
{
    FILE *smaps = fopen("/proc/self/smaps", "re");
    assert_non_null(smaps);
    char line[512];
    bool inside = false;
    *out = '\0';
    while (fgets(line, sizeof line, smaps)) {
        uintptr_t from, to;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
            inside = from <= (uintptr_t)address && (uintptr_t)address < to;
        if (inside && strncmp(line, "VmFlags:", 8) == 0)
            (void)snprintf(out, size, "%s", line);
    }
    (void)fclose(smaps);
    assert_string_not_equal(out, "");
}

static void memory_is_locked_and_not_dumped(void **state)
{
    (void)state;
    auto_locked locked = BERTH_LOCKED_INIT;
    assert_ok(&t, berth_locked_new(10000, &locked, &t.err));
    assert_int_equal(locked.cap, 10000);
    assert_int_equal(locked.len, 0);
    char first[512], last[512];
    read_flags(locked.bytes, first, sizeof first);
    read_flags(locked.bytes + locked.cap, last, sizeof last);
    assert_non_null(strstr(first, " dd"));
    assert_non_null(strstr(last, " dd"));
    assert_non_null(strstr(first, " wf"));
    /* Where it can be done at all: a sanitizer's mlock does nothing. */
    void *page = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    char possible[512];
    (void)mlock(page, 1);
    read_flags(page, possible, sizeof possible);
    if (strstr(possible, " lo")) {
        assert_non_null(strstr(first, " lo"));
        assert_non_null(strstr(last, " lo"));
    }
    (void)munmap(page, 1);
    auto_free char *ordinary = malloc(1); /* the flags tell something */
    read_flags(ordinary, first, sizeof first);
    assert_null(strstr(first, " dd"));
}

static void children_see_zeros(void **state)
{
    (void)state;
    auto_locked locked = BERTH_LOCKED_INIT;
    assert_ok(&t, berth_locked_new(100, &locked, &t.err));
    berth_locked_append(&locked, "value", 5);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(memcmp(locked.bytes, "\0\0\0\0\0", 5) == 0 ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_string_equal(locked.bytes, "value");
}

/* Returns the reading end of a pipe that holds that many bytes. */
static int pipe_with(size_t len)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) { /* in small pieces, so that reads are short */
        (void)close(fds[0]);
        for (size_t i = 0; i < len; i++)
            if (write(fds[1], i % 2 ? "\n" : "\0", 1) != 1)
                _exit(0); /* the reader had enough */
        _exit(0);
    }
    (void)close(fds[1]);
    return fds[0];
}

static void reading_has_a_limit(void **state)
{
    (void)state;
    enum { MAX = 5000 };
    static const size_t sizes[] = {0, 1, MAX - 1, MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        auto_close int fd = pipe_with(sizes[i]);
        auto_locked all = BERTH_LOCKED_INIT;
        assert_ok(&t, berth_locked_read(fd, MAX, &all, &t.err));
        assert_int_equal(all.len, sizes[i]);
        for (size_t k = 0; k < all.len; k++)
            assert_int_equal(all.bytes[k], k % 2 ? '\n' : '\0');
        assert_int_equal(all.bytes[all.len], '\0');
    }
    static const size_t beyond[] = {MAX + 1, MAX + 2, MAX * 3};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        auto_close int fd = pipe_with(beyond[i]);
        auto_locked all = BERTH_LOCKED_INIT;
        assert_fails(&t, BERTH_E_TOO_LARGE, "The value is longer than 5000 bytes.",
                     berth_locked_read(fd, MAX, &all, &t.err));
        assert_null(all.bytes);
    }
    auto_locked none = BERTH_LOCKED_INIT;
    assert_true(berth_locked_read(-1, MAX, &none, &t.err) < 0);
    assert_null(none.bytes);
    while (wait(NULL) > 0)
        ;
}

static void bytes_are_compared_whole(void **state)
{
    (void)state;
    assert_true(berth_same_bytes("a\0b", 3, "a\0b", 3));
    assert_false(berth_same_bytes("a\0b", 3, "a\0c", 3));
    assert_false(berth_same_bytes("ab", 2, "abc", 3));
    assert_true(berth_same_bytes("", 0, "", 0));
}

static void programs_can_deny_dumps(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        berth_deny_dumps();
        struct rlimit core;
        _exit(prctl(PR_GET_DUMPABLE) == 0 && getrlimit(RLIMIT_CORE, &core) == 0 &&
                      core.rlim_cur == 0 && core.rlim_max == 0
                  ? 0
                  : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_sealed_comes_back),
        cmocka_unit_test(another_key_does_not_open),
        cmocka_unit_test(another_context_does_not_open),
        cmocka_unit_test(every_flipped_bit_is_detected),
        cmocka_unit_test(pieces_and_foreign_texts_are_refused),
        cmocka_unit_test(two_seals_of_one_value_differ),
        cmocka_unit_test(memory_is_locked_and_not_dumped),
        cmocka_unit_test(children_see_zeros),
        cmocka_unit_test(reading_has_a_limit),
        cmocka_unit_test(bytes_are_compared_whole),
        cmocka_unit_test(programs_can_deny_dumps),
    };
    return cmocka_run_group_tests_name("seal", tests, NULL, NULL);
}
