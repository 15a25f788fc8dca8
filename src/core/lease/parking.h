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

/* By the fingerprint where the row captured its config, else by the metadata: provider,
 * reuseLease exactly true, and every other key of the config with an equal value. */
bool berth_parking_matches(const struct berth_json *config, const char *fingerprint,
                           const struct berth_lease *lease);
/* The first of the leases that matches, or NULL. */
const struct berth_lease *berth_parking_find(const struct berth_json *config,
                                             const char *fingerprint,
                                             const struct berth_list *leases);

/* A config from a lease's metadata, the caller's. Strict: only for a provider built in here that
 * accepts it, and just its own fields. Loose: for the others too, with every field. *out is NULL
 * when there is none. */
int berth_parking_config_strict(const struct berth_registry *registry, struct berth_arena *arena,
                                const struct berth_json *metadata, struct berth_json **out,
                                struct berth_error *err);
int berth_parking_config_loose(const struct berth_registry *registry, struct berth_arena *arena,
                               const struct berth_json *metadata, struct berth_json **out,
                               struct berth_error *err);

/* The metadata of a lease as others read it. The ledger's own keys win over the config's, and what
 * the config sets wins over the provider's words. */
int berth_lease_metadata(struct berth_arena *arena, const struct berth_route *route,
                         const char *driver, const char *workspace_mode,
                         const struct berth_json *config, const struct berth_json *provider_words,
                         const char **out, struct berth_error *err);
#endif
