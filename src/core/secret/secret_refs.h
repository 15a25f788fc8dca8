/* SPDX-License-Identifier: Apache-2.0
 * src/core/secret/secret_refs.h - where secrets stand in a config. A stored config holds their ids;
 * what a driver gets holds their values. A provider's schema says where (format "secret-ref"). */
#ifndef BERTH_CORE_SECRET_SECRET_REFS_H
#define BERTH_CORE_SECRET_SECRET_REFS_H

#include "base/json.h"
#include "core/driver.h"
#include "crypto/locked.h"

struct berth_secret_ref {
    const char *path;   /* as bindings know it: "apiKey", "auth.token" */
    const char *put_at; /* where the driver wants the value */
    const char *secret_id;
    int64_t version; /* 0: the latest */
};

/* A secret's value that a config has in place of a reference. */
struct berth_pasted {
    const char *path, *field; /* field: the path as part of a name */
    const char *secret_id;    /* of the secret to be made */
    struct berth_locked value;
};

/* Lists the paths of the schema's properties whose format is "secret-ref", also inside allOf, anyOf
 * and oneOf. */
int berth_secret_ref_paths(struct berth_arena *arena, const struct berth_json *schema,
                           struct berth_list *out, struct berth_error *err);
/* Returns whether a config for this driver can have references at all. */
bool berth_secret_refs_possible(const struct berth_route *route);
/* Lists the references (struct berth_secret_ref) in a config. */
int berth_secret_refs_of(const struct berth_registry *registry, struct berth_arena *arena,
                         const char *driver, const struct berth_json *config,
                         struct berth_list *out, struct berth_error *err);
/* Replaces the pasted values in the config by ids, and adds a struct berth_pasted to the list for
 * each. berth_pasted_clear wipes the list. Blank values are removed. */
int berth_secret_refs_take(const struct berth_registry *registry, struct berth_arena *arena,
                           const char *driver, struct berth_json *config, struct berth_list *out,
                           struct berth_error *err);
/* Checks the config that a worker answered to `given`. UPSTREAM: at the place of a secret it has
 * something other than `given` had there. A worker may leave a secret out. */
int berth_secret_refs_compare(const struct berth_registry *registry, struct berth_arena *arena,
                              const char *driver, const struct berth_json *given,
                              const struct berth_json *answered, struct berth_error *err);
void berth_pasted_clear(struct berth_list *pasted);

/* Writes the config as text, with one value at the place of each reference. UNPROCESSABLE: a value
 * is not text. */
int berth_secret_refs_fill(const struct berth_json *config, const struct berth_list *references,
                           const struct berth_locked *values, struct berth_locked *out,
                           struct berth_error *err);
/* Removes the values at the references' places, and objects that become empty by that. */
void berth_secret_refs_strip(struct berth_json *object, const struct berth_list *references);
#endif
