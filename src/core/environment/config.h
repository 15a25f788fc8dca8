/* SPDX-License-Identifier: Apache-2.0
 * src/core/environment/config.h - what an environment's config may say, driver by driver. */
#ifndef BERTH_CORE_ENVIRONMENT_CONFIG_H
#define BERTH_CORE_ENVIRONMENT_CONFIG_H

#include "base/issues.h"
#include "base/json.h"
#include "store/environment.h"

struct berth_registry;

/* All faults are in `issues`, and the first is the error (UNPROCESSABLE). What is not an object
 * counts as {}. *out is the normalised object, the caller's. */
int berth_config_normalise(const struct berth_registry *registry,
                           enum berth_environment_driver driver, const struct berth_json *config,
                           enum berth_config_use use, struct berth_issues *issues,
                           struct berth_json **out, struct berth_error *err);

/* Drivers by name; UNPROCESSABLE for one that nobody knows. */
int berth_config_driver(const char *name, enum berth_environment_driver *out,
                        struct berth_error *err);

/* Has it what its places are reached with? One without uses what this process has. */
bool berth_config_has_keys(enum berth_environment_driver driver,
                           const struct berth_json *normalised);

/* SHA-256 over driver and config with sorted keys: parked places are matched by it. */
int berth_config_fingerprint(struct berth_arena *arena, enum berth_environment_driver driver,
                             const char *canonical_config, const char **out,
                             struct berth_error *err);
#endif
