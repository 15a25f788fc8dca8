/* SPDX-License-Identifier: Apache-2.0
 * include/berth/company.h - the tenant: environments, runs and secrets belong to one. */
#ifndef BERTH_COMPANY_H
#define BERTH_COMPANY_H

#include <berth/common.h>

struct berth_company;
BERTH_API const char *berth_company_id(const struct berth_company *company);
BERTH_API const char *berth_company_name(const struct berth_company *company);
BERTH_API const char *berth_company_to_json(struct berth_arena *arena,
                                            const struct berth_company *company);

/* CONFLICT: the name is taken. */
BERTH_API int berth_company_create(struct berth *b, struct berth_arena *arena, const char *name,
                                   const struct berth_actor *actor, struct berth_company **out,
                                   struct berth_error *err);
BERTH_API int berth_company_get(struct berth *b, struct berth_arena *arena, const char *id,
                                struct berth_company **out, struct berth_error *err);
/* A list of struct berth_company by name. */
BERTH_API int berth_company_list(struct berth *b, struct berth_arena *arena, struct berth_list *out,
                                 struct berth_error *err);
#endif
