/* SPDX-License-Identifier: Apache-2.0
 * src/store/secret.h - rows of secrets, of their sealed versions, of the bindings that allow to
 * resolve them, and of resolutions. */
#ifndef BERTH_STORE_SECRET_H
#define BERTH_STORE_SECRET_H

#include <berth/secret.h>

#include "store/row.h"

enum berth_version_status {
    BERTH_VERSION_CURRENT,
    BERTH_VERSION_PREVIOUS,
    BERTH_VERSION_DISABLED,
    BERTH_VERSION_DESTROYED,
};

extern const struct berth_enum berth_secret_statuses, berth_version_statuses;

struct berth_secret {
    const char *id, *company_id, *key, *name, *description;
    enum berth_secret_status status;
    int64_t latest_version;
    const char *environment_id; /* the environment that created it; NULL: an operator did */
    const char *created_by_type, *created_by_id;
    int64_t last_resolved_at_ms, last_rotated_at_ms, created_at_ms, updated_at_ms;
    int64_t reference_count; /* number of bindings */
};

struct berth_secret_version {
    const char *secret_id;
    int64_t version;
    enum berth_version_status status;
    const char *key_id; /* the key that it is sealed with */
    const char *sealed;
    int64_t created_at_ms;
};

/* Allows a target to resolve a secret at a path of its config. */
struct berth_binding {
    const char *company_id, *secret_id, *target_type, *target_id, *config_path;
    int64_t version; /* 0: the latest */
    int64_t created_at_ms;
};

/* A resolution, allowed or refused. It outlives the secret and never holds a value. */
struct berth_secret_event {
    int64_t id;
    const char *company_id, *secret_id;
    int64_t version; /* 0: not known */
    const char *actor_type, *actor_id, *consumer_type, *consumer_id, *config_path;
    const char *issue_id, *heartbeat_run_id;
    bool success;
    const char *error_code;
    int64_t created_at_ms;
};

/* CONFLICT: the company has a secret with this name or key. */
int berth_secret_insert(struct berth_db *db, const struct berth_secret *secret,
                        struct berth_error *err);
/* *out is NULL when there is no such row. */
int berth_secret_load(struct berth_db *db, struct berth_arena *arena, const char *id,
                      enum berth_row_lock lock, struct berth_secret **out, struct berth_error *err);
/* Counts the bindings of a secret. It is a separate statement, so that it sees rows committed while
 * the statement before it waited for a lock. */
int berth_secret_count_bindings(struct berth_db *db, const char *id, int64_t *out,
                                struct berth_error *err);
/* Finds a secret of a company by name, or by key when `name` is NULL. *out is NULL when there is no
 * such row. */
int berth_secret_find(struct berth_db *db, struct berth_arena *arena, const char *company_id,
                      const char *name, const char *key, struct berth_secret **out,
                      struct berth_error *err);
/* List struct berth_secret: those of a company, sorted by name, or those that an environment
 * created. */
int berth_secret_select(struct berth_db *db, struct berth_arena *arena, const char *company_id,
                        const struct berth_page *page, struct berth_list *out,
                        struct berth_error *err);
int berth_secret_select_made_by(struct berth_db *db, struct berth_arena *arena,
                                const char *environment_id, struct berth_list *out,
                                struct berth_error *err);
/* Updates the row, except ids, creator, creation time and last_resolved_at. */
int berth_secret_save(struct berth_db *db, const struct berth_secret *secret,
                      struct berth_error *err);
/* Sets last_resolved_at. */
int berth_secret_touch(struct berth_db *db, const char *id, int64_t now_ms,
                       struct berth_error *err);
/* Deletes the secret with its versions. The caller checks first that it has no bindings: the
 * database refuses to delete a secret that has. */
int berth_secret_remove(struct berth_db *db, const char *id, struct berth_error *err);

int berth_version_insert(struct berth_db *db, const struct berth_secret_version *version,
                         struct berth_error *err);
