/* SPDX-License-Identifier: Apache-2.0
 * src/store/company.h - the tenant: every other row belongs to one. */
#ifndef BERTH_STORE_COMPANY_H
#define BERTH_STORE_COMPANY_H

#include <stdint.h>

#include "store/row.h"

struct berth_company {
    const char *id, *name;
    int64_t created_at_ms, updated_at_ms;
};

/* An existing one of that name is left as it is. */
int berth_company_insert(struct berth_db *db, const struct berth_company *company,
                         struct berth_error *err);
/* *out is NULL when there is none. */
int berth_company_by_name(struct berth_db *db, struct berth_arena *arena, const char *name,
                          struct berth_company **out, struct berth_error *err);
/* A list of struct berth_company by name. */
int berth_company_select(struct berth_db *db, struct berth_arena *arena, struct berth_list *out,
                         struct berth_error *err);
int berth_company_by_id(struct berth_db *db, struct berth_arena *arena, const char *id,
                        struct berth_company **out, struct berth_error *err);
#endif
