/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/node.h - which nodes are alive, and which node works on which lease.
 * A node is one open runtime. Its id is made at open and serves as node and epoch in one: a process
 * that restarts after a crash is a new node. Our own wall clock never decides whether a node is
 * alive. On one machine, a lock on a file does, which the process holds until it ends. On several
 * machines, the database's clock does. */
#ifndef BERTH_CORE_LEASE_NODE_H
#define BERTH_CORE_LEASE_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include <berth/error.h>

struct berth_arena;
struct berth_node;
struct berth_pool;
struct berth_store;

int berth_node_open(struct berth_store *store, struct berth_pool *pool, int64_t lapse_ms,
                    struct berth_node **out, struct berth_error *err);
void berth_node_close(struct berth_node *node); /* NULL is fine */
const char *berth_node_id(const struct berth_node *node);

/* Marks the lease as worked on by this process; until unclaim no sweep takes it over. When several
 * threads claim one lease, the store decides which one wins. */
int berth_node_claim(struct berth_node *node, const char *lease_id, struct berth_error *err);
void berth_node_unclaim(struct berth_node *node, const char *lease_id);

/* Sets *out to whether a live node works on the lease. `owner` is the node in the lease's row, or
 * NULL when the row has no owner. `own` is the number of claims of the caller itself, which do not
 * count. */
int berth_node_at_work(struct berth_node *node, const char *owner, const char *lease_id, int own,
                       bool *out, struct berth_error *err);

/* Sets *out to the name of the node's machine, in the arena, or to NULL when the node is, or was,
 * on this machine. */
int berth_node_foreign_machine(struct berth_node *node, struct berth_arena *arena, const char *id,
                               const char **out, struct berth_error *err);

/* Removes the files or rows of dead nodes. Leases that they owned are not changed. */
int berth_node_forget_dead(struct berth_node *node, struct berth_error *err);

/* Returns UNAVAILABLE when this node could not beat for half the lapse. Other nodes may soon take
 * it for dead, so it must not call a provider. */
int berth_node_may_act(struct berth_node *node, struct berth_error *err);
#endif
