/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/check.h - the conformance suite for workers in any language. It drives a worker as a
 * host would, and as a bad host would. It is part of the program `berth`, not of libberth. */
#ifndef BERTH_PLUGIN_CHECK_H
#define BERTH_PLUGIN_CHECK_H

#include <stdbool.h>

#include <berth/error.h>

struct berth_engine;
struct berth_json;

struct berth_check_request {
    const char *package;
    const struct berth_json *manifest; /* as the package has it */
    const char *config_json;           /* for its first driver, with secrets resolved */
    const char *scratch;               /* a directory for its state */
    bool unconfined;                   /* it may run where it cannot be confined */
    const char *const *only;           /* names of checks, up to a NULL; NULL: all */
};
enum berth_check_outcome {
    BERTH_CHECK_PASSED,
    BERTH_CHECK_FAILED,
    BERTH_CHECK_SKIPPED, /* the worker does not offer what the check needs */
};
struct berth_check_result {
    const char *name, *about; /* `about` says in a few words what the check looks at */
    enum berth_check_outcome outcome;
    const char *detail; /* why it did not pass; "" when it passed */
};
/* Runs the checks in turn and calls `each` after each of them. Returns INVALID when `only` names a
 * check that does not exist. */
int berth_plugin_check(struct berth_engine *engine, const struct berth_check_request *request,
                       void (*each)(void *ctx, const struct berth_check_result *result), void *ctx,
                       struct berth_error *err);
#endif
