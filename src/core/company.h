/* SPDX-License-Identifier: Apache-2.0
 * src/core/company.h - what the programs need besides berth/company.h. */
#ifndef BERTH_CORE_COMPANY_H
#define BERTH_CORE_COMPANY_H

#include <berth/company.h>

#include "base/json.h"
#include "core/berth.h"
#include "store/company.h"

void berth_company_json(struct berth_json_writer *w, const struct berth_company *company);
/* Lists a part of the companies, as berth_company_list does. */
int berth_company_list_page(struct berth *b, struct berth_arena *arena,
                            const struct berth_page *page, struct berth_list *out,
                            struct berth_error *err);
#endif
