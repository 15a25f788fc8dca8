/* SPDX-License-Identifier: Apache-2.0
 * src/base/array.h - arrays on the heap that grow by doubling. */
#ifndef BERTH_BASE_ARRAY_H
#define BERTH_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

#define BERTH_ARRAY_FIRST 64 /* the room that an array begins with */

/* Makes room for one more item. `items` is the address of the pointer to the first item. Returns
 * false when memory ran out; the array stays as it was. */
bool berth_array_grow(void *items, size_t *cap, size_t count, size_t item_bytes);
#endif
