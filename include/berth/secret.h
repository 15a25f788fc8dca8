/* SPDX-License-Identifier: Apache-2.0
 * include/berth/secret.h - values that only their key opens: made, changed, handed out to those
 * who are bound to them, ended. */
#ifndef BERTH_SECRET_H
#define BERTH_SECRET_H

#include <berth/common.h>

enum berth_secret_status {
    BERTH_SECRET_ACTIVE,
    BERTH_SECRET_DISABLED, /* given to nobody */
    BERTH_SECRET_ARCHIVED,
};

struct berth_secret;
BERTH_API const char *berth_secret_id(const struct berth_secret *secret);
BERTH_API const char *berth_secret_company_id(const struct berth_secret *secret);
BERTH_API const char *berth_secret_name(const struct berth_secret *secret);
BERTH_API enum berth_secret_status berth_secret_status(const struct berth_secret *secret);
BERTH_API int64_t berth_secret_latest_version(const struct berth_secret *secret);
/* Everything but the value, with the field names of the API. */
BERTH_API const char *berth_secret_to_json(struct berth_arena *arena,
                                           const struct berth_secret *secret);

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

/* A value is any bytes but none: 1 byte to 1 MiB. CONFLICT: the name or key is taken. */
BERTH_API int berth_secret_create(struct berth *b, struct berth_arena *arena,
                                  const struct berth_secret_input *input, const void *value,
                                  size_t len, struct berth_secret **out, struct berth_error *err);
/* A new version; the one before is kept, and can be asked for by its number. */
BERTH_API int berth_secret_rotate(struct berth *b, struct berth_arena *arena, const char *id,
                                  const void *value, size_t len, const struct berth_actor *actor,
                                  struct berth_secret **out, struct berth_error *err);
/* Name, description, status. A secret that is not active is given to nobody. */
BERTH_API int berth_secret_update(struct berth *b, struct berth_arena *arena, const char *id,
                                  const struct berth_secret_input *input, struct berth_secret **out,
                                  struct berth_error *err);
/* CONFLICT while a config names it, or a lease that is open, parked or owing captured it. */
BERTH_API int berth_secret_delete(struct berth *b, struct berth_arena *arena, const char *id,
                                  const struct berth_actor *actor, struct berth_secret **out,
                                  struct berth_error *err);
BERTH_API int berth_secret_get(struct berth *b, struct berth_arena *arena, const char *id,
                               struct berth_secret **out, struct berth_error *err);
/* A list of struct berth_secret by name; company_id NULL: `default`. */
BERTH_API int berth_secret_list(struct berth *b, struct berth_arena *arena, const char *company_id,
                                struct berth_list *out, struct berth_error *err);

/* Which configs name it: a list of struct berth_binding. Who asked for its value, newest first,
 * also when it is no more: a list of struct berth_secret_event, from behind the one of the id
 * `before`, or 0. */
struct berth_binding;
struct berth_secret_event;
BERTH_API int berth_secret_usage(struct berth *b, struct berth_arena *arena, const char *id,
                                 struct berth_list *out, struct berth_error *err);
BERTH_API int berth_secret_events(struct berth *b, struct berth_arena *arena, const char *id,
                                  int64_t before, int64_t limit, struct berth_list *out,
                                  struct berth_error *err);
BERTH_API const char *berth_binding_to_json(struct berth_arena *arena,
                                            const struct berth_binding *binding);
BERTH_API const char *berth_secret_event_to_json(struct berth_arena *arena,
                                                 const struct berth_secret_event *event);

/* Memory that is kept from swap and core files, and zeroed when it is cleared. */
struct berth_locked {
    char *bytes; /* a NUL follows the last; NULL: nothing was made */
    size_t len, cap;
};
#define BERTH_LOCKED_INIT                                                                          \
    {                                                                                              \
        0                                                                                          \
    }
BERTH_API void berth_locked_clear(struct berth_locked *locked);

/* Who asks for a value, and where it stands in their config. */
struct berth_resolve_request {
    const char *company_id, *secret_id;
    int64_t version; /* 0: the latest */
    const char *consumer_type, *consumer_id, *config_path;
    const char *lease_id;          /* that captured it: then no binding is asked for; or NULL */
    const char *issue_id, *run_id; /* for the record; or NULL */
    const struct berth_actor *actor;
};
/* Answers the value (the caller clears it), or refuses; either is on record before this returns. */
BERTH_API int berth_secret_resolve(struct berth *b, const struct berth_resolve_request *request,
                                   struct berth_locked *out, struct berth_error *err);

struct berth_key_change {
    char from[40], to[40]; /* key ids; the same when an interrupted change was finished */
    int64_t versions;      /* sealed anew */
};
/* Seals everything with a new key. Interrupted anywhere, all values stay readable, and the next
 * call goes on where it stopped. */
BERTH_API int berth_secret_change_key(struct berth *b, const struct berth_actor *actor,
                                      struct berth_key_change *out, struct berth_error *err);
#endif
