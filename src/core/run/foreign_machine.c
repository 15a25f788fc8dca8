/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/foreign_machine.c - see foreign_machine.h. A lease keeps the driver that it was
 * acquired with: what becomes of its environment does not change where its commands run. */
#include "core/run/foreign_machine.h"

#include "core/lease/lease.h"
#include "core/lease/node.h"
#include "store/store.h"

struct lease_look {
    struct berth_arena *arena;
    const char *id;
    struct berth_lease *lease;
};

static int tx_lease(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct lease_look *look = ctx;
    return berth_lease_load(db, look->arena, look->id, &look->lease, err);
}

static bool is_in_place(const struct berth *b, const struct berth_lease *lease)
{
    return lease && berth_registry_in_place(b->registry, lease->driver);
}

int berth_foreign_machine_of_exec(struct berth *b, struct berth_arena *arena,
                                  const struct berth_exec_record *exec, const char **out,
                                  struct berth_error *err)
{
    struct lease_look look = {.arena = arena, .id = exec->lease_id};
    *out = NULL;
    if (!exec->owner || !exec->lease_id)
        return BERTH_OK;
    int rc = berth_node_foreign_machine(b->node, arena, exec->owner, out, err);
    if (rc == BERTH_OK && *out)
        rc = berth_store_read(b->store, tx_lease, &look, err);
    if (rc == BERTH_OK && !is_in_place(b, look.lease))
        *out = NULL;
    return rc;
}

int berth_foreign_machine_of_run(struct berth *b, struct berth_arena *arena,
                                 const struct berth_run *run, const char **out,
                                 struct berth_error *err)
{
    struct berth_lease_filter filter = BERTH_LEASE_FILTER_INIT;
    struct berth_list leases = {0};
    bool in_place = false;
    *out = NULL;
    if (!run->owner)
        return BERTH_OK;
    int rc = berth_node_foreign_machine(b->node, arena, run->owner, out, err);
    filter.run_id = run->id;
    if (rc == BERTH_OK && *out)
        rc = berth_lease_list(b, arena, &filter, &leases, err);
    for (int i = 0; i < leases.count; i++)
        in_place = in_place || is_in_place(b, leases.items[i]);
    if (rc == BERTH_OK && !in_place) /* nothing was started there without a lease */
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
