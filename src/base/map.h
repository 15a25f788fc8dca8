/* SPDX-License-Identifier: Apache-2.0
 * src/base/map.h - maps text keys, which it copies, to pointers. Not thread-safe. */
#ifndef BERTH_BASE_MAP_H
#define BERTH_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>

struct berth_map_entry;

struct berth_map {
    struct berth_map_entry *entries;
    size_t count, cap;
};

#define BERTH_MAP_INIT                                                                             \
    {                                                                                              \
        0                                                                                          \
    }

void *berth_map_get(const struct berth_map *map, const char *key);       /* NULL: no such key */
bool berth_map_put(struct berth_map *map, const char *key, void *value); /* false: no memory */
void *berth_map_remove(struct berth_map *map, const char *key); /* returns the value, or NULL */
/* Returns the next value, in no particular order, or NULL at the end. Start with *at = 0, and do
 * not change the map meanwhile. */
void *berth_map_next(const struct berth_map *map, size_t *at, const char **key);
void berth_map_clear(struct berth_map *map); /* does not free the values */
#endif
