/* SPDX-License-Identifier: Apache-2.0
 * bench/ground.h - an empty ledger to measure on: a fresh store, a runtime, one environment. */
#ifndef BERTH_BENCH_GROUND_H
#define BERTH_BENCH_GROUND_H

#include "core/berth.h"
#include "store/environment.h"

enum ground_store {
    ON_SQLITE,
    ON_POSTGRES,
};

struct ground {
    char directory[256]; /* temporary; gone with the ground */
    char schema[64];     /* in PostgreSQL, gone as well; "" on SQLite */
    const char *server;  /* its address; borrowed */
    struct berth *b;
    struct berth_arena arena;
    struct berth_environment *environment; /* lives in the arena */
};

/* Directories are made in `under`. The driver is `local`, or a sandbox of the inventory. */
int ground_open(struct ground *g, enum ground_store store, const char *under, const char *server,
                enum berth_environment_driver driver, struct berth_error *err);
void ground_close(struct ground *g); /* half-built is fine */

int make_directory(const char *under, char *out, size_t size, struct berth_error *err);
void remove_directory(const char *path); /* with all in it */
#endif
