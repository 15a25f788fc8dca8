/* SPDX-License-Identifier: Apache-2.0
 * src/base/map.h - text keys to pointers; open addressing, keys are copied. Not thread-safe. */
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

void *berth_map_get(const struct berth_map *map, const char *key);       /* NULL: not there */
bool berth_map_put(struct berth_map *map, const char *key, void *value); /* false: no memory */
void *berth_map_remove(struct berth_map *map, const char *key); /* what was there, or NULL */
/* Walks the entries in no order: start with *at = 0, ends with NULL. No changes meanwhile. */
void *berth_map_next(const struct berth_map *map, size_t *at, const char **key);
void berth_map_clear(struct berth_map *map); /* the values are the caller's */
#endif
