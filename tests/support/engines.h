/* SPDX-License-Identifier: Apache-2.0
 * tests/support/engines.h - one engine for all tests of a group. */
#ifndef BERTH_TESTS_ENGINES_H
#define BERTH_TESTS_ENGINES_H

#include "os/engine.h"

extern struct berth_engine *engine;
/* cmocka's set-up and tear-down of a group. */
int open_engine(void **state);
int close_engine(void **state);
#endif
