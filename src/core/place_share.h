/* SPDX-License-Identifier: Apache-2.0
 * src/core/place_share.h - finds the share of the provider threads (os/shares.h) that a call to a
 * place uses. A provider has one share for each company. Places of a driver without a provider,
 * such as ssh, have nothing in common, so each environment counts as a provider of its own. A
 * driver that makes nothing outside the ledger has no provider, and never waits behind the others.
 */
#ifndef BERTH_CORE_PLACE_SHARE_H
#define BERTH_CORE_PLACE_SHARE_H

#include <stdbool.h>

#include "core/berth.h"
#include "os/shares.h"
#include "store/lease.h"

/* Opens the share for an environment. The caller closes it. */
int berth_place_share_environment(struct berth *b, const struct berth_environment *e,
                                  struct berth_share **out, struct berth_error *err);
/* Opens the share for a lease. The caller closes it. */
int berth_place_share_lease(struct berth *b, const struct berth_lease *l, struct berth_share **out,
                            struct berth_error *err);
/* Opens the share for a config that is not stored yet. The caller closes it. */
int berth_place_share_config(struct berth *b, const char *company_id, const char *driver,
                             const char *config_json, struct berth_share **out,
                             struct berth_error *err);

/* Returns whether an acquire in the environment calls nothing but the store. */
bool berth_place_is_ledger_only(struct berth *b, const struct berth_environment *e);
#endif
