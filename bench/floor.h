/* SPDX-License-Identifier: Apache-2.0
 * bench/floor.h - what one durable commit costs without us: the floor that a lease stands on. */
#ifndef BERTH_BENCH_FLOOR_H
#define BERTH_BENCH_FLOOR_H

#include "samples.h"

struct floor; /* one connection, used by one thread */

/* A database of its own in `directory`, WAL and synchronous=FULL. */
int floor_open_sqlite(const char *directory, struct floor **out, struct berth_error *err);
/* A table of its own in the server at `address`. */
int floor_open_postgres(const char *address, struct floor **out, struct berth_error *err);
void floor_close(struct floor *f); /* NULL is fine */

/* Commits for so long, and adds this slice to `out`. */
int floor_run(struct floor *f, int64_t ns, struct samples *out, struct berth_error *err);
const char *floor_version(const struct floor *f); /* of the database */
/* Over all slices so far. */
struct samples *floor_samples(struct floor *f);
double floor_per_second(const struct floor *f);
#endif
