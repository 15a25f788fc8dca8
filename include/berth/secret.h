/* SPDX-License-Identifier: Apache-2.0
 * include/berth/secret.h - secrets: values that the store keeps encrypted and hands out to the
 * configs and runs that are bound to them. */
#ifndef BERTH_SECRET_H
#define BERTH_SECRET_H

#include <berth/common.h>

enum berth_secret_status {
    BERTH_SECRET_ACTIVE,
    BERTH_SECRET_DISABLED, /* its value is not handed out */
    BERTH_SECRET_ARCHIVED, /* its value is not handed out */
};

struct berth_secret;
/* The getters return text that lives as long as the secret. */
BERTH_API const char *berth_secret_id(const struct berth_secret *secret);
BERTH_API const char *berth_secret_company_id(const struct berth_secret *secret);
BERTH_API const char *berth_secret_name(const struct berth_secret *secret);
BERTH_API enum berth_secret_status berth_secret_status(const struct berth_secret *secret);
BERTH_API int64_t berth_secret_latest_version(const struct berth_secret *secret);
/* Returns everything but the value as a JSON object with the field names of the HTTP API. NULL: out
 * of memory. */
BERTH_API const char *berth_secret_to_json(struct berth_arena *arena,
                                           const struct berth_secret *secret);

/* Fields of struct berth_secret_input, as bits. */
enum berth_secret_field {
    BERTH_SECRET_NAME = 1 << 0,
    BERTH_SECRET_DESCRIPTION = 1 << 1,
    BERTH_SECRET_STATUS = 1 << 2,
};

/* The fields of a secret to create or update. */
struct berth_secret_input {
    unsigned fields;        /* update: bits of enum berth_secret_field, the fields to change */
    const char *company_id; /* create: NULL is the company `default` */
    const char *name;
    const char *key; /* create: the name for programs; NULL: derived from `name` */
    const char *description;
    enum berth_secret_status status; /* update */
    const struct berth_actor *actor;
};

/* Creates a secret with 1 byte to 64 KiB of any content. The key is stored in lower case, with each
 * run of other characters than letters, digits, "_", "." and "-" replaced by one "-". CONFLICT:
 * another secret of the company has this name or key. */
BERTH_API int berth_secret_create(struct berth *b, struct berth_arena *arena,
                                  const struct berth_secret_input *input, const void *value,
                                  size_t len, struct berth_secret **out, struct berth_error *err);
/* Stores a new version of the value. Earlier versions are kept and can be read by their number.
 * UNPROCESSABLE: the secret is not active. */
BERTH_API int berth_secret_rotate(struct berth *b, struct berth_arena *arena, const char *id,
                                  const void *value, size_t len, const struct berth_actor *actor,
                                  struct berth_secret **out, struct berth_error *err);
/* Changes the name, description or status of a secret. CONFLICT: as in berth_secret_create. */
BERTH_API int berth_secret_update(struct berth *b, struct berth_arena *arena, const char *id,
                                  const struct berth_secret_input *input, struct berth_secret **out,
                                  struct berth_error *err);
/* Deletes a secret with all its versions. *out receives the secret as it was. CONFLICT: a config
 * or run uses it, or a lease that is open, parked or owing clean-up was acquired with it. */
BERTH_API int berth_secret_delete(struct berth *b, struct berth_arena *arena, const char *id,
                                  const struct berth_actor *actor, struct berth_secret **out,
                                  struct berth_error *err);
/* Loads a secret without its value. NOT_FOUND: no secret has this id. */
BERTH_API int berth_secret_get(struct berth *b, struct berth_arena *arena, const char *id,
                               struct berth_secret **out, struct berth_error *err);
/* Lists the secrets of a company as struct berth_secret, sorted by name. company_id NULL: the
 * company `default`. */
BERTH_API int berth_secret_list(struct berth *b, struct berth_arena *arena, const char *company_id,
                                struct berth_list *out, struct berth_error *err);

struct berth_binding;      /* one config or run that uses a secret */
struct berth_secret_event; /* one recorded request for the value of a secret */
/* Lists the configs and runs that use a secret as struct berth_binding. */
BERTH_API int berth_secret_usage(struct berth *b, struct berth_arena *arena, const char *id,
                                 struct berth_list *out, struct berth_error *err);
/* Lists the requests for the value as struct berth_secret_event, newest first, also for a deleted
 * secret. `before` is the id of the last event of the previous page; 0: start with the newest. */
BERTH_API int berth_secret_events(struct berth *b, struct berth_arena *arena, const char *id,
                                  int64_t before, int64_t limit, struct berth_list *out,
                                  struct berth_error *err);
/* Each returns a JSON object with the field names of the HTTP API. NULL: out of memory. */
BERTH_API const char *berth_binding_to_json(struct berth_arena *arena,
                                            const struct berth_binding *binding);
BERTH_API const char *berth_secret_event_to_json(struct berth_arena *arena,
                                                 const struct berth_secret_event *event);

/* Memory for a secret value. It is kept out of core dumps and child processes, out of swap as far
 * as the limit on locked memory allows, and is zeroed when it is cleared. */
struct berth_locked {
    char *bytes;     /* followed by a NUL; NULL: empty */
    size_t len, cap; /* length of the value, without the NUL; capacity */
};
#define BERTH_LOCKED_INIT                                                                          \
    {                                                                                              \
        0                                                                                          \
    }
/* Zeroes and frees the memory. An empty `locked` is allowed. */
BERTH_API void berth_locked_clear(struct berth_locked *locked);

/* A request for the value of a secret. */
struct berth_resolve_request {
    const char *company_id, *secret_id; /* company_id NULL: the company `default` */
    int64_t version;                    /* 0: the latest */
    /* The bound consumer, such as "environment" and its id, and the field that names the secret.
     * All three are required. */
    const char *consumer_type, *consumer_id, *config_path;
    /* A lease that was acquired with this secret, which then needs no binding; or NULL. */
    const char *lease_id;
    const char *issue_id, *run_id; /* recorded with the request; or NULL */
    const struct berth_actor *actor;
};
/* Decrypts the value of a secret into *out, which the caller clears with berth_locked_clear. The
 * request is recorded before the value is handed out; a value whose request cannot be recorded is
 * not handed out. UNPROCESSABLE: the consumer is not bound to the secret, or the secret is not
 * active. */
BERTH_API int berth_secret_resolve(struct berth *b, const struct berth_resolve_request *request,
                                   struct berth_locked *out, struct berth_error *err);

/* The result of berth_secret_change_key. */
struct berth_key_change {
    char from[40], to[40]; /* key ids; equal when this call finished an interrupted change */
    int64_t versions;      /* the number of versions that were encrypted again */
};
/* Encrypts all secrets of the store with a new key. An interrupted change loses nothing: all values
 * stay readable, and the next call continues it. CONFLICT: some versions cannot be decrypted (all
 * others have the new key), or another process changed the key at the same time. */
BERTH_API int berth_secret_change_key(struct berth *b, const struct berth_actor *actor,
                                      struct berth_key_change *out, struct berth_error *err);
#endif
