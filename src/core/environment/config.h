/* SPDX-License-Identifier: Apache-2.0
 * src/core/environment/config.h - checks and normalises the config of an environment. A built-in
 * driver judges its own config; what all providers and plugins share is checked here. */
#ifndef BERTH_CORE_ENVIRONMENT_CONFIG_H
#define BERTH_CORE_ENVIRONMENT_CONFIG_H

#include "base/issues.h"
#include "base/json.h"
#include "store/environment.h"

struct berth_registry;

/* Normalises the config. Adds an issue for each fault and returns the first one (UNPROCESSABLE). A
 * config that is not an object counts as {}. The caller owns *out. */
int berth_config_normalise(const struct berth_registry *registry,
                           enum berth_environment_driver driver, const struct berth_json *config,
                           enum berth_config_use use, struct berth_issues *issues,
                           struct berth_json **out, struct berth_error *err);

/* Finds a driver by its word. Returns UNPROCESSABLE for an unknown one. */
int berth_config_driver(const char *name, enum berth_environment_driver *out,
                        struct berth_error *err);

/* Returns why others than operators of the instance may not use the config, because its places are
 * reached with credentials of this process. NULL: every caller may. */
const char *berth_config_refusal(const struct berth_registry *registry, const char *driver,
                                 const struct berth_json *normalised);

/* Returns a JSON schema that names and titles the members a config must have, or NULL. */
const char *berth_config_schema(const struct berth_registry *registry,
                                enum berth_environment_driver driver);

/* Computes SHA-256 over driver and config with sorted keys. Parked places are matched by it. */
int berth_config_fingerprint(struct berth_arena *arena, enum berth_environment_driver driver,
                             const char *canonical_config, const char **out,
                             struct berth_error *err);
#endif
