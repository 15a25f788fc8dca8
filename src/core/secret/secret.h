/* SPDX-License-Identifier: Apache-2.0
 * src/core/secret/secret.h - what environments and the programs need besides berth/secret.h. */
#ifndef BERTH_CORE_SECRET_SECRET_H
#define BERTH_CORE_SECRET_SECRET_H

#include <berth/secret.h>

#include "core/activity.h"
#include "core/berth.h"
#include "crypto/locked.h"
#include "store/secret.h"

void berth_secret_json(struct berth_json_writer *w, const struct berth_secret *secret);
void berth_binding_json(struct berth_json_writer *w, const struct berth_binding *binding);
void berth_secret_event_json(struct berth_json_writer *w, const struct berth_secret_event *event);

/* Lists a part of the secrets, as berth_secret_list does. */
int berth_secret_list_page(struct berth *b, struct berth_arena *arena, const char *company_id,
                           const struct berth_page *page, struct berth_list *out,
                           struct berth_error *err);

/* Tells whether berth_secret_resolve would find a right to resolve the secret: a binding, or the
 * capture of a standing lease. */
int berth_secret_may_resolve(struct berth *b, const struct berth_resolve_request *request,
                             bool *allowed, struct berth_error *err);

/* --- what secret.c, resolve.c and rekey.c share --- */

/* Returns the context that a version is sealed with. A sealed value that is moved to another row
 * cannot be opened. NULL: memory ran out. */
const char *berth_secret_context(struct berth_arena *arena, const char *company_id,
                                 const struct berth_secret_version *v);
/* Loads a secret. NOT_FOUND: it does not exist. UNPROCESSABLE: it belongs to another company. */
int berth_secret_of_company(struct berth_db *db, struct berth_arena *arena, const char *company_id,
                            const char *secret_id, enum berth_row_lock lock,
                            struct berth_secret **out, struct berth_error *err);

/* --- for environments, in their own transaction --- */

/* Inserts the row and its first version. */
int berth_secret_add(struct berth *b, struct berth_db *db, struct berth_arena *arena,
                     const struct berth_secret *row, const void *value, size_t len,
                     struct berth_error *err);
/* Replaces all bindings of the target by these (struct berth_binding). NOT_FOUND: a secret does not
 * exist. UNPROCESSABLE: a secret belongs to another company. */
int berth_secret_bind(struct berth_db *db, struct berth_arena *arena,
                      const struct berth_binding *target, const struct berth_list *bindings,
                      struct berth_error *err);
/* Deletes the secrets that the environment made and that have no bindings and no captures left.
 * With `gone` the environment is being deleted, and the remaining secrets stop belonging to it. */
int berth_secret_drop_unused(struct berth_db *db, struct berth_arena *arena,
                             const char *environment_id, bool gone, const struct berth_actor *actor,
                             struct berth_error *err);
#endif
