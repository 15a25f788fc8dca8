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

/* A value that came in where a reference should stand. */
struct berth_pasted {
    const char *path, *field; /* field: the path as part of a name */
    const char *secret_id;    /* of the secret to be made */
    struct berth_locked value;
};

/* A list of paths: those of `properties` whose format is "secret-ref", also inside allOf, anyOf
 * and oneOf. */
int berth_secret_ref_paths(struct berth_arena *arena, const struct berth_json *schema,
                           struct berth_list *out, struct berth_error *err);
/* A list of struct berth_secret_ref. */
int berth_secret_refs_of(const struct berth_registry *registry, struct berth_arena *arena,
                         const char *driver, const struct berth_json *config,
                         struct berth_list *out, struct berth_error *err);
/* Takes the pasted values out of the config and puts ids there; struct berth_pasted are added to
 * the list, which berth_pasted_clear ends. Blank values are removed. */
int berth_secret_refs_take(const struct berth_registry *registry, struct berth_arena *arena,
                           const char *driver, struct berth_json *config, struct berth_list *out,
                           struct berth_error *err);
void berth_pasted_clear(struct berth_list *pasted);

/* The config as text, with the values (one for each reference) in their places. UNPROCESSABLE: a
 * value is no text. */
int berth_secret_refs_fill(const struct berth_json *config, const struct berth_list *references,
                           const struct berth_locked *values, struct berth_locked *out,
                           struct berth_error *err);
/* Removes what stands at the references' places, and objects that are empty then. */
void berth_secret_refs_strip(struct berth_json *object, const struct berth_list *references);
#endif
