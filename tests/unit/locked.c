/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/locked.c - memory of secrets: kept from swap, core files and children, and zeroed and
 * unmapped when it is let go of. Linked with --wrap for mlock and munmap. */
#include "crypto/locked.h"

#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"

static struct {
    struct berth_error err;
} t;

int __real_munmap(void *at, size_t len);
int __wrap_munmap(void *at, size_t len);
int __real_mlock(const void *at, size_t len);
int __wrap_mlock(const void *at, size_t len);

/* The newest mapping that was locked. */
static struct {
    const char *at;
    size_t len;
    int unmapped;
    size_t left; /* bytes that were not zero when it was unmapped */
} watched;

int __wrap_mlock(const void *at, size_t len)
{
    watched.at = at;
    watched.len = len;
    watched.unmapped = 0;
    watched.left = 0;
    return __real_mlock(at, len);
}

int __wrap_munmap(void *at, size_t len)
{
    if (at == watched.at) {
        const char *bytes = at;
        watched.unmapped++;
        assert_int_equal(len, watched.len);
        for (size_t i = 0; i < len; i++)
            watched.left += bytes[i] != 0;
    }
    return __real_munmap(at, len);
}

static size_t page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static bool is_mapped(const char *at)
{
    return msync((void *)(uintptr_t)at, page(), MS_ASYNC) == 0 || errno != ENOMEM;
}

static void assert_wiped_and_unmapped(void)
{
    assert_int_equal(watched.unmapped, 1);
    assert_int_equal(watched.left, 0);
    for (size_t at = 0; at < watched.len; at += page())
        assert_false(is_mapped(watched.at + at));
}

/* With every byte of its pages in use, beyond what was appended, too. */
static void fill(struct berth_locked *locked, size_t cap)
{
    assert_ok(&t, berth_locked_new(cap, locked, &t.err));
    assert_ptr_equal(locked->bytes, watched.at);
    assert_int_equal(watched.len, (cap / page() + 1) * page()); /* one byte more than asked for */
    memset(locked->bytes, 's', watched.len);
    for (size_t at = 0; at < watched.len; at += page())
        assert_true(is_mapped(watched.at + at));
}

static void cleared_memory_is_wiped_and_unmapped(void **state)
{
    (void)state;
    const size_t caps[] = {0, 1, page() - 1, page(), 3 * page() + 5};
    for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++) {
        struct berth_locked locked;
        fill(&locked, caps[i]);
        berth_locked_clear(&locked);
        assert_wiped_and_unmapped();
        assert_null(locked.bytes);
        berth_locked_clear(&locked);
        assert_int_equal(watched.unmapped, 1);
    }
}

static void leave_scope(void)
{
    auto_locked locked = BERTH_LOCKED_INIT;
    fill(&locked, 100);
}

static void memory_is_wiped_with_its_scope(void **state)
{
    (void)state;
    leave_scope();
    assert_wiped_and_unmapped();
}

static void copies_are_wiped(void **state)
{
    (void)state;
    struct berth_locked given;
    assert_ok(&t, berth_locked_new(6, &given, &t.err));
    berth_locked_append(&given, "secret", 6);
    const struct berth_locked both[] = {given, given};
    struct berth_locked *copies = berth_locked_copy_all(both, 2);
    assert_non_null(copies);
    assert_ptr_equal(copies[1].bytes, watched.at);
    assert_memory_equal(copies[1].bytes, "secret", 6);
    const char *first = copies[0].bytes;
    berth_locked_free_all(copies, 2);
    assert_wiped_and_unmapped();
    assert_false(is_mapped(first));
    berth_locked_clear(&given);
    berth_locked_free_all(NULL, 2);
}

/* A value that is refused was read all the same. */
static void too_long_a_value_is_wiped(void **state)
{
    (void)state;
    int fds[2];
    struct berth_locked locked = BERTH_LOCKED_INIT;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(write(fds[1], "secret", 6), 6);
    assert_int_equal(close(fds[1]), 0);
    watched.at = NULL;
    assert_fails(&t, BERTH_E_TOO_LARGE, "longer than 5 bytes",
                 berth_locked_read(fds[0], 5, &locked, &t.err));
    assert_int_equal(close(fds[0]), 0);
    assert_non_null(watched.at);
    assert_wiped_and_unmapped();
}

/* The line of flags of the mapping, as the kernel lists it. */
static void read_flags(const void *at, char *out, size_t size)
{
    char line[512], start[32];
    bool here = false;
    FILE *maps = fopen("/proc/self/smaps", "re");
    assert_non_null(maps);
    (void)snprintf(start, sizeof start, "%lx-", (unsigned long)(uintptr_t)at);
    out[0] = '\0';
    while (!out[0] && fgets(line, sizeof line, maps)) {
        here |= strncmp(line, start, strlen(start)) == 0;
        if (here && strncmp(line, "VmFlags:", 8) == 0)
            (void)snprintf(out, size, "%s", line);
    }
    (void)fclose(maps);
}

static void memory_stays_in_this_process(void **state)
{
    (void)state;
    char flags[512];
    struct berth_locked locked;
    fill(&locked, page());
    /* That it is locked, fill has seen: sanitizers leave mlock out, so there is no flag of it. */
    read_flags(locked.bytes, flags, sizeof flags);
    assert_non_null(strstr(flags, " dd ")); /* in no core file */
    assert_non_null(strstr(flags, " wf ")); /* wiped on fork */
    berth_locked_clear(&locked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cleared_memory_is_wiped_and_unmapped),
        cmocka_unit_test(memory_is_wiped_with_its_scope),
        cmocka_unit_test(copies_are_wiped),
        cmocka_unit_test(too_long_a_value_is_wiped),
        cmocka_unit_test(memory_stays_in_this_process),
    };
    return cmocka_run_group_tests_name("locked", tests, NULL, NULL);
}
