/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/daemon_fit.c - the limits of the server on machines of all sizes. */
#include "daemon/fit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define MIB (INT64_C(1024) * 1024)

static void limits_fit_the_machine(void **state)
{
    (void)state;
    static const struct {
        int64_t descriptors, memory_bytes;
        int connections, fd_max;
        int64_t bodies;
    } rows[] = {
        {0, 0, 8192, 0, 128 * MIB}, /* not known */
        {1000000, 64 * 1024 * MIB, 8192, 999872, 128 * MIB},
        {65536, 4096 * MIB, 8192, 65408, 64 * MIB},
        {4096, 512 * MIB, 3840, 3968, 16 * MIB},
        {1024, 2048 * MIB, 768, 896, 32 * MIB},
        {512, 2048 * MIB, 256, 384, 32 * MIB},
        {256, 2048 * MIB, 128, 192, 32 * MIB},
        {64, 2048 * MIB, 32, 48, 32 * MIB},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct berth_http_settings settings = BERTH_HTTP_SETTINGS_INIT;
        struct berth_fit_machine machine = {.memory_bytes = rows[i].memory_bytes,
                                            .descriptors = rows[i].descriptors};
        berth_fit_settings(&machine, &settings);
        assert_int_equal(settings.connections_max, rows[i].connections);
        assert_int_equal(settings.remote_fd_max, rows[i].fd_max);
        assert_int_equal(settings.bodies_bytes_max, rows[i].bodies);
        assert_int_equal(settings.answers_bytes_max, 4 * rows[i].bodies);
    }
}

static void this_machine_is_known(void **state)
{
    (void)state;
    struct berth_fit_machine machine = berth_fit_look();
    assert_true(machine.memory_bytes > 0 && machine.descriptors > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_fit_the_machine),
        cmocka_unit_test(this_machine_is_known),
    };
    return cmocka_run_group_tests_name("daemon_fit", tests, NULL, NULL);
}
