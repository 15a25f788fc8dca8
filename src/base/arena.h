/* SPDX-License-Identifier: Apache-2.0
 * src/base/arena.h - memory that lives as long as one request or one answer. common.h declares the
 * rest. A failed allocation returns NULL and sets `failed`, so a caller may allocate several times
 * and check once, if it does not dereference the results before. */
#ifndef BERTH_BASE_ARENA_H
#define BERTH_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include <berth/common.h>

struct berth_arena_chunk;

struct berth_arena {
    struct berth_arena_chunk *chunks;
    size_t bytes, bytes_max; /* of all chunks; set by the owner, 0: no limit */
    bool failed, too_large;  /* the second: because of the limit */
};

#define BERTH_ARENA_INIT                                                                           \
    {                                                                                              \
        0                                                                                          \
    }

/* Returns NO_MEMORY when an allocation from the arena has failed; TOO_LARGE: because of its limit.
 */
int berth_arena_check(const struct berth_arena *arena, struct berth_error *err);

/* Appends the item. Returns false, and sets arena->failed, when memory runs out. */
bool berth_list_add(struct berth_list *list, struct berth_arena *arena, void *item);

/* Zeroes and frees the memory of an arena that held secrets. */
void berth_arena_wipe(struct berth_arena *arena);
#define auto_wiped_arena __attribute__((cleanup(berth_arena_wipe))) struct berth_arena
#define auto_arena __attribute__((cleanup(berth_arena_clear))) struct berth_arena
#endif
