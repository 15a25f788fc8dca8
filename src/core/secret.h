/* SPDX-License-Identifier: Apache-2.0
 * src/core/secret.h - what environments and the programs need besides berth/secret.h. */
#ifndef BERTH_CORE_SECRET_H
#define BERTH_CORE_SECRET_H

#include <berth/secret.h>

#include "core/activity.h"
#include "core/berth.h"
#include "crypto/locked.h"
#include "store/secret.h"

/* Lists of struct berth_binding and struct berth_secret_event, newest first. */
int berth_secret_usage(struct berth *b, struct berth_arena *arena, const char *id,
                       struct berth_list *out, struct berth_error *err);
int berth_secret_events(struct berth *b, struct berth_arena *arena, const char *id, int64_t limit,
                        struct berth_list *out, struct berth_error *err);
void berth_secret_json(struct berth_json_writer *w, const struct berth_secret *secret);

/* --- for environments, in their own transaction --- */

/* The row with its first version. */
int berth_secret_add(struct berth *b, struct berth_db *db, struct berth_arena *arena,
                     const struct berth_secret *row, const void *value, size_t len,
                     struct berth_error *err);
/* Replaces all bindings of the target by these (of struct berth_binding, all of one company).
 * NOT_FOUND, UNPROCESSABLE: a secret is not there or another company's. */
int berth_secret_bind(struct berth_db *db, struct berth_arena *arena,
                      const struct berth_binding *target, const struct berth_list *bindings,
                      struct berth_error *err);
/* Those that the environment made, and nobody else is bound to or has captured, go. With `gone`
 * the environment goes too, and lets the rest be. */
int berth_secret_drop_unused(struct berth_db *db, struct berth_arena *arena,
                             const char *environment_id, bool gone, const struct berth_actor *actor,
                             struct berth_error *err);
#endif
