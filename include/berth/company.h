/* SPDX-License-Identifier: Apache-2.0
 * include/berth/company.h - companies: the tenants of a store. Every environment, run and secret
 * belongs to one company. */
#ifndef BERTH_COMPANY_H
#define BERTH_COMPANY_H

#include <berth/common.h>

struct berth_company;
/* The getters return text that lives as long as the company. */
BERTH_API const char *berth_company_id(const struct berth_company *company);
BERTH_API const char *berth_company_name(const struct berth_company *company);
/* Returns the company as JSON, with the field names of the HTTP API. NULL: out of memory. */
BERTH_API const char *berth_company_to_json(struct berth_arena *arena,
                                            const struct berth_company *company);

/* Creates a company. CONFLICT: another company has this name. */
BERTH_API int berth_company_create(struct berth *b, struct berth_arena *arena, const char *name,
                                   const struct berth_actor *actor, struct berth_company **out,
                                   struct berth_error *err);
/* Loads a company. NOT_FOUND: no company has this id. */
BERTH_API int berth_company_get(struct berth *b, struct berth_arena *arena, const char *id,
                                struct berth_company **out, struct berth_error *err);
/* Lists all companies as struct berth_company, sorted by name. */
BERTH_API int berth_company_list(struct berth *b, struct berth_arena *arena, struct berth_list *out,
                                 struct berth_error *err);
#endif
