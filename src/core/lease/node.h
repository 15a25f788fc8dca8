/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/node.h - who is alive, and who is at work on which lease.
 * A node is one open runtime; its id is made at open, so it is node and epoch in one: whoever
 * comes back after a crash is somebody else. No wall clock of ours decides over life: on one
 * machine a lock on a file does, held until the process ends, else the database's clock. */
#ifndef BERTH_CORE_LEASE_NODE_H
#define BERTH_CORE_LEASE_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include <berth/error.h>

struct berth_node;
struct berth_pool;
struct berth_store;

int berth_node_open(struct berth_store *store, struct berth_pool *pool, int64_t lapse_ms,
                    struct berth_node **out, struct berth_error *err);
void berth_node_close(struct berth_node *node); /* NULL is fine */
const char *berth_node_id(const struct berth_node *node);

/* Between these two this process is at work on the lease, and no sweep takes it over. Threads
 * that meet on one lease are told apart by the store. */
int berth_node_claim(struct berth_node *node, const char *lease_id, struct berth_error *err);
void berth_node_unclaim(struct berth_node *node, const char *lease_id);

/* Is somebody at work on that lease? `owner` is what its row says, NULL: nobody. `own` is how often
 * the caller itself has begun. */
int berth_node_at_work(struct berth_node *node, const char *owner, const char *lease_id, int own,
                       bool *out, struct berth_error *err);

/* Tidies up after nodes that are dead; what they owned is not touched. */
int berth_node_forget_dead(struct berth_node *node, struct berth_error *err);

/* UNAVAILABLE when this node could not beat for half the lapse: others may soon take it for dead,
 * so it must not call a provider. */
int berth_node_may_act(struct berth_node *node, struct berth_error *err);
#endif
