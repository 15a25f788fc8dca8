/* SPDX-License-Identifier: Apache-2.0
 * tests/fuzz/fuzz.h - what every target is made with. */
#ifndef BERTH_TESTS_FUZZ_H
#define BERTH_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A target: called by libFuzzer, or by replay.c. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)
#endif
