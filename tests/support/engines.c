/* SPDX-License-Identifier: Apache-2.0
 * tests/support/engines.c - see engines.h. */
#include "engines.h"

struct berth_engine *engine;

int open_engine(void **state)
{
    (void)state;
    struct berth_error err;
    return berth_engine_new(&engine, &err);
}

int close_engine(void **state)
{
    (void)state;
    berth_engine_free(engine);
    return 0;
}
