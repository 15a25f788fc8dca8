/* SPDX-License-Identifier: Apache-2.0
 * src/store/prefix.h - finds ids of any kind by their first characters, and the company and lease
 * that an id belongs to. */
#ifndef BERTH_STORE_PREFIX_H
#define BERTH_STORE_PREFIX_H

#include "store/row.h"

enum berth_kind {
    BERTH_KIND_COMPANY,
    BERTH_KIND_ENVIRONMENT,
    BERTH_KIND_LEASE,
    BERTH_KIND_RUN,
    BERTH_KIND_SECRET,
    BERTH_KIND_EXEC,
    BERTH_KIND_TOKEN,
};

/* Lists at most 5 ids that start with `prefix` and belong to the company; NULL: any company.
 * `prefix` holds hex digits and dashes, in lower case. */
int berth_prefix_select(struct berth_db *db, struct berth_arena *arena, enum berth_kind kind,
                        const char *company_id, const char *prefix, struct berth_list *out,
                        struct berth_error *err);
/* Sets the company that the object belongs to, and the lease of a lease or an exec. NULL: the
 * object does not exist, or has none. */
int berth_owner_select(struct berth_db *db, struct berth_arena *arena, enum berth_kind kind,
                       const char *id, const char **company_id, const char **lease_id,
                       struct berth_error *err);
#endif
