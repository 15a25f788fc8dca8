/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/capture.c - a program run to its end: what it said, and who ended it. */
#include "os/capture.h"

#include "engines.h"
#include "fixture.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/time.h"

static const char *const environment[] = {"PATH=/usr/bin:/bin", NULL};
#define SH(script) ((const char *const[]){"sh", "-c", script, NULL})

static int run(struct berth_capture *c, const char *const *argv, struct berth_error *err)
{
    c->options.argv = argv;
    c->options.env = environment;
    c->name = argv[0];
    return berth_capture_run(engine, c, err);
}

static void output_input_and_status(void **state)
{
    (void)state;
    struct berth_error err;
    auto_capture c = BERTH_CAPTURE_INIT(4096);
    c.input = "some words";
    c.input_len = 10;
    assert_int_equal(run(&c, SH("cat; echo err >&2; exit 3"), &err), BERTH_OK);
    assert_int_equal(c.end.exit_code, 3);
    assert_string_equal(berth_buf_str(&c.streams[0]), "some words");
    assert_string_equal(berth_buf_str(&c.streams[1]), "err\n");
}

static void beyond_the_ceiling_it_is_dropped(void **state)
{
    (void)state;
    struct berth_error err;
    auto_capture c = BERTH_CAPTURE_INIT(1000);
    assert_int_equal(run(&c, SH("head -c 3000000 /dev/zero | tr '\\0' x"), &err), BERTH_OK);
    assert_int_equal(c.end.exit_code, 0);
    assert_true(c.end.bytes[0] == 3000000);
    assert_false(c.streams[0].failed);
    assert_in_range(c.streams[0].len, 900, 1000);
}

static void deadline_ends_it(void **state)
{
    (void)state;
    struct berth_error err;
    auto_capture c = BERTH_CAPTURE_INIT(1000), late = BERTH_CAPTURE_INIT(1000);
    c.deadline_ms = berth_time_mono_ms() + 200;
    assert_int_equal(run(&c, SH("trap '' TERM; echo up; sleep 300; sleep 300"), &err),
                     BERTH_E_TIMEOUT);
    assert_string_equal(berth_buf_str(&c.streams[0]), "up\n");
    late.deadline_ms = berth_time_mono_ms() - 1;
    assert_int_equal(run(&late, SH("true"), &err), BERTH_E_TIMEOUT);
    assert_int_equal(late.end.started_at_ms, 0); /* it did not begin */
}

static void cancel_ends_it(void **state)
{
    (void)state;
    struct berth_error err;
    auto_close int cancel_fd = eventfd(1, EFD_CLOEXEC);
    auto_capture c = BERTH_CAPTURE_INIT(1000);
    c.cancel_fd = cancel_fd;
    assert_int_equal(run(&c, SH("sleep 300"), &err), BERTH_E_CANCELLED);
}

static void program_that_is_not_there(void **state)
{
    (void)state;
    struct berth_error err;
    auto_capture c = BERTH_CAPTURE_INIT(1000);
    assert_int_equal(run(&c, (const char *const[]){"no-such-program", NULL}, &err),
                     BERTH_E_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_input_and_status),
        cmocka_unit_test(beyond_the_ceiling_it_is_dropped),
        cmocka_unit_test(deadline_ends_it),
        cmocka_unit_test(cancel_ends_it),
        cmocka_unit_test(program_that_is_not_there),
    };
    return cmocka_run_group_tests_name("capture", tests, open_engine, close_engine);
}
