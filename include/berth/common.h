/* SPDX-License-Identifier: Apache-2.0
 * include/berth/common.h - types that all parts of the interface share.
 *
 * Ownership: a call borrows its arguments until it returns. Its results live in the arena that the
 * caller passed in, until that arena is cleared or freed. Functions that differ say so. A failed
 * call leaves a pointer in *out unchanged; a struct or list in *out is then not meaningful.
 * Threads: any number of threads may use one struct berth at the same time. An arena and the
 * results in it belong to one thread at a time. Calls block.
 * Ids are UUIDs as text. Times are milliseconds; those named ..._at_ms count from 1970 (UTC). */
#ifndef BERTH_COMMON_H
#define BERTH_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <berth/error.h>

/* The runtime: an open store, the drivers, and the identity of this process in the store. */
struct berth;

/* Memory for the results of calls. Everything in an arena is freed together. */
struct berth_arena;
/* Returns a new arena, or NULL when memory runs out. The caller frees it. */
BERTH_API struct berth_arena *berth_arena_new(void);
/* Frees the arena and all results in it. NULL is allowed. */
BERTH_API void berth_arena_free(struct berth_arena *arena);
/* Frees all results in the arena. The arena can be used again. */
BERTH_API void berth_arena_clear(struct berth_arena *arena);

/* The next four are for drivers, which return their results in an arena. Each returns NULL when
 * memory runs out. */

/* Returns `size` zeroed bytes, aligned for any type. */
BERTH_API void *berth_arena_alloc(struct berth_arena *arena, size_t size);
/* Returns a copy of `len` bytes, with a NUL after them. */
BERTH_API char *berth_arena_copy(struct berth_arena *arena, const char *text, size_t len);
/* Returns a copy of the text. Returns NULL when `text` is NULL. */
BERTH_API char *berth_arena_strdup(struct berth_arena *arena, const char *text);
/* Returns the formatted text. */
BERTH_API char *berth_arena_printf(struct berth_arena *arena, const char *fmt, ...)
    BERTH_PRINTF(2, 3);

/* A list of pointers. The function that fills it names their type. */
struct berth_list {
    void **items;
    int count, cap; /* pointers in `items`; allocated size of `items` */
};

/* The user, agent or system part on whose behalf a call is made. It is recorded in the activity
 * log. A NULL pointer to an actor means the type `system` without an id. */
struct berth_actor {
    const char *type; /* user, agent, system */
    const char *id;
};

/* One fault of an input. */
struct berth_issue {
    const char *path; /* the faulty field: "port"; "" for the whole input */
    const char *message;
};
/* All faults of an input, in the order in which they were found. */
struct berth_issues {
    struct berth_arena *arena; /* set by the caller; holds the issues */
    struct berth_list list;    /* struct berth_issue */
};
/* Appends an issue with the formatted message. Both texts are copied into issues->arena. */
BERTH_API void berth_issues_add(struct berth_issues *issues, const char *path, const char *fmt, ...)
    BERTH_PRINTF(3, 4);
#endif
