/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/foreign_machine.c - see foreign_machine.h. */
#include "core/run/foreign_machine.h"

#include "core/environment/environment.h"
#include "core/lease/node.h"
#include "store/store.h"

struct environment_look {
    struct berth_arena *arena;
    const char *id;
    struct berth_environment *environment;
};

static int tx_environment(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct environment_look *look = ctx;
    return berth_environment_load(db, look->arena, look->id, BERTH_LOCK_NONE, &look->environment,
                                  err);
}

int berth_foreign_machine(struct berth *b, struct berth_arena *arena, const char *environment_id,
                          const char *owner, const char **out, struct berth_error *err)
{
    struct environment_look look = {.arena = arena, .id = environment_id};
    *out = NULL;
    if (!owner || !environment_id)
        return BERTH_OK;
    int rc = berth_node_foreign_machine(b->node, arena, owner, out, err);
    if (rc < 0 || !*out)
        return rc;
    rc = berth_store_read(b->store, tx_environment, &look, err);
    if (rc == BERTH_OK && (!look.environment || !berth_environment_in_place(b, look.environment)))
        *out = NULL;
    return rc;
}

void berth_foreign_machine_tell(struct berth *b, const char *machine, const char *key,
                                const char *id)
{
    berth_log_line(&b->log, BERTH_LOG_WARN,
                   "left to the machine of its dead process: start berth there", "machine", machine,
                   key, id, NULL);
}
