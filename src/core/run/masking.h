/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/masking.h - hides the secrets of a command or of a run in texts: each byte of a
 * value becomes "*". The memory for it counts in the budget of the company. */
#ifndef BERTH_CORE_RUN_MASKING_H
#define BERTH_CORE_RUN_MASKING_H

#include "core/berth.h"
#include "crypto/mask.h"

/* Used by one thread at a time. All zero: hides nothing. */
struct berth_masking {
    struct berth *b;
    const char *company_id;
    const struct berth_pattern *values; /* borrowed while it is not made */
    size_t count;
    size_t bytes;            /* taken from the budget */
    struct berth_mask *mask; /* NULL: no value is long enough to be masked */
    bool made;
};

/* Sets the values to hide. The masking is made by the first call that needs it, or by
 * berth_masking_make. */
void berth_masking_init(struct berth_masking *m, struct berth *b, const char *company_id,
                        const struct berth_pattern *values, size_t count);
/* Copies the values. UNAVAILABLE: the budget of the company is used up. */
int berth_masking_make(struct berth_masking *m, struct berth_error *err);
/* Overwrites the values in the bytes; all of them when the masking cannot be made. `cut`: the bytes
 * are the beginning of a longer text, so an end that may begin a value is overwritten, too. */
void berth_masking_hide(struct berth_masking *m, char *bytes, size_t len, bool cut);
/* Overwrites the values in the texts of an error. */
void berth_masking_hide_error(struct berth_masking *m, struct berth_error *err);
/* Gives back the memory. The next call that needs it makes the masking again. */
void berth_masking_clear(struct berth_masking *m);
#endif
