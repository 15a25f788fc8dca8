/* SPDX-License-Identifier: Apache-2.0
 * src/store/store.h - how the domain reads and writes: functions that run inside a transaction. */
#ifndef BERTH_STORE_STORE_H
#define BERTH_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include <berth/error.h>

struct berth_db;
struct berth_database;
struct berth_store; /* safe to share between threads */

/* Reads, decides and writes through `db`. May run more than once, so it starts by resetting what it
 * answers in `ctx`, touches nothing else, and calls no driver. < 0 undoes what it wrote. */
typedef int berth_tx_fn(struct berth_db *db, void *ctx, struct berth_error *err);

/* `databases` is closed by NULL. INVALID for an address none of them has the scheme of; a store
 * newer than this program is refused. Missing tables are made. */
int berth_store_open(const struct berth_database *const *databases, const char *address,
                     struct berth_store **out, struct berth_error *err);
/* INVALID, with the same texts, for an address that is wrong by itself; opens and makes nothing. */
int berth_store_check(const struct berth_database *const *databases, const char *address,
                      struct berth_error *err);
void berth_store_close(struct berth_store *store); /* nobody uses it any more; NULL is fine */

/* Returns after the commit. A failure says that nothing is known to be stored: after UNAVAILABLE a
 * commit may have reached the disk whose answer did not reach us, which every caller survives
 * because intents are swept. */
int berth_store_tx(struct berth_store *store, berth_tx_fn *fn, void *ctx, struct berth_error *err);
/* The same on one snapshot, without writing; never waits for writers. */
int berth_store_read(struct berth_store *store, berth_tx_fn *fn, void *ctx,
                     struct berth_error *err);

const char *berth_store_scheme(const struct berth_store *store);
const char *berth_store_where(const struct berth_store *store);
bool berth_store_shared(const struct berth_store *store); /* between machines */

struct berth_store_stats {
    int64_t commits;  /* of batches, in a store with one writer */
    int64_t requests; /* that these commits carried */
    int64_t retries;  /* after a conflict, a lost connection or a failed batch */
};
struct berth_store_stats berth_store_stats(struct berth_store *store);
#endif
