/* SPDX-License-Identifier: Apache-2.0
 * src/daemon/fit.c - see fit.h. */
#include "daemon/fit.h"

#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/limits.h"

#define MEMORY_PART 64 /* bodies may have one part in so many of the machine's memory */

struct berth_fit_machine berth_fit_look(void)
{
    struct berth_fit_machine machine = {0};
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0)
        machine.memory_bytes = (int64_t)pages * page;
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        machine.descriptors = files.rlim_cur < INT_MAX ? (int64_t)files.rlim_cur : INT_MAX;
    return machine;
}

static void fit_descriptors(int64_t descriptors, struct berth_http_settings *settings)
{
    int64_t reserved = descriptors < INT64_C(2) * BERTH_DESCRIPTORS_RESERVED
                           ? descriptors / 2
                           : BERTH_DESCRIPTORS_RESERVED;
    if (!descriptors)
        return;
    if (descriptors - reserved < settings->connections_max)
        settings->connections_max = (int)(descriptors - reserved);
    /* Commands may have taken more than was reserved: the rest is not for TCP, either. */
    settings->remote_fd_max = (int)(descriptors - reserved / 2);
}

void berth_fit_settings(const struct berth_fit_machine *machine,
                        struct berth_http_settings *settings)
{
    fit_descriptors(machine->descriptors, settings);
    int64_t bodies = machine->memory_bytes / MEMORY_PART;
    if (bodies < BERTH_HTTP_BODIES_BYTES_MIN)
        bodies = BERTH_HTTP_BODIES_BYTES_MIN;
    if (machine->memory_bytes && bodies < settings->bodies_bytes_max)
        settings->bodies_bytes_max = bodies;
    settings->answers_bytes_max = 4 * settings->bodies_bytes_max;
}
