/* SPDX-License-Identifier: Apache-2.0
 * src/daemon/fit.c - see fit.h. */
#include "daemon/fit.h"

#include <unistd.h>

#include "base/limits.h"

#define MEMORY_PART 64 /* bodies may have one part in so many of the machine's memory */

struct berth_fit_machine berth_fit_look(void)
{
    struct berth_fit_machine machine = {0};
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0)
        machine.memory_bytes = (int64_t)pages * page;
    return machine;
}

void berth_fit_settings(const struct berth_fit_machine *machine,
                        struct berth_http_settings *settings)
{
    int64_t bodies = machine->memory_bytes / MEMORY_PART;
    if (bodies < BERTH_HTTP_BODIES_BYTES_MIN)
        bodies = BERTH_HTTP_BODIES_BYTES_MIN;
    if (machine->memory_bytes && bodies < settings->bodies_bytes_max)
        settings->bodies_bytes_max = bodies;
}
