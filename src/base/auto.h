/* SPDX-License-Identifier: Apache-2.0
 * src/base/auto.h - what leaves with its scope. */
#ifndef BERTH_BASE_AUTO_H
#define BERTH_BASE_AUTO_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define auto_clean(fn) __attribute__((cleanup(fn)))
#define auto_free auto_clean(berth_auto_free)
#define auto_close auto_clean(berth_auto_close)

/* Hands the pointer on: the scope no longer owns it. */
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

/* Does not retry on EINTR: Linux has already let go of the descriptor. */
static inline void berth_auto_close(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}
#endif
