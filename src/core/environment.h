/* SPDX-License-Identifier: Apache-2.0
 * src/core/environment.h - what the sweep and the programs need besides berth/environment.h. */
#ifndef BERTH_CORE_ENVIRONMENT_H
#define BERTH_CORE_ENVIRONMENT_H

#include <berth/environment.h>

#include "base/issues.h"
#include "core/activity.h"
#include "core/berth.h"
#include "core/config.h"
#include "store/environment.h"

/* The last step of a delete, also taken by the sweep; *deleted false: leases stand. */
int berth_environment_finish_delete(struct berth *b, const char *id,
                                    const struct berth_actor *actor, bool *deleted,
                                    struct berth_error *err);
void berth_environment_json(struct berth_json_writer *w, const struct berth_environment *e);
/* For those who may know that it is there, and not how it is configured. */
void berth_environment_json_redacted(struct berth_json_writer *w,
                                     const struct berth_environment *e);
#endif
