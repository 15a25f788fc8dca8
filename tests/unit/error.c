/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/error.c - what a struct berth_error holds after fail, fail_errno and wrap. */
#include "fixture.h"

#include <errno.h>

static void fail_fills_everything(void **state)
{
    (void)state;
    struct berth_error err;
    memset(&err, 'x', sizeof err);
    assert_int_equal(berth_fail(&err, BERTH_E_CONFLICT, "Lease %d is %s.", 7, "taken"),
                     BERTH_E_CONFLICT);
    assert_int_equal(err.code, BERTH_E_CONFLICT);
    assert_int_equal(err.os_errno, 0);
    assert_string_equal(err.message, "Lease 7 is taken.");
    assert_string_equal(err.where, "");
}

static void fail_forgets_the_last_one(void **state)
{
    (void)state;
    struct berth_error err;
    errno = EACCES;
    (void)berth_fail_errno(&err, "first");
    (void)berth_wrap(&err, "outside");
    (void)berth_fail(&err, BERTH_E_INVALID, "second");
    assert_int_equal(err.os_errno, 0);
    assert_string_equal(err.message, "second");
    assert_string_equal(err.where, "");
}

static void errno_has_its_code_and_text(void **state)
{
    (void)state;
    static const struct {
        int os_errno, code;
    } rows[] = {
        {ENOENT, BERTH_E_NOT_FOUND},   {EACCES, BERTH_E_DENIED},     {EPERM, BERTH_E_DENIED},
        {ENOMEM, BERTH_E_NO_MEMORY},   {ETIMEDOUT, BERTH_E_TIMEOUT}, {EMFILE, BERTH_E_UNAVAILABLE},
        {ENOSPC, BERTH_E_UNAVAILABLE}, {EIO, BERTH_E_INTERNAL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct berth_error err;
        char want[256];
        (void)snprintf(want, sizeof want, "Cannot open /a: %s", strerror(rows[i].os_errno));
        errno = rows[i].os_errno;
        assert_int_equal(berth_fail_errno(&err, "Cannot open %s", "/a"), rows[i].code);
        assert_int_equal(err.code, rows[i].code);
        assert_int_equal(err.os_errno, rows[i].os_errno);
        assert_string_equal(err.message, want);
    }
}

static void wrap_adds_outside_in_to_where_only(void **state)
{
    (void)state;
    struct berth_error err;
    (void)berth_fail(&err, BERTH_E_UPSTREAM, "Provider said no.");
    assert_int_equal(berth_wrap(&err, "create %s", "sandbox"), BERTH_E_UPSTREAM);
    assert_string_equal(err.where, "create sandbox");
    assert_int_equal(berth_wrap(&err, "acquire %s", "ci-linux"), BERTH_E_UPSTREAM);
    assert_string_equal(err.where, "acquire ci-linux: create sandbox");
    assert_string_equal(err.message, "Provider said no.");
    assert_int_equal(err.os_errno, 0);
}

static void too_long_is_cut_not_overrun(void **state)
{
    (void)state;
    struct {
        struct berth_error err;
        char guard[8];
    } room;
    memset(&room, 'g', sizeof room);
    char text[4096];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';

    (void)berth_fail(&room.err, BERTH_E_INVALID, "%s", text);
    assert_int_equal(strlen(room.err.message), sizeof room.err.message - 1);
    errno = ENOENT;
    (void)berth_fail_errno(&room.err, "%s", text);
    assert_int_equal(strlen(room.err.message), sizeof room.err.message - 1);
    for (int i = 0; i < 3; i++)
        (void)berth_wrap(&room.err, "%.50s", text);
    assert_int_equal(strlen(room.err.where), sizeof room.err.where - 1);
    (void)berth_wrap(&room.err, "%s", text);
    assert_int_equal(strlen(room.err.where), sizeof room.err.where - 1);
    assert_memory_equal(room.guard, "gggggggg", sizeof room.guard);
}

static void errno_text_fits_at_the_very_end(void **state)
{
    (void)state;
    char text[1024];
    memset(text, 'a', sizeof text);
    for (size_t len = 1000; len < sizeof text; len++) {
        struct berth_error err;
        errno = ENOENT;
        (void)berth_fail_errno(&err, "%.*s", (int)len, text);
        size_t full = len + strlen(": ") + strlen(strerror(ENOENT));
        size_t most = sizeof err.message - 1;
        assert_int_equal(strlen(err.message), full < most ? full : most);
    }
}

static void codes_have_status_and_name(void **state)
{
    (void)state;
#define X(name, number, http, wire)                                                                \
    assert_int_equal(BERTH_E_##name, number);                                                      \
    assert_int_equal(berth_code_http(number), http);                                               \
    assert_string_equal(berth_code_wire(number), wire);
    BERTH_ERROR_MAP(X)
#undef X
    assert_int_equal(berth_code_http(BERTH_E_UNPROCESSABLE), 422);
    assert_string_equal(berth_code_wire(BERTH_E_RATE_LIMITED), "rate_limited");
    static const int unknown[] = {-16, -1000, 7, INT_MIN, INT_MAX};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        assert_int_equal(berth_code_http(unknown[i]), 500);
        assert_string_equal(berth_code_wire(unknown[i]), "internal");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_fills_everything),
        cmocka_unit_test(fail_forgets_the_last_one),
        cmocka_unit_test(errno_has_its_code_and_text),
        cmocka_unit_test(wrap_adds_outside_in_to_where_only),
        cmocka_unit_test(too_long_is_cut_not_overrun),
        cmocka_unit_test(errno_text_fits_at_the_very_end),
        cmocka_unit_test(codes_have_status_and_name),
    };
    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
