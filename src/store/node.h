/* SPDX-License-Identifier: Apache-2.0
 * src/store/node.h - heartbeats of the nodes that share a store, by the clock of the database. */
#ifndef BERTH_STORE_NODE_H
#define BERTH_STORE_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/row.h"

/* Inserts the node, or renews its heartbeat. */
int berth_node_beat(struct berth_db *db, const char *id, const char *host, int64_t pid,
                    struct berth_error *err);
/* Sets *alive when the last heartbeat is less than lapse_ms ago. */
int berth_node_alive(struct berth_db *db, const char *id, int64_t lapse_ms, bool *alive,
                     struct berth_error *err);
/* Sets *out to the machine of the node, in the arena; NULL when there is no such node. */
int berth_node_machine(struct berth_db *db, struct berth_arena *arena, const char *id,
                       const char **out, struct berth_error *err);
/* Reads the clock of the database, in ms since 1970. */
int berth_node_now(struct berth_db *db, int64_t *out, struct berth_error *err);
int berth_node_remove(struct berth_db *db, const char *id, struct berth_error *err);
/* Removes the nodes whose last heartbeat is more than silent_ms ago, unless a run or a command of
 * theirs has not ended: the row says which machine has to end it. */
int berth_node_remove_dead(struct berth_db *db, int64_t silent_ms, struct berth_error *err);
#endif
