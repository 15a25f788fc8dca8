/* SPDX-License-Identifier: Apache-2.0
 * src/store/secret.h - rows of secrets: what they are called, what they hold (sealed), who may
 * read them, who did. */
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
    const char *environment_id; /* the environment that made it, or NULL: an operator did */
    const char *created_by_type, *created_by_id;
    int64_t last_resolved_at_ms, last_rotated_at_ms, created_at_ms, updated_at_ms;
    int64_t reference_count; /* bindings; in lists */
};

struct berth_secret_version {
    const char *secret_id;
    int64_t version;
    enum berth_version_status status;
    const char *key_id; /* which key it is sealed with */
    const char *sealed;
    int64_t created_at_ms;
};

/* Who may resolve a secret, and where it stands in their config. */
struct berth_binding {
    const char *company_id, *secret_id, *target_type, *target_id, *config_path;
    int64_t version; /* 0: the latest */
    int64_t created_at_ms;
};

/* One resolution, allowed or refused. Outlives the secret; never holds a value. */
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

/* CONFLICT: the company has one of that name or key. */
int berth_secret_insert(struct berth_db *db, const struct berth_secret *secret,
                        struct berth_error *err);
/* *out is NULL when there is none. */
int berth_secret_load(struct berth_db *db, struct berth_arena *arena, const char *id,
                      enum berth_row_lock lock, struct berth_secret **out, struct berth_error *err);
/* How many configs name it. A statement of its own: after a lock was waited for, it sees what the
 * one before could not. */
int berth_secret_count_bindings(struct berth_db *db, const char *id, int64_t *out,
                                struct berth_error *err);
/* Of a company by name or key; either may be NULL. */
int berth_secret_find(struct berth_db *db, struct berth_arena *arena, const char *company_id,
                      const char *name, const char *key, struct berth_secret **out,
                      struct berth_error *err);
/* Lists of struct berth_secret: a company's by name; those that an environment made. */
int berth_secret_select(struct berth_db *db, struct berth_arena *arena, const char *company_id,
                        struct berth_list *out, struct berth_error *err);
int berth_secret_select_made_by(struct berth_db *db, struct berth_arena *arena,
                                const char *environment_id, struct berth_list *out,
                                struct berth_error *err);
/* Every column but ids and who made it. */
int berth_secret_save(struct berth_db *db, const struct berth_secret *secret,
                      struct berth_error *err);
int berth_secret_touch(struct berth_db *db, const char *id, int64_t now_ms,
                       struct berth_error *err);
/* With its versions. CONFLICT or INTERNAL while it is bound: the caller looks first. */
int berth_secret_remove(struct berth_db *db, const char *id, struct berth_error *err);

int berth_version_insert(struct berth_db *db, const struct berth_secret_version *version,
                         struct berth_error *err);
int berth_version_load(struct berth_db *db, struct berth_arena *arena, const char *secret_id,
                       int64_t version, struct berth_secret_version **out, struct berth_error *err);
/* The version that was current becomes previous; others stay what they are. */
int berth_version_retire(struct berth_db *db, const char *secret_id, struct berth_error *err);
/* A list of struct berth_secret_version behind `after` that are not sealed with that key, at most
 * `limit`, locked. */
int berth_version_select_other_key(struct berth_db *db, struct berth_arena *arena,
                                   const char *key_id, const struct berth_secret_version *after,
                                   int64_t limit, struct berth_list *out, struct berth_error *err);
int berth_version_reseal(struct berth_db *db, const struct berth_secret_version *version,
                         struct berth_error *err);

/* The id of the key that new versions are sealed with; NULL: none yet. */
int berth_secret_key_load(struct berth_db *db, struct berth_arena *arena, enum berth_row_lock lock,
                          const char **out, struct berth_error *err);
/* The first one ever; one that is there already stays. */
int berth_secret_key_insert(struct berth_db *db, const char *key_id, int64_t now_ms,
                            struct berth_error *err);
/* A list of the ids of all keys that a version is sealed with. */
int berth_version_select_keys(struct berth_db *db, struct berth_arena *arena,
                              struct berth_list *out, struct berth_error *err);
/* The name that the store goes by in a key file, which others may share; `fresh` when it has none
 * yet. */
int berth_store_identity_load(struct berth_db *db, struct berth_arena *arena, const char **out,
                              struct berth_error *err); /* NULL: none yet */
int berth_store_identity(struct berth_db *db, struct berth_arena *arena, const char *fresh,
                         const char **out, struct berth_error *err);
int berth_secret_key_save(struct berth_db *db, const char *key_id, int64_t now_ms,
                          struct berth_error *err);

/* All of a target's bindings go; berth_binding_insert adds the new ones. */
int berth_binding_remove_all(struct berth_db *db, const char *company_id, const char *target_type,
                             const char *target_id, struct berth_error *err);
int berth_binding_insert(struct berth_db *db, const struct berth_binding *binding,
                         struct berth_error *err);
int berth_binding_select(struct berth_db *db, struct berth_arena *arena, const char *secret_id,
                         struct berth_list *out, struct berth_error *err);
int berth_binding_exists(struct berth_db *db, const struct berth_binding *binding, bool *out,
                         struct berth_error *err);

/* How many leases that are open, parked or owing have it in their captured config. */
int berth_secret_count_captures(struct berth_db *db, const char *company_id, const char *secret_id,
                                int64_t *out, struct berth_error *err);

int berth_secret_event_insert(struct berth_db *db, const struct berth_secret_event *event,
                              struct berth_error *err);
/* Newest first, from behind the one of the id `before`, or 0. */
int berth_secret_event_select(struct berth_db *db, struct berth_arena *arena, const char *secret_id,
                              int64_t before, int64_t limit, struct berth_list *out,
                              struct berth_error *err);
#endif
