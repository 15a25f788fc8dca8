/* SPDX-License-Identifier: Apache-2.0
 * src/base/map.c - see map.h. Linear probing; removal moves later entries back. */
#include "base/map.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct berth_map_entry {
    char *key; /* NULL: free */
    void *value;
    uint64_t hash;
};

/* Computes FNV-1a over words of eight bytes, since keys may be whole SQL statements. */
static uint64_t hash_of(const char *key)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t len = strlen(key); len;) {
        uint64_t word = 0;
        size_t bytes = len < sizeof word ? len : sizeof word;
        memcpy(&word, key, bytes);
        hash = (hash ^ word) * UINT64_C(1099511628211);
        hash ^= hash >> 32; /* mix the high bytes into the low ones, which choose the slot */
        key += bytes;
        len -= bytes;
    }
    return hash;
}

/* Returns the entry of `key`, or the free entry where it belongs. */
static struct berth_map_entry *slot(const struct berth_map *map, const char *key, uint64_t hash)
{
    size_t i = hash & (map->cap - 1);
    while (map->entries[i].key &&
           (map->entries[i].hash != hash || strcmp(map->entries[i].key, key) != 0))
        i = (i + 1) & (map->cap - 1);
    return &map->entries[i];
}

void *berth_map_get(const struct berth_map *map, const char *key)
{
    if (!map->cap)
        return NULL;
    struct berth_map_entry *entry = slot(map, key, hash_of(key));
    return entry->key ? entry->value : NULL;
}

static bool grow(struct berth_map *map)
{
    struct berth_map bigger = {.cap = map->cap ? map->cap * 2 : 16, .count = map->count};
    bigger.entries = calloc(bigger.cap, sizeof *bigger.entries);
    if (!bigger.entries)
        return false;
    for (size_t i = 0; i < map->cap; i++)
        if (map->entries[i].key)
            *slot(&bigger, map->entries[i].key, map->entries[i].hash) = map->entries[i];
    free(map->entries);
    *map = bigger;
    return true;
}

bool berth_map_put(struct berth_map *map, const char *key, void *value)
{
    uint64_t hash = hash_of(key);
    struct berth_map_entry *entry = map->cap ? slot(map, key, hash) : NULL;
    if (!entry || !entry->key) {
        if (map->count * 4 >= map->cap * 3) {
            if (!grow(map))
                return false;
            entry = slot(map, key, hash);
        }
        char *copy = strdup(key);
        if (!copy)
            return false;
        *entry = (struct berth_map_entry){.key = copy, .hash = hash};
        map->count++;
    }
    entry->value = value;
    return true;
}

void *berth_map_remove(struct berth_map *map, const char *key)
{
    if (!map->cap)
        return NULL;
    struct berth_map_entry *entry = slot(map, key, hash_of(key));
    if (!entry->key)
        return NULL;
    void *value = entry->value;
    free(entry->key);
    *entry = (struct berth_map_entry){0};
    map->count--;

    size_t mask = map->cap - 1, hole = (size_t)(entry - map->entries);
    for (size_t i = (hole + 1) & mask; map->entries[i].key; i = (i + 1) & mask) {
        size_t home = map->entries[i].hash & mask;
        if (((i - home) & mask) < ((i - hole) & mask))
            continue; /* its home is after the hole: it is still reachable */
        map->entries[hole] = map->entries[i];
        map->entries[i] = (struct berth_map_entry){0};
        hole = i;
    }
    return value;
}

void *berth_map_next(const struct berth_map *map, size_t *at, const char **key)
{
    while (*at < map->cap) {
        struct berth_map_entry *entry = &map->entries[(*at)++];
        if (!entry->key)
            continue;
        if (key)
            *key = entry->key;
        return entry->value;
    }
    return NULL;
}

void berth_map_clear(struct berth_map *map)
{
    for (size_t i = 0; i < map->cap; i++)
        free(map->entries[i].key);
    free(map->entries);
    *map = (struct berth_map)BERTH_MAP_INIT;
}
