/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/parking.h - when a parked place serves a config, and what a lease's metadata says.
 */
#ifndef BERTH_CORE_LEASE_PARKING_H
#define BERTH_CORE_LEASE_PARKING_H

#include <stdbool.h>

#include "base/json.h"
#include "store/lease.h"

struct berth_registry;
struct berth_route;

/* Returns whether the lease's place serves the config. Compares fingerprints when the row captured
 * its config. Otherwise compares the metadata: the provider, reuseLease exactly true, and an equal
 * value for every other key of the config. */
bool berth_parking_matches(const struct berth_json *config, const char *fingerprint,
                           const struct berth_lease *lease);
/* Returns the first of the leases that matches, or NULL. */
const struct berth_lease *berth_parking_find(const struct berth_json *config,
                                             const char *fingerprint,
                                             const struct berth_list *leases);

/* Builds a config from a lease's metadata; the caller frees it. Strict: only for a built-in
 * provider that accepts the config, and with that provider's fields alone. Loose: for other
 * providers too, with every field. *out is NULL when no config can be built. */
int berth_parking_config_strict(const struct berth_registry *registry, struct berth_arena *arena,
                                const struct berth_json *metadata, struct berth_json **out,
                                struct berth_error *err);
int berth_parking_config_loose(const struct berth_registry *registry, struct berth_arena *arena,
                               const struct berth_json *metadata, struct berth_json **out,
                               struct berth_error *err);

/* Builds the public metadata of a lease. The ledger's own keys win over the config's, and the
 * config's keys win over the provider's. */
int berth_lease_metadata(struct berth_arena *arena, const struct berth_route *route,
                         const char *driver, const char *workspace_mode,
                         const struct berth_json *config, const struct berth_json *provider_words,
                         const char **out, struct berth_error *err);
#endif
