/* SPDX-License-Identifier: Apache-2.0
 * src/core/secret.h - values that only their key opens: made, changed, handed out to those who are
 * bound to them, ended. Every answer but a value lives in the arena that is handed in. */
#ifndef BERTH_CORE_SECRET_H
#define BERTH_CORE_SECRET_H

#include "core/activity.h"
#include "core/berth.h"
#include "crypto/locked.h"
#include "store/secret.h"

enum berth_secret_field {
    BERTH_SECRET_NAME = 1 << 0,
    BERTH_SECRET_DESCRIPTION = 1 << 1,
    BERTH_SECRET_STATUS = 1 << 2,
};

struct berth_secret_input {
    unsigned fields;        /* update: of enum berth_secret_field */
    const char *company_id; /* create: NULL is the company `default` */
    const char *name;
    const char *key; /* create: what programs call it; NULL: made from the name */
    const char *description;
    enum berth_secret_status status;
    const struct berth_actor *actor;
};

/* A value is any bytes but none: 1 to BERTH_SECRET_BYTES_MAX of them. CONFLICT: the name or key is
 * taken. */
int berth_secret_create(struct berth *b, struct berth_arena *arena,
                        const struct berth_secret_input *input, const void *value, size_t len,
                        struct berth_secret **out, struct berth_error *err);
/* A new version; the one before is kept, and can be asked for by its number. */
int berth_secret_rotate(struct berth *b, struct berth_arena *arena, const char *id,
                        const void *value, size_t len, const struct berth_actor *actor,
                        struct berth_secret **out, struct berth_error *err);
/* Name, description, status. A secret that is not active is given to nobody. */
int berth_secret_update(struct berth *b, struct berth_arena *arena, const char *id,
                        const struct berth_secret_input *input, struct berth_secret **out,
                        struct berth_error *err);
/* CONFLICT while a config names it, or a lease that is open, parked or owing captured it. */
int berth_secret_delete(struct berth *b, struct berth_arena *arena, const char *id,
                        const struct berth_actor *actor, struct berth_secret **out,
                        struct berth_error *err);

int berth_secret_get(struct berth *b, struct berth_arena *arena, const char *id,
                     struct berth_secret **out, struct berth_error *err);
/* Lists of struct berth_secret (company_id NULL: `default`), berth_binding, berth_secret_event. */
int berth_secret_list(struct berth *b, struct berth_arena *arena, const char *company_id,
                      struct berth_list *out, struct berth_error *err);
int berth_secret_usage(struct berth *b, struct berth_arena *arena, const char *id,
                       struct berth_list *out, struct berth_error *err);
int berth_secret_events(struct berth *b, struct berth_arena *arena, const char *id, int64_t limit,
                        struct berth_list *out, struct berth_error *err);
void berth_secret_json(struct berth_json_writer *w, const struct berth_secret *secret);

/* Who asks for a value, and where it stands in their config. */
struct berth_resolve_request {
    const char *company_id, *secret_id;
    int64_t version; /* 0: the latest */
    const char *consumer_type, *consumer_id, *config_path;
    const char *lease_id;          /* that captured it: then no binding is asked for; or NULL */
    const char *issue_id, *run_id; /* for the record; or NULL */
    const struct berth_actor *actor;
};
/* Answers the value, or refuses; either is on record before this returns. */
int berth_secret_resolve(struct berth *b, const struct berth_resolve_request *request,
                         struct berth_locked *out, struct berth_error *err);

struct berth_key_change {
    char from[40], to[40]; /* key ids; the same when an interrupted change was finished */
    int64_t versions;      /* sealed anew */
};
/* Seals everything with a new key. Interrupted anywhere, all values stay readable, and the next
 * call goes on where it stopped. */
int berth_secret_change_key(struct berth *b, const struct berth_actor *actor,
                            struct berth_key_change *out, struct berth_error *err);

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
                             const char *environment_id, bool gone, struct berth_error *err);
#endif
