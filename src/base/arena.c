/* SPDX-License-Identifier: Apache-2.0
 * src/base/arena.c - see arena.h. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES 4032 /* with malloc's header, just under a page */

struct berth_arena_chunk {
    struct berth_arena_chunk *next;
    size_t used, size;
    _Alignas(max_align_t) char bytes[];
};

void *berth_arena_alloc(struct berth_arena *arena, size_t size)
{
    const size_t align = _Alignof(max_align_t);
    if (size > SIZE_MAX / 2) {
        arena->failed = true;
        return NULL;
    }
    size = (size + align - 1) / align * align;
    struct berth_arena_chunk *chunk = arena->chunks;
    if (!chunk || chunk->size - chunk->used < size) {
        size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;
        arena->too_large |= arena->bytes_max && room > arena->bytes_max - arena->bytes;
        chunk = arena->too_large ? NULL : calloc(1, sizeof *chunk + room);
        if (!chunk) {
            arena->failed = true;
            return NULL;
        }
        arena->bytes += room;
        chunk->size = room;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
    }
    void *p = chunk->bytes + chunk->used;
    chunk->used += size;
    return p;
}

char *berth_arena_copy(struct berth_arena *arena, const char *text, size_t len)
{
    char *copy = berth_arena_alloc(arena, len + 1);
    if (copy && len)
        memcpy(copy, text, len);
    return copy;
}

char *berth_arena_strdup(struct berth_arena *arena, const char *text)
{
    return text ? berth_arena_copy(arena, text, strlen(text)) : NULL;
}

char *berth_arena_printf(struct berth_arena *arena, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = len < 0 ? NULL : berth_arena_alloc(arena, (size_t)len + 1);
    if (text)
        (void)vsnprintf(text, (size_t)len + 1, fmt, again);
    va_end(again);
    return text;
}

int berth_arena_check(const struct berth_arena *arena, struct berth_error *err)
{
    if (arena->too_large)
        return berth_fail(
            err, BERTH_E_TOO_LARGE,
            "The request needs more than %zu bytes of memory. Ask for fewer rows with "
            "a smaller limit.",
            arena->bytes_max);
    return arena->failed ? berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.") : BERTH_OK;
}

void berth_arena_wipe(struct berth_arena *arena)
{
    for (struct berth_arena_chunk *chunk = arena->chunks; chunk; chunk = chunk->next)
        explicit_bzero(chunk->bytes, chunk->used);
    berth_arena_clear(arena);
}

void berth_arena_clear(struct berth_arena *arena)
{
    struct berth_arena_chunk *chunk = arena->chunks;
    while (chunk) {
        struct berth_arena_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    *arena = (struct berth_arena)BERTH_ARENA_INIT;
}

struct berth_arena *berth_arena_new(void)
{
    return calloc(1, sizeof(struct berth_arena));
}

void berth_arena_free(struct berth_arena *arena)
{
    if (arena)
        berth_arena_clear(arena);
    free(arena);
}

bool berth_list_add(struct berth_list *list, struct berth_arena *arena, void *item)
{
    if (list->count == list->cap) {
        int cap = list->cap ? list->cap * 2 : 8;
        void **items = berth_arena_alloc(arena, sizeof *items * (size_t)cap);
        if (!items)
            return false;
        for (int i = 0; i < list->count; i++)
            items[i] = list->items[i];
        list->items = items;
        list->cap = cap;
    }
    list->items[list->count++] = item;
    return true;
}
