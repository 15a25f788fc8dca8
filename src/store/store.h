/* SPDX-License-Identifier: Apache-2.0
 * src/store/store.h - opens a store and runs functions in transactions. */
#ifndef BERTH_STORE_STORE_H
#define BERTH_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include <berth/error.h>

struct berth_db;
struct berth_database;
struct berth_store; /* safe to share between threads */

/* Reads and writes through `db`. It may run more than once, so it first resets its results in
 * `ctx`, has no other effects, and does not call a driver. A return value < 0 rolls back. */
typedef int berth_tx_fn(struct berth_db *db, void *ctx, struct berth_error *err);

/* Opens the store and creates missing tables. `databases` is closed by NULL. INVALID: no database
 * has the scheme of the address. UNSUPPORTED: the store is newer than this program. */
int berth_store_open(const struct berth_database *const *databases, const char *address,
                     struct berth_store **out, struct berth_error *err);
/* Returns INVALID, with the same messages, for an invalid address. Does not open or create
 * anything. */
int berth_store_check(const struct berth_database *const *databases, const char *address,
                      struct berth_error *err);
/* Closes the store, which no thread may use any more. NULL is fine. */
void berth_store_close(struct berth_store *store);

/* Runs fn in a transaction and returns after the commit. After UNAVAILABLE the transaction may have
 * been committed although its answer was lost. Callers survive this because the sweep finds their
 * intents. */
int berth_store_tx(struct berth_store *store, berth_tx_fn *fn, void *ctx, struct berth_error *err);
/* Runs fn on a read-only snapshot. Does not wait for writers. */
int berth_store_read(struct berth_store *store, berth_tx_fn *fn, void *ctx,
                     struct berth_error *err);

const char *berth_store_scheme(const struct berth_store *store);
const char *berth_store_where(const struct berth_store *store);
bool berth_store_shared(const struct berth_store *store); /* by several machines */

/* What is known of the store without asking it. */
struct berth_store_health {
    bool answers;
    int64_t since_ms;  /* wall clock; since when it does not */
    char trouble[256]; /* what went wrong */
};
/* Never blocks for long. */
struct berth_store_health berth_store_health(struct berth_store *store);

struct berth_store_stats {
    int64_t commits;  /* with one writer: of batches */
    int64_t requests; /* transactions in these commits */
    int64_t retries;  /* after a conflict, a lost connection or a failed batch */
};
struct berth_store_stats berth_store_stats(struct berth_store *store);
#endif
