/* SPDX-License-Identifier: Apache-2.0
 * src/base/container.h - from a pointer to a member back to the struct that holds it. Callbacks of
 * timers, posts and guests receive the member that is embedded in their object. */
#ifndef BERTH_BASE_CONTAINER_H
#define BERTH_BASE_CONTAINER_H

#include <stddef.h>

/* Returns the `type` whose `member` `ptr` points to. A `ptr` of another type than the member's does
 * not compile. */
#define berth_container_of(ptr, type, member)                                                      \
    (__extension__({                                                                               \
        __typeof__(((type *)0)->member) *member_ = (ptr);                                          \
        (type *)(void *)((char *)member_ - offsetof(type, member));                                \
    }))
#endif
