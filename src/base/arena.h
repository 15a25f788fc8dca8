/* SPDX-License-Identifier: Apache-2.0
 * src/base/arena.h - memory that lives as long as one request or one answer.
 * A failed allocation answers NULL and is remembered, so a caller may build first and check once,
 * as long as it does not read through what it got in between. */
#ifndef BERTH_BASE_ARENA_H
#define BERTH_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include <berth/error.h>

struct berth_arena_chunk;

struct berth_arena {
    struct berth_arena_chunk *chunks;
    bool failed;
};

#define BERTH_ARENA_INIT                                                                           \
    {                                                                                              \
        0                                                                                          \
    }

void *berth_arena_alloc(struct berth_arena *arena, size_t size); /* zeroed, aligned for anything */
char *berth_arena_copy(struct berth_arena *arena, const char *text, size_t len); /* adds a NUL */
char *berth_arena_strdup(struct berth_arena *arena, const char *text);           /* NULL -> NULL */
char *berth_arena_printf(struct berth_arena *arena, const char *fmt, ...) BERTH_PRINTF(2, 3);
int berth_arena_check(const struct berth_arena *arena, struct berth_error *err);
void berth_arena_clear(struct berth_arena *arena);

/* A list of pointers that grows in an arena. */
struct berth_list {
    void **items;
    int count, cap;
};
bool berth_list_add(struct berth_list *list, struct berth_arena *arena, void *item);

#define auto_arena __attribute__((cleanup(berth_arena_clear))) struct berth_arena
#endif
