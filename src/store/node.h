/* SPDX-License-Identifier: Apache-2.0
 * src/store/node.h - heartbeats of processes that share a store between machines, all by the
 * database's clock. */
#ifndef BERTH_STORE_NODE_H
#define BERTH_STORE_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/row.h"

/* Inserts or renews. */
int berth_node_beat(struct berth_db *db, const char *id, const char *host, int64_t pid,
                    struct berth_error *err);
int berth_node_alive(struct berth_db *db, const char *id, int64_t lapse_ms, bool *alive,
                     struct berth_error *err);
int berth_node_remove(struct berth_db *db, const char *id, struct berth_error *err);
/* Those that have been silent for so long. */
int berth_node_remove_dead(struct berth_db *db, int64_t silent_ms, struct berth_error *err);
#endif
