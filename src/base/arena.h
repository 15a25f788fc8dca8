/* SPDX-License-Identifier: Apache-2.0
 * src/base/arena.h - memory that lives as long as one request or one answer; common.h has most.
 * A failed allocation answers NULL and is remembered, so a caller may build first and check once,
 * as long as it does not read through what it got in between. */
#ifndef BERTH_BASE_ARENA_H
#define BERTH_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include <berth/common.h>

struct berth_arena_chunk;

struct berth_arena {
    struct berth_arena_chunk *chunks;
    bool failed;
};

#define BERTH_ARENA_INIT                                                                           \
    {                                                                                              \
        0                                                                                          \
    }

int berth_arena_check(const struct berth_arena *arena, struct berth_error *err);

/* False when memory ran out, which the arena remembers. */
bool berth_list_add(struct berth_list *list, struct berth_arena *arena, void *item);

/* For what held a secret: nothing of it stays in memory. */
void berth_arena_wipe(struct berth_arena *arena);
#define auto_wiped_arena __attribute__((cleanup(berth_arena_wipe))) struct berth_arena
#define auto_arena __attribute__((cleanup(berth_arena_clear))) struct berth_arena
#endif
