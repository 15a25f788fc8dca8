/* SPDX-License-Identifier: Apache-2.0
 * src/store/row.h - helpers that read columns of a row, and convert enums to text and back. */
#ifndef BERTH_STORE_ROW_H
#define BERTH_STORE_ROW_H

#include <berth/error.h>

#include "base/arena.h"
#include "store/db.h"

/* The names of an enum in the order of its values, closed by NULL. Errors call it `field`. */
struct berth_enum {
    const char *field;
    const char *const *names;
};

enum berth_row_lock {
    BERTH_LOCK_NONE,
    BERTH_LOCK_SHARE,  /* other transactions cannot change the row until the commit */
    BERTH_LOCK_UPDATE, /* nor lock it */
};

/* A part of a list. A NULL pointer to it: the whole list. */
struct berth_page {
    int limit;          /* rows; 0: all that follow */
    const char *before; /* only rows that follow the one with this id in the list; or NULL */
};
static inline struct berth_value berth_page_limit(const struct berth_page *page)
{
    return berth_int(page && page->limit ? page->limit : INT64_MAX);
}
static inline struct berth_value berth_page_before(const struct berth_page *page)
{
    return berth_text(page ? page->before : NULL);
}

/* Returns the value with this name, or -1. */
int berth_enum_find(const struct berth_enum *type, const char *name);
/* Reads a column. INTERNAL: the text is not a name of the enum. */
int berth_enum_read(const struct berth_enum *type, const struct berth_value *value, int *out,
                    struct berth_error *err);

/* Copies the text of a column into the arena; null gives NULL. */
static inline const char *berth_row_text(struct berth_arena *arena, const struct berth_value *value)
{
    return berth_arena_strdup(arena, value->type == BERTH_VALUE_TEXT ? value->text : NULL);
}
#endif
