/* SPDX-License-Identifier: Apache-2.0
 * src/core/company.h - what the programs need besides berth/company.h. */
#ifndef BERTH_CORE_COMPANY_H
#define BERTH_CORE_COMPANY_H

#include <berth/company.h>

#include "base/json.h"
#include "core/berth.h"
#include "store/company.h"

void berth_company_json(struct berth_json_writer *w, const struct berth_company *company);
#endif
