/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/place_carry.h - moves whole files to and from the place of a lease by means of
 * its provider, where the provider offers that. */
#ifndef BERTH_CORE_WORKSPACE_PLACE_CARRY_H
#define BERTH_CORE_WORKSPACE_PLACE_CARRY_H

#include "core/berth.h"
#include "core/driver.h"

/* One file on its way. */
struct berth_place_carry {
    const char *lease_id;
    const char *path; /* in the place */
    int fd;           /* the file on this machine; an empty one when `fetch` is set */
    bool fetch;
    int64_t size;  /* fetch: of the file in the place */
    int cancel_fd; /* -1: never */
};

/* Returns whether the provider of the route moves files. May wait for a worker to start. */
bool berth_place_can_carry(struct berth *b, const struct berth_route *route, int cancel_fd);
/* Moves the file. The content is not checked. */
int berth_place_carry(struct berth *b, const struct berth_place_carry *carry,
                      struct berth_error *err);
#endif
