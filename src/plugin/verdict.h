/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/verdict.h - what a worker says of a config. It goes to whoever saves that, or into the
 * store, and a worker may know secrets of others, which the one who asks does not. */
#ifndef BERTH_PLUGIN_VERDICT_H
#define BERTH_PLUGIN_VERDICT_H

#include "base/json.h"
#include "plugin/log.h"

/* *out, the caller's, is the result with all that the worker was ever told hidden in its errors and
 * warnings. `sent`: the params; what they have is the caller's own. UPSTREAM: its config tells a
 * secret of somebody else, or it is longer than any config. */
int berth_verdict_clean(struct berth_worker_log *log, const char *sent,
                        const struct berth_json *result, struct berth_json **out,
                        struct berth_error *err);
#endif
