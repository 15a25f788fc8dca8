/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/place_carry.c - see place_carry.h. */
#include "core/workspace/place_carry.h"

#include "base/arena.h"
#include "core/lease/lease.h"
#include "core/lease/ledger.h"

bool berth_place_can_carry(struct berth *b, const struct berth_route *route, int cancel_fd)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_call call = berth_ledger_call(b, route, &arena, 0, cancel_fd);
    return berth_route_can_carry(route, &call);
}

int berth_place_carry(struct berth *b, const struct berth_place_carry *carry,
                      struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    auto_driver_input use = {0};
    struct berth_lease *lease;
    const struct berth_route *route;
    int rc = berth_lease_begin_use(b, &arena, carry->lease_id, &lease, &route, err);
    if (rc == BERTH_OK)
        rc = berth_ledger_input(b, &arena, lease, &use, err);
    if (rc < 0)
        return rc;
    struct berth_place place = berth_ledger_place(lease);
    struct berth_call call = berth_ledger_call(b, route, &arena, 0, carry->cancel_fd);
    rc = carry->fetch
             ? berth_driver_fetch(route, &call, &use.who, &place, carry->path, carry->size,
                                  carry->fd, err)
             : berth_driver_send(route, &call, &use.who, &place, carry->path, carry->fd, err);
    if (rc < 0)
        berth_driver_input_mask_error(&use, err);
    return rc;
}
