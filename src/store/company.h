/* SPDX-License-Identifier: Apache-2.0
 * src/store/company.h - rows of companies, the tenants. */
#ifndef BERTH_STORE_COMPANY_H
#define BERTH_STORE_COMPANY_H

#include <stdint.h>

#include "store/row.h"

struct berth_company {
    const char *id, *name;
    int64_t created_at_ms, updated_at_ms;
};

/* Does nothing when a company with this name or id exists. */
int berth_company_insert(struct berth_db *db, const struct berth_company *company,
                         struct berth_error *err);
/* Load one company. *out is NULL when there is no such row. */
int berth_company_by_name(struct berth_db *db, struct berth_arena *arena, const char *name,
                          struct berth_company **out, struct berth_error *err);
int berth_company_by_id(struct berth_db *db, struct berth_arena *arena, const char *id,
                        struct berth_company **out, struct berth_error *err);
/* Lists struct berth_company, sorted by name. */
int berth_company_select(struct berth_db *db, struct berth_arena *arena,
                         const struct berth_page *page, struct berth_list *out,
                         struct berth_error *err);
#endif
