/* SPDX-License-Identifier: Apache-2.0
 * src/store/prefix.h - what is behind an id of any kind: ids by how they begin, for people who do
 * not like to type them, and whose a thing is. */
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

/* A list of ids, a few at most, of what belongs to the company (NULL: any); `prefix` holds hex
 * digits and dashes, in lower case. */
int berth_prefix_select(struct berth_db *db, struct berth_arena *arena, enum berth_kind kind,
                        const char *company_id, const char *prefix, struct berth_list *out,
                        struct berth_error *err);
/* Whose it is: the company, and of an exec the lease. NULL: there is no such thing, or it belongs
 * to none. */
int berth_owner_select(struct berth_db *db, struct berth_arena *arena, enum berth_kind kind,
                       const char *id, const char **company_id, const char **lease_id,
                       struct berth_error *err);
#endif
