/* SPDX-License-Identifier: Apache-2.0
 * src/base/auto.h - variables that are freed or closed when their scope ends. */
#ifndef BERTH_BASE_AUTO_H
#define BERTH_BASE_AUTO_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define auto_clean(fn) __attribute__((cleanup(fn)))
#define auto_free auto_clean(berth_auto_free)
#define auto_close auto_clean(berth_auto_close)

/* Returns the pointer and sets the variable to NULL, so that the scope no longer owns it. */
#define take_ptr(p)                                                                                \
    (__extension__({                                                                               \
        __typeof__(p) taken_ = (p);                                                                \
        (p) = NULL;                                                                                \
        taken_;                                                                                    \
    }))

static inline void berth_auto_free(void *pp)
{
    void *p;
    memcpy(&p, pp, sizeof p); /* pp is some T **; reading it as void ** would break aliasing */
    free(p);
}

/* Closes the descriptor unless it is negative. Does not retry on EINTR: Linux has released the
 * descriptor by then. */
static inline void berth_auto_close(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}
#endif