/* *out is NULL when there is no such row. */
int berth_version_load(struct berth_db *db, struct berth_arena *arena, const char *secret_id,
                       int64_t version, struct berth_secret_version **out, struct berth_error *err);
/* Changes the status of the current version to previous. */
int berth_version_retire(struct berth_db *db, const char *secret_id, struct berth_error *err);
/* Lists and locks at most `limit` struct berth_secret_version after `after` that are sealed with
 * another key. */
int berth_version_select_other_key(struct berth_db *db, struct berth_arena *arena,
                                   const char *key_id, const struct berth_secret_version *after,
                                   int64_t limit, struct berth_list *out, struct berth_error *err);
/* Updates key_id and the sealed value. */
int berth_version_reseal(struct berth_db *db, const struct berth_secret_version *version,
                         struct berth_error *err);

/* Sets *out to the id of the key that new versions are sealed with; NULL: there is no key yet. */
int berth_secret_key_load(struct berth_db *db, struct berth_arena *arena, enum berth_row_lock lock,
                          const char **out, struct berth_error *err);
/* Inserts the first key; does nothing when the store has a key. */
int berth_secret_key_insert(struct berth_db *db, const char *key_id, int64_t now_ms,
                            struct berth_error *err);
/* Lists the ids of all keys that versions are sealed with. */
int berth_version_select_keys(struct berth_db *db, struct berth_arena *arena,
                              struct berth_list *out, struct berth_error *err);
/* Sets *out to the id of this store in the key file, which several stores may share; NULL: the
 * store has no id yet. */
int berth_store_identity_load(struct berth_db *db, struct berth_arena *arena, const char **out,
                              struct berth_error *err);
/* Does the same, after it has stored `fresh` if the store has no id. */
int berth_store_identity(struct berth_db *db, struct berth_arena *arena, const char *fresh,
                         const char **out, struct berth_error *err);
/* Replaces the key that new versions are sealed with. */
int berth_secret_key_save(struct berth_db *db, const char *key_id, int64_t now_ms,
                          struct berth_error *err);

/* Deletes all bindings of a target, before berth_binding_insert adds the new ones. */
int berth_binding_remove_all(struct berth_db *db, const char *company_id, const char *target_type,
                             const char *target_id, struct berth_error *err);
int berth_binding_insert(struct berth_db *db, const struct berth_binding *binding,
                         struct berth_error *err);
/* Lists struct berth_binding of a secret. */
int berth_binding_select(struct berth_db *db, struct berth_arena *arena, const char *secret_id,
                         struct berth_list *out, struct berth_error *err);
int berth_binding_exists(struct berth_db *db, const struct berth_binding *binding, bool *out,
                         struct berth_error *err);

/* Records what the environment is bound to now as captured by its new lease. */
int berth_lease_capture_secrets(struct berth_db *db, const char *company_id,
                                const char *environment_id, const char *lease_id,
                                struct berth_error *err);
/* Records the same for another lease, which has the config of the first one. */
int berth_lease_copy_secrets(struct berth_db *db, const char *from_lease_id, const char *lease_id,
                             struct berth_error *err);
/* Returns in *out whether the lease captured the secret at that path. */
int berth_lease_has_secret(struct berth_db *db, const char *lease_id, const char *config_path,
                           const char *secret_id, bool *out, struct berth_error *err);

/* Counts the standing leases whose captured config has the id of the secret. */
int berth_secret_count_captures(struct berth_db *db, const char *company_id, const char *secret_id,
                                int64_t *out, struct berth_error *err);

int berth_secret_event_insert(struct berth_db *db, const struct berth_secret_event *event,
                              struct berth_error *err);
/* Lists struct berth_secret_event, newest first, with id < before; 0 starts with the newest. */
int berth_secret_event_select(struct berth_db *db, struct berth_arena *arena, const char *secret_id,
                              int64_t before, int64_t limit, struct berth_list *out,
                              struct berth_error *err);
#endif
