/* SPDX-License-Identifier: Apache-2.0
 * src/core/audit.h - asks the provider of an environment for places that nobody answers for. */
#ifndef BERTH_CORE_AUDIT_H
#define BERTH_CORE_AUDIT_H

#include <berth/environment.h>

#include "core/berth.h"

struct berth_audit_report {
    int found;   /* places of ours that were forgotten; the ledger owes them now */
    int foreign; /* places that carry a label which is not ours: left alone */
};
/* What went wrong is logged. */
void berth_audit(struct berth *b, const struct berth_environment *e,
                 struct berth_audit_report *out);
#endif
