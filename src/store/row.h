/* SPDX-License-Identifier: Apache-2.0
 * src/store/row.h - small help for reading rows into structs and enums into text and back. */
#ifndef BERTH_STORE_ROW_H
#define BERTH_STORE_ROW_H

#include <berth/error.h>

#include "base/arena.h"
#include "store/db.h"

/* An enum's names in the order of its values, closed by NULL; `field` is how errors call it. */
struct berth_enum {
    const char *field;
    const char *const *names;
};

enum berth_row_lock {
    BERTH_LOCK_NONE,
    BERTH_LOCK_SHARE,  /* it must not change until we commit */
    BERTH_LOCK_UPDATE, /* nor may anybody else decide on it */
};

/* The value of that name, or -1. */
int berth_enum_find(const struct berth_enum *type, const char *name);
/* Reads a column; a value nobody knows is INTERNAL "Unexpected <field> value: <value>". */
int berth_enum_read(const struct berth_enum *type, const struct berth_value *value, int *out,
                    struct berth_error *err);

/* A column's text in the arena; null gives NULL. */
static inline const char *berth_row_text(struct berth_arena *arena, const struct berth_value *value)
{
    return berth_arena_strdup(arena, value->type == BERTH_VALUE_TEXT ? value->text : NULL);
}
#endif
