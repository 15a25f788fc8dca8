/* SPDX-License-Identifier: Apache-2.0
 * include/berth/common.h - what every part of the interface shares.
 *
 * Ownership: what goes in is borrowed for the call. What comes out lives in the arena that was
 * handed in, and is gone with it; nothing else has to be freed. A failed call leaves *out alone.
 * Threads: a struct berth may be shared; an arena, and what lives in it, belongs to one thread at a
 * time. Calls block, and may be made from any number of threads at once. */
#ifndef BERTH_COMMON_H
#define BERTH_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <berth/error.h>

struct berth; /* the runtime: a store, drivers, and this process's name among others */

/* Where answers live. */
struct berth_arena;
BERTH_API struct berth_arena *berth_arena_new(void);         /* NULL: no memory */
BERTH_API void berth_arena_free(struct berth_arena *arena);  /* NULL is fine */
BERTH_API void berth_arena_clear(struct berth_arena *arena); /* empty again; answers are gone */
/* For those who write drivers. NULL when memory runs out, which the arena remembers. */
BERTH_API void *berth_arena_alloc(struct berth_arena *arena, size_t size); /* zeroed */
BERTH_API char *berth_arena_copy(struct berth_arena *arena, const char *text, size_t len);
BERTH_API char *berth_arena_strdup(struct berth_arena *arena, const char *text); /* NULL -> NULL */
BERTH_API char *berth_arena_printf(struct berth_arena *arena, const char *fmt, ...)
    BERTH_PRINTF(2, 3);

/* Pointers to what the call that filled it says. */
struct berth_list {
    void **items;
    int count, cap;
};

/* Who asks; it is written down. NULL where one is taken means the system itself. */
struct berth_actor {
    const char *type; /* user, agent, system */
    const char *id;
};

/* All that is wrong with an input, in the order it was found. */
struct berth_issue {
    const char *path; /* "port"; "" for the whole */
    const char *message;
};
struct berth_issues {
    struct berth_arena *arena; /* the caller sets this */
    struct berth_list list;    /* of struct berth_issue */
};
BERTH_API void berth_issues_add(struct berth_issues *issues, const char *path, const char *fmt, ...)
    BERTH_PRINTF(3, 4);
#endif
