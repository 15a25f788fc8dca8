/* SPDX-License-Identifier: Apache-2.0
 * src/store/prefix.h - ids by how they begin, for people who do not like to type them. */
#ifndef BERTH_STORE_PREFIX_H
#define BERTH_STORE_PREFIX_H

#include "store/row.h"

enum berth_kind {
    BERTH_KIND_COMPANY,
    BERTH_KIND_ENVIRONMENT,
    BERTH_KIND_LEASE,
    BERTH_KIND_RUN,
    BERTH_KIND_SECRET,
};

/* A list of ids, a few at most, of what belongs to the company (NULL: any); `prefix` holds hex
 * digits and dashes, in lower case. */
int berth_prefix_select(struct berth_db *db, struct berth_arena *arena, enum berth_kind kind,
                        const char *company_id, const char *prefix, struct berth_list *out,
                        struct berth_error *err);
#endif
