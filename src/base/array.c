/* SPDX-License-Identifier: Apache-2.0
 * src/base/array.c - see array.h. */
#include "base/array.h"

#include <stdlib.h>
#include <string.h>

bool berth_array_grow(void *items, size_t *cap, size_t count, size_t item_bytes)
{
    void *array;
    if (count < *cap)
        return true;
    size_t room = *cap ? *cap * 2 : BERTH_ARRAY_FIRST;
    memcpy(&array, items, sizeof array); /* items is some T **: reading it as void ** would break
                                            the rules of aliasing */
    void *grown = reallocarray(array, room, item_bytes);
    if (!grown)
        return false;
    memcpy(items, &grown, sizeof grown);
    *cap = room;
    return true;
}
